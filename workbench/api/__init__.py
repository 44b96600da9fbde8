"""The Python API over the current session, with Ray core's names and semantics.

A thin layer: it checks arguments and passes them to the engine. Here are put, get, wait and other
operations on objects; questions about them are in `observing`, `init` and `shutdown` in
`lifecycle`, `remote` in `functions`, custom serializers in `serializers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

from workbench import context
from workbench.api.actors import ActorHandle
from workbench.api.lifecycle import engine, init, is_initialized, shutdown
from workbench.api.observing import objects, observed, snapshot, why
from workbench.api.serializers import (
    deregister_serializer,
    explain_cost,
    inspect_serializability,
    register_serializer,
)
from workbench.engine.base import Copying, Waitable, acting_on, engine_of
from workbench.engine.queries import Describe, Held, Lookup
from workbench.errors import ObjectLostError, SpillError
from workbench.ref import ObjectRef
from workbench.ref_generator import ObjectRefGenerator

__all__ = [
    "deregister_serializer",
    "engine",
    "explain_cost",
    "init",
    "inspect_serializability",
    "is_initialized",
    "objects",
    "observed",
    "register_serializer",
    "shutdown",
    "snapshot",
    "why",
]
"""Names that other modules define, exported beside those defined here."""


def put(value: Any, *, name: str = "") -> ObjectRef:
    """Store a value; return its handle.

    Arrays go into shared memory once and are read from there without a copy, read-only.

    Parameters
    ----------
    value : object
        Anything pickle or cloudpickle can take. Later changes of it don't change the object.
    name : str, optional
        Keeps the object alive under this name, for every process of the session.

    Returns
    -------
    ObjectRef

    Raises
    ------
    SerializationError
        If a part of it can't be pickled.
    StoreFullError
        If there is no room.
    TypeError
        If the name isn't text.
    """
    if not isinstance(name, str | None):
        raise TypeError(f"An object's name is text, not {type(name).__name__}.")
    return engine().put(value, name or "")[0]


@overload
def get(
    refs: ObjectRef | str,
    *,
    timeout: float | None = ...,
    copy: bool = ...,
    copy_on_write: bool = ...,
) -> Any: ...
@overload
def get(
    refs: Sequence[ObjectRef | str],
    *,
    timeout: float | None = ...,
    copy: bool = ...,
    copy_on_write: bool = ...,
) -> list[Any]: ...
@overload
def get(
    refs: ObjectRefGenerator,
    *,
    timeout: float | None = ...,
    copy: bool = ...,
    copy_on_write: bool = ...,
) -> ObjectRefGenerator: ...
def get(
    refs: ObjectRef | str | ObjectRefGenerator | Sequence[ObjectRef | str],
    *,
    timeout: float | None = None,
    copy: bool = False,
    copy_on_write: bool = False,
) -> Any:
    """Return the value of one ref, or a list of values; wait for the tasks that make them.

    Parameters
    ----------
    refs : ObjectRef or str, sequence of them, or ObjectRefGenerator
        What to get: refs, or names or ids in the store. A generator is returned as it is: its
        items are refs.
    timeout : float, optional
        Seconds to wait at most. 0 asks once.
    copy : bool
        Private, writable arrays instead of read-only views of the store.
    copy_on_write : bool
        Private and writable too, but a page (4 KiB) is copied only when it is written to, as with
        ``numpy.memmap(mode="c")``. Objects up to 256 KiB are copied at once.

    Returns
    -------
    object
        The value, or a list of values in the order of the refs.

    Raises
    ------
    GetTimeoutError
        If time is up. Nothing is lost.
    ValueError
        If both ``copy`` and ``copy_on_write`` are given.
    TaskError
        If a task raised; also an instance of what it raised. With several refs, at the first one.
    ObjectFreedError, ObjectLostError, ForeignRefError, WorkerCrashedError
        If the object isn't available, or none has that name; the message says why.
    """
    if copy and copy_on_write:
        raise ValueError(
            "copy=True copies all at once, copy_on_write=True what is written. Say one."
        )
    how: Copying = copy
    if copy_on_write:
        acting_on(engine(), "copy_on_write")
        how = "on write"
    if type(refs) is ObjectRef or isinstance(refs, ObjectRef | str):
        return engine().get([_ref_of(refs)], timeout, how)[0]
    if isinstance(refs, ObjectRefGenerator):
        return refs
    if not isinstance(refs, list | tuple):
        raise TypeError(f"get takes an ObjectRef or a list of them, not {type(refs).__name__}.")
    found = [ref if isinstance(ref, ObjectRef) else _ref_of(ref) for ref in refs]
    return engine().get(found, timeout, how)


def wait(
    refs: Sequence[Waitable],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[Waitable], list[Waitable]]:
    """Wait until ``num_returns`` of the refs are ready, or time is up.

    Parameters
    ----------
    refs : sequence of ObjectRef or ObjectRefGenerator
        A generator is ready when its next item is ready, or when it is over.
    num_returns : int
        How many to wait for.
    timeout : float, optional
        Seconds to wait at most.
    fetch_local : bool
        For compatibility with Ray; here all objects are local, so it changes nothing.

    Returns
    -------
    ready : list
        At most ``num_returns``, in the order given.
    not_ready : list
        All others, in the order given.

    Raises
    ------
    TypeError
        If it is a single ref instead of a list, or an element isn't a ref.
    ValueError
        If a ref is there twice, or there are fewer than ``num_returns``. An empty list is fine.
    """
    if isinstance(refs, ObjectRef | ObjectRefGenerator):
        raise TypeError("wait takes a list of refs; for one ref write wait([ref]).")
    if not isinstance(refs, Iterable):
        raise TypeError(f"wait takes a list of refs, not {_a(refs)}.")
    refs = list(refs)
    for ref in refs:
        if not isinstance(ref, ObjectRef | ObjectRefGenerator):
            raise TypeError(f"wait takes ObjectRefs; the list has {_a(ref)}.")
    if not refs:
        return [], []
    if len(set(map(id, refs))) != len(refs):  # an object has one ref in a process
        raise ValueError("wait needs distinct refs; one of these is there twice.")
    if not 1 <= num_returns <= len(refs):
        raise ValueError(f"num_returns={num_returns} must be between 1 and {len(refs)}, the refs.")
    return engine().wait(refs, num_returns, timeout)


def pin(what: ObjectRef | str) -> None:
    """Keep an object until `unpin`, even without refs; in memory, except on a cluster.

    Parameters
    ----------
    what : ObjectRef or str
        A ref, or a name or id in the store.

    Raises
    ------
    ObjectLostError
        If there is no such object.
    """
    acting_on(engine(), "pin").pin(_ref_of(what), True)


def unpin(what: ObjectRef | str) -> None:
    """Undo `pin`.

    Parameters
    ----------
    what : ObjectRef or str
        A ref, or a name or id in the store.

    Raises
    ------
    ObjectLostError
        If there is no such object.
    """
    acting_on(engine(), "pin").pin(_ref_of(what), False)


def spill(what: ObjectRef | str) -> None:
    """Move an object to disk now, instead of when memory is short.

    It can still be read without a copy. It moves back when it is used and there is room.

    Parameters
    ----------
    what : ObjectRef or str
        A ref, or a name or id in the store.

    Raises
    ------
    SpillError
        If it can't be moved: an array shows it, it is pinned, the disk is full.
    ObjectLostError
        If there is no such object.
    """
    target = acting_on(engine(), "spill")
    ref = _ref_of(what)
    obstacle = target.spill(ref)
    if obstacle:
        from workbench.report.facts import title_of

        found = target.ask(Describe(ref.id))
        name = title_of(found.object, target.ask(Held())) if found else ref.hex()
        raise SpillError(f"{name!r} can't be moved to disk: {obstacle}.")


def free(refs: ObjectRef | str | Sequence[ObjectRef | str]) -> None:
    """Free objects now, even if there are refs to them. Arrays that show one stay valid.

    Parameters
    ----------
    refs : ObjectRef or str, or sequence of them
        Refs, or names or ids in the store.

    Raises
    ------
    ObjectLostError
        If there is no such object. Then nothing is freed.
    """
    given = [refs] if isinstance(refs, ObjectRef | str) else refs
    acting_on(engine(), "free").free([_ref_of(each) for each in given])


def cancel(
    ref: ObjectRef | ObjectRefGenerator, *, force: bool = False, recursive: bool = True
) -> None:
    """Stop the task that makes this object; a `get` of it raises TaskCancelledError.

    A task that hasn't begun never begins. A running one gets a KeyboardInterrupt, also while it
    sleeps or waits for a socket. An object that is ready stays.

    Parameters
    ----------
    ref : ObjectRef or ObjectRefGenerator
        One of the task's results, or its generator.
    force : bool
        End the worker's process instead: for code that ignores interrupts. Not for calls of actors:
        see `kill`.
    recursive : bool
        Also stop the tasks that it has submitted.

    Raises
    ------
    TypeError
        If it isn't a ref.
    ValueError
        If ``force`` is given for a call of an actor.
    """
    if isinstance(ref, ObjectRefGenerator):
        ref = ref.completed()
    if not isinstance(ref, ObjectRef):
        raise TypeError(f"cancel takes an ObjectRef, not {type(ref).__name__}.")
    engine = engine_of(ref)
    found = engine.ask(Describe(ref.id, patient=True)) if force else None
    if found is not None and found.task is not None and (actor := found.task.actor):
        raise ValueError(
            f"force=True would end {actor}, an actor, with all it has: `kill(handle)` does that. "
            "`cancel(ref)` stops this call alone."
        )
    engine.cancel([ref], force, recursive)


def _a(thing: Any) -> str:
    name = type(thing).__name__
    return f"an {name}" if name[:1] in "aeiouAEIOU" else f"a {name}"


def _ref_of(what: ObjectRef | str) -> ObjectRef:
    if isinstance(what, ObjectRef):
        return what
    if not isinstance(what, str):
        raise TypeError(f"An ObjectRef, or a name, was expected, not {type(what).__name__}.")
    target = engine()
    if (ref := target.ask(Lookup(what, or_id=True))) is None:
        raise ObjectLostError(f"This session has no object named {what!r}.")
    return ref


def _render(thing: Any) -> dict[str, str]:
    """Return how a ref, an actor's handle or a session is shown. Imports late."""
    from workbench.report import cards

    if isinstance(thing, ObjectRef):
        return cards.of_ref(engine_of(thing), thing)._repr_mimebundle_()
    if isinstance(thing, ActorHandle):
        ref, description = thing._ref, thing._description
        card = cards.of_actor(engine_of(ref), ref, description.cls, description.methods)
        return card._repr_mimebundle_()
    return cards.of_session(thing)._repr_mimebundle_()


context.render_with(_render)

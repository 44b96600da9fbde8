"""put, get, wait and the rest, over the current session. Ray core's names and semantics.

A thin layer: it checks what people pass, and hands it to the engine. `remote` is in `functions`.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from workbench import config as config_module
from workbench import context, readonly
from workbench.actors import ActorHandle, handle_of
from workbench.core.snapshot import Snapshot
from workbench.engines.base import Engine, Waitable, Watched
from workbench.errors import ActorExit, ObjectLostError, SessionError, SpillError
from workbench.ref import ObjectRef
from workbench.ref_generator import ObjectRefGenerator

if TYPE_CHECKING:
    from workbench.listing import Objects
    from workbench.reasons import Why
    from workbench.serialization.costs import Cost
    from workbench.serialization.inspection import Inspection

_starting = threading.Lock()


def init(
    *,
    session: str | None = None,
    workers: int | None = None,
    memory: int | str | None = None,
    linger: float | str | None = None,
    spill_dir: str | os.PathLike[str] | None = None,
    huge_pages: bool | None = None,
    ignore_reinit_error: bool = False,
) -> Engine:
    """Start a session, or join the one of that name. The pool warms up in the background.

    Called for you by the first `put`, ``.remote()`` or the like, with the defaults.

    Parameters
    ----------
    session : str, optional
        Processes that give the same name share one store. Default: this notebook's own, which
        is found again after a kernel restart; outside a notebook one that nobody else joins.
    workers : int, optional
        Worker processes. Default: the processors the container or machine allows.
    memory : int or str, optional
        Bytes the store may hold, or text like ``"2GB"``. Default: 30 % of the memory allowed.
    linger : float or str, optional
        Seconds (or ``"10m"``, ``"8h"``) the session outlives its last driver, if that ends
        without `shutdown`; of several drivers' the most. Default: two minutes in a notebook, 0
        elsewhere.
    spill_dir : str or path, optional
        A directory on disk for objects that have no room in memory: the least recently used move
        there, and are read from there without a copy. ``"none"``: a full store is an error.
        Default: ``TMPDIR``, ``/var/tmp`` or ``/tmp``, whichever is on a disk.
    huge_pages : bool, optional
        Ask the kernel for huge pages; the status line says whether it has any for us.
    ignore_reinit_error : bool
        Return the running session instead of raising when there is one.

    Raises
    ------
    ConfigError
        If a setting can't be used.
    SessionError
        If this process has a session already.
    """
    given = {
        "session": session,
        "workers": workers,
        "memory": memory,
        "linger": linger,
        "spill_dir": spill_dir,
        "huge_pages": huge_pages,
    }
    with _starting:
        engine = context.get()
        if engine is not None and is_alive(engine):
            if ignore_reinit_error:
                return engine
            raise SessionError(
                f"This process is in session {engine.session!r} already. `shutdown()` (or "
                "`%workbench stop`) leaves it; `ignore_reinit_error=True` keeps it."
            )
        if engine is not None:  # its server has gone
            engine.close()
        from workbench.engines import local

        engine = local.connect(config_module.load(given))
        context.set(engine)
        atexit.register(_leave)
        readonly.install()
        return engine


def shutdown() -> None:
    """Leave the session. If nobody else uses it, it ends: no process, no memory stays."""
    engine = context.get()
    context.set(None)
    if engine is not None:
        engine.close()
    atexit.unregister(_leave)
    readonly.uninstall()


def _leave() -> None:
    """At the process's end. Without goodbye: a kernel that is restarted finds its session again."""
    engine = context.get()
    context.set(None)
    if engine is not None:
        engine.close(goodbye=False)


def is_initialized() -> bool:
    """Whether this process is in a session."""
    engine = context.get()
    return engine is not None and is_alive(engine)


def is_alive(engine: Engine) -> bool:
    """Whether its server still answers, as far as this process knows."""
    return engine.ended is None


def engine() -> Engine:
    """The current engine; starts a session with the defaults if there is none.

    Not in a forked child: each worker of a process pool would have a session of its own.
    """
    found = context.get()
    if found is None and context.is_fork():
        raise SessionError(
            "This process was forked from one with a session, which stays the parent's. `init()` "
            "begins one of its own; or have the parent get the objects, and pass them on."
        )
    return init(ignore_reinit_error=True) if found is None else found


def put(value: Any, *, name: str = "") -> ObjectRef:
    """Store a value; returns its handle.

    Arrays go into shared memory once and are read from there without a copy, read-only.

    Parameters
    ----------
    value : object
        Anything pickle or cloudpickle can take. What changes later doesn't change the object.
    name : str, optional
        Keeps the object alive under this name, for every process of the session.

    Raises
    ------
    SerializationError
        If something in it can't be pickled.
    StoreFullError
        If there is no room.
    """
    return engine().put(value, name)[0]


@overload
def get(refs: ObjectRef, *, timeout: float | None = None, copy: bool = False) -> Any: ...
@overload
def get(
    refs: Sequence[ObjectRef], *, timeout: float | None = None, copy: bool = False
) -> list[Any]: ...
def get(
    refs: ObjectRef | Sequence[ObjectRef], *, timeout: float | None = None, copy: bool = False
) -> Any:
    """The value of one ref, or a list of values; waits for tasks that are to make them.

    Parameters
    ----------
    refs : ObjectRef or sequence of ObjectRef
    timeout : float, optional
        Seconds to wait at most. 0 asks once.
    copy : bool
        Private, writable arrays instead of read-only views of the store.

    Raises
    ------
    GetTimeoutError
        If time is up. Nothing is lost.
    TaskError
        If the task raised; also an instance of what it raised.
    ObjectFreedError, ObjectLostError, ForeignRefError, WorkerCrashedError
        If the object can't be had; the message says why.
    """
    if isinstance(refs, ObjectRef):
        return engine().get([refs], timeout, copy)[0]
    if not isinstance(refs, list | tuple):
        raise TypeError(f"get takes an ObjectRef or a list of them, not {type(refs).__name__}.")
    for ref in refs:
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"get takes ObjectRefs; the list has a {type(ref).__name__}.")
    return engine().get(refs, timeout, copy)


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
        A stream is ready when its next item is, or when it is over.
    fetch_local : bool
        Ray's; here all objects are local, so it changes nothing.

    Returns
    -------
    (ready, not_ready)
        Both in the order given; at most ``num_returns`` in the first.

    Raises
    ------
    ValueError
        If a ref is there twice, or there are fewer than ``num_returns``.
    """
    if isinstance(refs, ObjectRef | ObjectRefGenerator):
        raise TypeError("wait takes a list of refs; for one ref write wait([ref]).")
    refs = list(refs)
    if len(set(map(id, refs))) != len(refs):  # an object has one ref in a process
        raise ValueError("wait needs distinct refs; one of these is there twice.")
    if not 1 <= num_returns <= len(refs):
        raise ValueError(f"num_returns={num_returns} must be between 1 and {len(refs)}, the refs.")
    return engine().wait(refs, num_returns, timeout)


def why(what: ObjectRef | str) -> Why:
    """Why an object is still here: which variables, outputs, arrays, tasks, objects keep it.

    Every process that holds it is asked where: the answer has paths one can type, and for each
    reason the one thing that lets go.

    Parameters
    ----------
    what : ObjectRef or str
        A ref, or a name in the store.

    Raises
    ------
    ObjectLostError
        If the session has no such object.
    """
    from workbench.reasons import explain

    account = engine().why(what if isinstance(what, str) else what.id)
    if account is None:
        call = what if isinstance(what, str) else what.hex()
        raise ObjectLostError(f"This session has no object {call!r}: nothing keeps it.")
    return explain(account, what if isinstance(what, str) else "")


def pin(what: ObjectRef | str) -> None:
    """Keep an object, and keep it in memory, until `unpin`; whoever else lets go of it."""
    engine().pin(_ref_of(what), True)


def unpin(what: ObjectRef | str) -> None:
    """Undo `pin`."""
    engine().pin(_ref_of(what), False)


def spill(what: ObjectRef | str) -> None:
    """Move an object to disk now, instead of when memory is short.

    It can be read as before, still without a copy, and comes back when it is used and there is
    room.

    Raises
    ------
    SpillError
        If it can't be moved: an array shows it, it is pinned, the disk is full.
    """
    ref = _ref_of(what)
    obstacle = engine().spill(ref)
    if obstacle:
        name = repr(what) if isinstance(what, str) else ref.hex()
        raise SpillError(f"{name} can't be moved to disk: {obstacle}.")


def objects(pattern: str = "", *, sort: str = "size", limit: int | None = None) -> Objects:
    """What the store has, as a table: name, type, size, where, pins, age.

    Parameters
    ----------
    pattern : str
        Only objects of which a name or the type matches, like ``train*``.
    sort : str
        ``size`` or ``age``, the greatest first; ``name`` or ``type``.
    limit : int, optional
        How many to list; the rest are counted. Default: all, however many there are.

    Returns
    -------
    Objects
        Printed, it is a table; iterated, it gives the records of the objects it lists.

    Raises
    ------
    ValueError
        If there is no such order.
    """
    from workbench.listing import ORDERS, listing

    if limit is None or sort not in ORDERS:
        return listing(snapshot().objects, pattern, sort)
    found = engine().search(pattern, sort, limit)
    return listing(found.objects, "", sort, limit, found.others, found.others_size)


def _ref_of(what: ObjectRef | str) -> ObjectRef:
    if isinstance(what, ObjectRef):
        return what
    if not isinstance(what, str):
        raise TypeError(f"An ObjectRef, or a name, was expected, not {type(what).__name__}.")
    ref = engine().find(what)
    if ref is None:
        raise ObjectLostError(f"This session has no object named {what!r}.")
    return ref


def free(refs: ObjectRef | str | Sequence[ObjectRef | str]) -> None:
    """Free objects now, whoever holds refs to them. Arrays that show one stay valid.

    Parameters
    ----------
    refs : ObjectRef or str, or sequence of them
        Refs, or names in the store.

    Raises
    ------
    ObjectLostError
        If there is no object of that name. Nothing is freed then.
    """
    given = [refs] if isinstance(refs, ObjectRef | str) else refs
    engine().free([_ref_of(each) for each in given])


def register_serializer(
    cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
) -> None:
    """Say how instances of a class are to be stored.

    Registered once, in the notebook, it reaches all workers of the session, those still to come
    too, before any task submitted after it. (Ray's registry is one per process.) The deserializer
    travels with each object. Plain pickle and cloudpickle in the same process are not changed.

    Parameters
    ----------
    cls : type
        Exactly this class, not its subclasses. Registering again replaces at once.
    serializer : callable(instance) → data
        The data can be anything that can be stored; arrays in it are stored without a pickle.
    deserializer : callable(data) → instance

    Raises
    ------
    TypeError
        If ``cls`` is not a class, or one that pickle takes apart by itself (``list``).
    SerializationError
        If one of the functions can't be sent to the workers.

    Examples
    --------
    >>> register_serializer(
    ...     Database, serializer=lambda db: db.path, deserializer=Database
    ... )  # doctest: +SKIP
    """
    engine().register(cls, serializer, deserializer)


def deregister_serializer(cls: type) -> None:
    """Undo `register_serializer`. Nothing happens if the class has none."""
    current_engine = context.get()
    if current_engine is not None:
        current_engine.deregister(cls)


def inspect_serializability(value: Any, name: str = "") -> Inspection:
    """Find all that keeps a value from being serialized: where it is, why, what to do about it.

    Nothing is stored, and no session is needed.

    Parameters
    ----------
    value : object
        Anything.
    name : str
        What the paths begin with. Default: the value's own name, or its type's.

    Returns
    -------
    (ok, failures)
        ``failures`` are frozen records with ``path``, ``type``, ``why`` and ``advice``, all of
        them and not just the first. Printed, it is a text; shown in a notebook, a table.
    """
    from workbench.serialization.inspection import inspect

    return inspect(value, _reducers(), name)


def explain_cost(value: Any, name: str = "") -> Cost:
    """Where serializing a value spends its bytes and its time, and what would be cheaper.

    The value is really pickled, and what is advised was really tried. Nothing is stored, and no
    session is needed.

    Parameters
    ----------
    value : object
        Anything that can be serialized. An ObjectRef means the object it refers to.
    name : str
        What the paths begin with. Default: its type's name.

    Raises
    ------
    SerializationError
        If something in it can't be serialized.
    """
    from workbench.serialization.costs import explain

    if isinstance(value, ObjectRef):
        value = get(value)
    return explain(value, _reducers(), name)


def _reducers() -> Mapping[type, Callable[[Any], Any]]:
    found = context.get()
    # A ref is always storable; `__reduce__` would take it for one that leaves the session.
    return {ObjectRef: lambda ref: (str, (ref.hex(),))} if found is None else found.reducers()


def snapshot(of: Any = None) -> Snapshot:
    """The whole session at this moment, frozen.

    Parameters
    ----------
    of : distributed.Client or module, optional
        A session of another system: a client of a Dask cluster, or the module ``ray`` after
        ``ray.init()``. What those can't tell is None. Default: the current session; it is started
        if there is none.

    Raises
    ------
    TypeError
        If it is something else.
    SessionError
        If there is no session, or it doesn't answer.
    """
    return watched(of).snapshot()


def watched(of: Any = None) -> Watched:
    """What `snapshot` and the views ask; see there for ``of``. A new one for each call, but for the
    current session."""
    if of is None:
        return engine()
    from workbench.engines import observed

    return observed.at(of)


def cancel(
    ref: ObjectRef | ObjectRefGenerator, *, force: bool = False, recursive: bool = True
) -> None:
    """Stop the task that is to make this object; whoever waits for it gets TaskCancelledError.

    One that hasn't begun will not. One that runs gets a KeyboardInterrupt, also while it sleeps
    or waits for a socket. An object that is there already stays.

    Parameters
    ----------
    force : bool
        End the worker's process instead: for code that doesn't listen. Not for actors: see `kill`.
    recursive : bool
        Stop what the task has submitted too.
    """
    if isinstance(ref, ObjectRefGenerator):
        ref = ref.completed()
    if not isinstance(ref, ObjectRef):
        raise TypeError(f"cancel takes an ObjectRef, not {type(ref).__name__}.")
    ref._engine.cancel(ref, force, recursive)


def kill(actor: ActorHandle, *, no_restart: bool = True) -> None:
    """End an actor's process now. Its calls, running and queued, fail with ActorDiedError.

    Parameters
    ----------
    no_restart : bool
        If False, it is made again as if it had crashed, as often as ``max_restarts`` allows.
    """
    if not isinstance(actor, ActorHandle):
        raise TypeError(
            f"kill takes an actor's handle, not {type(actor).__name__}. A task is for `cancel`."
        )
    actor._ref._engine.kill_actor(actor._ref, not no_restart)


def get_actor(name: str) -> ActorHandle:
    """The handle of the actor of that name, whoever made it in this session.

    Raises
    ------
    ValueError
        If there is none.
    """
    current_engine = engine()
    ref = current_engine.find_actor(name)
    if ref is None:
        raise ValueError(f"There is no actor named {name!r} in session {current_engine.session!r}.")
    return handle_of(current_engine, ref)


def exit_actor() -> None:
    """In an actor's method: end this actor. Its other calls fail with ActorDiedError."""
    raise ActorExit

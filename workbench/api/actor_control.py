"""Finding existing actors by name, listing and ending them. `actors` makes them."""

from __future__ import annotations

from typing import Any, NoReturn

from workbench import context
from workbench.api.actors import ActorHandle, handle_of
from workbench.api.lifecycle import engine
from workbench.core.snapshot import ACTOR_PREFIX, INCARNATION
from workbench.engine.base import engine_of
from workbench.engine.queries import Here, Lookup, Names
from workbench.errors import ActorExit
from workbench.format import shortened
from workbench.options import SEPARATOR, ActorOptions, changed, full_name


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """Return a handle of the actor of that name, made by any process of this session.

    It keeps the actor alive, as each handle does.

    Parameters
    ----------
    name : str
        As given to ``.options(name=...)``.
    namespace : str, optional
        As given to ``.options(namespace=...)``. Default: that of ``init(namespace=...)``.

    Returns
    -------
    ActorHandle

    Raises
    ------
    ValueError
        If there is none.
    """
    named = changed(ActorOptions(), {"name": name, "namespace": namespace}, "An actor")
    target = engine()
    full = full_name(named, target.ask(Here()).namespace)
    ref = target.ask(Lookup(ACTOR_PREFIX + full)) if full else None
    if ref is None:
        place = f"namespace {namespace!r} of session" if namespace else "session"
        session = target.session.partition(INCARNATION)[0]
        text = f"There is no actor named {name!r} in {place} {session!r}."
        raise ValueError(shortened(text))
    return handle_of(target, ref)


def list_named_actors(all_namespaces: bool = False) -> list[Any]:
    """Return the names of all living actors that have one.

    Parameters
    ----------
    all_namespaces : bool
        Also those of other namespaces.

    Returns
    -------
    list of str, or of dict
        The names, sorted. With ``all_namespaces`` each is a dict of ``name`` and ``namespace``.
    """
    target = engine()
    names = [
        name.removeprefix(ACTOR_PREFIX).rpartition(SEPARATOR)
        for name in target.ask(Names(ACTOR_PREFIX))
    ]
    if all_namespaces:
        return [{"name": name, "namespace": namespace} for namespace, _, name in names]
    here = target.ask(Here()).namespace
    return [name for namespace, _, name in names if namespace == here]


def kill(actor: ActorHandle, *, no_restart: bool = True) -> None:
    """End an actor's process now. Its running and queued calls fail with ActorDiedError.

    Parameters
    ----------
    actor : ActorHandle
        Whose process to end.
    no_restart : bool
        If False, it is made again as if it had crashed, as often as ``max_restarts`` allows.

    Raises
    ------
    TypeError
        If it isn't an actor's handle.
    """
    if not isinstance(actor, ActorHandle):
        raise TypeError(
            f"kill takes an actor's handle, not {type(actor).__name__}. A task is for `cancel`."
        )
    engine_of(actor._ref).kill_actor(actor._ref, not no_restart)


def exit_actor() -> NoReturn:
    """End the actor whose method calls this. Its other calls fail with ActorDiedError.

    Raises
    ------
    ActorExit
        Always: code behind it doesn't run.
    TypeError
        If the calling code isn't an actor's.
    """
    found = context.get()
    if found is None or not found.ask(Here()).actor:
        raise TypeError(
            "exit_actor ends the actor whose method calls it, and this code runs in none. `return` "
            "ends a task; `kill(handle)` ends an actor from outside."
        )
    raise ActorExit

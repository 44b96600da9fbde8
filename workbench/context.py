"""State that exists once per process: its current session, companions of that, and rendering.

The only module-level mutable state there is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from workbench.errors import ForeignRefError

if TYPE_CHECKING:
    from workbench.engine.base import Engine
    from workbench.ref import ObjectRef

T = TypeVar("T")

_engine: Engine | None = None
_is_fork = False  # True: forked from a process with a session, without one of its own
_watcher: Callable[[Engine, Engine | None], None] | None = None
_companions: dict[Callable[[Engine], Any], Any] = {}  # of the session, by their makers
_beside: dict[Any, Any] = {}  # of other systems' sessions, by the object that stands for each
_render: Callable[[Any], dict[str, str]] | None = None


def get() -> Engine | None:
    return _engine


def set(engine: Engine | None, replaced: Engine | None = None) -> None:
    """Make it the current engine. ``replaced``: the empty session that it replaces."""
    global _engine, _is_fork
    _engine = engine
    _is_fork = False
    _companions.clear()
    if engine is not None and _watcher is not None:
        _watcher(engine, replaced)


def companion(make: Callable[[Engine], T]) -> T:
    """Return the current session's one object of this kind; make it on first use.

    LookupError if there is no session.
    """
    if _engine is None:
        raise LookupError("There is no current session.")
    if make not in _companions:
        _companions[make] = make(_engine)
    found: T = _companions[make]
    return found


def beside(of: Any, make: Callable[[], T], is_over: Callable[[T], bool]) -> T:
    """Return the one object for another system's session, which ``of`` stands for.

    Made on first use, and anew once it is over.
    """
    for each in [each for each, thing in _beside.items() if is_over(thing)]:
        del _beside[each]
    if of not in _beside:
        _beside[of] = make()
    found: T = _beside[of]
    return found


def is_fork() -> bool:
    """True if this process was forked from one with a session, and has had none of its own."""
    return _is_fork


def watch(watcher: Callable[[Engine, Engine | None], None] | None) -> None:
    """Call ``watcher`` with the current engine, and with each later one; and with the engine
    that it replaced, if any.

    The notebook's extension uses it, so that a session which `put` or ``.remote()`` starts
    implicitly shows its output in the cells too.
    """
    global _watcher
    _watcher = watcher
    if _engine is not None and watcher is not None:
        watcher(_engine, None)


def restore(id: int, session: str) -> ObjectRef:
    """Make a ref again, in the process that unpickles it; ForeignRefError in another session."""
    if _engine is None or _engine.session != session:
        where = "no session" if _engine is None else f"session {_engine.session!r}"
        raise ForeignRefError(
            f"This ref belongs to session {session!r}, and this process has {where}. A ref is "
            f"good only inside its own session: join that first (`init(session={session!r})`), or "
            "get the object there and move the object instead."
        )
    return _engine.borrow(id)


def render_with(render: Callable[[Any], dict[str, str]]) -> None:
    """Set the function that renders refs, actors' handles and sessions as a MIME bundle.

    Their modules are below the ones with words and HTML for them, so it must be passed in.
    """
    global _render
    _render = render


def mimebundle(thing: object) -> dict[str, str]:
    """Return what Jupyter shows of a ref, an actor's handle or a session, by MIME type."""
    return {"text/plain": repr(thing)} if _render is None else _render(thing)


def _forked() -> None:
    global _engine, _is_fork
    engine, _engine = _engine, None
    _companions.clear()
    _beside.clear()
    if engine is not None:
        _is_fork = True
        engine.abandon()


os.register_at_fork(after_in_child=_forked)

"""The one current session of this process: the only module-level mutable state there is."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.engines.base import Engine

_engine: Engine | None = None
_is_fork = False  # of a process with a session, and has none of its own
_watcher: Callable[[Engine], None] | None = None


def get() -> Engine | None:
    """The engine in use, or None."""
    return _engine


def set(engine: Engine | None) -> None:
    """Make it the current one."""
    global _engine, _is_fork
    _engine = engine
    _is_fork = False
    if engine is not None and _watcher is not None:
        _watcher(engine)


def is_fork() -> bool:
    """Whether this process was forked from one with a session, and has had none of its own."""
    return _is_fork


def watch(watcher: Callable[[Engine], None] | None) -> None:
    """Have ``watcher`` called with the current engine, and with each that becomes it.

    The notebook's extension does, so that a session which `put` or ``.remote()`` starts by
    itself shows its output in the cells too.
    """
    global _watcher
    _watcher = watcher
    if _engine is not None and watcher is not None:
        watcher(_engine)


def _forked() -> None:
    global _engine, _is_fork
    engine, _engine = _engine, None
    if engine is not None:
        _is_fork = True
        engine.abandon()


os.register_at_fork(after_in_child=_forked)

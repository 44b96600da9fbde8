"""The one current session of this process: the only module-level mutable state there is."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.engines.base import Engine

_engine: Engine | None = None
_watcher: Callable[[Engine], None] | None = None


def get() -> Engine | None:
    """The engine in use, or None."""
    return _engine


def set(engine: Engine | None) -> None:
    """Make it the current one."""
    global _engine
    _engine = engine
    if engine is not None and _watcher is not None:
        _watcher(engine)


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
    global _engine
    engine, _engine = _engine, None
    if engine is not None:
        engine.abandon()


os.register_at_fork(after_in_child=_forked)

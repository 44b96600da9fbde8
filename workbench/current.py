"""The one current session of this process: the only module-level mutable state there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.engines.base import Engine

_engine: Engine | None = None


def get() -> Engine | None:
    """The engine in use, or None."""
    return _engine


def set(engine: Engine | None) -> None:
    """Make it the current one."""
    global _engine
    _engine = engine

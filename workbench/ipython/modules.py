"""Sees which modules are loaded, so that workers follow. Loads nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class ReloadWatch:
    """Import finder that finds nothing, but sees each module before it is loaded.

    Calls ``loads`` with the module's name and True if it is loaded again (`importlib.reload`), in
    the importing thread.
    """

    def __init__(self, loads: Callable[[str, bool], None]) -> None:
        self._loads = loads

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Find nothing; interface of ``sys.meta_path``. ``target`` is the existing module."""
        self._loads(name, target is not None)

    def attach(self) -> None:
        """Begin to watch imports."""
        sys.meta_path.insert(0, self)

    def detach(self) -> None:
        """Stop watching imports."""
        sys.meta_path.remove(self)

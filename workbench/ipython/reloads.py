"""Notices that a person loads a module, so that workers do if it is again. Loads nothing itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class ReloadWatch:
    """A finder that finds nothing: it is asked first, and for which module, when one is loaded.

    ``loads`` is called before it is, with its name and whether it is loaded again
    (`importlib.reload`), in whichever thread does it.
    """

    def __init__(self, loads: Callable[[str, bool], None]) -> None:
        self._loads = loads

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """As of ``sys.meta_path``; ``target`` is what is there already."""
        self._loads(name, target is not None)

    def attach(self) -> None:
        """From now on."""
        sys.meta_path.insert(0, self)

    def detach(self) -> None:
        """Leave the imports as they were."""
        sys.meta_path.remove(self)

"""Notices that a person loads a module again, so that workers do. Loads nothing itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class ReloadWatch:
    """A finder that finds nothing: it is asked first, and for which module, when one is loaded
    again (`importlib.reload`).

    ``reloads`` is called before it is, in whichever thread does it.
    """

    def __init__(self, reloads: Callable[[], None]) -> None:
        self._reloads = reloads

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """As of ``sys.meta_path``; ``target`` is what is there already."""
        if target is not None:
            self._reloads()

    def attach(self) -> None:
        """From now on."""
        sys.meta_path.insert(0, self)

    def detach(self) -> None:
        """Leave the imports as they were."""
        sys.meta_path.remove(self)

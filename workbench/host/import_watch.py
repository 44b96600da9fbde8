"""Tells when a module is imported, from the first line of its code to the last. Decides nothing.

Of all modules only imports of the main thread, and of those only the outermost: what it imports in
turn is a part of it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class ImportWatch:
    """The first of ``sys.meta_path``, which finds nothing itself.

    ``around`` makes the context in which a module's code is run: that of any, or of the one of this
    ``name``, in whatever thread.
    """

    def __init__(self, around: Callable[[], AbstractContextManager[None]], name: str = "") -> None:
        self._around = around
        self._name = name
        self._thread = threading.get_ident()
        self._inside = False

    def install(self) -> None:
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the others find, with a loader that tells us when it runs the module's code."""
        is_wanted = name == self._name if self._name else threading.get_ident() == self._thread
        if self._inside or not is_wanted:
            return None
        self._inside = True
        try:
            found = (
                finder.find_spec(name, path, target)
                for finder in list(sys.meta_path)
                if finder is not self and hasattr(finder, "find_spec")
            )
            spec = next((each for each in found if each is not None), None)
        finally:
            self._inside = False
        loader: Any = None if spec is None else spec.loader
        # A class loads what is built in: that changes nothing.
        if not isinstance(loader, type) and hasattr(loader, "exec_module"):
            try:
                loader.exec_module = partial(self._run, loader, loader.exec_module)
            except AttributeError:  # a loader with slots
                pass
        return spec

    def _run(self, loader: Any, run: Callable[[ModuleType], object], module: ModuleType) -> None:
        vars(loader).pop("exec_module", None)  # what was found stays as it was found
        self._inside = True
        try:
            with self._around():
                run(module)
        finally:
            self._inside = False

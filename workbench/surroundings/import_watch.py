"""A hook around the import of a module, from the first line of its code to the last.

It sees only imports of the main thread, unless it watches one name; and only the outermost one:
what that imports in turn is part of it.
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
    """First finder of ``sys.meta_path``, which finds nothing itself.

    ``around`` makes the context in which a module's code is run: any module's, or only the one of
    this ``name``, then in any thread.
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
        """Return what other finders find, with a loader that calls us around the module's code."""
        is_wanted = name == self._name if self._name else threading.get_ident() == self._thread
        if self._inside or not is_wanted:
            return None
        self._inside = True
        finders = list(sys.meta_path)  # only those behind this one: the others were asked before
        behind = finders[finders.index(self) + 1 :] if self in finders else finders
        try:
            found = (
                finder.find_spec(name, path, target)
                for finder in behind
                if hasattr(finder, "find_spec")
            )
            spec = next((each for each in found if each is not None), None)
        finally:
            self._inside = False
        loader: Any = None if spec is None else spec.loader
        # A class is the loader of built-in modules, which change nothing.
        if not isinstance(loader, type) and hasattr(loader, "exec_module"):
            try:
                loader.exec_module = partial(self._run, loader, loader.exec_module)
            except AttributeError:  # a loader with slots
                pass
        return spec

    def _run(self, loader: Any, run: Callable[[ModuleType], object], module: ModuleType) -> None:
        vars(loader).pop("exec_module", None)  # undo our change of the loader
        self._inside = True
        try:
            with self._around():
                run(module)
        finally:
            self._inside = False

"""Edited modules of the notebook's project, loaded again in a warm worker. IPython's reloader.

Everything here runs in the main thread, before a task and after it; `refresh` may come from any.
An actor that runs several calls at a time keeps what it has loaded.
"""

from __future__ import annotations

import sys
from typing import Any

from workbench.call_site import is_own


class Reloader:
    """Looks before every task (``always``), or only when told that something may have changed."""

    def __init__(self, always: bool) -> None:
        self._always = always
        self._due = always
        self._reloader: Any = None
        self._known = 0  # modules there were when they were last looked through

    def refresh(self) -> None:
        """Something may have changed."""
        self._due = True

    def before_task(self) -> None:
        """Load again what was edited. What can't be loaded says so on stderr, and stays."""
        if not self._due:
            return
        self._due = self._always
        if self._reloader is None:
            from IPython.extensions.autoreload import ModuleReloader

            self._reloader = ModuleReloader()  # type: ignore[no-untyped-call]
            self._reloader.enabled, self._reloader.check_all = True, False
            self._known = 0
        self.after_task()
        self._reloader.check()

    def after_task(self) -> None:
        """Remember what the files looked like of which modules were just imported."""
        if self._reloader is None or len(sys.modules) == self._known:
            return
        self._known = len(sys.modules)
        for name, module in list(sys.modules.items()):
            if name not in self._reloader.modules and _is_project(module):
                self._reloader.modules[name] = True
                _, time = self._reloader.filename_and_mtime(module)
                self._reloader.modules_mtimes.setdefault(name, time)


def _is_project(module: Any) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and is_own(file)

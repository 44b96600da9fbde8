"""Edited modules of the notebook's project, loaded again in a warm worker. IPython's reloader.

Everything here runs in the main thread, before a task and after it; `refresh` may come from any.
An actor that runs several calls at a time keeps what it has loaded.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

from workbench.call_site import is_own


class Reloader:
    """Looks before every task (``always``), or only when told that something may have changed."""

    def __init__(self, always: bool) -> None:
        self._always = always
        self._due = always
        self._reloader: Any = None
        self._looked = set(sys.modules)
        self._times: dict[str, float] = {}  # of project's modules' files, when they were imported

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
            for name, time in self._times.items():
                self._follow(name, time)
            self._looked.clear()
        self.after_task()
        self._reloader.check()

    def after_task(self) -> None:
        """Remember what the files looked like of which modules were just imported.

        Also while nobody asks for it: the first edit shall be seen, too.
        """
        if len(sys.modules) == len(self._looked):
            return
        names = sys.modules.keys() - self._looked
        self._looked = set(sys.modules)
        for name in names - self._times.keys():
            file = getattr(sys.modules.get(name), "__file__", None)
            if isinstance(file, str) and is_own(file):
                with suppress(OSError):
                    self._times[name] = os.stat(file).st_mtime
                    self._follow(name, self._times[name])

    def _follow(self, name: str, time: float) -> None:
        """Have a module watched whose file was of that time."""
        if self._reloader is None:
            return
        self._reloader.modules[name] = True
        if self._reloader.modules_mtimes.get(name) != time:
            self._reloader.modules_mtimes[name] = time
            # What a newer IPython has read by now, to find the difference, is the edited source.
            deduper = getattr(self._reloader, "deduper_reloader", None)
            if deduper is not None:
                deduper.source_by_modname.pop(name, None)

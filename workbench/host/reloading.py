"""Edited modules of a person's project in a warm process: reloaded by IPython's reloader, or
reported to be older than their files.

Everything here runs in the main thread, before and after a task; `refresh` may run in any thread.
An actor that runs several calls at a time keeps what it has loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from workbench.call_site import file_of, is_persons
from workbench.report.freshness import edited_text


class ModuleTimes:
    """Times of the last change of the files of a person's modules, when this process imported them.

    Read at the first `note_imports` after the import: an edit in between goes unnoticed.
    """

    def __init__(self) -> None:
        self.times: dict[str, float] = {}  # by the module's name
        self.looked: set[str] = set()  # modules that aren't new
        self._told: dict[str, float] = {}

    def note_imports(self) -> list[str]:
        """Note what was imported since the last look, and return the names."""
        if len(sys.modules) == len(self.looked):
            return []
        names = sys.modules.keys() - self.looked
        self.looked = set(sys.modules)
        new = [name for name in names - self.times.keys() if _time(name) > 0]
        self.times |= {name: _time(name) for name in new}
        return new

    def loaded(self, name: str) -> None:
        """Have the next `note_imports` note a module that was loaded, perhaps again."""
        self.times.pop(name, None)
        self.looked.discard(name)

    def edited(self) -> Iterator[str]:
        """Yield the names of modules whose files have changed since, once per edit."""
        for name, then in list(self.times.items()):
            now = _time(name)
            if now not in (0, then, self._told.get(name)):
                self._told[name] = now
                yield name


_imported: ModuleTimes | None = None
"""Of the modules in this worker."""


def edited_since_import(names: Iterable[str], since: float) -> list[str]:
    """Return those of a person's modules in this worker that are older than their files; ``since``
    is a time before the import of those that nobody has noted yet."""
    times = {} if _imported is None else _imported.times
    return [n for n in names if (_time(n) != times[n] if n in times else _time(n) > since)]


def _time(name: str) -> float:
    """Return when a module's file was last changed; 0 if it isn't a person's."""
    file = file_of(name)
    if file is None or not is_persons(name):
        return 0
    try:
        return os.stat(file).st_mtime
    except OSError:
        return 0


class Reloader:
    """Reloads edited modules before every task (``always``), or only after `refresh`. Otherwise
    prints, at most once per cell, that a module is older than its file."""

    def __init__(self, always: bool) -> None:
        self._always = always
        self._due = always
        self._reloader: Any = None
        self._modules = ModuleTimes()
        self._modules.looked |= sys.modules.keys()
        global _imported
        _imported = self._modules
        self._cells: set[int] = set()  # from which tasks came

    def refresh(self) -> None:
        """Reload before the next task: something may have changed."""
        self._due = True

    def before_task(self, cell: int) -> None:
        """Reload what was edited. A module that can't be loaded stays, with a message on stderr.

        ``cell``: number of the cell that submitted the task.
        """
        if not self._due:
            if cell not in self._cells:  # tasks of several notebooks may take turns
                self._cells.add(cell)
                for name in self._modules.edited():
                    print(edited_text(name), file=sys.stderr)
            return
        self._due = self._always
        if self._reloader is None:
            from IPython.extensions.autoreload import ModuleReloader

            self._reloader = ModuleReloader()  # type: ignore[no-untyped-call]
            self._reloader.enabled, self._reloader.check_all = True, False
            self._follow(self._modules.times)
            self._modules.looked.clear()
        self.after_task()
        self._reloader.check()
        for name in self._modules.times:
            self._modules.times[name] = self._reloader.modules_mtimes[name]

    def after_task(self) -> None:
        """Note the file times of modules that were just imported.

        Also without `refresh`, so that the first edit is noticed, too.
        """
        new = self._modules.note_imports()
        if new:
            self._follow(new)

    def _follow(self, names: Iterable[str]) -> None:
        """Have IPython's reloader watch these modules, from the noted file times on."""
        if self._reloader is None:
            return
        for name in names:
            time = self._modules.times[name]
            self._reloader.modules[name] = True
            if self._reloader.modules_mtimes.get(name) != time:
                self._reloader.modules_mtimes[name] = time
                # A newer IPython has read the source to compare with, but by now that is the
                # edited one.
                deduper = getattr(self._reloader, "deduper_reloader", None)
                if deduper is not None:
                    deduper.source_by_modname.pop(name, None)

"""Edited modules of a person's project in a warm process: loaded again, by IPython's reloader, or
said to be older than their files.

Everything here runs in the main thread, before a task and after it; `refresh` may come from any.
An actor that runs several calls at a time keeps what it has loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from workbench.call_site import is_own
from workbench.report.freshness import edited_text


class ModuleTimes:
    """When the files of a person's modules were last changed before this process imported them.

    As of the first look after the import: what is edited in between counts as imported.
    """

    def __init__(self) -> None:
        self.times: dict[str, float] = {}  # by the module's name
        self.looked: set[str] = set()  # modules that aren't new any more
        self._told: dict[str, float] = {}

    def look(self) -> list[str]:
        """Remember what was imported since the last look: its names."""
        if len(sys.modules) == len(self.looked):
            return []
        names = sys.modules.keys() - self.looked
        self.looked = set(sys.modules)
        new = [name for name in names - self.times.keys() if _time(name) > 0]
        self.times |= {name: _time(name) for name in new}
        return new

    def loaded(self, name: str) -> None:
        """It is loaded, perhaps again: remember it at the next look."""
        self.times.pop(name, None)
        self.looked.discard(name)

    def edited(self) -> Iterator[str]:
        """Names of those whose files have changed since, each edit once."""
        for name, then in list(self.times.items()):
            now = _time(name)
            if now not in (0, then, self._told.get(name)):
                self._told[name] = now
                yield name


def is_persons(name: str) -> bool:
    """True if an imported module is a person's own, and no library's."""
    package = name.partition(".")[0]
    if package in sys.stdlib_module_names:
        return False
    # Asked of the package alone: looking up where a path leads takes a while.
    file = _file(package) or _file(name)
    return file is not None and is_own(file)


def _time(name: str) -> float:
    """When a module's file was last changed; 0 if it isn't a person's."""
    file = _file(name)
    if file is None or not is_persons(name):
        return 0
    try:
        return os.stat(file).st_mtime
    except OSError:
        return 0


def _file(name: str) -> str | None:
    file = getattr(sys.modules.get(name), "__file__", None)
    return file if isinstance(file, str) else None


class Reloader:
    """Loads again before every task (``always``), or only when told that something may have
    changed. Else it says, once a cell at most, that a module is older than its file."""

    def __init__(self, always: bool) -> None:
        self._always = always
        self._due = always
        self._reloader: Any = None
        self._modules = ModuleTimes()
        self._modules.looked |= sys.modules.keys()
        self._cells: set[int] = set()  # that tasks came from

    def refresh(self) -> None:
        """Something may have changed."""
        self._due = True

    def before_task(self, cell: int) -> None:
        """Load again what was edited. What can't be loaded says so on stderr, and stays.

        ``cell``: the number of the one that submitted the task.
        """
        if not self._due:
            if cell not in self._cells:  # of several notebooks' their tasks may take turns
                self._cells.add(cell)
                for name in self._modules.edited():
                    print(edited_text(name, "this worker"), file=sys.stderr)
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
        """Remember what the files looked like of which modules were just imported.

        Also while nobody asks for it: the first edit shall be seen, too.
        """
        new = self._modules.look()
        if new:
            self._follow(new)

    def _follow(self, names: Iterable[str]) -> None:
        """Have modules watched whose files were of those times."""
        if self._reloader is None:
            return
        for name in names:
            time = self._modules.times[name]
            self._reloader.modules[name] = True
            if self._reloader.modules_mtimes.get(name) != time:
                self._reloader.modules_mtimes[name] = time
                # What a newer IPython has read by now, to find the difference, is the edited
                # source.
                deduper = getattr(self._reloader, "deduper_reloader", None)
                if deduper is not None:
                    deduper.source_by_modname.pop(name, None)

"""State of the process that a task changes beside its variables: restored before the next task.

What is saved: `interpreter_state`, `library_state`; how: `saved_state`. What an *import* changes
stays, because a module is imported once: warning filters, loggers and options that a library sets
then. Everything here runs in the main thread: between tasks, or while a module is imported.
"""

from __future__ import annotations

import contextvars
import os
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from workbench.host.display import close_figures
from workbench.host.import_watch import ImportWatch
from workbench.host.interpreter_state import interpreter
from workbench.host.library_state import libraries
from workbench.host.saved_state import SavedState
from workbench.host.seeding import Seeds

T = TypeVar("T")

SHARE = 50
"""Short consecutive tasks of one kind spend at most 1 / `SHARE` of their time on restoring."""

LONGEST = 0.02
"""Most seconds without restoring, however long the last one took on a busy machine."""


class ProcessState:
    """State of a process that runs one task after the other, as it was when this was made."""

    def __init__(self) -> None:
        self._parts: list[SavedState] = [*interpreter(), *libraries()]
        self._context = contextvars.copy_context()
        self._kind: Hashable = None  # of the task that ran last
        self._is_clean = True
        self._due = 0.0  # when it is restored even between tasks of one kind
        self._seeds = Seeds()
        self._umask = os.umask(0o077)  # to read it, it has to be set
        os.umask(self._umask)
        self._imports = ImportWatch(self._learning)
        self._imports.install()

    def close(self) -> None:
        """Stop watching imports: code that runs from now on keeps what it changes."""
        self._imports.uninstall()

    def run(self, task: Callable[[T], object], argument: T, kind: Hashable) -> None:
        """Run a task in a clean process.

        Checking the state takes longer than the shortest tasks. So tasks of one ``kind`` that
        follow each other go without for a few milliseconds; None never does. Each task has its
        own context variables (numpy's error state, the decimal context).
        """
        if kind is None or kind != self._kind or time.perf_counter() >= self._due:
            self.clean()
        self._kind, self._is_clean = kind, False
        self._context.copy().run(task, argument)

    def clean(self) -> None:
        """Put back what tasks have changed. Best while nobody waits."""
        if self._is_clean:
            return
        started = time.perf_counter()
        self._context.run(self._restore)
        self._is_clean = True
        ended = time.perf_counter()
        self._due = ended + min(SHARE * (ended - started), LONGEST)

    def _restore(self) -> None:
        """Restore all that can be restored (not a directory that is gone)."""
        parts = iter(self._parts)
        while True:
            try:  # one `try` for all: one for each would cost more than comparing
                for part in parts:
                    part.restore()
                break
            except Exception:
                continue
        os.umask(self._umask)  # without reading it, which would change it for threads
        with suppress(Exception):  # another thread is just importing pyplot
            close_figures()  # of a task or an import: else a later cell would show them
        with suppress(Exception):  # somebody replaced numpy's generator
            self._seeds.renew()

    @contextmanager
    def _learning(self) -> Iterator[None]:
        """Keep what changes meanwhile, as it isn't the task that changes it."""
        before = list(map(_look, self._parts))
        try:
            yield
        finally:
            for part, was in zip(self._parts, before, strict=True):
                with suppress(Exception):
                    part.learn(was, part.look())
            self._seeds.imported()


def _look(part: SavedState) -> Any:
    with suppress(Exception):  # another thread is just importing the library
        return part.look()
    return None

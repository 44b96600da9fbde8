"""Runs tasks one after the other, each in a process as it was before the others.

What a task changes of its surroundings is put back before the next; see `surroundings`. Everything
here runs in the main thread, between tasks.
"""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TypeVar

from workbench.host.display import close_figures
from workbench.surroundings.interpreter import interpreter
from workbench.surroundings.libraries import libraries
from workbench.surroundings.seeding import Seeds
from workbench.surroundings.surroundings import Surroundings

T = TypeVar("T")
R = TypeVar("R")

SHARE = 50
"""Short consecutive tasks of one kind spend at most 1 / `SHARE` of their time on restoring."""

LONGEST = 0.02
"""Most seconds without restoring, however long the last one took on a busy machine."""


class ProcessState:
    """State of a process that runs one task after the other, as it was when this was made."""

    def __init__(self) -> None:
        self._seeds = Seeds()
        self._surroundings = Surroundings([*interpreter(), *libraries()], self._seeds.imported)
        self._context = contextvars.copy_context()
        self._kind: Hashable = None  # of the task that ran last
        self._is_clean = True
        self._due = 0.0  # when it is restored even between tasks of one kind

    def close(self) -> None:
        """Code that runs from now on keeps what it changes."""
        self._surroundings.close()

    def run(self, task: Callable[[T], R], argument: T, kind: Hashable) -> R:
        """Run a task in a clean process.

        Checking the state takes longer than the shortest tasks. So tasks of one ``kind`` that
        follow each other go without for a few milliseconds; None never does. Each task has its
        own context variables (numpy's error state, the decimal context).
        """
        if kind is None or kind != self._kind or time.perf_counter() >= self._due:
            self.clean()
        self._kind, self._is_clean = kind, False
        return self._context.copy().run(task, argument)

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
        self._surroundings.restore()
        with suppress(Exception):  # another thread is just importing pyplot
            close_figures()  # of a task or an import: else a later cell would show them
        with suppress(Exception):  # somebody replaced numpy's generator
            self._seeds.renew()

"""What a task changes in its process beside its own variables, put back before the next one.

What is kept, and how: `kept_state`, `kept_libraries`. What an *import* changes stays, because a
module is imported once: the filters of warnings, the loggers and the options that a library sets
then. Everything here runs in the main thread: between tasks, or while a module is imported.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from workbench.host.import_watch import ImportWatch
from workbench.host.kept_libraries import libraries
from workbench.host.kept_state import Kept, interpreter
from workbench.host.seeding import Seeds

T = TypeVar("T")


class ProcessState:
    """The state of a process that runs one task after the other, as it was when this was made."""

    def __init__(self) -> None:
        self._parts: list[Kept] = [*interpreter(), *libraries()]
        self._context = contextvars.copy_context()
        self._seeds = Seeds()
        self._imports = ImportWatch(self._learning)
        self._imports.install()

    def close(self) -> None:
        """Whoever runs from now on keeps what it changes."""
        self._imports.uninstall()

    def run(self, task: Callable[[T], object], argument: T) -> None:
        """Run a task, and put back what it leaves changed.

        Context variables (numpy's error state, the decimal context) it has of its own.
        """
        try:
            self._context.copy().run(task, argument)
        finally:
            self._context.run(self.restore)

    def restore(self) -> None:
        """All is as it was, but for what can't be put back: a directory that is gone."""
        parts = iter(self._parts)
        while True:
            try:  # around all of them: around each it would cost more than comparing it
                for part in parts:
                    part.restore()
                break
            except Exception:
                continue
        with suppress(Exception):  # somebody put another generator in the place of numpy's
            self._seeds.renew()

    @contextmanager
    def _learning(self) -> Iterator[None]:
        """What changes meanwhile is no task's doing."""
        before = list(map(_look, self._parts))
        try:
            yield
        finally:
            for part, was in zip(self._parts, before, strict=True):
                with suppress(Exception):
                    part.learn(was, part.look())
            self._seeds.imported()


def _look(part: Kept) -> Any:
    with suppress(Exception):  # a library that another thread is just importing
        return part.look()
    return None

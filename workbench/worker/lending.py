"""Lends this worker's slot while its task waits, in any of its threads. The interface is in
`lending_future`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from threading import current_thread

from workbench.client.connection import Connection
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.engine.lending_future import Missing
from workbench.host.task_context import TaskContext, is_ours

MOST_NAMED = 1000
"""Most objects that one message names. A wait for more ends by our Unblocked alone."""


@dataclass(eq=False)
class SlotLending:
    """The running task's waits; see `task_events.Blocked`. Any thread.

    ``_take_back`` empties the queue of this worker: the task may wait for what is there.
    ``_is_missing``: True if an object that isn't here may still come. Not if the code has read it
    and let go of it.
    """

    _connection: Connection
    _work: TaskContext[do.Run]
    _take_back: Callable[[], tuple[int, ...]]
    _is_missing: Callable[[int], bool]

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waits: set[int] = set()
        # Objects that were polled and weren't there; those of them that a wait is for.
        self._looked_for: set[int] = set()
        self._polled: Collection[int] = ()
        self._poll = 0

    @property
    def is_lent(self) -> bool:
        return bool(self._waits)

    @contextlib.contextmanager
    def waiting(
        self, missing: Missing, enough: int = 0, item: int = 0, timeout: float | None = None
    ) -> Iterator[None]:
        number = self.begin(missing(), enough, item)
        try:
            yield
        finally:
            self.end(number)

    def begin(self, objects: Iterable[int], enough: int = 0, item: int = 0) -> int:
        """Begin a wait; return its number for `end`. 0 if the caller isn't part of the running
        task: our own threads wait on behalf of others."""
        run = self._work.current
        if run is None or not self._work.runs(run.task) or is_ours(current_thread()):
            return 0
        named = tuple(itertools.islice(objects, MOST_NAMED + 1))
        if len(named) > MOST_NAMED:
            enough, named = enough or len(named), named[:MOST_NAMED]
        number = next(self._numbers)
        self._waits.add(number)
        back = self._take_back()
        if back:
            self._connection.post(ev.GaveBack(back))
        self._connection.post(ev.Blocked(run.task, number, named, enough, item))
        self._connection.flush()
        return number

    def end(self, number: int) -> None:
        """End a wait. The slot stays lent while other code of the task waits."""
        if number in self._waits:
            self._waits.discard(number)
            self._connection.post(ev.Unblocked(number))
            if self._waits:  # others wait: the slot is lent again
                self._connection.flush()

    def polled(self, objects: Iterable[int]) -> None:
        """Note that code has polled these objects, and they aren't there.

        Polling again counts as a wait until one of all polled objects is there.
        """
        ids = set(itertools.islice(objects, MOST_NAMED))
        again = ids <= self._looked_for
        self._looked_for |= ids
        if not again:
            return
        if self._poll:
            if ids <= set(self._polled) and all(map(self._is_missing, self._polled)):
                return
            self.end(self._poll)
        self._looked_for = set(filter(self._is_missing, self._looked_for))
        self._polled = tuple(self._looked_for)
        self._poll = self.begin(self._polled, 1)

    def task_over(self) -> None:
        """End all waits of a task that is over, also for a server that doesn't know the task."""
        if self._waits or self._looked_for:
            for number in self._waits:
                self._connection.post(ev.Unblocked(number))
            self._waits.clear()
            self._looked_for.clear()
            self._polled, self._poll = (), 0

"""Lends this worker's slot while its task waits, wherever in it that is. What waits looks like is
in `lending_future`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from threading import current_thread

from workbench.client.connection import Connection
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.engine.lending_future import Missing
from workbench.host.task_context import TaskContext, is_ours

MOST_NAMED = 1000
"""Objects that one message names. Who waits for more says itself that it goes on."""


class SlotLending:
    """See the module; see `task_events.Blocked`, too. Any thread.

    ``take_back`` empties the queue of this worker: what is there may be what the task waits for.
    ``is_missing`` tells whether an object that isn't here may still come: who has read it and let
    go of it has no place for it any more.
    """

    def __init__(
        self,
        connection: Connection,
        work: TaskContext[do.Run],
        take_back: Callable[[], tuple[int, ...]],
        is_missing: Callable[[int], bool],
    ) -> None:
        self._connection = connection
        self._work = work
        self._take_back = take_back
        self._is_missing = is_missing
        self._numbers = itertools.count(1)
        self._waits: set[int] = set()
        # What was looked for and wasn't there; of that, what is waited for.
        self._looked_for: set[int] = set()
        self._polled: Collection[int] = ()
        self._poll = 0

    @property
    def is_lent(self) -> bool:
        """True if the task waits anywhere."""
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
        """A number for `end`. 0 if the caller is no part of the task that runs: our own threads
        wait on behalf of others."""
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
        """This wait is over. The slot stays lent while others of the process wait."""
        if number in self._waits:
            self._waits.discard(number)
            self._connection.post(ev.Unblocked(number))
            if self._waits:  # others wait: the slot is lent again
                self._connection.flush()

    def polled(self, objects: Iterable[int]) -> None:
        """Somebody looked whether these are there, and they aren't.

        Who looks again waits: until one of all that was looked for is there.
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
        """Nothing of it waits. The server knows that with its end, if it knows of the task."""
        if self._waits or self._looked_for:
            for number in self._waits:
                self._connection.post(ev.Unblocked(number))
            self._waits.clear()
            self._looked_for.clear()
            self._polled, self._poll = (), 0

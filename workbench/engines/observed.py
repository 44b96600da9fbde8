"""Sessions of other systems, observed: what is the same for Ray's and Dask's.

Their own modules ask them and make a snapshot of it; here is what has changed since the last one,
and how to come by the next one without being a burden. Nothing here changes anything there.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from hashlib import blake2b

from workbench.client.survey import held
from workbench.core.snapshot import Change, ObjectRecord, Sample, Snapshot
from workbench.engine import queries
from workbench.engine.queries import Answering
from workbench.errors import SessionError

PACE = 1.0
"""Seconds between two looks, at least."""

SHARE = 20
"""A look that took a second is followed by so many without one."""


def id_of(key: str) -> int:
    """The id of what another system knows by a key: the same in every process."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")


class PolledChanges:
    """`engine.following.Changes` of a session that has to be polled.

    It asks in `next`, so only while somebody waits for news, and never sooner than `PACE` after
    the last time. A look that shows no change ends the wait too. ``look`` raises SessionError if
    there is no answer: there may be one the next time. The history is how full the session was
    since somebody looked, and what came and went before their eyes; what was spilled isn't seen.
    """

    def __init__(
        self,
        look: Callable[[], Snapshot],
        is_over: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._is_over = is_over
        self._clock = clock
        self._before: Snapshot | None = None
        self._puts = self._frees = 0
        self._last: Sample | None = None
        self._due = 0.0
        self._interrupted = threading.Event()
        self._is_hurried = False
        self._closed = False

    def next(self, timeout: float | None = None) -> Change | None:
        wait = max(self._due - self._clock(), 0.0)
        in_time = timeout is None or wait <= timeout
        if self._interrupted.wait(wait if timeout is None else min(wait, timeout)):
            self._interrupted.clear()
            if not self._is_hurried:
                return None
        elif not in_time:
            return None
        if self.is_over:
            return None
        self._is_hurried = False
        began = self._clock()
        try:
            now = self._look()
        except SessionError:
            return None
        finally:
            ended = self._clock()
            self._due = ended + max(PACE, SHARE * (ended - began))
        return self._changed(now)

    def _changed(self, now: Snapshot) -> Change | None:
        """What has changed since the last look; None if nothing has: that time went by is no
        change. The first time all is new."""
        before, self._before = self._before, now
        old = {} if before is None else {record.id: record for record in before.objects}
        new = {record.id: record for record in now.objects}
        gone = tuple(id for id in old if id not in new)
        if before is not None:
            self._puts += len(new.keys() - old.keys())
            self._frees += len(gone)
        history = now.history
        if now.live is not None:
            sample = Sample(0.0, now.live, now.spilled, self._puts, self._frees, None)
            history, self._last = () if sample == self._last else (sample,), sample
        objects = tuple(r for id, r in new.items() if id not in old or _differs(old[id], r))
        same = before is not None and _frame(before) == _frame(now)
        if same and not (objects or gone or history):
            return None
        return Change(now.replace(objects=(), history=history), objects, gone)

    def interrupt(self) -> None:
        self._interrupted.set()

    def hurry(self) -> None:
        self._is_hurried = True
        self._interrupted.set()

    @property
    def is_over(self) -> bool:
        return self._closed or self._is_over()

    def close(self) -> None:
        self._closed = True
        self._interrupted.set()


def _differs(before: ObjectRecord, after: ObjectRecord) -> bool:
    """True if it differs but for its age."""
    known = before.age is not None and after.age is not None
    return before.at(0.0 if known else before.age) != after.at(0.0 if known else after.age)


def _frame(snapshot: Snapshot) -> Snapshot:
    return snapshot.replace(objects=(), history=None, taken=0.0)


class Observer(ABC, Answering):
    """`engine.base.Observed` for a session that is none of Workbench's: a read-only view of it.

    Its own classes say what else `Observed` has. ``who`` answers for the session, to people.
    """

    session: str
    who: str

    @property
    @abstractmethod
    def end_reason(self) -> str | None: ...

    @abstractmethod
    def _look(self) -> Snapshot: ...

    @abstractmethod
    def _key(self, thing: object) -> str | None:
        """The key of what a thing here refers to, if it is one of that system's handles."""

    def __init__(self) -> None:
        self.answers = {
            queries.CaughtUp: lambda: None,  # each look is as new as it can be
            queries.Held: partial(held, self._held_by, dict),
            # Nobody knows: its objects lie in other processes, or on other machines.
            queries.CopySpeed: lambda: None,
        }

    def _held_by(self, thing: object) -> tuple[int | None, str]:
        key = self._key(thing)
        return (None, "") if key is None else (id_of(key), "ref")

    def snapshot(self) -> Snapshot:
        """See `Observed.snapshot`; SessionError if there is no answer, or not to such questions."""
        if self.end_reason:
            raise SessionError(self.end_reason)
        try:
            return self._look()
        except Exception as error:
            raise SessionError(
                f"{self.who} at {self.session} doesn't say what it has: "
                f"{type(error).__name__}: {error}"
            ) from error

    def changes(self) -> PolledChanges:
        return PolledChanges(self.snapshot, lambda: self.end_reason is not None)

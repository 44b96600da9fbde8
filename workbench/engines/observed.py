"""Sessions of other systems, looked on at: what is the same of Ray's and Dask's.

Their own modules ask them and make a snapshot of it; here are the differences between two
snapshots, and how to come by the next one without being a burden. Nothing here changes anything
there.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from hashlib import blake2b
from types import ModuleType
from typing import Any, NoReturn

import msgspec

from workbench.core.snapshot import Account, Change, ObjectRecord, Sample, Snapshot
from workbench.errors import SessionError, WorkbenchError
from workbench.ref import ObjectRef

PACE = 1.0
"""Seconds between two looks, at least."""

SHARE = 20
"""A look that took a second is followed by so many without one."""


def id_of(key: str) -> int:
    """The id of what another system knows by a key: the same in every process."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")


# -- what has changed ------------------------------------------------------------------------------


def difference(before: Snapshot | None, after: Snapshot) -> Change | None:
    """What has changed between two snapshots; None if nothing has. The first one is all new.

    That time went by is no change. Of the history, all of the second one's counts as new.
    """
    old = {} if before is None else {record.id: record for record in before.objects}
    new = {record.id: record for record in after.objects}
    objects = tuple(r for id, r in new.items() if id not in old or _timeless(old[id], r))
    gone = tuple(id for id in old if id not in new)
    same = before is not None and _frame(before) == _frame(after)
    if same and not (objects or gone or after.history):
        return None
    return Change(after.having((), after.history), objects, gone)


def _timeless(before: ObjectRecord, after: ObjectRecord) -> bool:
    """Whether it differs but for its age."""
    known = before.age is not None and after.age is not None
    return before.at(0.0 if known else before.age) != after.at(0.0 if known else after.age)


def _frame(snapshot: Snapshot) -> Snapshot:
    """All but the objects and the time."""
    return msgspec.structs.replace(snapshot, objects=(), history=None, taken=0.0)


class Course:
    """How full a session was since somebody looked, and what came and went before their eyes."""

    def __init__(self) -> None:
        self._before: frozenset[int] | None = None
        self._puts = self._frees = 0
        self._last: tuple[int | None, ...] = ()

    def noted(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what is new of it as its history. What was spilled isn't seen."""
        if snapshot.live is None:
            return snapshot
        now = frozenset(record.id for record in snapshot.objects)
        if self._before is not None:
            self._puts += len(now - self._before)
            self._frees += len(self._before - now)
        self._before = now
        levels = (snapshot.live, snapshot.spilled, self._puts, self._frees)
        history = () if levels == self._last else (Sample(0.0, *levels, None),)
        self._last = levels
        return snapshot.having(snapshot.objects, history)


class Looks:
    """`engines.base.Changes` of a session that has to be asked again and again.

    It asks in `next`, so only while somebody waits for news, and never sooner than `PACE` after
    the last time. A look that shows no change ends the wait too.

    Parameters
    ----------
    look : callable() → Snapshot
        Raises SessionError if there is no answer: there may be one the next time.
    is_over : callable() → bool
        Whether there won't be any more.
    """

    def __init__(self, look: Callable[[], Snapshot], is_over: Callable[[], bool]) -> None:
        self._look = look
        self._is_over = is_over
        self._before: Snapshot | None = None
        self._course = Course()
        self._due = 0.0
        self._roused = threading.Event()
        self._closed = False

    def next(self, timeout: float | None = None) -> Change | None:
        """See `engines.base.Changes`."""
        wait = max(self._due - time.monotonic(), 0.0)
        in_time = timeout is None or wait <= timeout
        if self._roused.wait(wait if timeout is None else min(wait, timeout)):
            self._roused.clear()
            return None
        if not in_time or self.is_over:
            return None
        began = time.monotonic()
        try:
            now = self._course.noted(self._look())
        except SessionError:
            return None
        finally:
            ended = time.monotonic()
            self._due = ended + max(PACE, SHARE * (ended - began))
        change, self._before = difference(self._before, now), now
        return change

    def wake_from_finalizer(self) -> None:
        """See `engines.base.Changes`."""
        self._roused.set()

    @property
    def is_over(self) -> bool:
        """See `engines.base.Changes`."""
        return self._closed or self._is_over()

    def close(self) -> None:
        """See `engines.base.Changes`."""
        self._closed = True
        self._roused.set()


# -- the session -----------------------------------------------------------------------------------


class Onlooker(ABC):
    """What `engines.base.Watched` is for a session that is none of Workbench's.

    Its own classes say what `session`, `ended`, `snapshot` and `held` are. What would change
    something there, or take a value from there, is refused.
    """

    session: str
    advice: str
    """How objects are let go there."""

    @property
    @abstractmethod
    def ended(self) -> str | None:
        """See `engines.base.Watched`."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """See `engines.base.Watched`."""

    @abstractmethod
    def held(self) -> dict[int, tuple[tuple[str, str], ...]]:
        """See `engines.base.Watched`."""

    def changes(self) -> Looks:
        """See `engines.base.Watched`."""
        return Looks(self.snapshot, lambda: self.ended is not None)

    def copy_speed(self) -> float | None:
        """Nobody knows: its objects lie in other processes, or on other machines."""
        return None

    def _refuse(self) -> NoReturn:
        raise WorkbenchError(f"Workbench only looks on here. {self.advice}")

    def why(self, what: int | str) -> Account | None:
        """Refused: what lets go is for its own system to say."""
        self._refuse()

    def borrow(self, id: int) -> ObjectRef:
        """Refused."""
        self._refuse()

    def get(self, refs: Sequence[ObjectRef], timeout: float | None, copy: bool) -> list[Any]:
        """Refused."""
        self._refuse()

    def free(self, refs: Sequence[ObjectRef]) -> None:
        """Refused."""
        self._refuse()

    def pin(self, ref: ObjectRef, on: bool, site: str = "") -> None:
        """Refused."""
        self._refuse()

    def spill(self, ref: ObjectRef) -> str:
        """Refused."""
        self._refuse()

    def interrupt(self, origin: int, jobs: Sequence[int], force: bool, timeout: float) -> bool:
        """Refused."""
        self._refuse()


def at(of: object) -> Onlooker:
    """The session of another system, to look on at.

    Parameters
    ----------
    of : distributed.Client or module
        A client of a Dask cluster, or the module ``ray`` after ``ray.init()``.

    Raises
    ------
    TypeError
        If it is something else.
    SessionError
        If there is no session behind it.
    """
    if isinstance(of, ModuleType) and of.__name__ == "ray":
        from workbench.engines.ray import Ray

        return Ray(of)
    if any(cls.__module__.partition(".")[0] == "distributed" for cls in type(of).__mro__):
        from workbench.engines.dask import Dask, is_client

        if is_client(of):
            return Dask(of)
    raise TypeError(
        "Views are of the current session (give nothing), of a Dask cluster (give its "
        f"distributed.Client), or of Ray (give the module ray); not of {type(of).__name__}."
    )

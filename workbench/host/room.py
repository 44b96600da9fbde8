"""How much may leave a worker: the limits of a task, and what all its tasks share. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What is usual is far below.

    Attributes
    ----------
    burst : int
        Bytes of text that a task may show as fast as it likes.
    rate : int
        Bytes a second when that is used up.
    half : int
        Bytes: each time that so many were shown, the rate halves.
    floor : int
        Bytes a second, however much was shown.
    kept : int
        Bytes of each stream's latest text that are kept, and shown at the task's end.
    least : int
        The same when the worker has no room left: it runs many tasks that show much.
    full : int
        Bytes that wait for the next time; with more it isn't waited.
    displays : float
        Displays that a task may show as fast as it likes. Of ``size`` bytes or less, that is.
    display_rate : float
        Displays a second when those are used up.
    kept_displays : float
        How many of the latest are kept, and shown at the task's end.
    size : int
        See ``displays``.
    """

    burst: int = 1_000_000
    rate: int = 128_000
    half: int = 4_000_000
    floor: int = 1_000
    kept: int = 64_000
    least: int = 4_000
    full: int = 256_000
    displays: float = 500
    display_rate: float = 5
    kept_displays: float = 20
    size: int = 256_000


LIMITS = Limits()
"""The usual ones. Two floods at a time stay below what Jupyter's server lets through: 3 MB of text
in three seconds. With more it passes on nothing at all for a while, of no cell."""


class Bucket:
    """Room for so much at once, which comes back at some rate."""

    def __init__(self, size: float, now: float) -> None:
        self._size = self._room = size
        self._at = now

    def room(self, now: float, rate: float) -> float:
        """What there is room for, now that ``rate`` a second have come back since the last look."""
        self._room = min(self._room + (now - self._at) * rate, self._size)
        self._at = now
        return self._room

    def take(self, amount: float) -> None:
        """Use some of it up; what is always allowed may be more than there is."""
        self._room = max(self._room - amount, 0)


class WorkerRoom:
    """The room that all tasks of one worker share, so that many small floods aren't a large one."""

    BURST, RATE = 16_000_000, 512_000

    def __init__(self, now: float) -> None:
        self._bucket = Bucket(self.BURST, now)
        self.take = self._bucket.take

    def room(self, now: float) -> float:
        """Bytes of text."""
        return self._bucket.room(now, self.RATE)

"""One object in the catalog: its state, its value, and all that keeps it alive."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from struct import Struct

from workbench.core.events import About, Value
from workbench.core.tasks import Task

Counts = Mapping[int, int]
"""Client → count, at least 1. Never changed in place, so that objects can share them: nearly all
are held once by one client and viewed by none, and a dict for each would take 200 bytes."""

NONE: Counts = {}

Kind = tuple[str, str]
"""An object's type, and where it was put: shared by all objects with the same."""

MOST_REPEATS = 0xFFFF

_COST = Struct("<QQIHff?")
"""The rest of an `About`, packed: a million objects have one each."""


class ObjectState(Enum):
    """State of an object. It only goes forward."""

    PENDING = "pending"  # a task will make it
    READY = "ready"
    FREED = "freed"  # its value is gone; handles or views to it still live somewhere


PENDING, READY, FREED = ObjectState
"""Module-level names: looking up a member of the class costs more than comparing it."""


class Entry:
    """One object. Fields are written by :class:`Catalog` alone."""

    __slots__ = (
        "cost", "escapes", "holds", "id", "job", "kind", "load_seconds", "made", "names", "parents",
        "pinned", "state", "tasks", "value", "viewers", "waiting_clients", "waiting_tasks",
    )  # fmt: skip

    def __init__(self, id: int, made: float) -> None:
        self.id = id
        self.made = made  # when it was put, or its task submitted
        self.state = PENDING
        self.value: Value | None = None
        self.kind: Kind | None = None
        self.cost = b""
        self.load_seconds = 0.0  # of its first reading; 0 until there was one
        self.holds: Counts = NONE  # client → number of holds
        self.names: tuple[str, ...] = ()
        self.tasks = 0  # pins by tasks that aren't done
        self.parents = 0  # objects that contain it
        self.escapes: tuple[str, ...] = ()  # where refs to it were pickled outside the store
        self.pinned = ""  # where a person asked for it to be kept
        self.job = ""  # the background cell that it is kept for
        self.viewers: Counts = NONE  # client → zero-copy views alive there
        self.waiting_clients: tuple[int, ...] = ()  # to be told when it is ready
        self.waiting_tasks: list[Task] | None = None  # that depend on it, until it is ready

    def describe(self, about: About, kind: Kind) -> None:
        """Keep what its maker said of it, packed: there may be two million entries."""
        self.kind = kind
        self.cost = _COST.pack(
            about.inband,
            about.outband,
            about.buffers,
            min(about.repeats, MOST_REPEATS),
            about.pickle_seconds,
            about.copy_seconds,
            about.cold,
        )

    @property
    def about(self) -> About | None:
        if self.kind is None:
            return None
        inband, outband, buffers, repeats, pickled, copied, cold = _COST.unpack(self.cost)
        type, site = self.kind
        return About(type, inband, outband, buffers, pickled, copied, site, repeats, cold)

    @property
    def alive(self) -> bool:
        """True if anything pins the object. Views don't pin."""
        return bool(self.job) or self._is_had

    @property
    def is_only_kept(self) -> bool:
        """True if only its job keeps the object alive, and no array shows it."""
        return bool(self.job) and not (self.viewers or self._is_had)

    @property
    def _is_had(self) -> bool:
        return bool(
            self.holds or self.names or self.tasks or self.parents or self.escapes or self.pinned
        )


def more(counts: Counts, client: int) -> Counts:
    return {**counts, client: counts.get(client, 0) + 1}


def fewer(counts: Counts, client: int) -> Counts:
    """Return the counts with one less for the client, which must be in them."""
    left = counts[client] - 1
    if not left and len(counts) == 1:
        return NONE
    return {**counts, client: left} if left else without(counts, client)


def without(counts: Counts, client: int) -> Counts:
    if client not in counts:
        return counts
    return {c: n for c, n in counts.items() if c != client} if len(counts) > 1 else NONE

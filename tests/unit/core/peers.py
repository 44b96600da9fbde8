"""Honest clients of a session, without sockets: what a driver or a worker knows, and answers.

A peer learns only from messages, in order and as late as the test likes. It posts events through
the callback it is given. Nothing is checked here but what a peer can see.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, TypeVar

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import ID_BITS
from workbench.memory.arena import Arena
from workbench.system.sizes import PAGE

T = TypeVar("T")

PAGES = 32
"""Address space of a peer's arena."""

ABOUT = ev.About("thing", 1, 0, 0, 0.0, 0.0)
NONE = ev.Value(b"N")
BOOM = ev.Value(b"boom", failed=True)


class Peer:
    """One connected process; ``worker`` is its number, 0 in a driver."""

    def __init__(self, number: int, worker: int, post: Callable[[int, ev.Event], None]) -> None:
        self.number = number
        self.worker = worker
        self.inbox: deque[do.Message] = deque()
        self.heard: deque[do.Message] = deque(maxlen=1000)  # of that, what it has taken in
        self.holds: Counter[int] = Counter()
        self.views: dict[int, list[ev.Value]] = {}  # one entry per view alive
        self.values: dict[int, ev.Value] = {}
        self.functions: dict[int, ev.Value] = {}  # loaded ones
        self.runs: deque[do.Run] = deque()  # the first one runs
        self.waits = 0
        self.segment = 0
        self.arena = Arena(PAGES * PAGE)
        self.granted = 0
        self.asked = 0  # Grow requests without an answer
        self._post = post
        self._ids = count((number << ID_BITS) + 1)
        self._requests = count(1)

    def post(self, event: ev.Event) -> None:
        self._post(self.number, event)

    def fall_silent(self) -> None:
        """It is gone: what its twin still says, nobody hears."""
        self._post = lambda *_: None

    def id(self) -> int:
        return next(self._ids)

    @property
    def held(self) -> list[int]:
        return sorted(+self.holds)

    @property
    def readable(self) -> dict[int, ev.Value]:
        """What it may map now: held objects it was told of, what its running task was given."""
        known = {id: v for id, v in self.values.items() if self.holds[id]}
        if self.runs:
            known.update(zip(self.runs[0].deps, self.runs[0].values, strict=False))
        known.update(self.functions)
        return {id: value for id, value in known.items() if not value.failed}

    def extent(self, pages: int) -> tuple[int, int] | None:
        """Memory for an object as (offset, length), or None and a Grow on its way."""
        if not self.segment:
            self.segment = self.id()
            self.post(ev.Opened(self.segment, self.arena.size))
        length = pages * PAGE
        found = self.arena.allocate(length, warm=True)
        if found is None and self.arena.footprint + length <= self.granted:
            found = self.arena.allocate(length, warm=False)
        if found is None:
            if self.asked < 2:
                self.asked += 1
                self.post(ev.Grow(next(self._requests), length))
            return None
        return found.offset, found.length

    def open_arena(self, pages: int, granted: int = 0) -> int:
        """Open an arena of that size, and ask for memory of it; returns its segment."""
        segment = self.id()
        self.post(ev.Opened(segment, pages * PAGE))
        if granted:
            self.post(ev.Grow(1, granted * PAGE))
        return segment

    def value(self, pages: int, contains: tuple[int, ...] = ()) -> ev.Value | None:
        """A value with an extent of that size, or inline for 0 pages; None if there's no room."""
        if not pages:
            return ev.Value(b"P" * 100, contains=contains)
        place = self.extent(pages)
        return None if place is None else ev.Value(b"E", self.segment, *place, contains)

    def put(self, value: ev.Value, name: str = "", about: ev.About | None = None) -> int:
        id = self.id()
        self.holds[id] += 1
        self.values[id] = value
        self.post(ev.Sealed(id, value, about or ABOUT, name))
        return id

    def submit(
        self,
        function: int,
        deps: tuple[int, ...],
        contains: tuple[int, ...],
        returns: int = 1,
        **options: Any,
    ) -> range:
        """Returns the results' ids."""
        task = self.id()
        results = range(task, task + returns)
        for _ in results[1:]:
            self.id()
        self.holds.update(results)
        self.post(ev.Submit(task, function, b"args", deps, contains, returns, **options))
        return results

    def create(
        self, cls: int, cpus: int = 0, deps: tuple[int, ...] = (), name: str = "", **options: Any
    ) -> int:
        """Have an actor of that class made; returns its handle's object."""
        actor = self.put(ev.Value(b"described"))
        spec = ev.TaskSpec(cpus) if cpus else None
        what = ev.Submit(
            actor, cls, b"", deps, (), 0, "Actor", actor=actor, method="__init__", spec=spec
        )
        self.post(ev.Create(what, name=name, **options))
        return actor

    def submit_calls(self, function: int, count: int, retries: int = 0) -> tuple[int, ...]:
        """So many tasks in one message, as in a burst. Returns their ids."""
        tasks = tuple([self.id() for _ in range(count)])
        self.holds.update(tasks)
        form = ev.CallForm(function, retries=retries)
        self.post(ev.SubmitCalls(tasks, (b"args",) * count, form))
        return tasks

    def borrow(self, ids: tuple[int, ...]) -> None:
        """It read a container: handles appear for what is inside."""
        new = tuple(id for id in ids if not self.holds[id])
        if new:
            self.holds.update(new)
            self.post(ev.Hold(new))

    def drop(self, id: int) -> None:
        self.holds[id] -= 1
        if not self.holds[id]:
            self.values.pop(id, None)
        self.post(ev.Drop((id,)))

    def view(self, id: int) -> None:
        value = self.views[id][-1] if id in self.views else self.readable[id]
        self.views.setdefault(id, []).append(value)
        self.post(ev.View(id, value.segment))

    def unview(self, id: int) -> None:
        value = self.views[id].pop()
        if not self.views[id]:
            del self.views[id]
        self.post(ev.Unview(((id, value.segment),)))

    def finish(self, values: tuple[ev.Value, ...], seconds: float) -> None:
        self.post(ev.Done(self.runs.popleft().task, values, seconds))

    def block(self, objects: tuple[int, ...] = (), enough: int = 0) -> None:
        """The running task waits: what is behind it goes back, and the slot is lent."""
        self.waits += 1
        self.post(ev.GaveBack(tuple(self._take_back(len(self.runs)))))
        self.post(ev.Blocked(self.runs[0].task, self.waits, objects, enough))

    def unblock(self) -> None:
        self.post(ev.Unblocked(self.waits))
        self.waits -= 1

    def _take_back(self, count: int) -> Iterator[int]:
        taken = [self.runs.pop().task for _ in range(min(count, max(len(self.runs) - 1, 0)))]
        return reversed(taken)

    def read_all(self) -> None:
        while self.inbox:
            self.read()

    def read(self) -> None:
        """Take in one message and answer it."""
        message = self.inbox.popleft()
        self.heard.append(message)
        match message:
            case do.Ready(object, value):
                if self.holds[object]:
                    self.values[object] = value
            case do.Found(_, object) if object:
                self.holds[object] += 1
            case do.Collected(results=results) | do.JobComplete(results=results):
                self.holds.update(filter(None, results))
            case do.Run() as run:
                if len(run.values) > len(run.deps):
                    self.functions[run.function] = run.values[-1]
                known = not run.function or run.function in self.functions
                assert known, "told to run what it doesn't have"
                if self.waits:
                    self.post(ev.GaveBack((run.task,)))
                else:
                    self.runs.append(run)
            case do.Recall(count):
                self.post(ev.GaveBack(tuple(self._take_back(count)), asked=True))
            case do.Forget(objects, unused):
                for id in objects:
                    self.values.pop(id, None)
                    if unused:
                        assert all(run.function != id for run in self.runs), "it needs that"
                        del self.functions[id]
                    self.post(ev.Unview(((id, 0),)))
            case do.Moved(object, value):
                if self.holds[object] and object in self.values:
                    self.values[object] = value
                self.post(ev.Noted(object))
            case do.Release(extents, cold):
                for offset, length in extents:
                    assert self.arena.live[offset] == length
                    self.arena.free(offset, touched=not cold)
                    self.granted -= length if cold else 0
            case do.Trim(nbytes):
                freed = sum(extent.length for extent in self.arena.cool(nbytes))
                self.granted -= freed
                self.post(ev.Trimmed(freed, answer=True))
            case do.Grown(_, nbytes):
                self.asked -= 1
                self.granted += nbytes
        assert self.arena.footprint <= self.granted


def pick(choices: Iterable[T], n: int) -> T:
    found = list(choices)
    return found[n % len(found)]


def runs(peer: Peer) -> list[int]:
    """Tasks the peer has been sent and hasn't read."""
    return [m.task for m in peer.inbox if isinstance(m, do.Run)]


def told(peer: Peer) -> dict[int, bytes]:
    """What the peer is told of objects: by id, the header up to its first newline."""
    return {m.object: m.value.header.split(b"\n")[0] for m in peer.inbox if isinstance(m, do.Ready)}


def grants(peer: Peer) -> list[tuple[int, int]]:
    """What it is told of the memory it asked for, and hasn't read: by request, how much it has."""
    return [(m.request, m.granted) for m in of(do.Grown, peer.inbox)]


def of(kind: type[T], said: Iterable[object]) -> list[T]:
    """The instructions, or messages, of this kind."""
    return [each for each in said if isinstance(each, kind)]

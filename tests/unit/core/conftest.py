"""A session and honest peers around it, for tests that tell one story each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from tests.unit.core.invariants import check
from tests.unit.core.peers import Peer
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import Left, Tick, WorkerExited
from workbench.core.session import Session

FUNCTION = ev.Value(b"a function")
T = TypeVar("T")


class Stage:
    """Events gather until `turn`, which delivers what comes of them and checks the state."""

    def __init__(
        self,
        workers: int = 1,
        capacity: int = 1 << 20,
        spills: bool = False,
        headroom: int = 0,
        idle: float = 0,
    ) -> None:
        self.session = Session("test", workers, capacity, headroom, spills, idle)
        self.now = 0.0
        self.peers: dict[int, Peer] = {}
        self.starting: list[int] = []
        self.batch: list[tuple[int, ev.Event]] = []
        self._numbers = 0
        self.post(0, Tick())
        self.turn()

    def post(self, number: int, event: ev.Event) -> None:
        self.batch.append((number, event))

    def turn(self, after: float = 0.0) -> list[do.Anything]:
        """Hand over the batch ``after`` seconds; returns the instructions, Sends included."""
        self.now += after
        batch, self.batch = self.batch, []
        out = self.session.handle(batch, self.now)
        if not self.session.state.catalog.backlog.work:  # else it is true again when that is done
            check(self.session.state)
        for instruction in out:
            if isinstance(instruction, do.Send) and instruction.to in self.peers:
                self.peers[instruction.to].inbox.append(instruction.message)
            elif isinstance(instruction, do.Fork):
                self.starting.append(instruction.worker)
        return out

    def say(self, peer: Peer, *events: ev.Event) -> list[do.Anything]:
        """The peer says these, and the batch is handed over."""
        for event in events:
            peer.post(event)
        return self.turn()

    def hears(self, said: T) -> T:
        """The batch is handed over, with what a peer has just ``said``."""
        self.turn()
        return said

    def all_read(self) -> None:
        """Everybody takes in and answers everything, until nobody has anything to say."""
        self.turn()
        for _ in range(1000):
            reading = [peer for peer in self.peers.values() if peer.inbox]
            if not reading:
                return
            for peer in reading:
                peer.read_all()
            self.turn()
        raise AssertionError("they never come to an end")

    def all_hear(self, said: T) -> T:
        """Everybody takes in what comes of what a peer has just ``said``."""
        self.all_read()
        return said

    def finish(self, worker: Peer, values: tuple[ev.Value, ...], seconds: float) -> None:
        """What the worker runs is over, and everybody knows."""
        worker.finish(values, seconds)
        self.all_read()

    def meet(self, worker: int = 0, linger: float = 0.0, admin: bool = False) -> Peer:
        """Somebody who is about to say Hello."""
        self._numbers += 1
        number = self._numbers
        peer = self.peers[number] = Peer(number, worker, self.post)
        peer.post(ev.Hello(1000 + number, number, worker, linger, admin=admin))
        return peer

    def connect(self, worker: int = 0, linger: float = 0.0, admin: bool = False) -> Peer:
        peer = self.meet(worker, linger, admin)
        self.turn()
        peer.inbox.popleft()
        return peer

    def driver(self, linger: float = 0.0) -> Peer:
        return self.connect(linger=linger)

    def admin(self) -> Peer:
        return self.connect(admin=True)

    def worker(self) -> Peer:
        """The next of the workers the session had forked."""
        return self.connect(self.starting.pop(0))

    def function(self, owner: Peer, seconds: float | None = None) -> int:
        """A function's object; if ``seconds`` is given it has run once and took so long."""
        id = owner.put(FUNCTION)
        if seconds is not None:
            owner.submit(id, (), ())
            self.all_read()
            runner = next(p for p in self.peers.values() if p.runs)
            runner.finish((ev.Value(b"N"),), seconds)
            self.all_read()
        return id

    def leave(self, peer: Peer, graceful: bool = False) -> list[do.Anything]:
        if graceful:
            peer.post(ev.Bye())
        peer.post(Left())
        del self.peers[peer.number]
        return self.turn()

    def crash(self, worker: Peer, status: int = -9) -> list[do.Anything]:
        del self.peers[worker.number]
        self.post(0, WorkerExited(worker.worker, status))
        worker.post(Left())
        return self.turn()


Make = Callable[..., Stage]
Pair = Callable[..., tuple[Stage, Peer, Peer]]
Drivers = Callable[..., tuple[Stage, list[Peer]]]


@pytest.fixture
def stage() -> Make:
    return Stage


@pytest.fixture
def pair(stage: Make) -> Pair:
    """Makes a stage, its first driver, and its first worker."""

    def make(linger: float = 0.0, **options: Any) -> tuple[Stage, Peer, Peer]:
        made = stage(**options)
        return made, made.driver(linger), made.worker()

    return make


@pytest.fixture
def drivers(stage: Make) -> Drivers:
    """Makes a stage, and so many drivers."""

    def make(count: int = 1, linger: float = 0.0, **options: Any) -> tuple[Stage, list[Peer]]:
        made = stage(**options)
        return made, [made.driver(linger) for _ in range(count)]

    return make

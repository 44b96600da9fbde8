"""An actor's calls on a Dask worker: when they begin, in which order, and how each has an end."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, cast

import pytest

from tests.leaks import eventually
from tests.patience import TIMEOUT
from workbench.engines.dask.actor_processes import ActorProcesses
from workbench.engines.dask.actors import ActorGone, CallStopped
from workbench.engines.dask.channel import ActorShape, HeadDone, RunHead
from workbench.engines.dask.packed import PackedValue
from workbench.engines.dask.slots import ChildDied, Slots

ACTOR, HERE, THERE = 1, 5, 6
GOOD = PackedValue(b"P1", [], [], [], [])
BAD = PackedValue(b"P2", [], [], [], [], failed=True)


class Child:
    """A process that does what the test says."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.begun: list[int] = []
        self.said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.reads = threading.Event()
        self.reads.set()

    def begin(self, message: RunHead, fds: Any) -> None:
        self.begun.append(message.task)
        assert self.reads.wait(TIMEOUT)

    def hear(self) -> tuple[Any, list[int]]:
        said = self.said.get(timeout=TIMEOUT)
        if isinstance(said, Exception):
            raise said
        return said, []

    def done(self, task: int, value: PackedValue = GOOD) -> None:
        self.said.put(HeadDone(task, b"", [value]))

    def die(self) -> None:
        self.said.put(ChildDied(1, "", False))

    def kill(self) -> None:
        self.said.put(ChildDied(-9, "", True))

    def close(self, grace: float = 0.0) -> None:
        pass


class Children:
    """`Slots`, as far as an actor needs them."""

    def __init__(self) -> None:
        self.made: list[Child] = []

    def lease(self) -> Child:
        self.made.append(Child(len(self.made)))
        return self.made[-1]

    def own(self, child: Child) -> None:
        pass

    def free_number(self, child: Child) -> None:
        pass


class Call(NamedTuple):
    actor: int
    reply_to: int
    number: int
    task: int


class Worker:
    """One worker, with one actor. ``calls`` are threads of Dask's."""

    def __init__(self) -> None:
        self.slots = Children()
        self.actors = ActorProcesses(cast(Slots, self.slots))
        self.pool = ThreadPoolExecutor(20)
        self.shape = ActorShape()

    def make(self) -> Future[Any]:
        return self._run(Call(ACTOR, HERE, 0, ACTOR), self.shape)

    def close(self) -> None:
        self.actors.close()
        for child in self.slots.made:
            child.kill()
        self.pool.shutdown()

    def call(self, number: int, submitter: int = HERE) -> Future[Any]:
        """Of which the task is submitter and number: 51 is the first from here."""
        return self._run(Call(ACTOR, submitter, number, submitter * 10 + number), None)

    def runs(self, task: int) -> bool:
        return any(task in child.begun for child in self.slots.made)

    def _run(self, call: Call, shape: ActorShape | None) -> Future[Any]:
        message = RunHead(call.task, b"", "s", "tcp://x", [], [], shape)
        return self.pool.submit(self.actors.run, call, message, [], bool)

    def child(self, number: int = 0) -> Child:
        assert eventually(lambda: len(self.slots.made) > number)
        return self.slots.made[number]

    def made(self) -> Child:
        """The actor's process, once it is there."""
        making = self.make()
        self.child().done(ACTOR)
        making.result(TIMEOUT)
        return self.child()


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


def test_calls_of_one_submitter_begin_in_their_order(worker: Worker) -> None:
    """Once the actor is made, however long that takes."""
    calls = [worker.call(number) for number in (3, 2)]
    child = worker.made()
    other = worker.call(1, THERE)
    assert eventually(lambda: worker.runs(61))
    assert child.begun == [ACTOR, 61]
    calls.append(worker.call(1))
    assert eventually(lambda: len(child.begun) == 5)
    assert child.begun[2:] == [51, 52, 53]
    child.kill()
    for each in (*calls, other):
        assert isinstance(each.exception(TIMEOUT), ChildDied)


@pytest.mark.parametrize("first", [True, False])
def test_what_will_not_come_is_not_waited_for(worker: Worker, first: bool) -> None:
    """Whether that is known before the actor is made, or after."""
    if first:
        worker.actors.skip(ACTOR, HERE, 1)
        worker.actors.departed(THERE)
    child = worker.made()
    worker.call(2)
    worker.call(7, THERE)
    if not first:
        assert child.begun == [ACTOR]
        worker.actors.skip(ACTOR, HERE, 1)
        worker.actors.departed(THERE)
    assert eventually(lambda: set(child.begun) == {ACTOR, 52, 67})


def test_a_call_that_waits_is_stopped(worker: Worker) -> None:
    early = worker.call(1)
    assert eventually(lambda: worker.actors.stop(51, force=False))
    assert isinstance(early.exception(TIMEOUT), CallStopped)
    child = worker.made()
    third = worker.call(3)
    assert eventually(lambda: worker.actors.stop(53, force=False))
    assert isinstance(third.exception(TIMEOUT), CallStopped)
    assert not worker.actors.stop(53, force=False)
    worker.call(2)
    worker.call(4)
    assert eventually(lambda: child.begun == [ACTOR, 52, 54])


@pytest.mark.parametrize("works", [True, False])
def test_it_is_made_again_and_goes_on_or_says_why_not(worker: Worker, works: bool) -> None:
    worker.shape = ActorShape(1)
    child = worker.made()
    running = worker.call(1)
    assert eventually(lambda: worker.runs(51))
    child.die()
    again = worker.child(1)
    waiting = worker.call(2)
    again.done(ACTOR, GOOD if works else BAD)
    assert isinstance(running.exception(TIMEOUT), ChildDied)
    if works:
        assert eventually(lambda: again.begun == [ACTOR, 52])
        again.done(52)
        assert waiting.result(TIMEOUT)[0].task == 52
    else:
        gone = waiting.exception(TIMEOUT)
        assert isinstance(gone, ActorGone)
        assert gone.value == BAD
        assert isinstance(worker.call(3).exception(TIMEOUT), ActorGone)


def test_a_child_that_does_not_read_holds_up_nobody_but_its_calls(worker: Worker) -> None:
    """The worker's event loop skips and wakes calls: if that waited, the worker would be lost."""
    child = worker.made()
    child.reads.clear()
    calls = [worker.call(number) for number in (1, 2)]
    assert eventually(lambda: worker.runs(51))
    worker.pool.submit(worker.actors.skip, ACTOR, HERE, 3).result(TIMEOUT)
    child.reads.set()
    calls.append(worker.call(4))
    assert eventually(lambda: child.begun == [ACTOR, 51, 52, 54])
    child.kill()
    for each in calls:
        assert isinstance(each.exception(TIMEOUT), ChildDied)

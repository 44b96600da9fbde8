"""A cluster session's objects over a system of a few lines: who waits in which thread."""

from __future__ import annotations

import itertools
import queue
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from tests.patience import TIMEOUT
from workbench.engines.cluster.backend import Backend, StoredValue, TaskEnd
from workbench.engines.cluster.entries import FAILED, PENDING, READY, UNKNOWN, Entries, KnownObject
from workbench.engines.cluster.jobs import ClusterJobs
from workbench.engines.cluster.kept_jobs import JobTask
from workbench.engines.cluster.parcels import Packer
from workbench.engines.cluster.store import ClusterStore
from workbench.errors import SessionError
from workbench.ref import ObjectRef


class System:
    """A `Backend` in which natives are values. What is asked for comes once ``may_read``."""

    blocks = False
    ended = None

    def __init__(self) -> None:
        self.may_read = threading.Event()

    def get(self, natives: Sequence[Any], timeout: float | None) -> list[StoredValue]:
        assert self.may_read.wait(TIMEOUT)
        return list(natives)


class World:
    """An engine of one process, as far as its objects go."""

    session = "session~1"

    def __init__(self, watch: Callable[[KnownObject], None] = lambda entry: None) -> None:
        self.system = System()
        self.packer = Packer(self.session, 3, lambda ref: None, "here")
        self.entries = Entries(self, watch)
        ids = itertools.count(1)
        self.store = ClusterStore(
            cast(Backend, self.system), self.entries, self.packer, ids.__next__, str, bool
        )

    def object(self, id: int, value: Any, state: str = PENDING) -> ObjectRef:
        return self.entries.new(id, self.packer.pack(value, None), state)[0]


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.system.may_read.set()
    world.store.opening.close()


def test_who_tells_that_a_future_s_object_is_there_does_not_wait_for_it(world: World) -> None:
    ref = world.object(7, [1, 2])
    future = world.store.future(ref)
    world.entries.settle(7, READY)  # in the thread that would bring it
    assert not future.done()
    world.system.may_read.set()
    assert future.result(TIMEOUT) == [1, 2]


def test_futures_of_a_session_that_is_over_say_so(world: World) -> None:
    ref = world.object(7, 1)
    future = world.store.future(ref)
    world.entries.end("It is over.")
    world.store.opening.close()
    with pytest.raises(SessionError, match="It is over"):
        future.result(TIMEOUT)


def test_a_future_of_what_is_there_already(world: World) -> None:
    world.system.may_read.set()
    ref = world.object(7, "value", READY)
    assert world.store.future(ref).result(TIMEOUT) == "value"
    world.store.opening.close()  # and another thread may begin
    assert world.store.future(ref).result(TIMEOUT) == "value"


def test_the_system_is_asked_to_watch_while_nothing_is_locked() -> None:
    """It may have to wait for a thread that reports another object."""
    reported = list[bool]()

    def watch(entry: KnownObject) -> None:
        report = threading.Thread(target=lambda: world.entries.settle(8, READY))
        report.start()
        report.join(TIMEOUT)
        reported.append(not report.is_alive())

    world = World(watch)
    other, ref = world.object(8, 1), world.object(7, 1, UNKNOWN)
    came = list[int]()
    world.entries.announce([ref, other], came.append)
    assert reported == [True]
    world.entries.settle(7, READY)
    assert sorted(came) == [7, 8]


def test_an_entry_goes_with_its_own_handle_alone(world: World) -> None:
    ref = world.object(7, 1, READY)
    before = world.entries._held[7]
    entry = weakref.ref(ref)
    del ref
    assert entry() is None
    assert before.entry is None
    assert world.entries.get(7) is None
    assert world.entries.find(7) is None
    again = world.object(7, 2, UNKNOWN)
    assert world.entries.find(7) is again
    world.entries._dropped.append(before)  # as if it were told only now
    kept = world.object(8, 1)
    assert {each.id for each in world.entries.all()} == {7, 8}
    del again, kept
    assert world.entries.all() == []


def test_what_is_announced_after_the_end_is_told_at_once(world: World) -> None:
    ref = world.object(7, 1)
    world.entries.end("It is over.")
    with pytest.raises(SessionError, match="It is over"):
        world.store.future(ref).result(TIMEOUT)


def test_a_future_s_callback_may_wait_for_another_future(world: World) -> None:
    world.system.may_read.set()
    first, second = world.object(7, "one"), world.object(8, "two", READY)
    found = queue.SimpleQueue[str]()
    world.store.future(first).add_done_callback(
        lambda _: found.put(world.store.future(second).result(TIMEOUT))
    )
    world.entries.settle(7, READY)
    assert found.get(timeout=TIMEOUT) == "two"


def test_results_of_a_cell_that_runs_are_not_there_yet(world: World) -> None:
    """Of one that another driver has submitted."""
    watched = list[KnownObject]()
    world.entries._watch = watched.append
    jobs = ClusterJobs(world, cast(Backend, world.system), world.entries, lambda message: None)
    runs, over = (JobTask(n, 0, "cell 1", ("x",), 1, 9, 3, ("end", "ran", "x")) for n in (20, 30))
    end = TaskEnd(30, "done", 1.0, 0, (False, False), (None, None))
    kept = [
        jobs._collected(task.task, task.natives[1:], task.binds, ended, "")
        for task, ended in ((runs, None), (over, end))
    ]
    states = [[world.store.state(ref) for ref in refs if ref is not None] for refs in kept]
    assert states == [[PENDING] * 2, [READY] * 2]
    assert [entry.id for entry in watched] == [20, 21]
    world.entries.settle(20, READY)
    first = kept[0][0]
    assert first is not None
    assert world.store.state(first) == READY


def test_who_waits_for_many_looks_at_each_a_few_times(world: World) -> None:
    """And hears of a failure among them at once."""
    looks = 0

    class Counted(KnownObject):
        __slots__ = ("now",)

        @property  # type: ignore[override]
        def state(self) -> str:
            nonlocal looks
            looks += 1
            return self.now

        @state.setter
        def state(self, state: str) -> None:
            self.now = state

    entries = [Counted(id, None, PENDING) for id in range(1000)]
    done = world.entries.until_known(entries)
    for entry in entries:
        assert not done()
        entry.state = READY
    assert done()
    assert looks < 5 * len(entries)

    refs = [world.object(id, id) for id in range(2000, 2003)]
    done = world.entries.until_known([world.entries.of(ref) for ref in refs])
    assert not done()
    world.entries.settle(refs[2].id, FAILED)
    assert done()

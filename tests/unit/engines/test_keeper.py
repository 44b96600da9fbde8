"""What of a cluster's session outlives its kernel: names, background cells, what these showed."""

from __future__ import annotations

import msgspec
import pytest

from workbench.core.events import TaskSpec
from workbench.core.snapshot import ClientRecord
from workbench.engines.cluster import keeper
from workbench.engines.cluster.backend import BEGAN, ENDED, Head, Message, TaskEnd
from workbench.engines.cluster.keeper import NOBODY, SILENT, STOPS, Keeper, batch_of, stops_of
from workbench.engines.cluster.kept_jobs import KeptJobs

ME, OTHER, JOB = 11, 12, 100


def driver(id: int) -> ClientRecord:
    return ClientRecord(id, 1, "driver", "", id, "far")


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.woken: list[int] = []
        self.keeper = Keeper(lambda: self.now, self.woken.append)
        self.keeper.join(driver(ME))
        (self.jobs,) = (part for part in self.keeper.parts if isinstance(part, KeptJobs))

    def push(self, *messages: Message) -> None:
        self.keeper.push(msgspec.msgpack.encode(list(messages)))

    def take(self, audience: int = ME) -> list[Message]:
        data = self.keeper.take(audience)
        return batch_of(data) if data else []

    def job(self, size: int = 1) -> None:
        for task in range(JOB, JOB + size):
            group = 0 if task == JOB else JOB
            spec = TaskSpec(job="cell 1", binds=("x",), size=size, group=group)
            self.jobs.job(Head(task, "cell 1", "session~1", ME, 3, spec=spec, job=JOB))
            self.jobs.made(task, ("end", "ran", "x"))

    def shows(self, text: str, task: int = JOB) -> None:
        self.push(Message(task, "stdout", text.encode(), 3, ME, JOB, 1))

    def begins(self, task: int = JOB) -> None:
        self.push(Message(task, BEGAN, b"", 3, ME, JOB, 1))

    def ends(self, how: str = "done", task: int = JOB) -> None:
        end = TaskEnd(task, how, 0, (how != "done",) * 2, (None, None), 1)
        self.push(Message(task, ENDED, msgspec.msgpack.encode(end), 3, ME, JOB, 1))

    @property
    def state(self) -> str:
        (record,) = self.jobs.jobs()
        return record.state


@pytest.fixture
def world() -> World:
    return World()


def test_what_a_task_shows_goes_to_its_driver(world: World) -> None:
    world.push(Message(1, "stdout", b"mine", 3, ME, 0, 1))
    world.push(Message(2, "stdout", b"nobody's", 3, OTHER, 0, 1))
    assert world.woken == [ME]
    assert [message.data for message in world.take()] == [b"mine"]
    assert world.take() == []


def test_a_job_goes_its_way(world: World) -> None:
    world.job()
    assert world.state == "queued"
    world.begins()
    world.now = 2.0
    world.shows("one\n")
    assert world.state == "running"
    world.ends()
    (record,) = world.jobs.jobs()
    assert (record.state, record.lines, record.seconds, record.worker) == ("done", 1, 2.0, 1)
    assert [message.kind for message in world.take()] == [BEGAN, "stdout"]


@pytest.mark.parametrize("state", ["failed", "stopped", "done"])
def test_a_job_of_several_tasks_ends_with_the_last(world: World, state: str) -> None:
    world.job(2)
    world.begins()
    world.ends("done")
    assert world.state == "running"
    world.ends(state, JOB + 1)
    assert world.state == state


def test_a_job_is_collected_by_a_new_kernel_while_it_runs(world: World) -> None:
    world.job()
    world.begins()
    world.shows("one\n")
    world.keeper.leave(ME)
    assert world.jobs.jobs()[0].kept
    world.shows("two\n")
    world.keeper.join(driver(OTHER))
    assert world.jobs.collect(JOB, 0, 0) is not None  # who asks for one variable takes no output
    assert (world.take(OTHER), world.jobs.jobs()[0].kept) == ([], True)
    found = world.jobs.collect(JOB, OTHER, 9)
    assert found is not None
    assert b"".join(message.data for message in world.take(OTHER)) == b"one\ntwo\n"
    assert found.natives == {JOB: ("end", "ran", "x")}
    world.shows("three\n")
    world.ends()
    came = world.take(OTHER)
    assert [(message.data, message.origin) for message in came[:1]] == [(b"three\n", 9)]
    assert world.state == "done"


def test_a_task_whose_process_died_ends_too(world: World) -> None:
    world.job()
    world.begins()
    world.keeper.ended(TaskEnd(JOB, "failed"))
    assert world.state == "failed"
    assert "may not have arrived" in str(world.jobs.shown_by(JOB))
    world.ends("done")  # it had said so itself, and that came late
    world.keeper.ended(TaskEnd(JOB, "failed"))
    assert len(world.jobs.jobs()) == 1


def test_names_are_found_by_name_and_by_object() -> None:
    names = keeper.KeptNames()
    for name, id, native in (("a", 1, "one"), ("ab", 2, "two"), ("a", 3, "three")):
        names.bind(name, id, native, None)
    assert sorted(names.named("a")) == ["a", "ab"]
    found = names.find("a")
    assert found is not None
    assert found.native == "three"
    assert [each.id for each in names.identify(f"{2:016x}")] == [2]
    names.dropped([3])
    names.unbind("ab")
    assert names.named() == []


def test_a_pinned_object_is_kept_whatever_its_names() -> None:
    names = keeper.KeptNames()
    names.pin(1, "one", None, "cell 3")
    names.pin(2, "two", None, "cell 4")
    names.bind("a", 1, "one", None)
    names.bind("b", 3, "three", None)
    names.escape(3, "three", "cell 9")
    assert {id: (each.names, each.pinned) for id, each in names.kept().items()} == {
        1: (("a",), "cell 3"), 2: ((), "cell 4"), 3: (("b",), ""),
    }  # fmt: skip
    assert names.kept()[3].escapes == ("cell 9",)
    names.unbind("a")
    (found,) = names.identify(f"{1:016x}")
    assert (found.id, found.native) == (1, "one")
    names.unpin(1)
    names.unpin(1)
    assert names.identify(f"{1:016x}") == []
    names.dropped([2])
    assert list(names.kept()) == [3]


def test_drivers_say_where_they_are(world: World) -> None:
    world.keeper.join(driver(OTHER), "0a")
    world.keeper.leave(ME)
    world.keeper.join(driver(13))
    first, second = world.keeper.drivers()
    assert (first.client, first.host, second.client) == (OTHER, "far", 13)
    assert world.keeper.processes() == {OTHER: "0a", 13: ""}


def test_a_session_outlives_its_last_driver_as_long_as_one_said(world: World) -> None:
    world.keeper.join(driver(OTHER), linger=120.0)
    world.keeper.leave(OTHER)
    assert world.keeper.seconds_left() is None, "somebody is there"
    world.now = 50.0
    world.keeper.leave(ME)
    world.now = 60.0
    assert world.keeper.seconds_left() == 110.0
    world.keeper.keep(0.0)
    assert world.keeper.seconds_left() == -10.0


def test_a_session_outlives_its_jobs_and_the_time_begins_with_their_end(world: World) -> None:
    assert Keeper(lambda: 0.0, bool).seconds_left() == NOBODY  # who starts one has time to come
    world.keeper.keep(5.0)
    world.job()
    world.keeper.leave(ME)
    world.now = 50.0
    assert world.keeper.seconds_left() is None
    world.ends()
    assert world.keeper.seconds_left() == 5.0


def test_a_stop_reaches_workers_that_come_later_and_a_silent_one_is_left_out(world: World) -> None:
    assert world.keeper.enroll(21, 5, "far") == 1
    world.keeper.stop([JOB], True)
    assert world.keeper.enroll(22, 6, "far", "n1") == 2
    for worker in (21, 22):
        (message,) = world.take(worker)
        assert (message.kind, stops_of(message.data)) == (STOPS, ([JOB], True))
    world.now = SILENT + 1
    world.keeper.listens_now(22, [JOB])
    assert [(each.number, each.state) for each in world.keeper.workers()] == [(2, "busy")]
    assert (world.keeper.busy(), world.keeper.running(world.now)) == ({22: ("n1", 6)}, {22: [JOB]})
    world.keeper.rests(22)
    assert (world.keeper.busy(), world.keeper.workers()[0].state) == ({}, "idle")
    world.keeper.free([7], 22)
    assert ([m.kind for m in world.take(21)], world.take(22)) == (["frees"], [])
    assert [message.kind for message in world.take()] == ["frees"]

"""The children of a Dask worker: as many as it has slots, and which of them are at work."""

from __future__ import annotations

from typing import Any, cast

import pytest

from workbench.core.snapshot import WorkerRecord
from workbench.engines.dask import slots
from workbench.engines.dask.channel import HeadDone, RunHead
from workbench.engines.dask.cluster_parts import parts_of
from workbench.engines.dask.slots import SlotChild, Slots


class Child:
    """A process that is there at once, and does nothing."""

    def __init__(self, number: int, security: bytes = b"", variables: Any = ()) -> None:
        self.number = number
        self.task = 0
        self.killed = self.is_lent = self.is_closed = False

    def wait_ready(self) -> None:
        pass

    def seen(self, tasks: list[int], actor: int = 0) -> slots.ChildSeen:
        return self.number, 1000 + self.number, tasks, self.is_lent, actor, 0

    def run(self, message: RunHead, fds: Any, heard: Any) -> tuple[HeadDone, list[int]]:
        self.task = message.task
        heard("runs", [])
        self.task = 0
        return HeadDone(message.task, b"", []), []

    def kill(self) -> None:
        self.killed = True

    def close(self, grace: float = 0.0) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "SlotChild", Child)


def message(task: int) -> RunHead:
    return RunHead(task, b"", "s", "tcp://x", [], [])


def test_no_more_children_stay_than_there_are_slots() -> None:
    """While tasks wait for others there are more."""
    found = Slots(2)
    leased = [found.lease() for _ in range(5)]
    for child in leased:
        found.release(child)
    assert len(found._idle) == 2
    assert sum(cast(Any, child).is_closed for child in leased) == 3
    again = [found.lease() for _ in range(3)]
    assert len({child.number for child in again}) == 3
    found.release(again[0], alive=False)  # and another one takes its place
    assert len({found.lease().number for _ in range(2)} | {c.number for c in again[1:]}) == 4
    found.close()


def test_what_waits_for_others_does_not_run() -> None:
    found = Slots(2)
    seen = list[int]()

    def heard(child: SlotChild, said: Any, fds: list[int]) -> None:
        seen.append(found.running())
        child.is_lent = True
        seen.append(found.running())

    found.run(message(7), [], heard)
    assert seen == [1, 0]
    assert found.running() == 0
    found.close()


def test_a_worker_tells_of_all_slots_also_of_those_to_which_no_task_came() -> None:
    found = Slots(3)
    found._maker.submit(int).result()  # all are started
    assert sorted(found.processes()) == [(n, 1000 + n, [], False, 0, 0) for n in (1, 2, 3)]
    child = found.lease()
    child.task = 7
    told = {number: tasks for number, _, tasks, *_ in found.processes()}
    assert told == {1: [], 2: [], 3: []} | {child.number: [7]}
    found.close()


def test_workers_are_processes_that_run_tasks_as_on_one_machine() -> None:
    told = parts_of({
        "workers": [
            {"machine": "a", "number": 1, "threads": 2, "host": "x", "limit": 9, "memory": 4,
             "processes": [[2, 22, [], False, 0, 5], [1, 21, [70], True, 0, 6],
                           [3, 23, [71, 72], False, 8, 7]]},
            {"machine": "b", "number": 4, "threads": 2, "host": "y", "limit": 9, "memory": 4,
             "processes": []},
        ],
        "names": [[70, "fit"], [71, "add"]], "running": None, "queued": None,
    })  # fmt: skip
    assert told.workers == (
        WorkerRecord(1, 21, "blocked", ("fit",), memory=6, host="a"),
        WorkerRecord(2, 22, "idle", (), memory=5, host="a"),
        WorkerRecord(3, 23, "busy", ("add",), actor=8, memory=7, host="a"),
        WorkerRecord(4, 0, "silent", (), host="b"),  # its worker doesn't answer
        WorkerRecord(5, 0, "silent", (), host="b"),
    )

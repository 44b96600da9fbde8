"""Tasks that wait at a worker of Dask's while another has room are moved, whoever asked first."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from workbench.engines.dask.placement import Placement


class Worker:
    nthreads = 1

    def __init__(self, address: str) -> None:
        self.address = address
        self.processing: dict[Task, float] = {}
        self.long_running: set[Task] = set()


class Task:
    worker_restrictions = host_restrictions = resource_restrictions = loose_restrictions = None

    def __init__(self, id: int) -> None:
        self.key = f"cell-{0:012x}{id:016x}"
        self.processing_on: Worker | None = None


class Scheduler:
    """Dask's, with two workers, as far as placement looks at it."""

    def __init__(self) -> None:
        self.busy, self.free = self.running = [Worker("busy"), Worker("free")]
        self.tasks: dict[str, Task] = {}
        self.moved: list[tuple[Task, Worker, Worker]] = []
        self.stealing = SimpleNamespace(
            in_flight=set(), in_flight_tasks=dict.fromkeys(self.running, 0),
            move_task_request=lambda *what: self.moved.append(what),
        )  # fmt: skip
        self.extensions = {"stealing": self.stealing}
        self.loop = self
        self.due: list[Callable[[], None]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append(call)

    def turn(self) -> None:
        due, self.due = self.due, []
        for call in due:
            call()

    def put(self, task: Task, worker: Worker) -> None:
        """As Dask's own stealing does: no transition tells of it."""
        if task.processing_on is not None:
            del task.processing_on.processing[task]
        task.processing_on, worker.processing[task] = worker, 0.0
        self.tasks[task.key] = task


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler()


def test_a_task_that_dask_asks_for_in_vain_is_asked_for_again(scheduler: Scheduler) -> None:
    runs, waits = Task(1), Task(2)
    for task in (runs, waits):
        scheduler.put(task, scheduler.busy)
    scheduler.stealing.in_flight.add(waits)
    Placement(scheduler).changed()
    scheduler.turn()
    assert not scheduler.moved
    scheduler.stealing.in_flight.clear()  # the worker has refused
    scheduler.turn()
    assert scheduler.moved == [(waits, scheduler.busy, scheduler.free)]


def test_who_refuses_one_task_is_asked_for_another(scheduler: Scheduler) -> None:
    waits, runs = Task(1), Task(2)
    for task in (waits, runs):
        scheduler.put(task, scheduler.busy)
    Placement(scheduler).changed()
    scheduler.turn()
    scheduler.turn()
    assert [task for task, *_ in scheduler.moved] == [runs, waits]


def test_what_dask_moves_by_itself_is_looked_at_too(scheduler: Scheduler) -> None:
    one, other = Task(1), Task(2)
    scheduler.put(one, scheduler.busy)
    scheduler.put(other, scheduler.free)
    scheduler.put(Task(3), scheduler.free)
    scheduler.stealing.in_flight.add(one)
    scheduler.stealing.in_flight_tasks |= {scheduler.busy: 0, scheduler.free: 0}
    Placement(scheduler).changed()
    scheduler.turn()  # nobody has room
    assert not scheduler.moved
    scheduler.stealing.in_flight.clear()
    scheduler.put(one, scheduler.free)
    scheduler.turn()
    assert [thief for *_, thief in scheduler.moved] == [scheduler.busy]


def test_a_task_that_has_come_back_is_asked_for_again(scheduler: Scheduler) -> None:
    runs, waits = Task(1), Task(2)
    for task in (runs, waits):
        scheduler.put(task, scheduler.busy)
    placement = Placement(scheduler)
    placement.changed()
    scheduler.turn()
    scheduler.put(waits, scheduler.free)
    scheduler.turn()
    scheduler.put(waits, scheduler.busy)
    placement.changed()
    scheduler.turn()
    assert [task for task, *_ in scheduler.moved] == [waits, waits]


def test_nobody_looks_while_no_task_waits(scheduler: Scheduler) -> None:
    scheduler.put(Task(1), scheduler.busy)
    Placement(scheduler).changed()
    scheduler.turn()
    assert not scheduler.due

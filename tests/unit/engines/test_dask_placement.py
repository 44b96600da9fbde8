"""Tasks that wait at a worker of Dask's while another has room are moved, whoever asked first."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from workbench.engines.dask.placement import Placement


class Worker:
    def __init__(self, address: str, *tasks: Any) -> None:
        self.address = address
        self.nthreads = 1
        self.processing = dict.fromkeys(tasks, 0.0)
        self.long_running: set[Any] = set()


class Task:
    worker_restrictions = host_restrictions = resource_restrictions = loose_restrictions = None

    def __init__(self, id: int) -> None:
        self.key = f"cell-{0:012x}{id:016x}"


class Loop:
    """Calls later, when it is told to."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append(call)

    def turn(self) -> None:
        due, self.due = self.due, []
        for call in due:
            call()


def test_a_task_that_dask_asks_for_in_vain_is_asked_for_again() -> None:
    runs, waits = Task(1), Task(2)
    busy, free = Worker("busy", runs, waits), Worker("free")
    moved: list[tuple[Any, ...]] = []
    stealing = SimpleNamespace(
        in_flight={waits}, in_flight_tasks={busy: 0, free: 0},
        move_task_request=lambda *what: moved.append(what),
    )  # fmt: skip
    loop = Loop()
    scheduler = SimpleNamespace(loop=loop, running=[busy, free], extensions={"stealing": stealing})
    placement = Placement(scheduler)
    placement.changed()
    loop.turn()
    assert not moved
    stealing.in_flight.clear()  # the worker has refused
    loop.turn()
    assert moved == [(waits, busy, free)]

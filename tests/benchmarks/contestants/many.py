"""Workbench with very many objects or tasks: what the server needs for each, and what one more, or
something else, takes then."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import tasks
from pools import WORKERS, Effort, Sample, times

import workbench
from contestants.memory import session
from tests.kernel.gates import Gate

OBJECTS = {"small": (1_000_000, 1), "shared": (100_000, bytes(20_000))}
"""How many make a crowd, and of what: inline ones, and such that just lie in a segment."""

TASKS = 100_000


def measure(rows: Collection[str], effort: Effort) -> Sample:
    measures = {"crowd": _crowd, "waiting": _waiting, "queued": _queued}
    return {name: value for row in rows for name, value in measures[row](effort).items()}


def _server() -> psutil.Process:
    (server,) = (p for p in psutil.Process().children() if "workbench.server" in p.cmdline())
    return server


def _crowd(effort: Effort) -> Sample:
    """What the server needs for each of very many objects, and what one put more takes then."""
    sample: Sample = {}
    for name, (most, value) in OBJECTS.items():
        count = most // effort.divisor

        put = partial(workbench.put, value)
        with session("4GB"):
            held = [put() for _ in range(1000)]
            workbench.wait(held[-1:], timeout=0)
            sample |= times(effort, 50, **{f"put_alone_{name}": put})
            before = _server().memory_full_info().uss
            held += [put() for _ in range(count)]
            workbench.wait(held[:1], timeout=0)  # it has taken in all of them
            sample[f"per_object_{name}"] = (_server().memory_full_info().uss - before) / count
            sample |= times(effort, 50, **{f"put_crowded_{name}": put})
            del held
    return sample


def _waiting(effort: Effort) -> Sample:
    """An empty task, alone and while others wait for one that isn't over. One worker is free."""
    empty, take = workbench.remote(tasks.empty), workbench.remote(tasks.take)

    def call() -> None:
        workbench.get(empty.remote())

    with _gated() as (gate, path):
        last = workbench.remote(tasks.pass_gate).remote(path)
        alone = times(effort, 20, task_alone=call)
        crowd = [take.remote(last) for _ in range(TASKS // effort.divisor)]
        call()
        crowded = times(effort, 20, task_crowded=call)
        gate.open()
        workbench.get(crowd)
    return alone | crowded


def _queued(effort: Effort) -> Sample:
    """What else one does, before and while tasks are queued; what these take. No worker is free."""
    sample: Sample = {}
    count = TASKS // effort.divisor
    empty, passes = workbench.remote(tasks.empty), workbench.remote(tasks.pass_gate)
    submitted = []
    with _gated() as (gate, path):
        actor = workbench.remote(tasks.Actor).remote()
        workbench.get(actor.empty.remote())
        last = [passes.remote(path) for _ in range(WORKERS)][-1]
        actions: dict[str, Callable[[], object]] = {
            "submit": lambda: submitted.append(empty.remote()),
            "call": lambda: workbench.get(actor.empty.remote()),
            "ask": lambda: workbench.wait([last], timeout=0),
        }
        for figure, action in actions.items():
            sample |= times(effort, 20, **{f"{figure}_alone": action})
        before = _server().memory_full_info().pss
        submitted += [empty.remote() for _ in range(count)]
        actions["call"]()
        sample["per_task_server"] = (_server().memory_full_info().pss - before) / count
        for figure, action in actions.items():
            sample |= times(effort, 20, **{f"{figure}_crowded": action})
        gate.open(WORKERS)
        workbench.get(submitted)
    return sample


@contextmanager
def _gated() -> Iterator[tuple[Gate, str]]:
    """A session whose workers have begun, and a gate for tasks, with its path."""
    with session("1GB", WORKERS), tempfile.TemporaryDirectory(prefix="gate-") as directory:
        workbench.get([workbench.remote(tasks.empty).remote() for _ in range(200)])
        path = Path(directory, "gate")
        gate = Gate(path)
        try:
            yield gate, str(path)
        finally:
            gate.close()

"""Large values stay with each of Dask's workers that has them, as long as it has room."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

active_memory_manager = pytest.importorskip("distributed.active_memory_manager")

from workbench.engines.dask import replicas  # noqa: E402
from workbench.engines.dask.node_store import LARGE  # noqa: E402
from workbench.engines.dask.topics import key_of  # noqa: E402

OURS = key_of("session", "put", 1)


class Manager:
    """Dask's, with its own policy and one value that two workers have."""

    def __init__(self, key: str, nbytes: int, *used: float, limit: int = 100) -> None:
        self.pending: dict[Any, Any] = {}
        self.policies: set[Any] = set()
        self.task = Task(key, nbytes, {Worker(limit) for _ in used})
        self.workers_memory = dict(zip(self.task.who_has, used, strict=True))
        self.scheduler = SimpleNamespace(replicated_tasks={self.task}, extensions={"amm": self})
        self.add_policy(active_memory_manager.ReduceReplicas())

    def add_policy(self, policy: Any) -> None:
        self.policies.add(policy)
        policy.manager = self

    def dropped(self) -> list[float]:
        """What the workers use that one of is to drop it; each counts if that is Dask's choice."""
        (policy,) = self.policies
        found: set[Any] = set()
        for operation, _, candidates in policy.run():
            assert operation == "drop"
            found |= self.task.who_has if candidates is None else candidates
        return sorted(self.workers_memory[worker] for worker in found)


class Worker:
    def __init__(self, memory_limit: int) -> None:
        self.memory_limit = memory_limit


class Task:
    waiters: set[Any] | None = None

    def __init__(self, key: str, nbytes: int, who_has: set[Worker]) -> None:
        self.key, self.nbytes, self.who_has = key, nbytes, who_has


def test_what_is_large_and_ours_stays_where_there_is_room() -> None:
    manager = Manager(OURS, LARGE, 10, 20)
    assert manager.dropped() == [10, 20]
    replicas.keep(manager.scheduler)
    replicas.keep(manager.scheduler)
    assert manager.dropped() == []
    replicas.let_go(manager.scheduler)
    assert manager.dropped() == [10, 20]


@pytest.mark.parametrize(
    ("key", "nbytes", "limit", "dropped"),
    [
        (OURS, LARGE, 100, [60]),  # one of them has little room
        (OURS, LARGE, 0, [10, 60]),  # nobody knows how much there is
        (OURS, LARGE - 1, 100, [10, 60]),
        ("theirs", LARGE, 100, [10, 60]),
    ],
)
def test_all_else_is_dropped_as_dask_does(
    key: str, nbytes: int, limit: int, dropped: list[float]
) -> None:
    manager = Manager(key, nbytes, 10, 60, limit=limit)
    replicas.keep(manager.scheduler)
    assert manager.dropped() == dropped


def test_where_dask_reduces_nothing_nothing_changes() -> None:
    replicas.keep(SimpleNamespace(extensions={}))

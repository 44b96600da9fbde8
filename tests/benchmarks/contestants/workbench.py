"""Workbench, through its public functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from pools import WORKERS, Pool

import workbench


class Workbench(Pool):
    """Functions are made remote once, as a notebook would."""

    def __init__(self) -> None:
        self._remote = cache(workbench.remote)

    def start(self) -> None:
        workbench.init(workers=WORKERS)

    def stop(self) -> None:
        workbench.shutdown()

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._remote(function).remote(*args)

    def gather(self, refs: Sequence[Any]) -> list[Any]:
        values: list[Any] = workbench.get(refs)
        return values

    def wait(self, refs: list[Any]) -> tuple[list[Any], list[Any]]:
        return workbench.wait(refs)

    def actor(self, cls: type) -> Any:
        actor = self._remote(cls).remote()
        workbench.get(actor.empty.remote())
        return actor

    def tell(self, actor: Any) -> Any:
        return actor.empty.remote()

    def tell_from_tasks(self, actors: Sequence[Any], count: int) -> None:
        remote = self._remote(_tell)
        workbench.get([remote.remote(actor, count) for actor in actors])

    def put(self, value: Any) -> Any:
        return workbench.put(value)

    def get(self, ref: Any) -> Any:
        return workbench.get(ref)


def _tell(actor: Any, count: int) -> None:
    workbench.get([actor.empty.remote() for _ in range(count)])

"""Workbench, through its public functions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any

from measures import WORKERS, Effort, Pool, Sample, measure_pool

import workbench


class Workbench(Pool):
    """Functions are made remote once, as a notebook would."""

    def __init__(self) -> None:
        self._remote = cache(workbench.remote)

    def start(self) -> None:
        workbench.init(workers=WORKERS)

    def stop(self) -> None:
        workbench.shutdown()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return workbench.get(self._remote(function).remote(*args))

    def burst(self, function: Callable[[], Any], count: int) -> None:
        remote = self._remote(function)
        workbench.get([remote.remote() for _ in range(count)])

    def put(self, value: Any) -> Any:
        return workbench.put(value)

    def get(self, ref: Any) -> Any:
        return workbench.get(ref)


def measure(rows: Collection[str], effort: Effort) -> Sample:
    """See the package."""
    return measure_pool(Workbench(), rows, effort)

"""Ray on one machine, without its dashboard."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import ray
from measures import WORKERS, Effort, Pool, Sample, measure_pool


class Ray(Pool):
    """Functions are made remote once."""

    def __init__(self) -> None:
        self._remote = cache(ray.remote)

    def start(self) -> None:
        ray.init(num_cpus=WORKERS, include_dashboard=False, logging_level=logging.ERROR)

    def stop(self) -> None:
        ray.shutdown()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return ray.get(self._remote(function).remote(*args))

    def burst(self, function: Callable[[], Any], count: int) -> None:
        remote = self._remote(function)
        ray.get([remote.remote() for _ in range(count)])

    def put(self, value: Any) -> Any:
        return ray.put(value)

    def get(self, ref: Any) -> Any:
        return ray.get(ref)


def measure(rows: Collection[str], effort: Effort) -> Sample:
    """See the package."""
    return measure_pool(Ray(), rows, effort)

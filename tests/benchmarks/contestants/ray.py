"""Ray on one machine, without its dashboard."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import ray
from pools import WORKERS, Pool


class Ray(Pool):
    """Functions are made remote once."""

    def __init__(self) -> None:
        self._remote = cache(ray.remote)

    def start(self) -> None:
        ray.init(num_cpus=WORKERS, include_dashboard=False, logging_level=logging.ERROR)

    def stop(self) -> None:
        ray.shutdown()

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._remote(function).remote(*args)

    def gather(self, refs: Sequence[Any]) -> list[Any]:
        values: list[Any] = ray.get(list(refs))
        return values

    def wait(self, refs: list[Any]) -> tuple[list[Any], list[Any]]:
        return ray.wait(refs)

    def actor(self, cls: type) -> Any:
        actor = self._remote(cls).remote()
        ray.get(actor.empty.remote())
        return actor

    def tell(self, actor: Any) -> Any:
        return actor.empty.remote()

    def tell_from_tasks(self, actors: Sequence[Any], count: int) -> None:
        # Actors take no processor from tasks here, either.
        remote = self._remote(_tell)
        ray.get([remote.remote(actor, count) for actor in actors])

    def put(self, value: Any) -> Any:
        return ray.put(value)

    def get(self, ref: Any) -> Any:
        return ray.get(ref)


def _tell(actor: Any, count: int) -> None:
    ray.get([actor.empty.remote() for _ in range(count)])

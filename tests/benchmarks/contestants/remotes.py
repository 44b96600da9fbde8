"""What has Ray's functions: Ray itself, and Workbench. Functions are made remote once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from pools import WORKERS, Pool


class Remotes(Pool):
    """Through a module's public functions. Its actors take no processor from tasks."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._api: Any = import_module(module)
        self._remote = cache(self._api.remote)

    def stop(self) -> None:
        self._api.shutdown()

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._remote(function).remote(*args)

    def gather(self, refs: Sequence[Any]) -> list[Any]:
        values: list[Any] = self._api.get(list(refs))
        return values

    def wait(self, refs: list[Any]) -> tuple[list[Any], list[Any]]:
        ready: tuple[list[Any], list[Any]] = self._api.wait(refs)
        return ready

    def actor(self, cls: type) -> Any:
        actor = self._remote(cls).remote()
        self._api.get(actor.empty.remote())
        return actor

    def tell(self, actor: Any) -> Any:
        return actor.empty.remote()

    def tell_from_tasks(self, actors: Sequence[Any], count: int) -> None:
        remote = self._remote(_tell)
        self._api.get([remote.remote(self._module, actor, count) for actor in actors])

    def put(self, value: Any) -> Any:
        return self._api.put(value)

    def get(self, ref: Any) -> Any:
        return self._api.get(ref)


class Ray(Remotes):
    """On one machine, without its dashboard."""

    def __init__(self) -> None:
        super().__init__("ray")

    def start(self) -> None:
        self._api.init(num_cpus=WORKERS, include_dashboard=False, logging_level=logging.ERROR)


class Workbench(Remotes):
    def __init__(self) -> None:
        super().__init__("workbench")

    def start(self) -> None:
        self._api.init(workers=WORKERS)


def _tell(module: str, actor: Any, count: int) -> None:
    import_module(module).get([actor.empty.remote() for _ in range(count)])

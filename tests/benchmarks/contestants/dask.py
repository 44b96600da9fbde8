"""Dask's distributed scheduler: a local cluster of processes with one thread each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from distributed import Client, LocalCluster
from pools import WORKERS, Pool


class Dask(Pool):
    """``pure=False``: a call with equal arguments is a new task, as everywhere else."""

    at_once = 5_000

    def start(self) -> None:
        self._cluster = LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.ERROR,
        )
        self._client = Client(self._cluster)

    def stop(self) -> None:
        self._client.close()
        self._cluster.close()

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._client.submit(function, *args, pure=False)

    def gather(self, refs: Sequence[Any]) -> list[Any]:
        values: list[Any] = self._client.gather(list(refs))
        return values

    def actor(self, cls: type) -> Any:
        actor = self._client.submit(cls, actor=True, pure=False).result()
        actor.empty().result()
        return actor

    def tell(self, actor: Any) -> Any:
        return actor.empty()

    def told(self, results: Sequence[Any]) -> list[Any]:
        return [result.result() for result in results]

    def put(self, value: Any) -> Any:
        return self._client.scatter([value], hash=False)[0]  # a dict would be many objects

    def get(self, ref: Any) -> Any:
        return ref.result()

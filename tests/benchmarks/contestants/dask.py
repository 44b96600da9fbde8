"""Dask's distributed scheduler: a local cluster of processes with one thread each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any

from distributed import Client, LocalCluster
from measures import WORKERS, Effort, Pool, Sample, measure_pool


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

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._client.submit(function, *args, pure=False).result()

    def burst(self, function: Callable[[], Any], count: int) -> None:
        submit = self._client.submit
        self._client.gather([submit(function, pure=False) for _ in range(count)])

    def put(self, value: Any) -> Any:
        return self._client.scatter([value], hash=False)[0]  # a dict would be many objects

    def get(self, ref: Any) -> Any:
        return ref.result()


def measure(rows: Collection[str], effort: Effort) -> Sample:
    """See the package."""
    return measure_pool(Dask(), rows, effort)

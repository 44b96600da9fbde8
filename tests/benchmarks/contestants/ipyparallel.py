"""ipyparallel: a controller and engines on this machine, through a load-balanced view."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import ipyparallel
from pools import WORKERS, Pool


class IPyParallel(Pool):
    """It has no store: objects are pushed to engines by name."""

    at_once = 2_000

    def start(self) -> None:
        self._cluster = ipyparallel.Cluster(n=WORKERS, log_level=logging.ERROR)
        self._client = self._cluster.start_and_connect_sync(activate=False)
        self._view = self._client.load_balanced_view()

    def stop(self) -> None:
        self._client.close()
        self._cluster.stop_cluster_sync()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._view.apply_sync(function, *args)

    def burst(self, function: Callable[[], Any], count: int) -> None:
        for result in [self._view.apply_async(function) for _ in range(count)]:
            result.get()

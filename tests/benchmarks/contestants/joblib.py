"""joblib with its default backend. It has no single tasks: a call is a batch of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joblib
from pools import WORKERS, Pool


class Joblib(Pool):
    """One ``Parallel`` kept open, so that the workers are reused."""

    def start(self) -> None:
        self._parallel = joblib.Parallel(n_jobs=WORKERS)
        self._parallel.__enter__()

    def stop(self) -> None:
        self._parallel.__exit__(None, None, None)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._parallel([joblib.delayed(function)(*args)])[0]

    def burst(self, function: Callable[[], Any], count: int) -> None:
        self._parallel(joblib.delayed(function)() for _ in range(count))

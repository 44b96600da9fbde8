"""What follows concurrent.futures: no store, so arguments and results travel by pickle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from typing import Any

from pools import WORKERS, Pool


class ExecutorPool(Pool):
    """Any executor that takes ``max_workers``."""

    def __init__(self, make: Callable[..., Executor]) -> None:
        self._make = make

    def start(self) -> None:
        self._executor = self._make(max_workers=WORKERS)

    def stop(self) -> None:
        self._executor.shutdown()

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._executor.submit(function, *args)

    def get(self, ref: Any) -> Any:
        return ref.result()

    def gather(self, refs: Sequence[Any]) -> list[Any]:
        return [future.result() for future in refs]


def loky() -> Pool:
    import loky

    return ExecutorPool(loky.get_reusable_executor)


processpool = partial(ExecutorPool, ProcessPoolExecutor)

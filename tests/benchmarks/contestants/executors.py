"""What follows concurrent.futures: no store, so arguments and results travel by pickle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, wait
from typing import Any

from pools import WORKERS, NotOffered, Pool


class ExecutorPool(Pool):
    """Any executor that takes ``max_workers``."""

    def __init__(self, make: Callable[..., Executor]) -> None:
        self._make = make

    def start(self) -> None:
        self._executor = self._make(max_workers=WORKERS)

    def stop(self) -> None:
        self._executor.shutdown()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._executor.submit(function, *args).result()

    def burst(self, function: Callable[[], Any], count: int) -> None:
        for future in [self._executor.submit(function) for _ in range(count)]:
            future.result()

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        if any(isinstance(arg, Future) for arg in args):
            raise NotOffered
        return self._executor.submit(function, *args)

    def gather(self, refs: Sequence[Any]) -> list[Any]:
        return [future.result() for future in refs]

    def wait(self, refs: list[Any], count: int) -> tuple[list[Any], list[Any]]:
        if count < len(refs):
            raise NotOffered  # the first, or all
        wait(refs)
        return refs, []

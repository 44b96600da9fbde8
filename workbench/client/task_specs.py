"""A task's ids and requirements as they are sent: the same for our pool and for a cluster."""

from __future__ import annotations

from collections.abc import Callable

from workbench.core.events import TaskSpec
from workbench.options import (
    DYNAMIC,
    STREAMING,
    CallOptions,
    CellOptions,
    ExecutorOptions,
    TaskOptions,
)


def consecutive_ids(next_id: Callable[[], int], count: int) -> list[int]:
    """Return fresh ids for one task's results. Tries again if another thread took one."""
    while True:
        ids = [next_id() for _ in range(count)]
        if ids[-1] - ids[0] == count - 1:
            return ids


def spec_of(options: TaskOptions, cpus: int, namespace: str, retry_on: bytes) -> TaskSpec:
    """Return the spec. ``cpus`` are thousandths; ``retry_on``: pickled exception types."""
    more: tuple[str, tuple[str, ...], int, int, int, int] = "", (), 1, 0, 0, 0
    if isinstance(options, CellOptions):
        more = options.job, options.binds, options.size, options.group, 0, 0
    elif isinstance(options, ExecutorOptions):
        more = "", (), 1, 0, options.executor, options.max_workers
    return TaskSpec(
        cpus,
        options.timeout,
        retry_on,
        options.max_ahead if options.num_returns == STREAMING else 0,
        *more,
        options.runtime_env,
        namespace,
        options.num_returns == DYNAMIC,
        options.concurrency_group if isinstance(options, CallOptions) else "",
        options.max_calls,
    )

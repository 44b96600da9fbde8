"""The standard library's ProcessPoolExecutor."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ProcessPoolExecutor

from measures import measure_pool
from pools import Effort, Sample

from contestants.executors import ExecutorPool


def measure(rows: Collection[str], effort: Effort) -> Sample:
    """See the package."""
    return measure_pool(ExecutorPool(ProcessPoolExecutor), rows, effort)

"""loky's reusable executor."""

from __future__ import annotations

from collections.abc import Collection

import loky
from measures import measure_pool
from pools import Effort, Sample

from contestants.executors import ExecutorPool


def measure(rows: Collection[str], effort: Effort) -> Sample:
    """See the package."""
    return measure_pool(ExecutorPool(loky.get_reusable_executor), rows, effort)

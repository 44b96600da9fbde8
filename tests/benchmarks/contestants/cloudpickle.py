"""cloudpickle, all in band. Its bytes go nowhere: no process, no store."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import cloudpickle
from measures import measure_store
from pools import Effort, Sample, Store


class Cloudpickle(Store):
    """As anybody calls it."""

    def put(self, value: Any) -> bytes:
        data: bytes = cloudpickle.dumps(value, 5)
        return data

    def get(self, ref: bytes) -> Any:
        return cloudpickle.loads(ref)


def measure(rows: Collection[str], effort: Effort) -> Sample:
    """See the package."""
    return measure_store(Cloudpickle(), rows, effort)

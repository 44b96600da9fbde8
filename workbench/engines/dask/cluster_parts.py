"""What Dask's scheduler tells of its cluster, as a snapshot has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.core.snapshot import WorkerRecord
from workbench.engines.cluster.backend import ClusterParts


def parts_of(seen: Mapping[str, Any]) -> ClusterParts:
    """Of an answer of `scheduler.WorkbenchScheduler.parts`."""
    workers = tuple(
        WorkerRecord(each["number"], each["pid"], "busy" if each["tasks"] else "idle",
                     tuple(each["tasks"]), each["memory"])
        for each in seen["workers"]
    )  # fmt: skip
    limits = [each["limit"] for each in seen["workers"]]
    limited = bool(limits) and all(limits)
    left = [max(each["limit"] - each["memory"], 0) for each in seen["workers"]]
    return ClusterParts(
        workers,
        (),
        sum(limits) if limited else None,
        sum(left) if limited else None,
        seen["queued"],
        seen["running"],
        tuple(dict.fromkeys(each["host"] for each in seen["workers"])),
    )

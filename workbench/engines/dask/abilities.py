"""What Dask can't do for a session, besides what no cluster can."""

from __future__ import annotations

from dataclasses import replace

from workbench.engines.cluster import abilities as cluster

CAN = replace(
    cluster.CAN,
    restarts="`max_restarts` of an actor is ignored. An actor lives in one process at one Dask "
    "worker, and ends with either. Make it again, and keep what must last in the store (`put`) or "
    "in a file.",
    needs="`num_cpus` and `memory` of tasks and actors are ignored. A task has one slot of a Dask "
    "worker, and an actor has none. Start Dask's workers with fewer threads: then fewer tasks run "
    "at a time on each.",
    elsewhere="An actor isn't made again when its Dask worker ends. It ends with it, also when a "
    "cluster becomes smaller. Make it again, and keep what must last in the store (`put`) or in a "
    "file.",
    once="`max_retries=0` doesn't keep a task from running twice. Dask itself runs again what a "
    "Dask worker had, or has made, when that worker dies. Have it see whether its work is done, "
    "or set Dask's `allowed-failures` to 0.",
)

"""Where Dask's scheduler leaves large values of ours that several workers have. On its event loop.

Dask drops such replicas every two seconds, unless a task that waits needs them: the next task there
would have all bytes come again. They stay instead, as long as their worker has room.
"""

from __future__ import annotations

from typing import Any

from distributed.active_memory_manager import ReduceReplicas, Suggestion, SuggestionGenerator

from workbench.engines.dask.node_store import LARGE
from workbench.engines.dask.topics import id_of

ROOM = 0.5
"""Of a worker's memory limit: with more in use replicas are dropped. Dask moves data to disk from
0.6 on."""


class KeptReplicas(ReduceReplicas):  # type: ignore[misc]
    """Dask's own policy, but for what is ours."""

    __slots__ = ()

    def run(self) -> SuggestionGenerator:
        for suggestion in super().run():
            task = suggestion.ts
            if id_of(task.key) is None or task.nbytes < LARGE:
                yield suggestion
            elif crowded := {worker for worker in task.who_has if not self._has_room(worker)}:
                yield Suggestion("drop", task, crowded)

    def _has_room(self, worker: Any) -> bool:
        """Without a limit nobody says how much there is."""
        limit = worker.memory_limit
        return bool(limit) and self.manager.workers_memory[worker] <= ROOM * limit


def keep(scheduler: Any) -> None:
    """From now on, where replicas are reduced at all. Idempotent."""
    _replace(scheduler, ReduceReplicas, KeptReplicas)


def let_go(scheduler: Any) -> None:
    """As it was."""
    _replace(scheduler, KeptReplicas, ReduceReplicas)


def _replace(scheduler: Any, old: type[ReduceReplicas], new: type[ReduceReplicas]) -> None:
    manager = scheduler.extensions.get("amm")
    for policy in list(manager.policies) if manager is not None else ():
        if type(policy) is old:
            manager.policies.discard(policy)
            manager.add_policy(new())

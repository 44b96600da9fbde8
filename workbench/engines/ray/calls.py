"""What Ray runs for us: a function for tasks, and an actor's class."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from workbench.engines.cluster.backend import (
    Launch,
    Native,
    StoredValue,
    TaskEnd,
    decode_head,
    encode,
)
from workbench.engines.cluster.parcels import again


def _host(session: str) -> Any:
    from workbench.engines.ray import worker  # in Ray's worker alone

    return worker.hosting(session, sys.modules[__name__])


def run(head: bytes, inside: Sequence[Native], *deps: StoredValue) -> Any:
    """A task: its end, and its results."""
    known = decode_head(head)
    end, values = _host(known.session).run(known, deps, inside)
    return _returned(known.returns, end, values)


def _returned(owed: int, end: TaskEnd, values: Sequence[StoredValue]) -> Any:
    return (encode(end), *values[:owed]) if owed else encode(end)


def copied(stored: StoredValue) -> StoredValue:
    """The same object, which whoever asks for this owns."""
    return again(stored)


def lives(pid: int) -> bool:
    """True if that process of this node has not ended."""
    return os.path.exists(f"/proc/{pid}")


_run: Any = ray.remote(run)
_lives: Any = ray.remote(lives)
copy: Any = ray.remote(copied).options(num_cpus=0, name="workbench")

OWN = {"env_vars": {"WORKBENCH_WORKER": "1"}}
"""Ray's `runtime_env` of processes that run nothing but our tasks, which take their output and
input. What these submit has it too."""

apart: dict[str, Any] = {}
"""Options of all our tasks: `OWN` where a person's own may run in the same processes. Ray starts
new ones for that, so where nobody else is connected it is empty."""


def submit(launch: Launch) -> list[Native]:
    """Submit a task, or call an actor: the natives of its end and its results."""
    head, wanted = launch.head, 1 + launch.head.returns
    if launch.actor is None:
        options = {"name": head.name, "max_retries": head.retries, **_needs(launch), **apart}
    else:
        options = {"max_task_retries": head.retries}
    called = _run if launch.actor is None else launch.actor.call
    made = called.options(num_returns=wanted, **options).remote(
        encode(head), list(launch.inside), *launch.deps
    )
    return list(made) if wanted > 1 else [made]


def _needs(launch: Launch) -> dict[str, Any]:
    needs = {"num_cpus": launch.cpus}
    return needs | {"memory": launch.memory} if launch.memory else needs


def living(places: Sequence[tuple[str, int]]) -> list[bool]:
    """True if these processes, each on its node, live."""
    found = []
    for node, pid in places:
        at = NodeAffinitySchedulingStrategy(node, soft=False)
        try:
            found.append(ray.get(_lives.options(num_cpus=0, scheduling_strategy=at).remote(pid)))
        except ray.exceptions.RayError:  # its node has gone
            found.append(False)
    return found


class HostedActor:
    """An actor: its calls run one at a time."""

    def __init__(
        self, head: bytes, described: StoredValue, inside: Sequence[Native], *deps: StoredValue
    ) -> None:
        known = decode_head(head)
        self._task = known.task
        self._described = described
        self._host = _host(known.session)
        self._host.is_restarted = ray.get_runtime_context().was_current_actor_reconstructed
        self._end, _ = self._host.run(known, deps, inside)

    def created(self) -> bytes:
        return encode(self._end)

    def described(self) -> tuple[int, StoredValue]:
        """Its id, and the value that a handle of it stands for."""
        return self._task, again(self._described)

    def call(self, head: bytes, inside: Sequence[Native], *deps: StoredValue) -> Any:
        known = decode_head(head)
        end, values = self._host.run(known, deps, inside)
        found = _returned(known.returns, end, values)
        if self._host.leaves:
            ray.actor.exit_actor()
        return found


_actor: Any = ray.remote(HostedActor)


def create(launch: Launch, described: Native, name: str, namespace: str) -> tuple[Any, Native]:
    """Make an actor: its handle, and the native of its making's end."""
    options = {"max_restarts": launch.restarts, **_needs(launch)}
    if launch.restarts:  # calls wait while it is made again; `submit` says how often one is tried
        options["max_task_retries"] = launch.restarts
    if name:
        options |= {"name": name, "namespace": namespace}
    if launch.keep:
        options["lifetime"] = "detached"
    actor = _actor.options(**options).remote(
        encode(launch.head), ray.get(described), list(launch.inside), *launch.deps
    )
    return actor, actor.created.remote()

"""What Ray runs for us: a function for tasks, one for streams, and actors' classes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec
import ray

from workbench.engines.cluster.backend import (
    ActorLaunch,
    Launch,
    Native,
    StoredValue,
    StreamItem,
    TaskEnd,
)
from workbench.engines.cluster.heads import decode
from workbench.engines.cluster.parcels import again, inlined
from workbench.engines.ray.slim import Slim, slim, whole

encode_end = msgspec.msgpack.Encoder().encode


def _host(session: str) -> Any:
    from workbench.engines.ray import worker  # in Ray's worker alone

    return worker.hosting(session, sys.modules[__name__])


def run(head: bytes, inside: Sequence[Native] | None, *deps: Slim) -> Any:
    """A task: its end, and its results."""
    known = decode(head)
    end, values = _host(known.session).run(known, [*map(whole, deps)], inside or ())
    return _returned(known.returns, end, values)


def _returned(owed: int, end: TaskEnd, values: Sequence[StoredValue]) -> Any:
    return (encode_end(end), *map(slim, values[:owed])) if owed else encode_end(end)


def stream(head: bytes, inside: Sequence[Native], *deps: Slim) -> Iterator[Any]:
    """A stream: of each item what it is, and then itself; its end comes last."""
    known = decode(head)
    for item in _host(known.session).stream(known, [*map(whole, deps)], inside):
        if isinstance(item, TaskEnd):
            yield encode_end(item)
        else:
            yield StreamItem(None, item.about, item.failed)
            yield item


def copied(stored: Slim) -> Slim:
    """The same object, which whoever asks for this owns."""
    return slim(again(whole(stored)))


_run: Any = ray.remote(run)
_stream: Any = ray.remote(stream)
copy: Any = ray.remote(copied).options(num_cpus=0, name="workbench")

OWN = {"env_vars": {"WORKBENCH_WORKER": "1"}}
"""Ray's `runtime_env` of processes that run nothing but our tasks, which take their output and
input. What these submit has it too."""

apart: dict[str, Any] = {}
"""Options of all our tasks: `OWN` where a person's own may run in the same processes. Ray starts
new ones for that, so where nobody else is connected it is empty."""

USUAL: dict[int, Any] = {}
"""The function with the usual options, by how many results are wanted."""


def submit(
    head: bytes, deps: Sequence[Native], inside: Sequence[Native], launch: Launch
) -> list[Native]:
    """Submit a task: the natives of its end and its results."""
    wanted = 1 + launch.results
    if launch.cpus == 1 and not launch.memory and launch.retries == 3:
        remote = USUAL.get(wanted)
        if remote is None:
            remote = USUAL[wanted] = _run.options(num_returns=wanted, name="workbench", **apart)
    else:
        remote = _run.options(num_returns=wanted, name=launch.name, **_options(launch))
    made = remote.remote(head, inside or None, *deps)  # None travels fastest
    return list(made) if wanted > 1 else [made]


def submit_stream(
    head: bytes, deps: Sequence[Native], inside: Sequence[Native], launch: Launch
) -> Any:
    """Submit a stream: Ray's generator."""
    ahead = max(2 * launch.ahead - 2, 2)
    return _stream.options(
        num_returns="streaming", name=launch.name, _generator_backpressure_num_objects=ahead,
        **_options(launch),
    ).remote(head, inside, *deps)  # fmt: skip


def _options(launch: Launch) -> dict[str, Any]:
    found: dict[str, Any] = {
        "num_cpus": launch.cpus, "max_retries": launch.retries, **apart
    }  # fmt: skip
    if launch.memory:
        found["memory"] = launch.memory
    return found


class _Made:
    """What both kinds of actors have: how they were made, and what a handle of them stands for."""

    def __init__(
        self, head: bytes, described: StoredValue, inside: Sequence[Native], *deps: Slim
    ) -> None:
        self._head = decode(head)
        self._described = inlined(described)
        self._host = _host(self._head.session)
        self._host.is_restarted = ray.get_runtime_context().was_current_actor_reconstructed
        self._given: Any = [*map(whole, deps)], inside
        self._end: TaskEnd | None = None
        self._failure: tuple[StoredValue, ...] = ()

    def _noted(self, end: TaskEnd, values: tuple[StoredValue, ...]) -> TaskEnd:
        self._end, self._failure, self._given = end, values, None
        return end

    def _failed(self, head: Any) -> Any:
        """A call of an actor that could not be made."""
        end = TaskEnd(
            head.task, "failed", 0.0, 0, (True,) * head.returns, (None,) * head.returns,
            self._host.worker,
        )  # fmt: skip
        return _returned(head.returns, end, self._failure * max(head.returns, 1))

    def _over(self, found: Any) -> Any:
        if self._host.leaves:
            ray.actor.exit_actor()
        return found


class PlainActor(_Made):
    """An actor whose calls run one at a time, or in threads."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._noted(*self._host.run(self._head, *self._given))

    def created(self) -> bytes:
        """How its making ended."""
        return encode_end(self._end)

    def described(self) -> tuple[int, StoredValue]:
        """Its id, and the value that a handle of it stands for."""
        return self._head.task, self._described

    def call(self, head: bytes, inside: Sequence[Native], *deps: Slim) -> Any:
        """One of its methods."""
        known = decode(head)
        if self._failure:
            return self._failed(known)
        end, values = self._host.run(known, [*map(whole, deps)], inside)
        return self._over(_returned(known.returns, end, values))

    def stream(self, head: bytes, inside: Sequence[Native], *deps: Slim) -> Iterator[Any]:
        """One that yields."""
        yield from stream(head, inside, *deps)


class AsyncActor(_Made):
    """An actor whose calls run on its loop."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._making: asyncio.Future[TaskEnd] | None = None

    async def _made(self) -> TaskEnd:
        if self._making is None:
            self._making = asyncio.ensure_future(self._make())
        return await asyncio.shield(self._making)

    async def _make(self) -> TaskEnd:
        return self._noted(*await self._host.run_async(self._head, *self._given))

    async def created(self) -> bytes:
        """How its making ended."""
        return encode_end(await self._made())

    async def described(self) -> tuple[int, StoredValue]:
        """Its id, and the value that a handle of it stands for."""
        return self._head.task, self._described

    async def call(self, head: bytes, inside: Sequence[Native], *deps: Slim) -> Any:
        """One of its methods."""
        known = decode(head)
        await self._made()
        if self._failure:
            return self._failed(known)
        end, values = await self._host.run_async(known, [*map(whole, deps)], inside)
        return self._over(_returned(known.returns, end, values))

    async def stream(
        self, head: bytes, inside: Sequence[Native], *deps: Slim
    ) -> AsyncIterator[Any]:
        """One that yields."""
        known = decode(head)
        await self._made()
        async for item in self._host.stream_async(known, [*map(whole, deps)], inside):
            if isinstance(item, TaskEnd):
                yield encode_end(item)
            else:
                yield StreamItem(None, item.about, item.failed)
                yield item


def create(
    head: bytes, described: Native, deps: Sequence[Native], inside: Sequence[Native],
    launch: ActorLaunch, name: str, namespace: str,
) -> tuple[Any, Native]:  # fmt: skip
    """Make an actor: its handle, and the native of its making's end."""
    cls: Any = ray.remote(AsyncActor if launch.is_async else PlainActor)
    options: dict[str, Any] = {
        "num_cpus": launch.cpus, "max_restarts": launch.restarts,
        "max_concurrency": launch.concurrency,
    }  # fmt: skip
    if launch.restarts:  # calls wait while it is made again; `call` says how often one is tried
        options["max_task_retries"] = launch.restarts
    if launch.memory:
        options["memory"] = launch.memory
    if launch.groups:
        options["concurrency_groups"] = dict(launch.groups)
    if name:
        options |= {"name": name, "namespace": namespace}
    if launch.detached:
        options["lifetime"] = "detached"
    if not launch.in_order:
        options["allow_out_of_order_execution"] = True
    actor = cls.options(**options).remote(head, whole(ray.get(described)), list(inside), *deps)
    return actor, actor.created.remote()


def call(
    actor: Any, head: bytes, deps: Sequence[Native], inside: Sequence[Native], launch: Launch
) -> Any:
    """Call an actor's method: natives as `submit`'s, or Ray's generator."""
    options: dict[str, Any] = {"max_task_retries": launch.retries}
    if launch.group:
        options["concurrency_group"] = launch.group
    if launch.ahead:
        ahead = max(2 * launch.ahead - 2, 2)
        return actor.stream.options(
            num_returns="streaming", _generator_backpressure_num_objects=ahead, **options
        ).remote(head, list(inside), *deps)
    wanted = 1 + launch.results
    made = actor.call.options(num_returns=wanted, **options).remote(head, list(inside), *deps)
    return list(made) if wanted > 1 else [made]

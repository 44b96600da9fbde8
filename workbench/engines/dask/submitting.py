"""Tasks and actors as a process of a session submits them to Dask's scheduler, and stops them."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

from workbench.engines.cluster import heads
from workbench.engines.cluster.backend import ActorLaunch, Launch
from workbench.engines.dask.abilities import CAN
from workbench.engines.dask.calls import HeadCall, encode_call, run_head
from workbench.engines.dask.channel import ActorShape
from workbench.engines.dask.holds import KeyHold, keys_of, refs
from workbench.engines.dask.link import SchedulerLink
from workbench.engines.dask.packed import DaskActor, DaskRef, form_of
from workbench.engines.dask.streams import ItemStream
from workbench.engines.dask.topics import key_of, number_of
from workbench.engines.dask.values import Values
from workbench.errors import ActorDiedError, TaskCancelledError, WorkbenchError

_UNKNOWN: tuple[str, DaskActor | None, int, KeyHold | None] = "", None, 0, None

_GONE = "The actor's Dask worker is gone, and the actor with it."


class Submitting:
    """See the module."""

    def __init__(self, client: Any, link: SchedulerLink, values: Values) -> None:
        self.session = link.session
        self._client = client
        self._link = link
        self._holds = values.holds
        # Of tasks that run: they would not, if nobody held their keys.
        self._keys: dict[int, tuple[str, DaskActor | None, int, KeyHold | None]] = {}
        self._streams: dict[str, ItemStream] = {}
        self._numbers: dict[int, itertools.count[int]] = {}  # of calls, by actor
        self._gone: set[str] = set()  # keys of actors that are gone

    def submit(
        self, head: bytes, deps: Sequence[DaskRef], inside: Sequence[DaskRef], launch: Launch
    ) -> list[DaskRef] | ItemStream:
        if launch.cpus != 1 or launch.memory:
            warnings.warn(CAN.needs, stacklevel=6)
        return self._submitted(head, deps, inside, launch, None)

    def _submitted(
        self, head: bytes, deps: Sequence[DaskRef], inside: Sequence[DaskRef], launch: Launch,
        actor: DaskActor | None, shape: ActorShape | None = None,
    ) -> list[DaskRef] | ItemStream:  # fmt: skip
        key = key_of(self.session, launch.name, launch.task)
        if actor is not None and actor.key in self._gone:
            return self._never(key, launch)
        decoded = heads.decode(head)
        args = list(deps)
        has_function = bool(decoded.function and not decoded.code)
        if has_function:
            args.append(inside[0])
        number = 0
        if actor is not None and shape is None:
            numbers = self._numbers.setdefault(actor.actor, itertools.count(1))
            number = next(numbers)
        call = HeadCall(
            key, self.session, self._link.number, launch.task, launch.name, head,
            [ref.index for ref in args], [form_of(native) for native in inside],
            launch.results, launch.retries, actor.actor if actor else 0, number, shape,
            launch.group, launch.ahead, has_function,
        )  # fmt: skip
        futures = [self._holds.of(ref).future for ref in args]
        hold = self._holds.add(key, None)
        stream = None
        if launch.ahead:
            stream = self._streams[key] = ItemStream(self, key, launch.task)
        where = {} if actor is None else {"workers": [actor.address], "allow_other_workers": False}
        try:
            hold.future = self._client.submit(
                run_head, encode_call(call), *futures, key=key, pure=False,
                retries=launch.retries, **where,
            )  # fmt: skip
        except Exception as error:
            self._skip(actor, number)
            self._streams.pop(key, None)
            raise self._link.failed(error) from error
        self._keys[launch.task] = key, actor, number, hold
        self._holds.on_ready(hold, lambda _: self._forget(launch.task))
        kept = [form_of(native)[0] for native in inside]
        if actor is not None:
            if kept:  # it may keep them for good
                self._link.send("contains", key=actor.described, inside=kept)
            kept.append(actor.described)
        if kept:
            self._link.send("contains", key=key, inside=kept)
        if stream is not None:
            stream.hold = hold
            return stream
        return refs(hold, launch.results)

    def _forget(self, task: int) -> None:
        self._keys.pop(task, None)

    def _never(self, key: str, launch: Launch) -> list[DaskRef]:
        """A call of an actor that is gone."""
        hold = self._holds.add(key, None)
        self._holds.settle(hold, ActorDiedError(_GONE))
        return refs(hold, launch.results)

    def forget(self, task: int) -> None:
        """It forgets by itself."""

    def withdraw(self, task: int) -> bool:
        key, actor, number, _ = self._keys.get(task, _UNKNOWN)
        if not key:
            return False
        self._link.flush()
        if not self._link.asked("withdraw", key=key):
            return False
        self._skip(actor, number)
        self._holds.failed(key, TaskCancelledError("The task was withdrawn."))
        return True

    def has_begun(self, task: int) -> bool:
        key = self._keys.get(task, _UNKNOWN)[0]
        if not key:
            return True
        self._link.flush()
        return bool(self._link.asked("begun", key=key))

    def stop(self, tasks: Sequence[int], force: bool) -> None:
        known = [self._keys.get(task, _UNKNOWN) for task in tasks]
        told = [
            (key, task, *((actor.actor, self._link.number, number) if actor else (0, 0, 0)))
            for (key, actor, number, _), task in zip(known, tasks, strict=True)
        ]
        self._link.send("stop", tasks=told, force=force)

    def _skip(self, actor: DaskActor | None, number: int) -> None:
        if actor is not None and number:
            self._link.send(
                "skip", actor=actor.actor, address=actor.address, submitter=self._link.number,
                number=number,
            )  # fmt: skip

    # -- actors ------------------------------------------------------------------------------------

    def create(
        self, head: bytes, described: DaskRef, deps: Sequence[DaskRef], inside: Sequence[DaskRef],
        launch: ActorLaunch,
    ) -> tuple[DaskActor, DaskRef]:  # fmt: skip
        if launch.cpus or launch.memory:
            warnings.warn(CAN.needs, stacklevel=5)
        if launch.restarts:
            warnings.warn(CAN.elsewhere, stacklevel=5)
        key = key_of(self.session, launch.cls, launch.actor)
        address = self._link.asked(
            "place", session=self.session, actor=launch.actor, name=launch.name, key=key,
            described=described.key, detached=launch.detached,
        )  # fmt: skip
        if not address:
            raise ValueError(f"Another actor is called {launch.name!r}.")
        shape = ActorShape(
            launch.restarts, launch.concurrency, list(launch.groups), launch.is_async,
            launch.in_order,
        )  # fmt: skip
        actor = DaskActor(launch.actor, key, address, described.key)
        made = self._submitted(
            head, deps, inside, Launch(launch.actor, launch.cls, 0), actor, shape
        )
        assert isinstance(made, list)
        return actor, made[0]

    def call(
        self, actor: DaskActor, head: bytes, deps: Sequence[DaskRef], inside: Sequence[DaskRef],
        launch: Launch,
    ) -> list[DaskRef] | ItemStream:  # fmt: skip
        return self._submitted(head, deps, inside, launch, actor)

    def find_actor(self, name: str) -> tuple[int, tuple[DaskActor, DaskRef]] | None:
        for id, taken, key, address, described in self._actors():
            if taken == name:
                return id, (DaskActor(id, key, address, described), DaskRef(described, 1))
        return None

    def actor_names(self) -> list[str]:
        return sorted(each[1] for each in self._actors() if each[1])

    def _actors(self) -> list[Any]:
        found: list[Any] = self._link.asked("actors", session=self.session)
        return found

    def kill_actor(self, actor: DaskActor, restart: bool) -> None:
        self._link.send("kill_actor", actor=actor.actor, restart=restart)

    def free(self, ids: Sequence[int], natives: Sequence[DaskRef]) -> None:
        keys = dict.fromkeys(keys_of(natives))
        for key, actor, number, _ in list(self._keys.values()):
            if key in keys:
                self._skip(actor, number)  # it may never come
        self._link.send("free", keys=list(keys), ids=list(ids), number=self._link.number)

    # -- what is heard of them: the client's event loop --------------------------------------------

    def ended(self, key: str, end: bytes, values: bytes | None) -> None:
        """A task has ended, with these results if they came along."""
        self._holds.ended_with(key, end, values)
        self._stream_ends(key)

    def item(self, key: str, item: str, failed: bool) -> None:
        """A stream has one more."""
        stream = self._streams.get(key)
        if stream is not None:
            stream.came(number_of(item), DaskRef(item, 1), failed)

    def never_ends(self, key: str, error: WorkbenchError) -> None:
        """It won't end by itself any more."""
        self._holds.failed(key, error)
        self._stream_ends(key)

    def lost(self, key: str) -> None:
        """What it gave, or would be made from, is gone."""
        self._holds.lost(key)
        self._stream_ends(key)

    def _stream_ends(self, key: str) -> None:
        stream = self._streams.pop(key, None)
        if stream is not None:
            stream.ended()

    def actor_gone(self, key: str) -> None:
        """With its worker."""
        self._gone.add(key)
        for task_key, actor, _, _ in list(self._keys.values()):
            if actor is not None and actor.key == key:
                self.never_ends(task_key, ActorDiedError(_GONE))
                self._link.send("drop", keys=[task_key])

    def took(self, key: str, task: int, taken: int) -> None:
        """Of a stream so many items were taken; -1: no more are wanted."""
        self._streams.pop(key, None) if taken < 0 else None
        self._link.send("took", key=key, task=task, taken=taken)

    def end(self) -> None:
        """Nothing comes from the scheduler any more."""
        for stream in list(self._streams.values()):
            stream.ended()

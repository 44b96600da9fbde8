"""A session on a Dask cluster: `cluster.backend.Backend` over a client of Dask's."""

from __future__ import annotations

import contextlib
import itertools
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import msgspec

from workbench.engines.cluster import heads
from workbench.engines.cluster.backend import (
    ActorLaunch,
    ClusterParts,
    Launch,
    Message,
    Sink,
    StoredValue,
    TaskEnd,
)
from workbench.engines.dask.abilities import CAN
from workbench.engines.dask.calls import HeadCall, encode_call, run_head
from workbench.engines.dask.channel import ActorShape
from workbench.engines.dask.cluster_parts import parts_of
from workbench.engines.dask.holds import Holds, KeyHold, keys_of, lost, refs
from workbench.engines.dask.link import SchedulerLink
from workbench.engines.dask.node_store import this_process
from workbench.engines.dask.packed import Bundle, DaskActor, DaskRef, form_of, pack
from workbench.engines.dask.reading import RemoteReader
from workbench.engines.dask.streams import ItemStream
from workbench.engines.dask.topics import PUT, key_of, topic
from workbench.errors import (
    ActorDiedError,
    SessionError,
    TaskCancelledError,
    WorkbenchError,
    WorkerCrashedError,
)

_UNKNOWN: tuple[str, DaskActor | None, int, KeyHold | None] = "", None, 0, None

_decode_batch = msgspec.msgpack.Decoder(list[Message]).decode
_decode_end = msgspec.msgpack.Decoder(TaskEnd).decode


class DaskBackend:
    """See the module. ``client`` is a distributed.Client that isn't an event loop's.

    ``lends`` lends the slot of the task that this process runs; None in a driver.
    ``close_client``: it is ours to close.
    """

    engine = "dask"
    process = ""  # Dask says itself who has gone
    can = CAN

    def __init__(
        self,
        client: Any,
        session: str,
        joined: bool,
        lends: Callable[[], AbstractContextManager[None]] | None = None,
        close_client: bool = False,
    ) -> None:
        self.session = session
        self.joined = joined
        self.blocks = lends is not None
        self._lends = lends
        self._client = client
        self._link = SchedulerLink(client, session, lambda: self.ended)
        self.ask, self.tell, self.explain = self._link.ask, self._link.tell, self._link.explain
        self._close_client = close_client
        self.address: str = client.scheduler.address
        self._audience = 0
        self._sink: Sink = lambda messages: None
        self._holds = Holds(self._future_of)
        self._reader = RemoteReader(client)
        # Of tasks that run: they would not, if nobody held their keys.
        self._keys: dict[int, tuple[str, DaskActor | None, int, KeyHold | None]] = {}
        self._streams: dict[str, ItemStream] = {}
        self._numbers: dict[int, itertools.count[int]] = {}  # of calls, by actor
        self._gone: set[str] = set()  # keys of actors that are gone
        store = this_process()
        nodes = self._link.open(0)
        self._near = [address for address, node in nodes.items() if node == store.node]
        """Workers that share memory with this process."""
        if self._near:
            store.lends = True
        client.subscribe_topic(topic(session, self._link.number), self._heard)
        # Dask cancels what its client waits for once that has lost the scheduler, or is closed.
        self._connected = self._link.future_of(key_of(session, "connected", secrets.randbits(64)))
        self._connected.add_done_callback(lambda _: self._lost())

    @property
    def workers(self) -> int:
        return sum(self._client.nthreads().values()) if self.ended is None else 0

    # -- objects -----------------------------------------------------------------------------------

    def put(self, value: StoredValue, keep: bool) -> DaskRef:
        packed, fd = pack(value)
        key = key_of(self.session, PUT, secrets.randbits(64))
        bundle = Bundle.of(key, b"", [packed], [fd] if fd >= 0 else [])
        near = [a for a in self._near if a in self._client.scheduler_info()["workers"]] or None
        try:
            future = self._client.scatter({key: bundle}, hash=False, workers=near)[key]
        except Exception as error:
            raise self._link.failed(error) from error
        hold = self._holds.add(key, future)
        self._holds.settle(hold)
        if value.natives:
            self.contains(key, value.natives)
        return DaskRef(key, 1, hold)

    def contains(self, key: str, natives: Sequence[Any]) -> None:
        """The value of that key refers to these: they live as long as it."""
        self._link.send("contains", key=key, inside=[form_of(native)[0] for native in natives])

    def get(self, natives: Sequence[DaskRef], timeout: float | None) -> list[StoredValue]:
        holds = [self._holds.of(native) for native in natives]
        if not all(hold.is_ready for hold in holds):
            with self.lending():
                in_time = self._holds.wait(holds, len(holds), timeout)
            if not in_time:
                raise TimeoutError
        self._bring(holds)
        found = []
        for native, hold in zip(natives, holds, strict=True):
            if hold.error is not None:
                raise hold.error
            assert hold.bundle is not None
            found.append(self._stored(hold.bundle, native.index - 1))
        self._hold_inner(found)
        return found

    def _hold_inner(self, values: Sequence[StoredValue]) -> None:
        """Hold what these refer to, before they are let go."""
        for value in values:
            for native in value.natives:
                self._holds.of(native[1] if type(native) is tuple else native)

    def _bring(self, holds: Sequence[KeyHold]) -> None:
        """Have the bundles of these here."""
        absent = {hold.key: hold for hold in holds if hold.bundle is None and not hold.error}
        if not absent:
            return
        try:
            bundles = self._client.gather([hold.future for hold in absent.values()])
        except Exception as error:
            if len(absent) > 1:  # of which one, it doesn't say
                for hold in absent.values():
                    self._bring([hold])
                return
            (hold,) = absent.values()
            gone = getattr(hold.future, "status", "") in ("cancelled", "lost")
            hold.error = lost(hold.key) if gone and self.ended is None else self._link.failed(error)
            return
        for hold, bundle in zip(absent.values(), bundles, strict=True):
            hold.bundle = bundle

    def _stored(self, bundle: Bundle, index: int) -> StoredValue:
        if not bundle.values[index].lengths:
            return bundle.stored(index)
        if not bundle.has(index):
            self._reader.bring(bundle, index)
        return bundle.stored(index)

    def wait(self, natives: Sequence[DaskRef], enough: int, timeout: float | None) -> None:
        holds = [self._holds.of(native) for native in natives]
        if sum(hold.is_ready for hold in holds) >= enough:
            return
        with self.lending():
            self._holds.wait(holds, enough, timeout)

    def on_ready(self, native: DaskRef, callback: Callable[[BaseException | None], None]) -> None:
        self._holds.on_ready(self._holds.of(native), lambda hold: callback(hold.error))

    def on_done(self, native: DaskRef, callback: Callable[[TaskEnd | BaseException], None]) -> None:
        self._holds.on_ready(self._holds.of(native), lambda hold: self._done(hold, callback))

    def _done(self, hold: KeyHold, callback: Callable[[TaskEnd | BaseException], None]) -> None:
        if hold.end is None and hold.error is None:  # nobody told us: ask, but not in this thread
            self._reader.later(lambda: self._read_end(hold, callback))
        else:
            callback(hold.end or hold.error or WorkerCrashedError("It has no end."))

    def _read_end(self, hold: KeyHold, callback: Callable[[TaskEnd | BaseException], None]) -> None:
        self._bring([hold])
        if hold.bundle is not None and hold.bundle.end:
            hold.end = _decode_end(hold.bundle.end)
        callback(hold.end or hold.error or WorkerCrashedError("It has no end."))

    def outlive(self, natives: Sequence[DaskRef]) -> list[DaskRef]:
        return list(natives)  # the scheduler keeps the keys of what the keeper keeps

    def free(self, ids: Sequence[int], natives: Sequence[DaskRef]) -> None:
        keys = dict.fromkeys(keys_of(natives))
        for key, actor, number, _ in list(self._keys.values()):
            if key in keys:
                self._skip(actor, number)  # it may never come
        self._link.send("drop", keys=list(keys))

    # -- tasks -------------------------------------------------------------------------------------

    def submit(
        self, head: bytes, deps: Sequence[DaskRef], inside: Sequence[DaskRef], launch: Launch
    ) -> list[DaskRef] | ItemStream:
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
        self._holds.settle(hold, ActorDiedError("The actor's Dask worker is gone, and it with it."))
        return refs(hold, launch.results)

    def forget(self, task: int) -> None:
        """It forgets by itself."""

    def withdraw(self, task: int) -> bool:
        key, actor, number, _ = self._keys.get(task, _UNKNOWN)
        if not key or not self._link.asked("withdraw", key=key):
            return False
        self._skip(actor, number)
        self._holds.failed(key, TaskCancelledError("The task was withdrawn."))
        return True

    def has_begun(self, task: int) -> bool:
        key = self._keys.get(task, _UNKNOWN)[0]
        return not key or bool(self._link.asked("begun", key=key))

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

    # -- the keeper and the channel ----------------------------------------------------------------

    def listen(self, audience: int, sink: Sink) -> None:
        self._audience, self._sink = audience, sink
        self._link.open(audience)
        self._client.subscribe_topic(topic(self.session, audience), self._heard)

    def _heard(self, event: tuple[float, Any]) -> None:
        """On the client's event loop: what the scheduler sends us."""
        message = event[1]
        if isinstance(message, bytes):
            self._sink(_decode_batch(message))
            return
        kind, key, *rest = message
        if kind == "end":
            self._holds.ended_with(key, *rest)
            stream = self._streams.pop(key, None)
            if stream is not None:
                stream.ended()
        elif kind == "item":
            stream = self._streams.get(key)
            if stream is not None:
                item, failed = rest
                stream.came(DaskRef(item, 1), failed)
        elif kind == "cancelled":
            self._never_ends(key, TaskCancelledError("The task was stopped before it began."))
        elif kind == "erred":
            self._never_ends(key, WorkerCrashedError(f"Dask gave the task up: {rest[0]}"))
        elif kind == "lost":
            self._holds.lost(key)
            stream = self._streams.pop(key, None)
            if stream is not None:
                stream.ended()
        elif kind == "actor":
            self._actor_gone(key)

    def _never_ends(self, key: str, error: WorkbenchError) -> None:
        self._holds.failed(key, error)
        stream = self._streams.pop(key, None)
        if stream is not None:
            stream.ended()

    def _actor_gone(self, key: str) -> None:
        self._gone.add(key)
        error = ActorDiedError("The actor's Dask worker is gone, and it with it.")
        for task_key, actor, _, _ in list(self._keys.values()):
            if actor is not None and actor.key == key:
                self._never_ends(task_key, error)
                self._link.send("drop", keys=[task_key])

    @contextmanager
    def lending(self) -> Iterator[None]:
        with nullcontext() if self._lends is None else self._lends():
            yield

    # -- the whole ---------------------------------------------------------------------------------

    def parts(self) -> ClusterParts:
        return parts_of(self._link.asked("parts"))

    @property
    def ended(self) -> str | None:
        if self._holds.ended is None and self._client.status in ("closing", "closed"):
            self._lost()
        return self._holds.ended

    def _lost(self) -> None:
        """Nothing comes from the scheduler any more."""
        if self._client.status in ("closing", "closed"):
            self._end("The client of the Dask cluster is closed.")
        else:
            self._end("The connection to the Dask scheduler was lost: the session is over.")

    def _end(self, why: str) -> None:
        self._holds.end_all(why, SessionError(why))
        for stream in list(self._streams.values()):
            stream.ended()

    def close(self, goodbye: bool) -> None:
        if self._holds.ended is None:
            with contextlib.suppress(Exception):
                for number in filter(None, (self._link.number, self._audience)):
                    self._client.unsubscribe_topic(topic(self.session, number))
                self._link.asked(
                    "leave", 10.0, session=self.session, number=self._link.number,
                    audience=self._audience, goodbye=goodbye,
                )  # fmt: skip
            self._end("This process has left the session.")
        self._reader.close()
        if self._close_client:
            self._client.close()

    # -- to the scheduler --------------------------------------------------------------------------

    def took(self, key: str, task: int, taken: int) -> None:
        """Of a stream so many items were taken; -1: no more are wanted."""
        self._streams.pop(key, None) if taken < 0 else None
        self._link.send("took", key=key, task=task, taken=taken)

    def _future_of(self, key: str) -> Any:
        future = self._link.future_of(key)
        self._link.send("want", key=key, desirer=self._client.id, number=self._link.number)
        return future

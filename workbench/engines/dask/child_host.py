"""Tasks in a child of a Dask worker's: heads come on the channel, what they show and how they end
goes out on it. Its main thread reads, and runs tasks; of an actor with threads or a loop, those do.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from workbench import context, error_notes
from workbench.engines.cluster.backend import StoredValue, TaskEnd
from workbench.engines.cluster.channel import ChannelLink
from workbench.engines.cluster.engine import ClusterEngine
from workbench.engines.cluster.heads import Head
from workbench.engines.cluster.heads import decode as decode_head
from workbench.engines.cluster.holders import answer_apart
from workbench.engines.cluster.hosting import Hosting
from workbench.engines.dask.channel import (
    ActorShape,
    AskHolder,
    Channel,
    Credentials,
    HeadDone,
    LendsSlot,
    MadeItem,
    RunHead,
    ShownBytes,
    SlotBack,
    StopTask,
    ToldHolder,
    TookItems,
)
from workbench.engines.dask.late import LateBackend
from workbench.engines.dask.packed import PackedValue, close_all, native_of, pack, unpack
from workbench.engines.dask.remains import ChildRemains
from workbench.engines.dask.topics import key_of
from workbench.host.setup import set_up
from workbench.interop.registration import register_when_imported

_encode_end = msgspec.msgpack.Encoder().encode

Values = Sequence[StoredValue]


class ChildHost:
    """See the module. Made in the main thread."""

    def __init__(
        self, channel: Channel, remains: ChildRemains, number: int, orders: Channel
    ) -> None:
        self._channel = channel
        self._orders = orders
        self._number = number
        self._link = ChannelLink(number, self._shown)
        self._position = 0
        self._output = set_up(self._link, remains.captures, self._mark, remains.unsent)
        self._sessions: dict[str, tuple[LateBackend, Hosting]] = {}
        self._hosting: Hosting | None = None
        self._shape: ActorShape | None = None
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room: dict[str, asyncio.Semaphore] = {}
        self._early: set[int] = set()  # to be stopped when they come
        self._taken: dict[int, int] = {}  # of streams: items that were taken
        self._moved = threading.Condition()
        self._is_lent = False
        self._leaves = False
        self._security = b""
        register_when_imported()
        error_notes.install()
        sys.argv = ["workbench-worker"]
        signal.signal(signal.SIGINT, self._interrupted)

    # -- what is shown: any thread -----------------------------------------------------------------

    def _shown(self, batch: bytes) -> None:
        with suppress(OSError):
            self._channel.send(ShownBytes(batch))

    def _mark(self, position: int) -> None:
        self._position = position

    # -- stopping ----------------------------------------------------------------------------------

    def _interrupted(self, signum: int, frame: Any) -> None:
        if self._hosting is not None:
            self._hosting.interrupts.handle(signum, frame)

    def heard(self, message: Any) -> None:
        """What comes on the second channel, in its thread."""
        if type(message) is StopTask:
            self._stop(message.task)
        elif type(message) is TookItems:
            with self._moved:
                self._taken[message.task] = message.taken
                self._moved.notify_all()
        elif type(message) is AskHolder:
            found = self._sessions.get(message.session)

            def reply(answer: bytes) -> None:
                with suppress(OSError):
                    self._orders.send(ToldHolder(message.number, answer))

            reply(b"") if found is None else answer_apart(found[0].of, message.question, reply)

    def _stop(self, task: int) -> None:
        """It, and what it has submitted and waits for."""
        hosting = self._hosting
        if hosting is None or not hosting.stop(task):
            self._early.add(task)
            return
        for backend, _ in list(self._sessions.values()):
            running = list(backend.of.tasks.running.values())
            nested = [each.task for each in running if each.parent == task]
            if nested:
                backend.stop(nested, False)

    # -- the main thread ---------------------------------------------------------------------------

    def serve(self) -> None:
        """Until the worker hangs up, or the actor that this is has left."""
        while not self._leaves:
            try:
                message, fds = self._channel.receive()
            except (EOFError, OSError):
                break
            if type(message) is Credentials:
                self._security = message.security
            if type(message) is not RunHead:
                continue  # a slot's return that nobody waited for any more
            if self._is_plain or message.shape is not None:
                self._run(message, fds)
            elif self._shape is not None and self._shape.is_async:
                assert self._loop is not None
                asyncio.run_coroutine_threadsafe(self._run_on_loop(message, fds), self._loop)
            else:
                pool = self._pools.get(message.group) or self._pools[""]
                pool.submit(self._run, message, fds)
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    @property
    def _is_plain(self) -> bool:
        """One task at a time, in the main thread."""
        shape = self._shape
        return shape is None or (shape.concurrency == 1 and not shape.is_async and not shape.groups)

    def _become(self, shape: ActorShape) -> None:
        """From now on this process is an actor."""
        self._shape = shape
        sizes = dict([("", shape.concurrency), *shape.groups])
        if shape.is_async:
            self._loop = asyncio.new_event_loop()
            self._room = {group: asyncio.Semaphore(size) for group, size in sizes.items()}
            name = "workbench-actor"
            threading.Thread(target=self._loop.run_forever, name=name, daemon=True).start()
        elif not self._is_plain:
            self._pools = {
                group: ThreadPoolExecutor(size, f"workbench-actor {group}".rstrip())
                for group, size in sizes.items()
            }

    # -- one task ----------------------------------------------------------------------------------

    def _run(self, message: RunHead, fds: list[int]) -> None:
        head, hosting, values, inside, backend = self._prepared(message, fds)
        if message.task in self._early:
            self._early.discard(message.task)
            hosting.interrupts.stop(message.task)
        if message.shape is not None:
            self._become(message.shape)
            hosting.is_restarted = message.restarted
        try:
            if message.ahead:
                end, results = self._run_stream(message, hosting, head, values, inside)
            elif message.shape is not None and self._loop is not None:
                making = hosting.run_async(head, values, inside)
                end, results = asyncio.run_coroutine_threadsafe(making, self._loop).result()
            else:
                end, results = hosting.run(head, values, inside)
        finally:
            backend.preloaded.clear()
        self._done(message, hosting, end, results)

    async def _run_on_loop(self, message: RunHead, fds: list[int]) -> None:
        room = self._room.get(message.group) or self._room[""]
        async with room:
            head, hosting, values, inside, _ = self._prepared(message, fds)
            if message.ahead:
                results: tuple[StoredValue, ...] = ()
                number = 0
                async for item in hosting.stream_async(head, values, inside):
                    if isinstance(item, TaskEnd):
                        end = item
                        break
                    number += 1
                    self._send_item(message, number, item)
                    while not self._has_room(message, number):
                        await asyncio.sleep(0.005)
            else:
                end, results = await hosting.run_async(head, values, inside)
        self._done(message, hosting, end, results)

    def _prepared(
        self, message: RunHead, fds: list[int]
    ) -> tuple[Head, Hosting, list[StoredValue], list[Any], LateBackend]:
        head = decode_head(message.head)
        backend, hosting = self._session(message)
        self._hosting = hosting
        values = unpacked(message.values, fds)
        inside = [native_of(form) for form in message.inside]
        if message.function:
            backend.preloaded[inside[0].key] = values.pop()
        return head, hosting, values, inside, backend

    def _session(self, message: RunHead) -> tuple[LateBackend, Hosting]:
        found = self._sessions.get(message.session)
        if found is None:
            backend = LateBackend(message.session, message.scheduler, self._security, self.lends)
            engine = ClusterEngine(backend, logs=False)
            hosting = Hosting(engine, self._link, self._output.finish, self._number)
            engine.host(hosting)
            found = self._sessions[message.session] = backend, hosting
            backend.of = engine
        if context.get() is not found[0].of:
            context.set(found[0].of)
        return found

    def _done(self, message: RunHead, hosting: Hosting, end: TaskEnd, results: Values) -> None:
        self._leaves = self._leaves or hosting.leaves
        self._keep_inner(message, results)
        packed, fds = [], []
        for result in results:
            value, fd = pack(result)
            packed.append(value)
            if fd >= 0:
                fds.append(fd)
        done = HeadDone(message.task, _encode_end(end), packed, self._position, hosting.leaves)
        with suppress(OSError):  # nobody is there any more: the main thread sees that
            self._channel.send(done, fds)
        close_all(fds)

    def _keep_inner(self, message: RunHead, values: Values) -> None:
        """What was made here lives as long as the task's results: said before we let go of it."""
        backend, _ = self._sessions[message.session]
        natives = [native for value in values for native in value.natives]
        if natives and backend.is_connected:
            head = decode_head(message.head)
            backend.contains(key_of(message.session, head.name, head.task), natives)
            backend.flush()  # who gets these may ask the scheduler for them at once

    # -- streams -----------------------------------------------------------------------------------

    def _run_stream(
        self, message: RunHead, hosting: Hosting, head: Head, values: Values, inside: list[Any]
    ) -> tuple[TaskEnd, Values]:
        for number, item in enumerate(hosting.stream(head, values, inside), 1):
            if isinstance(item, TaskEnd):
                self._taken.pop(message.task, None)
                return item, ()
            self._send_item(message, number, item)
            self._wait_for_room(message, number)
            if self._taken.get(message.task, 0) < 0:
                hosting.interrupts.stop(message.task)
        raise AssertionError("a stream ends with its end")

    def _wait_for_room(self, message: RunHead, made: int) -> None:
        if not self._has_room(message, made):
            with self.lends(), self._moved:
                self._moved.wait_for(lambda: self._has_room(message, made))

    def _has_room(self, message: RunHead, made: int) -> bool:
        taken = self._taken.get(message.task, 0)
        return taken < 0 or made - taken < message.ahead or message.task in self._early

    def _send_item(self, message: RunHead, number: int, item: StoredValue) -> None:
        self._keep_inner(message, [item])
        value, fd = pack(item)
        fds = [fd] if fd >= 0 else []
        self._channel.send(MadeItem(message.task, number, value), fds)
        close_all(fds)

    # -- lending the slot --------------------------------------------------------------------------

    @contextmanager
    def lends(self) -> Iterator[None]:
        """Around code that waits: others may run on our worker meanwhile."""
        here = threading.current_thread() is threading.main_thread()
        if not here or self._is_lent or self._shape is not None:
            yield
            return
        self._is_lent = True
        self._channel.send(LendsSlot(True))
        try:
            yield
        finally:
            self._is_lent = False
            self._channel.send(LendsSlot(False))
            while type(self._channel.receive()[0]) is not SlotBack:
                pass


def unpacked(values: Sequence[PackedValue], fds: list[int]) -> list[StoredValue]:
    """Values as they came, with their segments' descriptors, which are closed."""
    left = list(fds)
    try:
        return [unpack(value, left.pop(0) if value.lengths else -1) for value in values]
    finally:
        close_all(fds)

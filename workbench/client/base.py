"""What every process of a session has: a connection, its memory, the objects and handles it knows.

No tasks, and nothing that drivers and workers do differently: `client` adds what people ask for.
Messages are handled in whichever thread reads the socket.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from workbench.client.arena_writer import ArenaWriter, Claims
from workbench.client.connection import Connection
from workbench.client.direct_calls import DirectCalls
from workbench.client.generators import GeneratorReaders
from workbench.client.marshal import Marshal
from workbench.client.objects import KnownObjects
from workbench.client.outgoing_translator import OutgoingTranslator
from workbench.client.reference_counter import ReferenceCounter
from workbench.client.reporting_delay import ReportingDelay
from workbench.client.requests import GLANCE, Requests
from workbench.client.shared_segments import SharedSegments
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import ID_BITS
from workbench.memory.views import Views
from workbench.ref import ObjectRef
from workbench.system.ki_protection import ki_protection
from workbench.system.spare_descriptors import SpareDescriptors
from workbench.wire.buffers import Parcel

SPARES = 8
"""Descriptors kept for when there are no others: this process's own segment takes five, another
process's segment two."""


class ClientBase:
    """Connection, memory, objects and handles of one process.

    ``session`` is its unique name, '' if only the server knows it; ``worker`` the pool's number for
    a worker process, 0 in a driver. For ``linger`` seconds the session is kept after its last
    driver. ``threads`` make large copies. A mere look at an object (`peek`, `describe`) waits
    ``glance`` seconds for an answer.

    ``workers`` and ``capacity`` (bytes) are 0 until the server's Welcome. Other parts add their
    ``handlers`` before `join`. ``at_end`` are called, in order, with the reason, when the server
    hangs up or this process leaves.
    """

    def __init__(
        self,
        sock: socket.socket,
        session: str,
        *,
        worker: int = 0,
        linger: float = 0.0,
        label: str = "",
        threads: int = 1,
        huge: bool = False,
        glance: float = GLANCE,
    ) -> None:
        self.session = session
        self.worker = worker
        self.workers = 0
        self.capacity = 0
        prefix = secrets.randbits(31) | 1 << 30
        self.next_id = itertools.count((prefix << ID_BITS) + 1).__next__
        self._hello = ev.Hello(os.getpid(), prefix, worker, linger, label)
        self.handlers: dict[type, Callable[[Any], object]] = {}
        # Both lambdas: that part is made below.
        self.connection = connection = Connection(
            sock, self._handle, lambda queued: self.translator.translate(queued), self._ended
        )
        self.requests = Requests(connection, glance)
        self.references = ReferenceCounter(connection.put, connection.wake_from_finalizer)
        ask, self._spares = self.requests.ask, SpareDescriptors(SPARES)
        self._views = views = Views(connection.put, connection.wake_from_finalizer)
        self._segments = SharedSegments(views, ask, connection.wait_for, self._spares)
        self.arena = ArenaWriter(
            connection.send, ask, views, self.next_id, self._spares, threads, huge
        )
        side = "on the worker" if worker else "in this process"
        self.marshal = Marshal(
            self.arena,
            prefix,
            self.wait_welcome,
            self.references.check,
            lambda value: self.objects.stored_as(value),
            side,
        )
        self.objects = KnownObjects(
            connection, self.references, views, self._segments.need, self.marshal
        )
        self.generators = GeneratorReaders(connection, self.references, self.objects)
        self.lines = DirectCalls(connection, self.objects, self.handlers, worker > 0)
        self.translator = translator = OutgoingTranslator(
            self.references,
            self.objects,
            self.generators,
            self.marshal,
            self.lines,
            prefix,
            lambda: list(connection.queue),
        )
        connection.send_by(self.lines.push, ReportingDelay(translator.due, translator.reported))
        self.handlers |= self._own_handlers()
        self.at_end: list[Callable[[str], object]] = [self.objects.end, self.generators.end]

    def _own_handlers(self) -> dict[type, Callable[[Any], object]]:
        return {
            Parcel: lambda parcel: self.handlers[type(parcel.message)](parcel),
            do.Welcome: self._welcome,
            do.Ended: self.connection.told_to_end,
            do.Item: self.generators.item,
            do.Forget: self.forget,
            do.Moved: self.objects.moved,
            do.Found: self._found,
            do.Answer: lambda m: self.requests.answer(m.request, m),
            do.CollectGarbage: lambda _: collect_garbage(),
            ev.Register: lambda m: self.marshal.registry.queue_registration(
                m.serializer, m.payload
            ),
            do.Shared: self._segments.shared,
            do.Unshare: lambda message: self._views.unmap(message.segment),
            do.Release: self.arena.released,
            do.Trim: self.arena.trim,
            do.Reopen: self.arena.reopen,
            do.Grown: self._granted,
        }

    def join(self) -> None:
        """Send Hello. From now on messages come, so their handlers must be in place."""
        self.connection.start()
        self.connection.send(self._hello)

    def wait_welcome(self) -> int:
        """Read until the server has told us name and capacity; return the capacity."""
        if not self.capacity:
            self.connection.wait_for(lambda: self.capacity > 0)
        return self.capacity

    def seal(
        self, stored: ev.Value, about: ev.About, claims: Claims | None = None, name: str = ""
    ) -> ObjectRef:
        """Make an object whose bytes are in place, or that is an error. Clears its claims."""
        id = self.next_id()
        with ki_protection():
            ref = self.references.new(id)
            self.objects.values[id] = stored
            self.connection.send(ev.Sealed(id, stored, about, name))
            if claims is not None:
                claims.clear()  # the server's business now
        return ref

    def check_refs(self, refs: Iterable[ObjectRef]) -> None:
        """Raise unless all are refs of this session and the session is open."""
        engine = self.references.engine
        for ref in refs:
            if type(ref) is not ObjectRef or ref._engine is not engine:
                self.references.check(ref)
        self.connection.check_open()

    def forget(self, message: do.Forget) -> None:
        """Mark these objects as freed by the server. Workers extend this."""
        self.objects.forget(message.objects)

    def abandon(self) -> None:
        """Let go of the parent's session in a forked child. Arrays that show objects stay valid."""
        self.lines.abandon()
        self.connection.abandon()
        self.arena.abandon()
        self._spares.close()

    def say_bye(self, bye: ev.Bye) -> None:
        """Tell the server that this process will end, and how long to keep the session then. Any
        thread."""
        if self.connection.end_reason is None:
            self.connection.post(bye)

    def close(self, goodbye: bool, final: bool = False) -> None:
        """Leave the session. Idempotent. Without goodbye the session lingers, as after a crash;
        with ``final`` only for a moment, because a person shut our kernel down."""
        shows = self._views.shows()
        self.say_bye(ev.Bye(lingers=not goodbye, shows=shows, final=final))
        line = self.connection.close(keep=shows)
        self.lines.abandon()
        self.arena.close()
        self._spares.close()
        self._views.close(line)  # stays open while arrays show anything: its end tells the server
        self._ended("The session was shut down.")
        self.references.close()
        self.objects.close()

    # -- the reading thread -----------------------------------------------------------------------

    def _handle(self, messages: deque[Any]) -> None:
        """Handle the first message; if it is a result, all results that directly follow it."""
        message = messages.popleft()
        if type(message) is not do.Ready:
            self.handlers[type(message)](message)
            return
        values = {message.object: message.value}
        while messages and type(messages[0]) is do.Ready:
            message = messages.popleft()
            values[message.object] = message.value
        self.lines.ready(values)
        self.objects.ready(values)
        self.generators.notify_ended(values)

    def _welcome(self, message: do.Welcome) -> None:
        self.session = message.session
        self.workers = message.workers
        self.arena.welcome(message.capacity, message.spill_dir)
        self.capacity = message.capacity

    def _granted(self, message: do.Grown) -> None:
        self.arena.granted(message)
        self.requests.answer(message.request, message)

    def _found(self, message: do.Found) -> None:
        # It carries a hold, so there is a handle for it even if nobody waits any more.
        with self.objects.lock:
            ref = self.references.grant(message.object) if message.object else None
        self.requests.answer(message.request, ref)

    def _ended(self, reason: str) -> None:
        for tell in self.at_end:
            tell(reason)


def collect_garbage() -> None:
    """Collect in another thread: a finalizer may wait for what the reading thread reads."""
    with contextlib.suppress(RuntimeError):  # no more threads allowed: the server asks again
        threading.Thread(target=gc.collect, name="workbench-garbage", daemon=True).start()

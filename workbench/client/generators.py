"""Generators that are read in this process: their items, and the futures that wait for the next.

`item`, `notify_ended`, `notify` and `end` run in the thread that reads the socket; others anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import cast

from workbench.client.connection import Connection
from workbench.client.objects import KnownObjects
from workbench.client.reference_counter import ReferenceCounter
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.memory.views import Watch
from workbench.ref import ObjectRef
from workbench.ref_generator import ObjectRefGenerator, StreamEngine


class ReaderWatch(Watch):
    """Queued when a generator's reader dies."""

    __slots__ = ()


@dataclass(eq=False)
class GeneratorReaders:
    _connection: Connection
    _references: ReferenceCounter
    _objects: KnownObjects
    _readers: dict[int, ReaderWatch] = field(default_factory=dict)
    _waiting: dict[int, list[Future[None]]] = field(default_factory=dict)

    def new(self, end: ObjectRef, ahead: int) -> ObjectRefGenerator:
        """Return the reader of the generator whose end is ``end``; at most ``ahead`` items are
        made before they are read."""
        engine = cast(StreamEngine, end._engine)
        reader = ObjectRefGenerator(end, engine, ahead)
        connection = self._connection
        self._readers[end.id] = ReaderWatch.of(
            reader, connection.put, end.id, connection.wake_from_finalizer
        )
        return reader

    def finalized(self, watch: ReaderWatch) -> bool:
        """Forget a dead reader. True if its task has to be cancelled: the ref of its end is alive,
        so that no Drop tells the server."""
        self._readers.pop(watch.id, None)
        return self._references.alive(watch.id) and watch.id not in self._objects.values

    def ready(self, reader: ObjectRefGenerator) -> Callable[[], bool]:
        """Return a function that is true if there is an item or the generator is over."""
        items, values, id = reader.items, self._objects.values, reader.id
        return lambda: bool(items) or id in values

    def next(self, reader: ObjectRefGenerator, future: Future[None]) -> Future[None] | None:
        """Register ``future`` to be set once `ready` is true; None if it is already."""
        self._waiting.setdefault(reader.id, []).append(future)
        if self.ready(reader)():
            self.notify(reader.id)
            return None
        if self._connection.end_reason is not None:  # perhaps just now: nobody else would notify
            self.notify(reader.id)
        self._connection.flush()
        return future

    def took(self, reader: ObjectRefGenerator, taken: int, at_once: bool) -> None:
        send = self._connection.send if at_once else self._connection.post
        send(ev.Took(reader.id, taken))

    # -- the reading thread -----------------------------------------------------------------------

    def item(self, message: do.Item) -> None:
        """Take one more item and its hold, which is given back if the reader is dead."""
        with self._objects.lock:
            ref = self._references.grant(message.object)
            self._objects.values[message.object] = message.value
        ref._task = message.task
        watch = self._readers.get(message.task)
        reader = watch() if watch is not None else None
        if reader is not None:
            reader.add_item(ref)
            self.notify(message.task)

    def notify_ended(self, ids: Iterable[int]) -> None:
        if self._waiting:
            for id in ids:
                self.notify(id)

    def notify(self, task: int) -> None:
        """Set the futures that wait for this generator, so that their owners check again."""
        for future in self._waiting.pop(task, ()):
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    def end(self, reason: str = "") -> None:
        for task in list(self._waiting):
            self.notify(task)

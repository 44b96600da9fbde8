"""Streams that are read in this process: items as they come, and who waits for the next.

`item`, `ended` and `close` run in whichever thread reads the socket; the rest anywhere.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import Future

from workbench.client.connection import Connection
from workbench.client.handles import Handles
from workbench.client.objects import Objects
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.ref import ObjectRef
from workbench.streams import ObjectRefGenerator


class Streams:
    """See the module."""

    def __init__(self, connection: Connection, handles: Handles, objects: Objects) -> None:
        self._connection = connection
        self._handles = handles
        self._objects = objects
        self._readers: weakref.WeakValueDictionary[int, ObjectRefGenerator] = (
            weakref.WeakValueDictionary()
        )
        self._waiting: dict[int, list[Future[None]]] = {}

    def new(self, end: ObjectRef, ahead: int) -> ObjectRefGenerator:
        """A stream whose task is about to be submitted."""
        reader = ObjectRefGenerator(end, end._engine, ahead)
        self._readers[end.id] = reader
        return reader

    def ready(self, reader: ObjectRefGenerator) -> Callable[[], bool]:
        """Whether its next item is there, or there won't be one."""
        items, values, id = reader.items, self._objects.values, reader.id
        return lambda: bool(items) or id in values

    def next(self, reader: ObjectRefGenerator) -> Future[None] | None:
        """A future of that; None if it is so already."""
        future: Future[None] = Future()
        self._waiting.setdefault(reader.id, []).append(future)
        if self.ready(reader)():
            self.stir(reader.id)
            return None
        if self._connection.ended is not None:  # perhaps just now: nobody else would
            self.stir(reader.id)
        self._connection.flush()
        return future

    def took(self, reader: ObjectRefGenerator, count: int) -> None:
        """Its reader took some: more may come."""
        self._connection.send(ev.Took(reader.id, count))

    # -- the reading thread -----------------------------------------------------------------------

    def item(self, message: do.Item) -> None:
        """One more. It comes with a hold: if nobody reads any more, that is given back."""
        with self._objects.lock:
            ref = self._handles.grant(message.object)
            self._objects.values[message.object] = message.value
        reader = self._readers.get(message.task)
        if reader is not None:
            reader.items.append(ref)
            self.stir(message.task)

    def stir(self, task: int) -> None:
        """Whoever waits for it shall look."""
        for future in self._waiting.pop(task, ()):
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    @property
    def is_awaited(self) -> bool:
        """Whether anybody waits without a thread."""
        return bool(self._waiting)

    def close(self) -> None:
        """Nothing will come any more."""
        for task in list(self._waiting):
            self.stir(task)

"""The objects that this process knows: where each one's bytes are, and who waits for it.

Threads: any may call the public methods but `ready` and `forget`, which run in whichever thread
reads the socket, and `finalized`, which runs in whichever one sends.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from workbench.client.connection import Connection
from workbench.client.marshal import Marshal
from workbench.client.reference_counter import HandleWatch, ReferenceCounter
from workbench.client.refusals import failure_of
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.engine.base import Copying
from workbench.engine.queries import Places
from workbench.errors import LimitError, ObjectLostError, SessionError, for_future
from workbench.memory.copying import Bytes
from workbench.memory.views import Views, Watch, bases
from workbench.ref import ObjectRef
from workbench.serialization import codec
from workbench.serialization.rebuilding import Name
from workbench.system.ki_protection import ki_protection

CHUNK = 10_000
"""Most ids in one message."""


class Listener(Protocol):
    """Receiver of objects that become known. Called in the thread that reads the socket."""

    def arrived(self, id: int) -> None:
        """Handle an object that is known now: its value, or what it failed with."""

    def wake_waiters(self, reason: str) -> None: ...


@dataclass(eq=False)
class KnownObjects:
    """Objects of this process. ``values``: those that are ready or have failed, by id."""

    _connection: Connection
    _references: ReferenceCounter
    _views: Views
    _need: Callable[[int], None]
    _marshal: Marshal

    def __post_init__(self) -> None:
        # Guards what is alive here (values, handles, views, futures) where two threads, or a
        # thread and the reading one, decide on it. Never held while anything is waited for.
        self.lock = threading.RLock()
        self.values: dict[int, ev.Value] = {}
        self._failures = 0  # number of failures so far
        self.held: Callable[[], Mapping[int, Places]] = dict
        self._expected: set[int] = set()  # Ready will come without (another) Want
        self._listeners: dict[int, list[Listener]] = {}  # by object

    # -- asking ---------------------------------------------------------------------------------

    def expect(self, ids: Iterable[int]) -> None:
        """Note that the server sends Ready of these objects without being asked."""
        self._expected.update(ids)

    def request(self, ids: Iterable[int]) -> None:
        """Ask for Ready of the objects that are neither known nor expected."""
        expected, values = self._expected, self.values
        unknown = [id for id in ids if id not in values and id not in expected]
        for chunk in chunks(unknown) if unknown else ():
            self._connection.post(ev.Want(chunk))
            expected.update(chunk)  # after it: what is expected must have been asked for

    def ask_again(self, id: int) -> None:
        """Ask for Ready once more: a message is the only thing that wakes the thread that reads the
        socket, so that it sees what another thread has found."""
        self._connection.post(ev.Want((id,)))
        self._connection.push()

    def are_known(self, ids: Sequence[int]) -> Callable[[], bool]:
        """Return a function that is true once all objects are known or one has failed.

        It checks each object until it is known, and all again only after a new failure.
        """
        values, missing = self.values, iter(ids)
        waiting = next(missing, None)
        failures, has_failed = 0, False

        def done() -> bool:
            nonlocal waiting, failures, has_failed
            while waiting is not None and waiting in values:
                waiting = next(missing, None)
            if waiting is not None and failures != self._failures:
                failures = self._failures
                has_failed = self.failed(ids) is not None
            return waiting is None or has_failed

        return done

    def failed(self, ids: Iterable[int]) -> int | None:
        if not self._failures:
            return None
        known = ((id, self.values.get(id)) for id in ids)
        return next((id for id, value in known if value is not None and value.failed), None)

    def announce(self, ids: list[int], listener: Listener) -> None:
        """Tell the listener of each object once it is known: now, or when Ready has come."""
        with ki_protection():
            with self.lock:
                for id in ids:
                    self._listeners.setdefault(id, []).append(listener)
            for id in self.values.keys() & ids:
                self._tell(id)
        self.request(ids)

    def withdraw(self, ids: list[int], listener: Listener) -> None:
        with self.lock, ki_protection():
            for id in ids:
                others = [each for each in self._listeners.pop(id, ()) if each is not listener]
                if others:
                    self._listeners[id] = others

    def _tell(self, id: int) -> None:
        with self.lock:
            listeners = self._listeners.pop(id, ())
        for listener in listeners:
            listener.arrived(id)

    def state(self, ref: ObjectRef) -> str:
        value = self.values.get(ref.id)
        if value is None:
            if self._connection.end_reason is not None:
                return "session over"
            return "pending" if ref.id in self._expected else "in the store"
        return "failed" if value.failed else "ready"

    # -- reading --------------------------------------------------------------------------------

    def load(self, id: int, copy: Copying) -> Any:
        """Return the value of a known object. Raises what it failed with, or why it can't be
        read."""
        value, extent = self.values[id], None
        if value.header == codec.NONE:
            return None
        while value.segment and extent is None:
            try:
                self._prepare(id, value)
            except (ObjectLostError, LimitError):
                if self.values[id] is value:  # else it has moved, and another object may lie there
                    raise
            with self.lock, ki_protection():
                known = self.values[id]  # Forget or Moved may have come
                extent = self._open(id, value) if known is value else None
            value = known
        if value.failed:
            raise failure_of(value.header, self.held)
        return self._marshal.decode(id, value, extent, copy)

    def read(
        self,
        id: int,
        value: ev.Value,
        name: Name = "",
        lent: bool = False,
        copy: Copying = False,
    ) -> Any:
        """Build an object from the place that ``value`` names. ``name``: what errors call it;
        ``lent``: the server keeps it there for now, so it may hear of the view later."""
        extent = None
        if value.segment:
            self._prepare(id, value)
            with self.lock, ki_protection():
                extent = self._open(id, value, lent)
        return self._marshal.decode(id, value, extent, copy, name)

    def peek(self, id: int) -> Any:
        """Return the value of a known object if that costs no time or memory, else LookupError."""
        return codec.peek(*self._in_memory(id))

    def contents(self, id: int) -> codec.Contents:
        """Return the bytes of a known object; LookupError if they are on disk."""
        return codec.contents(*self._in_memory(id))

    def _in_memory(self, id: int) -> tuple[bytes, Bytes | None]:
        value, extent = self.values[id], None
        if value.failed:
            raise LookupError("it failed")
        if value.digest:
            raise LookupError("it is on disk")
        if value.segment:
            with self.lock, ki_protection():
                if self.values.get(id) is not value:
                    raise LookupError("it is being moved")
                if not self._views.is_mapped(value.segment):
                    raise LookupError("its memory isn't mapped here")
                extent = self._open(id, value)
        return value.header, extent

    def _prepare(self, id: int, value: ev.Value) -> None:
        """Map the object's segment. If it is on disk, first verify its checksum, which may take
        long."""
        self._need(value.segment)
        if value.digest:
            self._views.check(id, value.segment, value.offset, value.length, value.digest)

    def _open(self, id: int, value: ev.Value, lent: bool = False) -> Bytes:
        """Return the object's bytes. Under ``lock``, without Ctrl-C: the server must hear of it."""
        extent, new = self._views.open(id, value.segment, value.offset, value.length)
        if new:
            say = self._connection.defer if lent else self._connection.post
            say(ev.View(id, value.segment))
        return extent

    def shown(self, array: Any, run: do.Run | None) -> int | None:
        """Return the object whose bytes an array shows. ``run``: the running task."""
        id = self._views.shown_by(array)
        if id is not None:
            return id
        *_, last = bases(array)
        if type(last) is not codec.InlineCopy:
            return None
        inline = list(self.values.items())
        if run is not None:
            inline += zip(run.deps, run.values, strict=False)
        return next((id for id, value in inline if value.header is last.header), None)

    def stored_as(self, value: Any) -> ObjectRef | None:
        if type(value) is not np.ndarray or value.base is None:
            return None
        id = self._views.begun_by(value)
        if id is None:
            return None
        stored = self.values.get(id)
        if stored is None or stored.failed or not codec.is_all_of(value, stored.header):
            return None
        return self._references.find(id)

    def held_by(self, thing: Any) -> tuple[int | None, str]:
        """Return the object whose handle (``ref``) or view (``view``) a thing is, and which."""
        if isinstance(thing, ObjectRef):
            return thing.id, "ref"
        if isinstance(thing, np.ndarray | memoryview):
            return self._views.shown_by(thing), "view"
        return None, ""

    def kept(self, id: int) -> dict[str, Any]:
        """Return what keeps the object in this process: its handle, the base of its views."""
        found = {"ref": self._references.find(id), "view": self._views.live(id)}
        return {kind: thing for kind, thing in found.items() if thing is not None}

    def resolve(self, future: Future[Any], ref: ObjectRef) -> Future[Any]:
        """Set the future to the object's value once it is known; hold the ref until then."""
        resolver = _Resolver(self, future, ref)
        try:
            self.announce([ref.id], resolver)
        except BaseException:  # Ctrl-C: it may not have been requested, and would be kept
            self.withdraw([ref.id], resolver)
            raise
        self._connection.flush()
        if self._connection.end_reason is not None:  # perhaps before it could see the future
            self.end(self._connection.end_reason)
        return resolver.future

    def end(self, reason: str) -> None:
        """Tell all listeners that the session is over: nothing pending will ever come."""
        with self.lock:
            listeners, self._listeners = self._listeners, {}
        for listener in itertools.chain(*listeners.values()):
            listener.wake_waiters(reason)

    # -- what happens to objects ------------------------------------------------------------------

    def ready(self, values: dict[int, ev.Value]) -> None:
        with self.lock:
            self._expected.difference_update(values)
            for id, value in values.items():
                if self._references.is_counted(id):
                    self.values[id] = value
                    self._failures += value.failed
        if self._listeners:
            for id in values:
                if id in self._listeners:
                    self._tell(id)

    def forget(self, ids: Iterable[int]) -> None:
        """Mark objects that another process freed: using their refs raises an error."""
        with self.lock:
            for id in ids:
                if self._references.alive(id):
                    self.values[id] = ev.freed_value(id)
                    self._failures += 1
            self._connection.post(ev.Unview(tuple([(id, 0) for id in ids])))

    def moved(self, message: do.Moved) -> None:
        """Take an object's new place: new views are made there from now on."""
        with self.lock:
            known = self.values.get(message.object)
            if known is not None and not known.failed:
                self.values[message.object] = message.value
            self._connection.post(ev.Noted(message.object))

    def freed(self, ids: Iterable[int]) -> None:
        """Mark objects that a person freed in this process."""
        for id in ids:
            self.values[id] = ev.freed_value(id)
            self._failures += 1

    def finalized(self, watch: Watch) -> None:
        """Forget what was kept for a handle or view that is dead."""
        with self.lock:
            if type(watch) is not HandleWatch:
                self._views.finalized(watch)
            elif self._references.finalized(watch):
                self.values.pop(watch.id, None)
                self._views.forget(watch.id)
                self._expected.discard(watch.id)

    def close(self) -> None:
        self.values.clear()


class _Resolver:
    """Sets the future of an object; a `Listener`."""

    def __init__(self, objects: KnownObjects, future: Future[Any], ref: ObjectRef) -> None:
        self._objects = objects
        self._ref: ObjectRef | None = ref
        self.future = future
        self.future.set_running_or_notify_cancel()

    def arrived(self, id: int) -> None:
        try:
            self.future.set_result(self._objects.load(id, copy=False))
        except BaseException as error:
            self.future.set_exception(for_future(error))
        self._ref = None
        del self  # a reference cycle: the error's traceback has this frame

    def wake_waiters(self, reason: str) -> None:
        self.future.set_exception(SessionError(reason))


def chunks(ids: list[int]) -> Iterator[tuple[int, ...]]:
    """Split ids into tuples of `CHUNK`, so that no message is too long."""
    return (tuple(ids[i : i + CHUNK]) for i in range(0, len(ids), CHUNK))

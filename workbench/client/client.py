"""Client: the Engine of one session's server. Puts, gets, submits; who it is, others decide.

Threads: any may call the public methods. `_handle` runs in whichever thread reads the socket.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from workbench.client.connection import Connection
from workbench.client.failures import refusal_error
from workbench.client.handles import Handles, HandleWatch
from workbench.client.shield import shield
from workbench.client.store import Claims, LocalStore
from workbench.client.tasks import SLOTTED, pack_arguments
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.session import ID_BITS
from workbench.core.snapshot import Snapshot
from workbench.engines.base import Exported, OutputSink, TaskOptions
from workbench.errors import (
    ForeignRefError,
    GetTimeoutError,
    SerializationError,
    SessionError,
)
from workbench.memory.copying import Bytes
from workbench.memory.views import Views, Watch
from workbench.ref import ObjectRef, restore
from workbench.serialization import codec
from workbench.units import human_bytes
from workbench.wire.streams import Parcel

INLINE = 16 << 10
"""Objects up to this many bytes travel inside messages and never touch a segment."""

Packed = tuple[bytes, tuple[int, ...], tuple[int, ...], ObjectRef | None]
_NOTHING: Packed = b"", (), (), None

CHUNK = 10_000
"""Most ids in one message."""

MOST_SHOWN = 32 << 20
"""Bytes a task may show at once: a frame has to take it."""

TEXT = 1 << 20
"""Bytes of text, about, that neighbouring pieces are joined up to."""

_AWAITED = object()
"""Stands where an answer will be."""


class Client:
    """A session, seen from one of its processes.

    Parameters
    ----------
    sock : socket
        Connected to the server.
    session : str
        The session's unique name.
    worker : int
        The pool's number for a worker process; 0 in a driver.
    linger : float
        Seconds the session shall outlive its last driver.
    threads : int
        Threads for large copies.
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
    ) -> None:
        self.session = session
        self.workers = 0
        self.capacity = 0
        self.output: OutputSink | None = None
        self.joined = True
        self.origin: Callable[[], int] = int
        self.task = 0  # in a worker: the running task's id; 0 between tasks
        self.on_run: Callable[[do.Run], None] | None = None
        self.on_recall: Callable[[int], None] | None = None
        self.on_forget: Callable[[int], None] | None = None
        self.on_end: Callable[[str], None] | None = None
        self.blocking: Callable[[], AbstractContextManager[None]] = nullcontext
        # Guards what is alive here (values, handles, views, futures) where two threads, or a
        # thread and the reading one, decide on it. Never held while anything is waited for.
        self._lock = threading.RLock()
        self._values: dict[int, ev.Value] = {}
        self._expected: set[int] = set()  # Ready will come without (another) Want
        self._futures: dict[int, tuple[ObjectRef, list[Future[Any]]]] = {}
        self._answers: dict[int, Any] = {}
        self._reducers: dict[type, Any] = {}
        prefix = secrets.randbits(31) | 1 << 30
        self._ids = itertools.count((prefix << ID_BITS) + 1)
        self._requests = itertools.count(1)
        self.connection = Connection(sock, self._handle, self._translate, self._ended)
        self._handles = Handles(self, self.connection.put, self.connection.rouse)
        self._store = LocalStore(
            self.connection.send,
            self._ask,
            Views(self.connection.put, self.connection.rouse),
            lambda: next(self._ids),
            threads,
        )
        self._handlers: dict[type, Callable[[Any], None]] = {
            do.Ready: self._ready,
            do.Run: self._run,
            do.Release: self._store.released,
            do.Trim: self._store.trim,
            do.Forget: self._forget,
            do.Welcome: self._welcome,
            do.Found: self._found,
            do.Granted: self._granted,
            do.Answer: self._answered,
            do.Recall: lambda m: self.on_recall and self.on_recall(m.count),
            ev.Output: self._show,
        }
        self._hello = ev.Hello(os.getpid(), prefix, worker, linger, label)

    def join(self) -> None:
        """Say hello. From now on messages come, so whoever handles them must be in place."""
        self.connection.send(self._hello)

    # -- objects ------------------------------------------------------------------------------

    def put(self, value: Any, name: str = "") -> tuple[ObjectRef, ev.About]:
        """See `Engine.put`.

        Raises
        ------
        SerializationError, StoreFullError
            Nothing of the value stays in the store then.
        """
        self._check_open()
        if isinstance(value, ObjectRef):
            raise SerializationError(
                "This is an ObjectRef already: what it refers to is in the store. Pass the ref "
                "on as it is, or put a list of refs."
            )
        started = time.perf_counter()
        claims: Claims = []
        try:
            stored, serialized = self.encode(value, claims)
            copied = time.perf_counter() - started - serialized.seconds
            about = ev.About(
                codec.describe(value), serialized.inband, serialized.outband, serialized.buffers,
                serialized.seconds, copied,
            )  # fmt: skip
            return self._seal(stored, about, claims, name), about
        except BaseException:
            self._store.give_back(claims)
            raise

    def encode(self, value: Any, claims: Claims) -> tuple[ev.Value, codec.Serialized]:
        """Serialize a value and bring its bytes where they can be read: inline or in our arena.

        An extent taken for it is added to ``claims``. Until the server knows of it, that list is
        all that does: whoever gives up passes it to `unclaim`.
        """
        inside: list[int] = []
        serialized = codec.serialize(
            value, {**self._reducers, ObjectRef: partial(self._reduce_ref, inside)}
        )
        contains = tuple(inside)
        if serialized.inband + serialized.outband <= INLINE:
            return ev.Value(serialized.inline(), contains=contains), serialized
        self.wait_welcome()
        return self._store.write(serialized, contains, self.capacity, claims), serialized

    def unclaim(self, claims: Claims) -> None:
        """Give back extents that no object will lie in."""
        self._store.give_back(claims)

    def inline(self, value: Any) -> bytes:
        """A value's inline header, whatever its size."""
        reducers = {**self._reducers, ObjectRef: partial(self._reduce_ref, [])}
        return codec.serialize(value, reducers).inline()

    def read(self, id: int, value: ev.Value) -> Any:
        """Build an object from where it is said to be."""
        if not value.segment:
            return codec.deserialize_inline(value.header)
        with self._lock, shield():
            extent = self._open(id, value)
        return codec.deserialize(value.header, extent)

    def _open(self, id: int, value: ev.Value) -> Bytes:
        """The object's bytes. Holds ``_lock``, shielded: the server must hear of each view."""
        extent, new = self._store.open(id, value)
        if new:
            self.connection.post(ev.View(id))
        return extent

    def _seal(self, stored: ev.Value, about: ev.About, claims: Claims, name: str = "") -> ObjectRef:
        id = next(self._ids)
        with shield():
            ref = self._handles.new(id)
            self._values[id] = stored
            self.connection.send(ev.Sealed(id, stored, about, name))
            claims.clear()  # the server's business now
        if name:
            self.connection.flush()  # whoever we tell of the name will find it
        return ref

    def get(self, refs: Sequence[ObjectRef], timeout: float | None, copy: bool) -> list[Any]:
        """See `Engine.get`.

        Raises
        ------
        GetTimeoutError
            If time is up first. Nothing is lost.
        TaskError
            What the task raised; also an instance of its own type.
        WorkbenchError
            Whatever else keeps the object from being there.
        """
        values = self._values
        ids = [ref.id for ref in refs]
        if not all(map(values.__contains__, ids)):
            self._check_refs(refs)
            self._request(ids)
            missing = iter(ids)
            waiting = next(missing, None)

            def done() -> bool:
                nonlocal waiting
                while waiting is not None and waiting in values:
                    waiting = next(missing, None)
                return waiting is None

            if not self._wait(done, timeout):
                left = sum(id not in values for id in ids)
                raise GetTimeoutError(
                    f"{left} of {len(ids)} object(s) were not ready after {timeout} s. Their "
                    "tasks go on; get them again later, or wait longer."
                )
        return [self._load(id, copy) for id in ids]

    def _load(self, id: int, copy: bool) -> Any:
        value = self._values[id]
        if value.segment:
            with self._lock, shield():
                value = self._values[id]  # Forget may have come: then these bytes are not ours
                extent = None if value.failed else self._open(id, value)
            if extent is not None:
                return codec.deserialize(value.header, extent.copy() if copy else extent)
        if value.failed:
            raise self._failure(value)
        return codec.deserialize_inline(value.header, copy)

    def _failure(self, value: ev.Value) -> BaseException:
        if value.header[:1] == b"!":
            return refusal_error(value.header)
        error = codec.deserialize_inline(value.header)
        assert isinstance(error, BaseException)
        return error

    def wait(
        self, refs: Sequence[ObjectRef], num_returns: int, timeout: float | None
    ) -> tuple[list[ObjectRef], list[ObjectRef]]:
        """See `Engine.wait`."""
        self._check_refs(refs)
        values = self._values
        self._request([ref.id for ref in refs])
        pending = [ref.id for ref in refs if ref.id not in values]
        enough = len(refs) - num_returns

        def done() -> bool:
            nonlocal pending
            pending = [id for id in pending if id not in values]
            return len(pending) <= enough

        self._wait(done, timeout)
        ready = [ref for ref in refs if ref.id in values][:num_returns]
        chosen = {ref.id for ref in ready}
        return ready, [ref for ref in refs if ref.id not in chosen]

    def future(self, ref: ObjectRef) -> Future[Any]:
        """See `Engine.future`."""
        self._check_refs([ref])
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            self._futures.setdefault(ref.id, (ref, []))[1].append(future)
        if ref.id in self._values:
            with shield():
                self._resolve(ref.id)
        else:
            self._request([ref.id])
            self.connection.flush()
        if self.connection.ended is not None:  # perhaps just now, before it could see the future
            self._fail_futures(self.connection.ended)
        return future

    def free(self, refs: Sequence[ObjectRef]) -> None:
        """See `Engine.free`."""
        self._check_refs(refs)
        for chunk in _chunks([ref.id for ref in refs]):
            self.connection.send(ev.Free(chunk))
            for id in chunk:
                self._values[id] = ev.refusal("freed", "You freed it. Put it again if you need it.")

    def _request(self, ids: Iterable[int]) -> None:
        """Have Ready sent for what is neither known nor expected."""
        expected, values = self._expected, self._values
        ids = [id for id in ids if id not in values and id not in expected]
        for chunk in _chunks(ids):
            self.connection.post(ev.Want(chunk))
            expected.update(chunk)  # after it: what is expected must have been asked for

    def _wait(self, done: Callable[[], bool], timeout: float | None) -> bool:
        if done():
            return True
        if timeout is not None and timeout <= 0:
            self._ask(ev.Ask)  # what the server knows by now comes before its answer
            return done()
        with self.blocking():
            return self.connection.wait_for(done, timeout)

    # -- names --------------------------------------------------------------------------------

    def find(self, name: str) -> ObjectRef | None:
        """See `Engine.find`."""
        ref: ObjectRef | None = self._ask(lambda request: ev.Find(request, name))
        return ref

    def names(self) -> list[str]:
        """See `Engine.names`."""
        return sorted(name for record in self.snapshot().objects for name in record.names)

    def unname(self, name: str) -> None:
        """See `Engine.unname`."""
        self.connection.send(ev.Bind(name, 0))
        self.connection.flush()

    def adopt(self, id: int) -> ObjectRef:
        """See `Engine.adopt`."""
        with self._lock, shield():
            ref = self._handles.find(id)
            if ref is None:
                self.connection.post(ev.Hold((id,)))
                ref = self._handles.new(id)
            return ref

    # -- tasks --------------------------------------------------------------------------------

    def submit(
        self,
        function: Exported,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: TaskOptions,
    ) -> list[ObjectRef]:
        """See `Engine.submit`."""
        if self.connection.ended is not None:
            self._check_open()
        handle = function.handle
        if handle is None or handle[0] is not self:
            ref, _ = self.put(function.function)
            function.handle = handle = (self, ref)
        # `packed` is the handle of the arguments, if they had to be an object.
        payload, deps, contains, packed = self._pack(args, kwargs) if args or kwargs else _NOTHING
        returns = options.num_returns
        ids = [next(self._ids)] if returns == 1 else self._consecutive_ids(max(returns, 1))
        task = ids[0]
        del ids[returns:]
        self._expected.update(ids)
        refs = [self._handles.new(id) for id in ids]
        self.connection.send(
            ev.Submit(
                task, handle[1].id, payload, deps, contains, returns,
                options.name or function.name, self.origin(), options.max_retries,
            )
        )  # fmt: skip
        del packed  # the Submit that needs the arguments is before their Drop in the queue
        return refs

    def _consecutive_ids(self, count: int) -> list[int]:
        """Fresh ids for one task's results. Another thread may take ids in between: try again."""
        while True:
            ids = [next(self._ids) for _ in range(count)]
            if ids[-1] - ids[0] == count - 1:
                return ids

    def _pack(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Packed:
        """(payload, deps, contains, handle of the payload if it had to be an object)."""
        packed, refs = pack_arguments(args, kwargs)
        self._check_refs(refs)
        deps = tuple(ref.id for ref in refs)
        claims: Claims = []
        try:
            stored, serialized = self.encode(packed, claims)
            if not stored.segment:
                return stored.header, deps, stored.contains, None
            about = ev.About(
                "arguments", serialized.inband, serialized.outband, serialized.buffers,
                serialized.seconds, 0.0,
            )  # fmt: skip
            ref = self._seal(stored, about, claims)
        except BaseException:
            self._store.give_back(claims)
            raise
        return SLOTTED, (ref.id, *deps), (), ref

    def show(self, kind: str, data: bytes) -> None:
        """In a worker: send what the running task shows to whoever submitted it.

        What is shown while no task runs goes nowhere a person would look for it: it is dropped.
        """
        if not self.task:
            return
        if len(data) > MOST_SHOWN:
            size, most = human_bytes(len(data)), human_bytes(MOST_SHOWN)
            kind, data = "stderr", f"A {kind} of {size} was left out: {most} at most.\n".encode()
        self.connection.post(ev.Output(self.task, kind, data))

    # -- the session --------------------------------------------------------------------------

    @property
    def ended(self) -> str | None:
        """See `Engine.ended`."""
        return self.connection.ended

    def wait_welcome(self) -> None:
        """Read until the server has told us the session's name and size."""
        if not self.capacity:
            self.connection.wait_for(lambda: self.capacity > 0)

    def state(self, ref: ObjectRef) -> str:
        """See `Engine.state`."""
        value = self._values.get(ref.id)
        if value is None:
            if self.connection.ended is not None:
                return "session over"
            return "pending" if ref.id in self._expected else "in the store"
        if value.failed:
            return "failed"
        return "ready"

    def snapshot(self) -> Snapshot:
        """See `Engine.snapshot`."""
        answer = self._ask(lambda request: ev.Ask(request, "snapshot"))
        assert isinstance(answer.snapshot, Snapshot)
        return answer.snapshot

    def abandon(self) -> None:
        """See `Engine.abandon`."""
        self.connection.abandon()

    def close(self, goodbye: bool = True) -> None:
        """See `Engine.close`."""
        if goodbye and self.connection.ended is None:
            self.connection.post(ev.Bye())
        self.connection.close()
        self._ended("The session was shut down.")
        self._store.close()
        self._handles.close()
        self._values.clear()

    def _ask(self, question: Callable[[int], Any]) -> Any:
        """Send a question, read until its answer."""
        self._check_open()
        request = next(self._requests)
        answers = self._answers
        try:
            answers[request] = _AWAITED
            self.connection.post(question(request))
            self.connection.wait_for(lambda: answers[request] is not _AWAITED)
            return answers[request]
        finally:
            answers.pop(request, None)

    def _check_open(self) -> None:
        if self.connection.ended is not None:
            raise SessionError(
                f"{self.connection.ended} Objects in it are gone; `init()` or `%workbench start` "
                "begins a new one."
            )

    def _check_refs(self, refs: Sequence[ObjectRef]) -> None:
        for ref in refs:
            if not isinstance(ref, ObjectRef):
                raise TypeError(f"An ObjectRef was expected, not {type(ref).__name__}.")
            if ref._engine is not self:
                if ref.session == self.session:
                    continue
                raise ForeignRefError(
                    f"{ref.hex()} belongs to session {ref.session!r}, and this is "
                    f"{self.session!r}. A ref is good only inside its own session."
                )
        self._check_open()

    # -- what is sent -----------------------------------------------------------------------------

    def _translate(self, queued: list[Any]) -> list[Any]:
        """Watches of dead handles and views become Drop and Unview.

        Pure but for forgetting what is dead anyway.
        """
        messages: list[Any] = []
        drops: list[int] = []
        unviews: list[int] = []
        shows = False

        def bury() -> None:
            if unviews:
                messages.append(ev.Unview(tuple(unviews)))
                unviews.clear()
            if drops:
                messages.append(ev.Drop(tuple(drops)))
                drops.clear()

        for message in queued:
            if type(message) is HandleWatch:
                drops.extend([message.id] * message.grants)
                with self._lock:
                    if self._handles.buried(message):
                        self._values.pop(message.id, None)
                        self._expected.discard(message.id)
            elif type(message) is Watch:
                unviews.append(message.id)
                with self._lock:
                    self._store.buried(message)
            else:
                if type(message) is ev.Ask or type(message) is ev.Grow:
                    bury()  # the answer is to know of it
                shows = shows or type(message) is ev.Output
                messages.append(message)
        bury()  # together, after the rest: a drop may come late
        return _texts_joined(messages) if shows else messages

    def _reduce_ref(self, inside: list[int], ref: ObjectRef) -> tuple[Any, ...]:
        self._check_refs([ref])
        inside.append(ref.id)
        return restore, (ref.id, self.session)

    # -- what the server says: the reading thread -------------------------------------------------

    def _handle(self, message: Any) -> None:
        if type(message) is Parcel:
            self._store.shared(message.message, *message.fds)
        else:
            self._handlers[type(message)](message)

    def _ready(self, message: do.Ready) -> None:
        id = message.object
        self._expected.discard(id)
        with self._lock:
            if self._handles.alive(id):
                self._values[id] = message.value
        if id in self._futures:
            self._resolve(id)

    def _resolve(self, id: int) -> None:
        with self._lock:
            ref, futures = self._futures.pop(id, (None, []))
        for future in futures:
            try:
                future.set_result(self._load(id, copy=False))
            except BaseException as error:
                future.set_exception(error)
        del ref

    def _answered(self, message: Any) -> None:
        self._answer(message.request, message)

    def _found(self, message: do.Found) -> None:
        # It carries a hold, so there is a handle for it even if nobody waits any more.
        with self._lock:
            ref = self._handles.grant(message.object) if message.object else None
        self._answer(message.request, ref)

    def _granted(self, message: do.Granted) -> None:
        self._store.granted(message)
        self._answer(message.request, message)

    def _answer(self, request: int, answer: Any) -> None:
        if request in self._answers:  # else whoever asked was interrupted
            self._answers[request] = answer

    def _welcome(self, message: do.Welcome) -> None:
        self.session = message.session
        self.workers = message.workers
        self.capacity = message.capacity

    def _run(self, message: do.Run) -> None:
        assert self.on_run is not None
        self.on_run(message)

    def _forget(self, message: do.Forget) -> None:
        for id in message.objects:
            with self._lock:
                if self._handles.alive(id):
                    text = "It was freed while this ref was still held. Put it again if need be."
                    self._values[id] = ev.refusal("freed", text)
                self.connection.post(ev.Unview((id,)))
            if message.unused and self.on_forget is not None:
                self.on_forget(id)

    def _show(self, message: ev.Output) -> None:
        if self.output is not None:
            try:
                self.output(message.origin, message.kind, message.data)
            except Exception:  # what shows output must not be able to end the connection
                traceback.print_exc(file=sys.__stderr__)

    def _ended(self, reason: str) -> None:
        """The connection is gone, or we leave: nothing pending will ever come."""
        self._fail_futures(reason)
        if self.on_end is not None:
            self.on_end(reason)

    def _fail_futures(self, reason: str) -> None:
        while self._futures:
            try:
                _, (_, futures) = self._futures.popitem()
            except KeyError:
                break
            for future in futures:
                future.set_exception(SessionError(reason))


def _chunks(ids: list[int]) -> Iterable[tuple[int, ...]]:
    return (tuple(ids[i : i + CHUNK]) for i in range(0, len(ids), CHUNK))


def _texts_joined(messages: list[Any]) -> list[Any]:
    """Neighbouring pieces of one stream's text as one message: ``print(a, b)`` writes four."""

    size = 0

    def stream(message: Any) -> object:
        nonlocal size
        if type(message) is ev.Output and message.kind in ("stdout", "stderr"):
            size += len(message.data)
            return message.task, message.kind, size // TEXT
        return id(message)

    joined = []
    for _, group in itertools.groupby(messages, stream):
        first, *others = group
        if others:
            data = b"".join([first.data, *(m.data for m in others)])
            first = ev.Output(first.task, first.kind, data)
        joined.append(first)
    return joined

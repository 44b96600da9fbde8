"""Client: the Engine of one session's server. Puts, gets, submits; who it is, others decide.

Threads: any may call the public methods. `_handle` runs in whichever thread reads the socket.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from workbench.client.connection import Connection
from workbench.client.exports import Export
from workbench.client.handles import Handles, HandleWatch
from workbench.client.marshal import Encoded, Marshal, Parts
from workbench.client.objects import Objects, chunks
from workbench.client.running import Running
from workbench.client.shield import shield
from workbench.client.sites import call_site, name_of
from workbench.client.store import Claims, LocalStore
from workbench.client.streams import Streams
from workbench.client.tasks import SLOTTED, argument_names, pack_arguments
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.session import ID_BITS
from workbench.core.snapshot import Snapshot
from workbench.engines.base import (
    ACTOR_PREFIX,
    STREAMING,
    ActorOptions,
    Exported,
    OutputSink,
    Shown,
    Submitted,
    TaskOptions,
    Waitable,
)
from workbench.errors import (
    ForeignRefError,
    GetTimeoutError,
    SerializationError,
    SessionError,
)
from workbench.memory.views import Views, Watch
from workbench.ref import ObjectRef
from workbench.serialization import codec
from workbench.serialization.arrays import Reducer
from workbench.serialization.registry import check
from workbench.streams import ObjectRefGenerator
from workbench.units import human_bytes
from workbench.wire.streams import Parcel

Packed = tuple[bytes, tuple[int, ...], tuple[int, ...], ObjectRef | None]
_NOTHING: Packed = b"", (), (), None

ARGUMENTS = "arguments"
"""What an object is described as that holds a call's arguments."""

MOST_SHOWN = 32 << 20
"""Bytes a task may show at once: a frame has to take it."""

TEXT = 1 << 20
"""Bytes of text, about, that neighbouring pieces are joined up to."""

UNLIMITED = 1 << 62
"""Retries: as many as it takes."""

MOST_TERMS = 1000
"""Different options of tasks remembered as they are sent."""

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
    debug : bool
        See `Marshal`.
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
        debug: bool = False,
    ) -> None:
        self.session = session
        self.workers = 0
        self.capacity = 0
        self.output: OutputSink | None = None
        self.joined = True
        self.origin: Callable[[], int] = int
        self.work = Running()  # in a worker: its tasks
        self.on_stop: Callable[[int], None] | None = None
        self.on_run: Callable[[do.Run], None] | None = None
        self.on_took: Callable[[int, int], None] | None = None
        self.on_refresh: Callable[[], None] | None = None
        self.on_recall: Callable[[int], None] | None = None
        self.on_forget: Callable[[int], None] | None = None
        self.on_end: Callable[[str], None] | None = None
        self.blocking: Callable[[], AbstractContextManager[None]] = nullcontext
        self._answers: dict[int, Any] = {}
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
        side = "on the worker" if worker else "in this process"
        self.marshal = Marshal(self._store, self._known_capacity, self._check_ref, side, debug)
        self.objects = Objects(self.connection, self._handles, self._store, self.marshal)
        self.streams = Streams(self.connection, self._handles, self.objects)
        self._terms: dict[TaskOptions, ev.Terms] = {}
        self._handlers: dict[type, Callable[[Any], None]] = {
            do.Ready: self._ready,
            do.Item: self.streams.item,
            ev.Took: lambda m: self.on_took and self.on_took(m.task, m.count),
            ev.Refresh: lambda m: self.on_refresh and self.on_refresh(),
            do.Run: self._run,
            do.Release: self._store.released,
            do.Trim: self._store.trim,
            do.Forget: self._forget,
            do.Welcome: self._welcome,
            do.Found: self._found,
            do.Granted: self._granted,
            do.Answer: self._answered,
            do.Registered: lambda m: self.marshal.registry.tell(m.serializer, m.payload),
            do.Stop: lambda m: self.on_stop and self.on_stop(m.task),
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
        ref, _, about = self._put(value, name, lambda: {name or name_of(value): value})
        return ref, about

    def _put(self, value: Any, name: str, parts: Parts) -> tuple[ObjectRef, Encoded, ev.About]:
        claims: Claims = []
        try:
            encoded = self.marshal.encode(value, claims, parts)
            about = encoded.about(codec.describe(value), call_site(self._task_name()))
            return self._seal(encoded.stored, about, claims, name), encoded, about
        except BaseException:
            self._store.give_back(claims)
            raise

    def unclaim(self, claims: Claims) -> None:
        """Give back extents that no object will lie in."""
        self._store.give_back(claims)

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
        values = self.objects.values
        ids = [ref.id for ref in refs]
        if not all(map(values.__contains__, ids)):
            self._check_refs(refs)
            self.objects.request(ids)
            if not self._wait(self.objects.are_known(ids), timeout):
                left = sum(id not in values for id in ids)
                raise GetTimeoutError(
                    f"{left} of {len(ids)} object(s) were not ready after {timeout} s. Their "
                    "tasks go on; get them again later, or wait longer."
                )
        return [self.objects.load(id, copy) for id in ids]

    def wait(
        self, refs: Sequence[Waitable], num_returns: int, timeout: float | None
    ) -> tuple[list[Waitable], list[Waitable]]:
        """See `Engine.wait`."""
        foreign = [ref for ref in refs if ref._engine is not self]
        self._check_refs([r if isinstance(r, ObjectRef) else r.completed() for r in foreign])
        values = self.objects.values
        has_item = {
            ref.id: self.streams.ready(ref) for ref in refs if type(ref) is ObjectRefGenerator
        }

        def is_ready(id: int) -> bool:
            return id in values or (id in has_item and has_item[id]())

        chosen = _first(refs, is_ready if has_item else values.__contains__, num_returns)
        if len(chosen[0]) == num_returns:
            return chosen
        self.objects.request(ref.id for ref in refs)
        pending = [ref.id for ref in refs]
        enough = len(refs) - num_returns

        def done() -> bool:
            nonlocal pending
            pending = [id for id in pending if not is_ready(id)]
            return len(pending) <= enough

        self._wait(done, timeout)
        return _first(refs, is_ready, num_returns)

    def future(self, ref: ObjectRef) -> Future[Any]:
        """See `Engine.future`."""
        self._check_refs([ref])
        return self.objects.future(ref)

    def free(self, refs: Sequence[ObjectRef]) -> None:
        """See `Engine.free`."""
        self._check_refs(refs)
        for chunk in chunks([ref.id for ref in refs]):
            self.connection.send(ev.Free(chunk))
            self.objects.freed(chunk)

    def adopt(self, id: int) -> ObjectRef:
        """See `Engine.adopt`."""
        with self.objects.lock, shield():
            ref = self._handles.find(id)
            if ref is None:
                self.connection.post(ev.Hold((id,)))
                ref = self._handles.new(id)
            return ref

    def state(self, ref: ObjectRef) -> str:
        """See `Engine.state`."""
        return self.objects.state(ref.id)

    def shown(self, array: Any) -> Shown | None:
        """See `Engine.shown`."""
        id = self.objects.shown(array, self.work.current)
        if not id:
            return None if id is None else Shown(0, (), "")
        record = next((r for r in self.snapshot().objects if r.id == id), None)
        if record is None:
            return Shown(id, (), "")
        if record.about is not None and record.about.type == ARGUMENTS:
            return Shown(0, (), "")
        return Shown(id, record.names, record.about.type if record.about else "a task's result")

    def _seal(self, stored: ev.Value, about: ev.About, claims: Claims, name: str = "") -> ObjectRef:
        id = next(self._ids)
        with shield():
            ref = self._handles.new(id)
            self.objects.values[id] = stored
            self.connection.send(ev.Sealed(id, stored, about, name))
            claims.clear()  # the server's business now
        if name:
            self.connection.flush()  # whoever we tell of the name will find it
        return ref

    def _wait(self, done: Callable[[], bool], timeout: float | None) -> bool:
        if done():
            return True
        if timeout is not None and timeout <= 0:
            self._ask(ev.Ask)  # what the server knows by now comes before its answer
            return done()
        with self.blocking():
            return self.connection.wait_for(done, timeout)

    # -- custom serializers, and refs that leave -------------------------------------------------

    def register(
        self, cls: type, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
    ) -> None:
        """See `Engine.register`."""
        self._check_open()
        if cls is ObjectRef:
            raise TypeError("An ObjectRef has its own serializer: what it refers to stays alive.")
        custom = check(cls, serializer, deserializer)
        parts = {cls.__name__: cls, "serializer": serializer, "deserializer": deserializer}
        payload = self.marshal.inline((cls, serializer, deserializer), lambda: parts)
        with shield():  # nobody shall know it alone
            number = self.marshal.registry.add(custom, self._ids.__next__)
            self.connection.send(ev.Register(number, payload))

    def deregister(self, cls: type) -> None:
        """See `Engine.deregister`."""
        with shield():
            number = self.marshal.registry.remove(cls)
            if number is not None:
                self.connection.send(ev.Register(number, b""))

    def reducers(self) -> Mapping[type, Reducer]:
        """See `Engine.reducers`."""
        return self.marshal.reducers([])

    def escaped(self, ref: ObjectRef) -> None:
        """See `Engine.escaped`."""
        if self.connection.ended is None:
            self.connection.post(ev.Escape(ref.id, call_site(self._task_name())))

    # -- names --------------------------------------------------------------------------------

    def find(self, name: str) -> ObjectRef | None:
        """See `Engine.find`."""
        ref: ObjectRef | None = self._ask(lambda request: ev.Find(request, name))
        return ref

    def names(self) -> list[str]:
        """See `Engine.names`."""
        names = (name for record in self.snapshot().objects for name in record.names)
        return sorted(name for name in names if not name.startswith(ACTOR_PREFIX))

    def unname(self, name: str) -> None:
        """See `Engine.unname`."""
        self.connection.send(ev.Bind(name, 0))
        self.connection.flush()

    # -- tasks --------------------------------------------------------------------------------

    def submit(
        self,
        function: Exported,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: TaskOptions,
    ) -> Submitted:
        """See `Engine.submit`."""
        if self.connection.ended is not None:
            self._check_open()
        export = self._exported(function)
        return self._submit(export.ref.id, args, kwargs, options, options.name or function.name)

    def call(
        self,
        actor: ObjectRef,
        method: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: TaskOptions,
    ) -> Submitted:
        """See `Engine.call`."""
        self._check_refs([actor])
        return self._submit(0, args, kwargs, options, options.name or method, actor.id, method)

    def _submit(
        self,
        function: int,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: TaskOptions,
        name: str,
        actor: int = 0,
        method: str = "",
    ) -> Submitted:
        terms = None if options.is_usual else self._terms_of(options)
        # `packed` is the handle of the arguments, if they had to be an object.
        payload, deps, contains, packed = self._pack(args, kwargs) if args or kwargs else _NOTHING
        given = options.num_returns
        returns = given if isinstance(given, int) else 1
        retries = UNLIMITED if options.max_retries < 0 else options.max_retries
        ids = [next(self._ids)] if returns == 1 else self._consecutive_ids(max(returns, 1))
        task = ids[0]
        del ids[returns:]
        self.objects.expect(ids)
        refs = [self._handles.new(id) for id in ids]
        stream = self.streams.new(refs[0], options.max_ahead) if given == STREAMING else None
        self.connection.send(
            ev.Submit(
                task, function, payload, deps, contains, returns, name, self.origin(),
                retries, actor, method, terms,
            )
        )  # fmt: skip
        del packed  # the Submit that needs the arguments is before their Drop in the queue
        return stream or (refs[0] if given == 1 else refs or None)

    def _terms_of(self, options: TaskOptions) -> ev.Terms:
        """What they ask for, as it is sent."""
        terms = self._terms.get(options)
        if terms is None:
            self.wait_welcome()
            if options.num_cpus > self.workers:
                raise ValueError(
                    f"num_cpus={options.num_cpus:g}, and session {self.session!r} has "
                    f"{self.workers}. Ask for less, or start it with `init(workers=...)`."
                )
            if len(self._terms) >= MOST_TERMS:
                self._terms.clear()
            types = options.retry_exceptions
            terms = self._terms[options] = ev.Terms(
                round(options.num_cpus * ev.USUAL.cpus),
                options.timeout,
                self.marshal.inline(types, lambda: {"retry_exceptions": types}) if types else b"",
                options.max_ahead if options.num_returns == STREAMING else 0,
            )
        return terms

    # -- streams ------------------------------------------------------------------------------

    def wait_for_item(self, stream: ObjectRefGenerator) -> None:
        """See `Engine.wait_for_item`."""
        self._check_refs([stream.completed()])
        self._wait(self.streams.ready(stream), None)

    def next_item(self, stream: ObjectRefGenerator) -> Future[None] | None:
        """See `Engine.next_item`."""
        self._check_refs([stream.completed()])
        return self.streams.next(stream)

    def took(self, stream: ObjectRefGenerator, count: int) -> None:
        """See `Engine.took`."""
        self.streams.took(stream, count)

    def hand_out(self, run: do.Run, item: Any) -> None:
        """In a worker: give the next item of the running stream to its reader."""
        claims: Claims = []
        try:
            encoded = self.marshal.encode(item, claims, lambda: {f"an item of {run.name}": item})
            about = encoded.about_large(item, f"item of {run.name}")
            id = next(self._ids)
            with shield():
                self.connection.send(ev.Yielded(run.task, id, encoded.stored, about))
                claims.clear()  # the server's business now
        except BaseException:
            self._store.give_back(claims)
            raise

    def refresh(self) -> None:
        """See `Engine.refresh`."""
        self.connection.post(ev.Refresh())

    def create(
        self,
        blueprint: Exported,
        description: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: ActorOptions,
    ) -> ObjectRef:
        """See `Engine.create`."""
        self._check_open()
        export = self._exported(blueprint)
        payload, deps, contains, packed = self._pack(args, kwargs)
        name = f"{ACTOR_PREFIX}{options.name}" if options.name else ""
        ref, _ = self.put(description)
        birth = ev.Submit(
            ref.id, export.ref.id, payload, deps, contains, 0, blueprint.name, self.origin(),
            0, ref.id, "__init__",
        )  # fmt: skip
        self.connection.send(
            ev.Create(birth, options.max_restarts, options.max_concurrency, name)
        )
        if name:
            self.connection.flush()
        del packed
        return ref

    def find_actor(self, name: str) -> ObjectRef | None:
        """See `Engine.find_actor`."""
        return self.find(f"{ACTOR_PREFIX}{name}")

    def dismiss(self, actor: ObjectRef, restart: bool) -> None:
        """See `Engine.dismiss`."""
        self._check_refs([actor])
        self.connection.send(ev.Dismiss(actor.id, restart))

    def cancel(self, ref: ObjectRef, force: bool, recursive: bool) -> None:
        """See `Engine.cancel`."""
        self._check_refs([ref])
        self.connection.send(ev.Cancel(ref.id, force, recursive))
        self.connection.flush()

    def _exported(self, function: Exported) -> Export:
        """The function as it is stored; stored again if what it refers to is no longer the same."""
        handle = function.handle
        if handle is not None and handle[0] is self and handle[1].is_current():
            return handle[1]  # type: ignore[no-any-return]
        ref, encoded, _ = self._put(
            function.function, "", lambda: {function.name: function.function}
        )
        export = Export(ref, encoded.serialized.globals_read)
        function.handle = self, export
        return export

    def _task_name(self) -> str:
        return "" if self.work.current is None else self.work.current.name

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
            encoded = self.marshal.encode(packed, claims, lambda: argument_names(args, kwargs))
            stored = encoded.stored
            if not stored.segment:
                return stored.header, deps, stored.contains, None
            about = encoded.about(ARGUMENTS, call_site(self._task_name()))
            ref = self._seal(stored, about, claims)
        except BaseException:
            self._store.give_back(claims)
            raise
        return SLOTTED, (ref.id, *deps), (), ref

    def show(self, kind: str, data: bytes) -> None:
        """In a worker: send what the running task shows to whoever submitted it.

        What is shown while no task runs goes nowhere a person would look for it: it is dropped.
        """
        run = self.work.current
        if run is None:
            return
        if len(data) > MOST_SHOWN:
            size, most = human_bytes(len(data)), human_bytes(MOST_SHOWN)
            kind, data = "stderr", f"A {kind} of {size} was left out: {most} at most.\n".encode()
        self.connection.post(ev.Output(run.task, kind, data))

    # -- the session --------------------------------------------------------------------------

    @property
    def ended(self) -> str | None:
        """See `Engine.ended`."""
        return self.connection.ended

    def _known_capacity(self) -> int:
        self.wait_welcome()
        return self.capacity

    def wait_welcome(self) -> None:
        """Read until the server has told us the session's name and size."""
        if not self.capacity:
            self.connection.wait_for(lambda: self.capacity > 0)

    def snapshot(self) -> Snapshot:
        """See `Engine.snapshot`."""
        answer = self._ask(lambda request: ev.Ask(request, "snapshot"))
        assert isinstance(answer.snapshot, Snapshot)
        return answer.snapshot

    def abandon(self) -> None:
        """See `Engine.abandon`."""
        self.connection.abandon()
        self._store.abandon()

    def close(self, goodbye: bool = True) -> None:
        """See `Engine.close`."""
        if goodbye and self.connection.ended is None:
            self.connection.post(ev.Bye())
        self.connection.close()
        self._ended("The session was shut down.")
        self._store.close()
        self._handles.close()
        self.objects.close()

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
                f"{self.connection.ended} Its objects are out of reach; `init()` or "
                "`%workbench start` begins a new one."
            )

    def _check_refs(self, refs: Sequence[ObjectRef]) -> None:
        for ref in refs:
            self._check_ref(ref)
        self._check_open()

    def _check_ref(self, ref: ObjectRef) -> None:
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"An ObjectRef was expected, not {type(ref).__name__}.")
        if ref._engine is not self and ref.session != self.session:
            raise ForeignRefError(
                f"{ref.hex()} belongs to session {ref.session!r}, and this is "
                f"{self.session!r}. A ref is good only inside its own session."
            )

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
            loaded = self.marshal.report(self._is_of_interest)
            if loaded is not None:
                messages.append(loaded)

        for message in queued:
            if type(message) is HandleWatch:
                drops.extend([message.id] * message.grants)
                self.objects.buried(message)
            elif type(message) is Watch:
                unviews.append(message.id)
                self.objects.buried(message)
            else:
                if type(message) is ev.Ask or type(message) is ev.Grow:
                    bury()  # the answer is to know of it
                shows = shows or type(message) is ev.Output
                messages.append(message)
        bury()  # together, after the rest: a drop may come late
        return _texts_joined(messages) if shows else messages

    def _is_of_interest(self, id: int) -> bool:
        """Whether what loading it cost is worth a message: not what was put, read and dropped."""
        return id in self.objects.values or id >> ID_BITS != self._hello.prefix

    # -- what the server says: the reading thread -------------------------------------------------

    def _ready(self, message: do.Ready) -> None:
        self.objects.ready(message)
        if self.streams.is_awaited:
            self.streams.stir(message.object)

    def _handle(self, message: Any) -> None:
        if type(message) is Parcel:
            self._store.shared(message.message, *message.fds)
        else:
            self._handlers[type(message)](message)

    def _answered(self, message: Any) -> None:
        self._answer(message.request, message)

    def _found(self, message: do.Found) -> None:
        # It carries a hold, so there is a handle for it even if nobody waits any more.
        with self.objects.lock:
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
            self.objects.forget(id)
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
        self.objects.end(reason)
        self.streams.close()
        if self.on_end is not None:
            self.on_end(reason)


def _first(
    refs: Sequence[Waitable], is_ready: Callable[[int], bool], count: int
) -> tuple[list[Waitable], list[Waitable]]:
    """The first ``count`` that are ready, or as many as are; and all others. In order both."""
    ready: list[Waitable] = []
    others: list[Waitable] = []
    for place, ref in enumerate(refs):
        if not is_ready(ref.id):
            others.append(ref)
            continue
        ready.append(ref)
        if len(ready) == count:
            others += refs[place + 1 :]
            break
    return ready, others


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

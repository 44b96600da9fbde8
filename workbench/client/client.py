"""Client: the Engine of one session's server. It puts its parts together, gets, waits and asks.

Threads: any may call the public methods. `_handle` runs in whichever thread reads the socket.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from workbench import context
from workbench.call_site import call_site, name_of
from workbench.client.completion_queue import CompletionQueue
from workbench.client.connection import Connection
from workbench.client.generators import GeneratorReaders
from workbench.client.marshal import Marshal
from workbench.client.object_store import LocalStore
from workbench.client.objects import Objects, chunks
from workbench.client.puts import Puts
from workbench.client.reference_counter import ReferenceCounter
from workbench.client.referrers import Places, find, main_variables, survey
from workbench.client.requests import GLANCE, Requests
from workbench.client.send_queue import SendQueue
from workbench.client.submitter import ARGUMENTS, Submitter
from workbench.client.subscriptions import Gauge, Subscription
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import ID_BITS
from workbench.core.snapshot import (
    A_RESULT,
    ACTOR_PREFIX,
    Account,
    Change,
    ObjectDescription,
    Snapshot,
)
from workbench.engines.base import (
    Abilities,
    Call,
    CollectedJob,
    Exported,
    OutputSink,
    Shown,
    Submitted,
    Waitable,
)
from workbench.errors import (
    ForeignRefError,
    GetTimeoutError,
    SerializationError,
    SessionError,
)
from workbench.ki_protection import ki_protection
from workbench.memory.views import Views
from workbench.options import ActorOptions, TaskOptions
from workbench.ref import ObjectRef
from workbench.ref_generator import ObjectRefGenerator
from workbench.serialization.arrays import Reducer
from workbench.serialization.registry import check
from workbench.task_context import TaskContext
from workbench.wire.buffers import Parcel


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
    huge : bool
        Whether to ask for huge pages.
    """

    can = Abilities()

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
        huge: bool = False,
    ) -> None:
        self.session = session
        self.workers = 0
        self.capacity = 0
        self.output: OutputSink | None = None
        self.began: Callable[[int, int], None] | None = None
        self.joined = True
        self.origin: Callable[[], int] = int
        self.work: TaskContext[do.Run] = TaskContext()  # in a worker: its tasks
        self.on_stop: Callable[[int], None] | None = None
        self.on_run: Callable[[do.Run], None] | None = None
        self.on_took: Callable[[int, int], None] | None = None
        self.on_refresh: Callable[[], None] | None = None
        self.on_recall: Callable[[int], None] | None = None
        self.on_forget: Callable[[int], None] | None = None
        self.on_end: Callable[[str], None] | None = None
        self.blocking: Callable[[], AbstractContextManager[None]] = nullcontext
        self.roots: Callable[[], Mapping[str, Any]] = main_variables
        prefix = secrets.randbits(31) | 1 << 30
        self._ids = itertools.count((prefix << ID_BITS) + 1)
        self.connection = Connection(
            sock, self._handle, lambda queued: self._send_queue.translate(queued), self._ended
        )
        self._requests = Requests(self.connection, self._check_open)
        self._changes: dict[int, Subscription] = {}  # by number
        self._gauge = Gauge()
        self._references = ReferenceCounter(
            self, self.connection.put, self.connection.wake_from_finalizer
        )
        self._store = LocalStore(
            self.connection.send,
            self._requests.ask,
            Views(self.connection.put, self.connection.wake_from_finalizer),
            self._ids.__next__,
            threads,
            huge,
            self.held,
        )
        side = "on the worker" if worker else "in this process"
        self.marshal = Marshal(self._store, self._known_capacity, self.check_ref, side, debug)
        self.objects = Objects(self.connection, self._references, self._store, self.marshal)
        self.generators = GeneratorReaders(self.connection, self._references, self.objects)
        self._send_queue = SendQueue(self.objects, self.generators, self.marshal, prefix)
        self.puts = Puts(
            self.connection, self._references, self.objects, self._store, self.marshal,
            self._ids.__next__, self.work,
        )  # fmt: skip
        self._submitter = Submitter(self, self._references, self.puts, self._ids.__next__)
        self._handlers: dict[type, Callable[[Any], None]] = {
            do.Ready: self._ready,
            do.Item: self.generators.item,
            ev.Took: lambda m: self.on_took and self.on_took(m.task, m.taken),
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
            do.Explain: self._explain,
            do.Moved: self.objects.moved,
            do.Unshare: self._store.unshared,
            do.Collected: self._collected,
            do.Began: self._began,
            do.Changed: self._changed,
            do.Ended: self.connection.told_to_end,
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
        ref, _, about = self.puts.put(value, name, lambda: {name or name_of(value): value})
        return ref, about

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
            self.check_refs(refs)
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
        self.check_refs([r if isinstance(r, ObjectRef) else r.completed() for r in foreign])
        values = self.objects.values
        has_item = {
            ref.id: self.generators.ready(ref) for ref in refs if type(ref) is ObjectRefGenerator
        }

        def is_ready(id: int) -> bool:
            return id in values or (id in has_item and has_item[id]())

        chosen = _first(refs, is_ready if has_item else values.__contains__, num_returns)
        if len(chosen[0]) == num_returns:
            return chosen
        for ref in refs:
            if type(ref) is ObjectRefGenerator:
                ref.tell()  # its task may wait for this
        self.objects.request(ref.id for ref in refs)
        pending = [ref.id for ref in refs]
        enough = len(refs) - num_returns

        def done() -> bool:
            nonlocal pending
            pending = [id for id in pending if not is_ready(id)]
            return len(pending) <= enough

        self._wait(done, timeout)
        return _first(refs, is_ready, num_returns)

    def arrivals(self, refs: Iterable[ObjectRef]) -> CompletionQueue:
        """See `Engine.arrivals`."""
        found = CompletionQueue(self.objects, self._wait, self.check_refs, self.connection.flush)
        found.add(refs)
        return found

    def future(self, ref: ObjectRef) -> Future[Any]:
        """See `Engine.future`."""
        self.check_refs([ref])
        return self.objects.future(ref)

    def pin(self, ref: ObjectRef, on: bool, site: str = "") -> None:
        """See `Engine.pin`."""
        self.check_refs([ref])
        self.connection.send(ev.Pin(ref.id, site or call_site(self.work.name), on))
        self.connection.flush()

    def spill(self, ref: ObjectRef) -> str:
        """See `Engine.spill`."""
        self.check_refs([ref])
        return self._requests.spill(ref.id)

    def why(self, what: int | str) -> Account | None:
        """See `Engine.why`."""
        return self._requests.why(what)

    def describe(self, ref: ObjectRef) -> ObjectDescription | None:
        """See `Engine.describe`."""
        return self._requests.describe(ref.id)

    def overview(self) -> Snapshot | None:
        """See `Engine.overview`."""
        return self._requests.overview()

    def peek(self, ref: ObjectRef) -> Any:
        """See `Engine.peek`."""
        known = partial(self.objects.values.__contains__, ref.id)
        if not known():
            try:
                self.objects.request([ref.id])
                self.connection.wait_for(known, GLANCE)
            except SessionError:
                pass
        if not known():
            raise LookupError("it isn't here")
        return self.objects.peek(ref.id)

    def free(self, refs: Sequence[ObjectRef]) -> None:
        """See `Engine.free`."""
        self.check_refs(refs)
        for chunk in chunks([ref.id for ref in refs]):
            self.connection.send(ev.Free(chunk))
            self.objects.freed(chunk)

    def borrow(self, id: int) -> ObjectRef:
        """See `Engine.borrow`."""
        with self.objects.lock, ki_protection():
            ref = self._references.find(id)
            if ref is None:
                self.connection.post(ev.Hold((id,)))
                ref = self._references.new(id)
            return ref

    def state(self, ref: ObjectRef) -> str:
        """See `Engine.state`."""
        return self.objects.state(ref.id)

    def shown(self, array: Any) -> Shown | None:
        """See `Engine.shown`."""
        id = self.objects.shown(array, self.work.current)
        if not id:
            return None if id is None else Shown(0, (), "")
        described = self._requests.describe(id)
        if described is None:
            return Shown(id, (), "")
        record = described.object
        if record.about is not None and record.about.type == ARGUMENTS:
            return Shown(0, (), "")
        return Shown(id, record.names, record.about.type if record.about else A_RESULT)

    def stored_as(self, value: Any) -> ObjectRef | None:
        """See `Engine.stored_as`."""
        return self.objects.stored_as(value)

    def copy_speed(self) -> float:
        """See `Engine.copy_speed`."""
        return self._store.copy_speed()

    def copying(self) -> tuple[int, int] | None:
        """See `Engine.copying`."""
        return self._store.copying()

    def _wait(self, done: Callable[[], bool], timeout: float | None) -> bool:
        if done():
            return True
        if timeout is not None and timeout <= 0:
            self._requests.ask(ev.Ask)  # what the server knows by now comes before its answer
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
        with ki_protection():  # nobody shall know it alone
            number = self.marshal.registry.add(custom, self._ids.__next__)
            self.connection.send(ev.Register(number, payload))

    def deregister(self, cls: type) -> None:
        """See `Engine.deregister`."""
        with ki_protection():
            number = self.marshal.registry.remove(cls)
            if number is not None:
                self.connection.send(ev.Register(number, b""))

    def reducers(self) -> Mapping[type, Reducer]:
        """See `Engine.reducers`."""
        return self.marshal.reducers([])

    def escaped(self, ref: ObjectRef) -> tuple[Any, ...]:
        """See `Engine.escaped`."""
        if self.connection.ended is None:
            self.connection.post(ev.Escape(ref.id, call_site(self.work.name)))
        return context.restore, (ref.id, self.session)

    def mimebundle(self, thing: object) -> dict[str, str]:
        """See `Engine.mimebundle`."""
        return context.mimebundle(thing)

    # -- names --------------------------------------------------------------------------------

    def find(self, name: str) -> ObjectRef | None:
        """See `Engine.find`."""
        ref: ObjectRef | None = self._requests.ask(lambda request: ev.Find(request, name))
        return ref

    def names(self, beginning: str = "") -> list[str]:
        """See `Engine.names`."""
        names = self._requests.names(beginning)
        return sorted(name for name in names if not name.startswith(ACTOR_PREFIX))

    def name(self, ref: ObjectRef, name: str) -> None:
        """See `Engine.name`."""
        self.check_refs([ref])
        self.connection.send(ev.Bind(name, ref.id))
        self.connection.flush()

    def unname(self, name: str) -> None:
        """See `Engine.unname`."""
        self.connection.send(ev.Bind(name, 0))
        self.connection.flush()

    # -- tasks --------------------------------------------------------------------------------

    def submit(self, function: Exported, call: Call[TaskOptions]) -> Submitted:
        """See `Engine.submit`."""
        if self.connection.ended is not None:
            self._check_open()
        return self._submitter.submit(function, call)

    def call(self, actor: ObjectRef, method: str, call: Call[TaskOptions]) -> Submitted:
        """See `Engine.call`."""
        self.check_refs([actor])
        return self._submitter.call(actor, method, call)

    def refresh(self) -> None:
        """See `Engine.refresh`."""
        self.connection.post(ev.Refresh())

    def create(self, blueprint: Exported, description: Any, call: Call[ActorOptions]) -> ObjectRef:
        """See `Engine.create`."""
        self._check_open()
        return self._submitter.create(blueprint, description, call)

    def find_actor(self, name: str) -> ObjectRef | None:
        """See `Engine.find_actor`."""
        return self.find(f"{ACTOR_PREFIX}{name}")

    def kill_actor(self, actor: ObjectRef, restart: bool) -> None:
        """See `Engine.kill_actor`."""
        self.check_refs([actor])
        self.connection.send(ev.KillActor(actor.id, restart))

    def cancel(self, ref: ObjectRef, force: bool, recursive: bool) -> None:
        """See `Engine.cancel`."""
        self.check_refs([ref])
        self.connection.send(ev.Cancel(ref.id, force, recursive))
        self.connection.flush()

    # -- streams ------------------------------------------------------------------------------

    def wait_for_item(self, stream: ObjectRefGenerator) -> None:
        """See `Engine.wait_for_item`."""
        self.check_refs([stream.completed()])
        self._wait(self.generators.ready(stream), None)

    def next_item(self, stream: ObjectRefGenerator) -> Future[None] | None:
        """See `Engine.next_item`."""
        self.check_refs([stream.completed()])
        return self.generators.next(stream)

    def took(self, stream: ObjectRefGenerator, taken: int) -> None:
        """See `Engine.took`."""
        self.generators.took(stream, taken)

    # -- what tasks show -----------------------------------------------------------------------

    def collect(self, job: int) -> CollectedJob | None:
        """See `Engine.collect`."""
        origin = self.origin()
        ask = self._requests.ask
        found: CollectedJob | None = ask(lambda request: ev.Collect(request, job, origin))
        return found

    def interrupt(self, origin: int, jobs: Sequence[int], force: bool, timeout: float) -> bool:
        """See `Engine.interrupt`."""
        return self._requests.interrupt(origin, jobs, force, timeout)

    # -- the session --------------------------------------------------------------------------

    def keep(self, linger: float) -> None:
        """See `Engine.keep`."""
        self._check_open()
        self.connection.send(ev.Keep(linger))
        self.connection.flush()

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
        return self._gauge.measured(self._requests.snapshot())

    def summary(self) -> Snapshot:
        """See `Engine.summary`."""
        return self._requests.summary()

    def search(self, pattern: str, order: str, most: int) -> Change:
        """See `Engine.search`."""
        return self._requests.search(ev.Search(pattern, order, most))

    def changes(self) -> Subscription:
        """See `Engine.changes`."""
        self._check_open()
        number = self._requests.number()
        made = Subscription(number, self._tell, self._gauge, lambda n: self._changes.pop(n, None))
        self._changes[number] = made
        if self.connection.ended is not None:  # just now: `_ended` may not have seen this one
            made.came(None)
        return made

    def _tell(self, message: ev.Event) -> None:
        if self.connection.ended is None:
            self.connection.send(message)
            self.connection.flush()

    def held(self) -> dict[int, Places]:
        """See `Engine.held`."""
        return survey(self.objects.held_by, self.roots())

    def huge_pages(self) -> str:
        """See `Engine.huge_pages`."""
        return self._store.huge_pages()

    def abandon(self) -> None:
        """See `Engine.abandon`."""
        self.connection.abandon()
        self._store.abandon()

    def close(self, goodbye: bool = True) -> None:
        """See `Engine.close`."""
        shows = self._store.shows()
        if (goodbye or shows) and self.connection.ended is None:
            self.connection.post(ev.Bye(lingers=not goodbye, shows=shows))
        # What arrays show is theirs until they die: the server sees that by the socket's end.
        self._store.close(self.connection.close(keep=shows))
        self._ended("The session was shut down.")
        self._references.close()
        self.objects.close()

    def _check_open(self) -> None:
        if self.connection.ended is not None:
            raise SessionError(
                f"{self.connection.ended} Its objects are out of reach; `init()` or "
                "`%workbench start` begins a new one."
            )

    def check_refs(self, refs: Iterable[ObjectRef]) -> None:
        """Raise unless all are refs of this session, and it goes on."""
        for ref in refs:
            self.check_ref(ref)
        self._check_open()

    def check_ref(self, ref: ObjectRef) -> None:
        """Raise unless it is a ref of this session."""
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"An ObjectRef was expected, not {type(ref).__name__}.")
        if ref._engine is not self and ref.session != self.session:
            raise ForeignRefError(
                f"{ref.hex()} belongs to session {ref.session!r}, and this is "
                f"{self.session!r}. A ref is good only inside its own session."
            )

    # -- what the server says: the reading thread -------------------------------------------------

    def _ready(self, message: do.Ready) -> None:
        self.objects.ready(message)
        if self.generators.is_awaited:
            self.generators.stir(message.object)

    def _handle(self, message: Any) -> None:
        if type(message) is Parcel:
            self._store.shared(message.message, *message.fds)
        else:
            self._handlers[type(message)](message)

    def _answered(self, message: Any) -> None:
        self._requests.answer(message.request, message)

    def _found(self, message: do.Found) -> None:
        # It carries a hold, so there is a handle for it even if nobody waits any more.
        with self.objects.lock:
            ref = self._references.grant(message.object) if message.object else None
        self._requests.answer(message.request, ref)

    def _collected(self, message: do.Collected) -> None:
        with self.objects.lock:
            results = [self._references.grant(id) if id else None for id in message.results]
        found = None if message.job is None else CollectedJob(message.job, results)
        self._requests.answer(message.request, found)

    def _began(self, message: do.Began) -> None:
        if self.began is not None:
            self.began(message.job, message.worker)

    def _changed(self, message: do.Changed) -> None:
        if message.request in self._changes:
            self._changes[message.request].came(message.change)
        else:
            self._requests.answer(message.request, message.change)

    def _granted(self, message: do.Granted) -> None:
        self._store.granted(message)
        self._requests.answer(message.request, message)

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

    def _explain(self, message: do.Explain) -> None:
        places, complete = find(partial(self.objects.kind_of, message.object), self.roots())
        self.connection.post(ev.Explained(message.inquiry, places, complete))

    def _show(self, message: ev.Output) -> None:
        if self.output is not None:
            try:
                self.output(message)
            except Exception:  # what shows output must not be able to end the connection
                traceback.print_exc(file=sys.__stderr__)

    def _ended(self, reason: str) -> None:
        """The connection is gone, or we leave: nothing pending will ever come."""
        self.objects.end(reason)
        self.generators.close()
        for changes in list(self._changes.values()):
            changes.came(None)
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

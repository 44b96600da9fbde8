"""What one process of a session on a cluster has, and what people do with objects there: put, get,
wait, free, name.

The first layer of `engine`, below `tasks`. Any thread may call.
"""

from __future__ import annotations

import itertools
import secrets
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from workbench import context, errors
from workbench.call_site import call_site, name_of
from workbench.client.requests import digits_of, id_like
from workbench.client.task_prints import TaskPrints
from workbench.core.events import ID_BITS, About
from workbench.core.snapshot import ACTOR_PREFIX
from workbench.engine.base import Copying, Waitable, check_storable, first_ready, late
from workbench.engine.following import Arrivals
from workbench.engine.lending_future import Lending, new_future, waiting
from workbench.engine.queries import Answering
from workbench.engines.cluster.backend import Backend, Head, Native, StoredValue
from workbench.engines.cluster.entries import (
    FAILED,
    FREED,
    PENDING,
    READY,
    UNKNOWN,
    Entries,
    KnownObject,
    NativeLending,
    ShownArray,
    of_object,
    wait_for,
)
from workbench.engines.cluster.keeper import KeptObject
from workbench.engines.cluster.parcels import Packer, contents, read_only
from workbench.engines.cluster.work_thread import WorkThread
from workbench.errors import (
    GetTimeoutError,
    ObjectFreedError,
    SessionError,
    TaskTimeoutError,
    WorkbenchError,
)
from workbench.expressions import describe
from workbench.memory.views import address
from workbench.ref import ObjectRef
from workbench.serialization import codec, safe_load
from workbench.serialization.comparison import ChangeCheck, Comparison
from workbench.serialization.registry import Custom, Function

if TYPE_CHECKING:
    from workbench.engines.cluster.hosting import Hosting


class ClusterStore(Answering):
    """See the module. ``hosting`` runs tasks here, in a process of the cluster's; None: a driver.

    ``prefix`` is that of the ids that are made here; ``unfinished`` are tasks that were submitted
    here and aren't over. ``logs``: what they print is printed here, until a notebook shows it under
    its cells.
    """

    def __init__(self, backend: Backend, logs: bool = True) -> None:
        self.backend = backend
        self.can = backend.can
        self.session = backend.session
        self.mimebundle: Callable[[object], dict[str, str]] = context.mimebundle
        self.hosting: Hosting | None = None
        self.prefix = prefix = secrets.randbits(31) | 1 << 30
        self.next_id = itertools.count((prefix << ID_BITS) + 1).__next__
        side = "on the worker" if backend.blocks else "in this process"
        self.entries = Entries(self, backend)
        self.packer = Packer(self.session, prefix, self.entries.native, side)
        self.unfinished: dict[int, Head] = {}
        self.prints = TaskPrints(lambda task: task not in self.unfinished)
        self.listener = self.prints.listener(logs)
        self.opening = WorkThread("workbench-futures")
        self._lending = NativeLending(backend, self.entries)

    @property
    def end_reason(self) -> str | None:
        return self.entries.end_reason or self.backend.end_reason

    def check_open(self) -> None:
        if self.end_reason is not None:
            raise SessionError(self.end_reason)

    def place(self) -> tuple[int, int]:
        """Where what a task shows goes that is submitted now: whose screen, under which cell."""
        if self.hosting is None:
            return self.prefix, self.listener.origin()
        run = self.hosting.work.current or self.hosting.work.latest
        return (0, 0) if run is None else (run.audience, run.origin)

    def site(self) -> str:
        """Where in a person's code the call stands."""
        return call_site("" if self.hosting is None else self.hosting.work.name)

    # -- putting ---------------------------------------------------------------------------------

    def put(self, value: Any, name: str = "") -> tuple[ObjectRef, About]:
        self.check_open()
        check_storable(value)
        stored = self.packer.pack(value, lambda: {name or name_of(value): value}, site=self.site())
        return self.keep_packed(stored, name)

    def keep_packed(self, stored: StoredValue, name: str = "") -> tuple[ObjectRef, About]:
        started = time.perf_counter()
        native = self.backend.put(stored, bool(name))
        assert stored.about is not None
        seconds = stored.about.copy_seconds + time.perf_counter() - started
        about = msgspec.structs.replace(stored.about, copy_seconds=seconds)
        ref, entry = self.entries.new(self.next_id(), native, READY)
        entry.about, entry.inside = about, stored.inside
        if name:
            self.backend.ask("bind", name, ref.id, native, about)
        return ref, about

    def register(self, cls: type, by: tuple[Function, Function] | None) -> None:
        if by is None:
            self.packer.registry.remove(cls)
            return
        self.check_open()
        custom = Custom(cls, *by)
        self.packer.packed((cls, *by), custom.parts)  # raises if it can't travel with a value
        self.packer.registry.add(custom, self.next_id)
        warnings.warn(self.can.serializers, stacklevel=3)

    # -- what came along -------------------------------------------------------------------------

    def borrow(self, id: int) -> ObjectRef:
        if (ref := self.entries.find(id)) is not None:
            return ref
        for each in self.backend.ask("identify", f"{id:016x}"):
            return self.entries.learn([each.id], [each.native])[0]
        raise errors.ObjectLostError(
            f"Object {id:016x} isn't known here: a ref travels to another process inside what is "
            "put, passed or returned, or by its object's name."
        )

    def escaped(self, ref: ObjectRef) -> tuple[Any, ...]:
        with suppress(WorkbenchError):  # who makes it again finds it by its id
            self.backend.tell("escape", ref.id, self.entries.native(ref), self.site())
        return context.restore, (ref.id, self.backend.session)

    # -- reading and waiting ---------------------------------------------------------------------

    def get(self, refs: Sequence[ObjectRef], timeout: float | None, copy: Copying) -> list[Any]:
        entries = [self.entries.of(ref) for ref in refs]
        if not all(entry.is_over for entry in entries):
            self.check_open()
        deadline = None if timeout is None else time.monotonic() + timeout
        known = [entry for entry in entries if entry.state != UNKNOWN]
        if not self._wait(known, len(known), timeout, or_failed=True):
            raise self._late(entries, timeout)
        needed = [entry for entry in entries if entry.has_failed][:1] or entries
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        try:
            stored = self._fetched(needed, left)
        except TaskTimeoutError:
            raise
        except TimeoutError:
            raise self._late(entries, timeout) from None
        self.listener.flush()
        return [self._opened(*each, copy) for each in zip(needed, stored, strict=True)]

    def _late(self, entries: Sequence[KnownObject], timeout: float | None) -> GetTimeoutError:
        left = sum(not entry.is_over for entry in entries)
        return late(left or 1, len(entries), timeout)

    def _fetched(self, entries: Sequence[KnownObject], timeout: float | None) -> list[StoredValue]:
        for entry in entries:
            if entry.error is not None or entry.native is None:
                raise entry.why_gone
        return self.backend.get([of_object(entry.native) for entry in entries], timeout)

    def _opened(self, entry: KnownObject, stored: StoredValue, copy: Copying) -> Any:
        keep = self.entries.learn(stored.inside, stored.natives)
        entry.inside = stored.inside
        if not entry.is_over:
            self.entries.settle(entry.id, FAILED if stored.failed else READY, stored.about)
        value = self.packer.open(entry.id, stored, copy)
        if not copy and stored.buffers and stored.header[:1] == b"F":
            ShownArray.of(value.base, self.entries.new(entry.id, None, READY)[0], entry)
        del keep
        return value

    def _wait(
        self,
        entries: Sequence[KnownObject],
        enough: int,
        timeout: float | None,
        or_failed: bool = False,
    ) -> bool:
        """Wait until so many are over, or one has failed; False if time is up first. In a task
        others run meanwhile. SessionError if the session ends."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pending = [entry for entry in entries if not entry.is_over]
        left = enough - len(entries) + len(pending)
        if left <= 0 or (or_failed and any(entry.has_failed for entry in entries)):
            return True
        self.check_open()
        with waiting(self.lends, lambda: [entry.id for entry in pending], left, timeout=timeout):
            seconds = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            found = wait_for(pending, left, seconds, lambda each: or_failed and each.has_failed)
        if self.entries.end_reason is not None and sum(each.is_over for each in pending) < left:
            raise SessionError(self.entries.end_reason)
        return found

    def wait(
        self, refs: Sequence[Waitable], num_returns: int, timeout: float | None
    ) -> tuple[list[Waitable], list[Waitable]]:
        entries = [self.entries.of(r if isinstance(r, ObjectRef) else r.completed()) for r in refs]
        for entry in entries:
            self.entries.watch(entry)
        self._wait(entries, num_returns, timeout)
        self.listener.flush()
        return first_ready(refs, [entry.is_over for entry in entries], num_returns)

    def arrivals(self, refs: Iterable[ObjectRef]) -> ArrivalQueue:
        found = ArrivalQueue(self)
        found.add(refs)
        return found

    def future(self, ref: ObjectRef) -> Future[Any]:
        future = new_future(self.lending, lambda: (ref.id,))
        future.set_running_or_notify_cancel()

        def open_it() -> None:
            try:
                (value,) = self.get([ref], None, False)
            except BaseException as error:
                future.set_exception(errors.for_future(error))
            else:
                future.set_result(value)

        # Who tells that it is there may be the thread that would bring it.
        self.entries.announce([ref], lambda _: self.opening.do(open_it))
        return future

    def state(self, ref: ObjectRef) -> str:
        entry = self.entries.get(ref.id)
        if entry is None or (self.entries.end_reason is not None and not entry.is_over):
            return "session over"
        return {FREED: FAILED}.get(entry.state, entry.state)

    def peek(self, ref: ObjectRef) -> Any:
        stored = self._glanced(ref)
        if len(contents(stored).stream) > codec.MOST_PEEKED:
            raise LookupError("it is large")
        if not stored.buffers:
            return codec.peek(stored.header, None)
        return codec.from_parts(stored.header, read_only(stored.buffers), load=safe_load.load)

    def _glanced(self, ref: ObjectRef) -> StoredValue:
        entry = self.entries.of(ref)
        try:
            if entry.state in (READY, UNKNOWN):
                return self._fetched([entry], 0.5)[0]
        except (TimeoutError, WorkbenchError) as error:
            raise LookupError("it isn't here") from error
        raise LookupError("it isn't here")

    def compare(self, ref: ObjectRef, value: Any, check: ChangeCheck, spent: float) -> Comparison:
        return check.run(value, contents(self._glanced(ref)), self.packer.reducers([]), spent)

    @property
    def lends(self) -> Lending | None:
        """What this process waits with; an actor, too, where others may have what it was given."""
        return self._lending if self.backend.blocks else None

    @property
    def lending(self) -> Lending | None:
        return None if self.hosting is None or self.hosting.actor else self._lending

    # -- views -----------------------------------------------------------------------------------

    def kept(self, id: int) -> dict[str, Any]:
        """What keeps the object in this process: its handle, and what its arrays show."""
        entry = self.entries.get(id)
        shown = [] if entry is None else [watch() for watch in entry.shown]
        found = {"ref": self.entries.find(id), "view": next(iter(shown), None)}
        return {kind: thing for kind, thing in found.items() if thing is not None}

    def stored_as(self, value: Any, changed: bool = False) -> ObjectRef | None:
        # What was put isn't remembered here: an argument of joblib's is stored once more.
        is_array = type(value) is np.ndarray and not changed
        if (ref := self.entries.shown_by(value) if is_array else None) is None:
            return None
        whole, about = value.base, self.entries.of(ref).about
        if whole is None or about is None or about.type != describe(value):
            return None
        is_whole = value.nbytes == whole.nbytes and address(value) == address(whole)
        return ref if is_whole and (value.flags.c_contiguous or value.flags.f_contiguous) else None

    def held_by(self, thing: Any) -> tuple[int | None, str]:
        """The object that a thing is a handle of (``ref``), or shows (``view``)."""
        if isinstance(thing, ObjectRef):
            return thing.id, "ref"
        ref = self.entries.shown_by(thing)
        return (None, "") if ref is None else (ref.id, "view")

    # -- what keeps objects ----------------------------------------------------------------------

    def outliving(self, ids: Sequence[int], natives: Sequence[Native]) -> tuple[Native, ...]:
        """Natives of these objects that don't end with this process.

        What is known here lies there from now on, so that no second copy stays; what is pending
        stays what its task makes, whose errors are its own.
        """
        made = tuple(self.backend.outlive(natives)) if natives else ()
        for id, native in zip(ids, made, strict=True):
            entry = self.entries.get(id)
            if entry is not None and entry.native is not None and entry.state != PENDING:
                actor = entry.native[0] if type(entry.native) is tuple else None
                of_actor = actor is not None and type(native) is not tuple
                entry.native = (actor, native) if of_actor else native
        return made

    def free(self, refs: Sequence[ObjectRef]) -> None:
        entries = [self.entries.of(ref) for ref in refs]
        natives = [entry.native for entry in entries if entry.native is not None]
        ids = [entry.id for entry in entries]
        self.let_go(ids, "You freed it.")
        self.backend.ask("dropped", ids)
        self.backend.free(ids, natives)

    def pin(self, ref: ObjectRef, on: bool, site: str = "") -> None:
        self.check_open()
        entry = self.entries.of(ref)
        if not on:
            self.backend.ask("unpin", ref.id)
            return
        (native,) = self.outliving([ref.id], [self.entries.native(ref)])
        self.backend.ask("pin", ref.id, native, entry.about, site or self.site())

    def let_go(self, ids: Collection[int], why: str = "It was freed by another process.") -> None:
        """These were freed: here nobody gets them any more; what arrays show stays until these have
        gone."""
        for entry in [self.entries.get(id) for id in ids]:
            if entry is not None and entry.state != FREED:
                self.entries.settle(
                    entry.id, FREED, error=ObjectFreedError(f"{why} Put it again if you need it.")
                )
                entry.native = None

    def find(self, name: str, or_id: bool = False) -> ObjectRef | None:
        if name.startswith(ACTOR_PREFIX):
            return self._find_actor(name.removeprefix(ACTOR_PREFIX))
        self.check_open()
        found: KeptObject | None = self.backend.ask("find", name)
        if found is None:
            id = self._identify(name) if or_id else None
            return None if id is None else self.borrow(id)
        ref, entry = self.entries.new(found.id, found.native, UNKNOWN)
        entry.about = entry.about or found.about
        return ref

    def _find_actor(self, name: str) -> ObjectRef | None:
        found = self.backend.find_actor(name)
        if found is None:
            return None
        ref, entry = self.entries.new(found[0], found[1], READY)
        entry.actor = name
        return ref

    def names(self, beginning: str = "") -> list[str]:
        if beginning == ACTOR_PREFIX:
            return sorted(ACTOR_PREFIX + name for name in self.backend.actor_names())
        self.check_open()
        return sorted(self.backend.ask("named", beginning))

    def name(self, ref: ObjectRef | None, name: str) -> None:
        self.check_open()
        if ref is None:
            self.backend.ask("unbind", name)
            return
        (native,) = self.outliving([ref.id], [self.entries.native(ref)])
        self.backend.ask("bind", name, ref.id, native, self.entries.of(ref).about)

    def _identify(self, text: str) -> int | None:
        if not (digits := digits_of(text)):
            return None
        kept = [each.id for each in self.backend.ask("identify", digits)]
        return id_like(digits, {*kept, *(entry.id for entry in self.entries.all())})


class ArrivalQueue(Arrivals):
    """Refs of a store's objects as these are over."""

    def __init__(self, store: ClusterStore) -> None:
        super().__init__(lambda refs: [store.entries.of(ref) for ref in refs])
        self._store = store

    def _announce(self, new: Sequence[ObjectRef]) -> None:
        self._store.entries.announce(new, self.arrived)

    def _new_future(self) -> Future[Any]:
        return new_future(self._store.lends, lambda: list(self._pending))

    def _wait(self, timeout: float | None) -> None:
        if (future := self.future_of_next()) is not None:
            try:
                future.result(timeout)
            except TimeoutError:
                with suppress(ValueError):  # it has come just now
                    self._waiting.remove(future)

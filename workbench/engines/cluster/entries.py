"""Entries: the objects that this process of a cluster's session knows, and who waits for which.

Any thread may call. What the system reports comes in its threads: `settle` is soon over.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from workbench.core.events import About
from workbench.engine.base import engine_of
from workbench.engine.lending_future import Missing
from workbench.engines.cluster.backend import Backend, Native
from workbench.errors import ForeignRefError, ObjectFreedError, WorkbenchError
from workbench.memory.views import bases
from workbench.ref import ObjectRef

F = TypeVar("F", bound=futures.Future[Any])

PENDING, READY, FAILED, FREED, UNKNOWN = "pending", "ready", "failed", "freed", "in the store"


class KnownObject(futures.Future[None]):
    """One object: done once it is there, or never will be; and when the session ends.

    ``native`` is the system's; None while it isn't known. ``error``: why there is none; ``task``
    made it, or will, named ``name``; ``inside`` are the objects that it refers to, as far as that
    is known.
    """

    def __init__(self, id: int, native: Native, state: str) -> None:
        super().__init__()
        self.id, self.native, self.state = id, native, state
        self.error: WorkbenchError | None = None
        self.about: About | None = None
        self.inside: tuple[int, ...] = ()
        self.task = self.job = 0
        self.name = self.actor = ""
        self.created = time.monotonic()
        self.is_watched = False
        self.shown: list[ShownArray] = []  # base of all arrays that show it
        if self.is_over:
            self.tell()

    @property
    def is_over(self) -> bool:
        """True if it is there, or never will be."""
        return self.state in (READY, FAILED, FREED)

    @property
    def has_failed(self) -> bool:
        return self.state in (FAILED, FREED)

    def tell(self) -> None:
        """Tell who waits for it."""
        with suppress(futures.InvalidStateError):  # they were told
            self.set_result(None)

    @property
    def why_gone(self) -> WorkbenchError:
        return self.error or ObjectFreedError(f"Object {self.id:016x} was freed.")


def of_object(native: Native) -> Native:
    """Of an actor's native, which is a pair, that of its description."""
    return native[1] if type(native) is tuple else native


class ShownArray(weakref.ref[Any]):
    """An array that shows all of an object's bytes: as long as it lives, so does that handle."""

    __slots__ = ("handle",)

    handle: ObjectRef

    @classmethod
    def of(cls, array: Any, ref: ObjectRef, entry: KnownObject) -> None:
        watch = cls(array, entry.shown.remove)
        watch.handle = ref
        entry.shown.append(watch)


def wait_for(
    awaited: Sequence[F],
    enough: int,
    timeout: float | None,
    ends: Callable[[F], bool] = lambda future: False,
) -> bool:
    """Wait until so many of these futures are done, or one that ``ends`` the wait; False if time
    is up first."""
    times = Counter(awaited)
    with suppress(TimeoutError):
        for done in cast(Iterator[F], futures.as_completed(times, timeout)):
            enough -= times[done]
            if enough <= 0 or ends(done):
                return True
    return False


class Entries:
    """See the module."""

    def __init__(self, engine: Any, backend: Backend) -> None:
        self._engine = engine
        self._backend = backend
        # An entry lives as long as its handle.
        self._handles: WeakValueDictionary[int, ObjectRef] = WeakValueDictionary()
        self._entries: WeakKeyDictionary[ObjectRef, KnownObject] = WeakKeyDictionary()
        self.lock = threading.RLock()
        self.end_reason: str | None = None

    def new(self, id: int, native: Native, state: str) -> tuple[ObjectRef, KnownObject]:
        """The handle of an object, known from now on as long as that lives."""
        with self.lock:
            ref = self.find(id)
            if ref is None:
                ref = self._handles[id] = ObjectRef(id, self._engine)
                self._entries[ref] = KnownObject(id, native, state)
            entry = self._entries[ref]
            if self.end_reason is not None:
                entry.tell()
            if entry.native is None:
                entry.native = native
            return ref, entry

    def find(self, id: int) -> ObjectRef | None:
        return self._handles.get(id)

    def get(self, id: int) -> KnownObject | None:
        ref = self.find(id)
        return None if ref is None else self._entries.get(ref)

    def shown_by(self, thing: Any) -> ObjectRef | None:
        """The object whose bytes an array or memoryview shows. Only what was read as an array is
        known."""
        for base in bases(thing) if isinstance(thing, np.ndarray | memoryview) else ():
            for watch in weakref.getweakrefs(base) if type(base) is np.ndarray else ():
                if type(watch) is ShownArray and engine_of(watch.handle) is self._engine:
                    return watch.handle
        return None

    def of(self, ref: ObjectRef) -> KnownObject:
        """The entry of a handle; ForeignRefError if it is another session's."""
        entry = self.get(ref.id)
        if entry is None or ref.session != self._engine.session:
            raise ForeignRefError.between(ref.session, self._engine.session)
        return entry

    def all(self) -> list[KnownObject]:
        with self.lock:
            return list(self._entries.values())

    def settle(
        self, id: int, state: str, about: About | None = None, error: WorkbenchError | None = None
    ) -> None:
        """The object is there, or never will be."""
        with self.lock:
            entry = self.get(id)
            if entry is None or entry.state == FREED:
                return
            entry.state, entry.error = state, error
            entry.about = about or entry.about
        entry.tell()

    def announce(self, refs: Iterable[ObjectRef], listener: Callable[[int], None]) -> None:
        """Have it called with each once it is over: now, or then."""
        for entry in map(self.of, refs):
            once = [listener]  # it may keep the handle: not for longer than that
            entry.add_done_callback(lambda over, once=once: once.pop()(over.id))  # type: ignore[misc]
            self.watch(entry)

    def learn(self, ids: Sequence[int], natives: Sequence[Native]) -> list[ObjectRef]:
        """Handles of objects that came along with something."""
        return [self.new(id, native, UNKNOWN)[0] for id, native in zip(ids, natives, strict=True)]

    def native(self, ref: ObjectRef) -> Native:
        """What the system knows an object by; raises if it is none of the session's, or freed."""
        entry = self.of(ref)
        if entry.native is None:
            raise entry.why_gone
        return entry.native

    def watch(self, entry: KnownObject) -> None:
        """Have it settled when the system says so."""
        with self.lock:
            if entry.state != UNKNOWN or entry.is_watched or entry.native is None:
                return
            entry.is_watched = True
        id = entry.id  # who waits keeps the entry, and nobody else

        def ready(error: BaseException | None) -> None:
            known = error if isinstance(error, WorkbenchError) else None
            self.settle(id, READY if error is None else FAILED, error=known)

        self._backend.on_ready(of_object(entry.native), ready)

    def end(self, reason: str) -> None:
        """Nothing pending will ever come."""
        self.end_reason = reason
        for entry in self.all():
            entry.tell()


class NativeLending:
    """An `engine.lending_future.Lending`: who waits for a future in a task waits first as the
    system wants it, which lets other tasks run. Callbacks, and what asyncio awaits, lend nothing.
    """

    def __init__(self, backend: Backend, entries: Entries) -> None:
        self._backend = backend
        self._entries = entries

    @contextmanager
    def waiting(
        self, missing: Missing, enough: int = 0, item: int = 0, timeout: float | None = None
    ) -> Iterator[None]:
        entries = (self._entries.get(id) for id in missing())
        natives = [of_object(e.native) for e in entries if e is not None and e.native is not None]
        if natives and not item:
            self._backend.wait(natives, min(enough, len(natives)) or len(natives), timeout)
        yield

    def begin(self, objects: Iterable[int], enough: int = 0, item: int = 0) -> int:
        """Nobody stands still here, so there is nothing to lend by."""
        return 0

    def end(self, number: int) -> None:
        """It lent nothing."""

    def polled(self, objects: Iterable[int]) -> None:
        """The same."""

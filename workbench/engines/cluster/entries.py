"""Entries: the objects that this process of a cluster's session knows, and who waits for which.

Any thread may call. What the system reports comes in its threads: `settle` is soon over.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from workbench.core.events import About
from workbench.engine.base import engine_of
from workbench.engine.lending_future import Missing
from workbench.engines.cluster.backend import Backend, Native
from workbench.errors import ForeignRefError, SessionError, WorkbenchError
from workbench.memory.views import bases
from workbench.ref import ObjectRef

Listener = Callable[[int], None]

PENDING, READY, FAILED, FREED, UNKNOWN = "pending", "ready", "failed", "freed", "in the store"


@dataclass(slots=True, eq=False)
class KnownObject:
    """One object. ``native`` is the system's; None while it isn't known. ``error``: why there is
    none; ``task`` made it, or will, named ``name``; ``inside`` are the objects that it refers to,
    as far as that is known."""

    id: int
    native: Native
    state: str
    error: WorkbenchError | None = None
    about: About | None = None
    inside: tuple[int, ...] = ()
    task: int = 0
    name: str = ""
    job: int = 0
    actor: str = ""
    created: float = field(default_factory=time.monotonic)
    listeners: list[Listener] = field(default_factory=list)
    is_watched: bool = False
    shown: list[ShownArray] = field(default_factory=list)  # base of all arrays that show it

    @property
    def is_over(self) -> bool:
        """True if it is there, or never will be."""
        return self.state in (READY, FAILED, FREED)


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


class Entries:
    """See the module. ``watch`` is asked to have `settle` called for an entry nobody watches."""

    def __init__(self, engine: Any, watch: Callable[[KnownObject], None]) -> None:
        self._engine = engine
        self._watch = watch
        # An entry lives as long as its handle.
        self._handles: WeakValueDictionary[int, ObjectRef] = WeakValueDictionary()
        self._entries: WeakKeyDictionary[ObjectRef, KnownObject] = WeakKeyDictionary()
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.end_reason: str | None = None
        self._failures = 0  # objects that settled so, or were freed

    def new(self, id: int, native: Native, state: str) -> tuple[ObjectRef, KnownObject]:
        """The handle of an object, known from now on as long as that lives."""
        with self.lock:
            ref = self.find(id)
            if ref is None:
                ref = self._handles[id] = ObjectRef(id, self._engine)
                self._entries[ref] = KnownObject(id, native, state)
            entry = self._entries[ref]
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
        if entry is None or engine_of(ref) is not self._engine:
            if ref.session == self._engine.session and entry is not None:
                return entry
            raise ForeignRefError.between(ref.session, self._engine.session)
        return entry

    def all(self) -> list[KnownObject]:
        with self.lock:
            return list(self._entries.values())

    def awaited(self, ids: Iterable[int]) -> list[Native]:
        """What the system knows those of these objects by that aren't over."""
        entries = (self.get(id) for id in ids)
        return [
            of_object(entry.native)
            for entry in entries
            if entry is not None and not entry.is_over and entry.native is not None
        ]

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
            self._failures += state in (FAILED, FREED)
            listeners, entry.listeners = entry.listeners, []
            self.changed.notify_all()
        for listener in listeners:
            listener(id)

    def announce(self, refs: Iterable[ObjectRef], listener: Listener) -> None:
        """Have it called with each once it is over: now, or then."""
        for ref in refs:
            entry = self.of(ref)
            with self.lock:
                is_over = entry.is_over or self.end_reason is not None
                if not is_over:
                    entry.listeners.append(listener)
            if is_over:
                listener(entry.id)
            else:
                self.watch(entry)

    def watch(self, entry: KnownObject) -> None:
        """Have it settled when the system says so."""
        with self.lock:
            if entry.state != UNKNOWN or entry.is_watched or entry.native is None:
                return
            entry.is_watched = True
        self._watch(entry)

    def until_known(self, entries: Sequence[KnownObject]) -> Callable[[], bool]:
        """A look whether none of them is pending, or one has failed. However often it looks, each
        entry is looked at a few times: ten thousand may settle one by one."""
        first, failures = 0, -1

        def done() -> bool:
            nonlocal first, failures
            if failures != self._failures:
                failures = self._failures
                if any(entry.state in (FAILED, FREED) for entry in entries):
                    return True
            while first < len(entries) and entries[first].state != PENDING:
                first += 1
            return first == len(entries)

        return done

    def wait(self, done: Callable[[], bool], timeout: float | None) -> bool:
        """Until that is so: looked at whenever something has settled. SessionError at the end."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.lock:
            while True:
                if done():
                    return True
                if self.end_reason is not None:
                    raise SessionError(self.end_reason)
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self.changed.wait(left)

    def end(self, reason: str) -> None:
        """Nothing pending will ever come."""
        with self.lock:
            self.end_reason = reason
            waiting = [(e.id, e.listeners) for e in self.all()]
            self.changed.notify_all()
        for id, listeners in waiting:
            for listener in listeners:
                with suppress(Exception):
                    listener(id)


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
        natives = self._entries.awaited(missing())
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

"""Keys that a process holds at Dask's scheduler, and what it has heard of each. Any thread.

How a task of ours ends comes as an event, behind all that it showed and with its results if they
are small: nobody asks for those. Of other keys Dask's own future says when they are there.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from workbench.engines.cluster.backend import TaskEnd
from workbench.engines.dask.packed import Bundle, DaskRef, PackedValue
from workbench.engines.dask.topics import PUT
from workbench.errors import ObjectLostError, WorkbenchError

Callback = Callable[["KeyHold"], None]

_decode_end = msgspec.msgpack.Decoder(TaskEnd).decode
_decode_values = msgspec.msgpack.Decoder(list[PackedValue]).decode


class KeyHold:
    """One key: while this lives, the scheduler keeps it for this process (``future``)."""

    __slots__ = ("__weakref__", "bundle", "callbacks", "end", "error", "future", "is_ready", "key")

    def __init__(self, key: str, future: Any) -> None:
        self.key = key
        self.future = future
        self.is_ready = False
        self.end: TaskEnd | None = None
        self.bundle: Bundle | None = None
        self.error: WorkbenchError | None = None
        self.callbacks: list[Callback] | None = []


class Holds:
    """All of a process's."""

    def __init__(self, future_of: Callable[[str], Any]) -> None:
        self._future_of = future_of
        self._holds: weakref.WeakValueDictionary[str, KeyHold] = weakref.WeakValueDictionary()
        self._changed = threading.Condition()
        self._over: WorkbenchError | None = None
        self.ended: str | None = None

    def add(self, key: str, future: Any) -> KeyHold:
        """A key of ours: we shall hear how it ends."""
        hold = self._holds[key] = KeyHold(key, future)
        if self._over is not None:
            self.settle(hold, self._over)
        return hold

    def of(self, ref: DaskRef) -> KeyHold:
        """What is known of a native; from now on this process holds it."""
        if ref.future is None:
            hold = self._holds.get(ref.key)
            if hold is None:
                hold = self.add(ref.key, self._future_of(ref.key))
                self._watch(hold)
            ref.future = hold
        found: KeyHold = ref.future
        return found

    def _watch(self, hold: KeyHold) -> None:
        """Dask's future says when it is there."""
        weak = weakref.ref(hold)

        def over(future: Any) -> None:
            hold = weak()
            if hold is None:
                return
            if future.status == "finished":
                self.settle(hold)
            else:
                self.settle(hold, lost(hold.key))

        hold.future.add_done_callback(over)

    def known(self, key: str) -> KeyHold | None:
        return self._holds.get(key)

    # -- what is heard: the client's event loop ----------------------------------------------------

    def ended_with(self, key: str, end: bytes, values: bytes | None) -> None:
        """A task has ended, with these results if they came along."""
        hold = self._holds.get(key)
        if hold is None:
            return
        if values is not None:
            packed = _decode_values(values)
            none: list[None] = [None] * len(packed)
            hold.bundle = Bundle(key, end, packed, [""] * len(packed), none)
        hold.end = _decode_end(end)
        self.settle(hold)

    def failed(self, key: str, error: WorkbenchError) -> None:
        hold = self._holds.get(key)
        if hold is not None:
            self.settle(hold, error)

    def lost(self, key: str) -> None:
        """Nobody has its value any more, and nobody makes it again."""
        hold = self._holds.get(key)
        if hold is not None and hold.bundle is None:
            hold.error = lost(key)
            self.settle(hold, hold.error)

    def settle(self, hold: KeyHold, error: WorkbenchError | None = None) -> None:
        """It is there, or never will be."""
        with self._changed:
            if hold.is_ready:
                return
            hold.error = error
            hold.is_ready = True
            callbacks, hold.callbacks = hold.callbacks or [], None
            self._changed.notify_all()
        for callback in callbacks:
            callback(hold)

    def end_all(self, why: str, error: WorkbenchError) -> None:
        """There is no scheduler any more."""
        if self.ended is not None:
            return
        self.ended, self._over = why, error
        for hold in list(self._holds.values()):
            self.settle(hold, error)

    # -- who waits ---------------------------------------------------------------------------------

    def on_ready(self, hold: KeyHold, callback: Callback) -> None:
        """Have it called once, now or later; in any thread."""
        with self._changed:
            if hold.callbacks is not None:
                hold.callbacks.append(callback)
                return
        callback(hold)

    def wait(self, holds: Sequence[KeyHold], enough: int, timeout: float | None) -> bool:
        """Until so many are ready; False if time is up first."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                if sum(hold.is_ready for hold in holds) >= enough:
                    return True
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)


def lost(key: str) -> ObjectLostError:
    """Of what somebody here holds."""
    name = key.rpartition("-")[0]
    if name == PUT:
        return ObjectLostError(
            "A stored value was freed, or is gone with the Dask worker that had it. Store it again."
        )
    return ObjectLostError(
        f"The result of `{name}` was freed, or is gone with the Dask worker that had it, and "
        "`max_retries` doesn't allow to run it again. Submit it again, or allow more tries."
    )


def refs(hold: KeyHold, count: int) -> list[DaskRef]:
    """The natives of a task: of its end, and of each result."""
    return [DaskRef(hold.key, index, hold) for index in range(count + 1)]


def keys_of(natives: Iterable[DaskRef]) -> list[str]:
    return list(dict.fromkeys(native.key for native in natives))

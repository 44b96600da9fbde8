"""The handles (ObjectRef) alive in this process: one per object.

The server hears when the first handle appears and the last one dies; Python counts in between.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.engine.base import Engine
from workbench.errors import ForeignRefError
from workbench.memory.views import Callback, Watch
from workbench.ref import ObjectRef
from workbench.system.ki_protection import ki_protection


class HandleWatch(Watch):
    """Weak reference to a handle. ``grants``: how many holds the server counts for it."""

    __slots__ = ()


class ReferenceCounter:
    """Handles by object id.

    ``on_finalized`` and ``wake`` are called when a handle dies: at any allocation, in any thread;
    see `Watch`. The creator sets ``engine`` before the first handle.
    """

    engine: Engine

    def __init__(self, on_finalized: Callback, wake: Callback) -> None:
        self._on_finalized = on_finalized
        self._wake = wake
        self._watches: dict[int, HandleWatch] = {}

    def new(self, id: int, is_said: bool = True) -> ObjectRef:
        """Make a handle for which the server counts one hold (or will, by a message on its way).
        Without ``is_said`` the server hears of it later: its end wakes no thread before that."""
        ref = ObjectRef(id, self.engine)
        wake = self._wake if is_said else None
        self._watches[id] = HandleWatch.of(ref, self._on_finalized, id, wake)
        return ref

    def on_reported(self, ids: Iterable[int]) -> None:
        """Let the ends of these handles wake the thread: the server is about to hear of them."""
        for id in ids:
            watch = self._watches.get(id)
            ref = None if watch is None else watch()
            if watch is not None and ref is not None:
                watch.wakes(ref, self._wake)
            del ref

    def find(self, id: int) -> ObjectRef | None:
        watch = self._watches.get(id)
        return watch() if watch is not None else None

    def grant(self, id: int) -> ObjectRef:
        """Add a hold that the server has counted: to the living handle, or to a new one."""
        ref = self.find(id)
        if ref is None:
            return self.new(id)
        self._watches[id].grants += 1
        return ref

    def alive(self, id: int) -> bool:
        return self.find(id) is not None

    def is_counted(self, id: int) -> bool:
        """True if a handle is alive, or has died and `finalized` hasn't been called yet."""
        return id in self._watches

    def check(self, ref: ObjectRef) -> None:
        """Raise TypeError if it is no ref, ForeignRefError if it is another session's.

        A ref from before this process joined the session again, as after a fork, isn't counted any
        more: it gets another handle, which lives as long.
        """
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"An ObjectRef was expected, not {type(ref).__name__}.")
        if ref._engine is self.engine:
            return
        if ref.session != self.engine.session:
            raise ForeignRefError.between(ref.session, self.engine.session)
        again = getattr(ref, "_again", None)
        if again is None or again._engine is not self.engine:
            ref._again = self.engine.borrow(ref.id)

    def finalized(self, watch: HandleWatch) -> bool:
        """Forget a dead handle; True if the object has no newer one. May be called twice.

        A newer handle takes over a hold: if the last hold were dropped before the next is counted,
        the object could move in between without the server telling us.
        """
        newest = self._watches.get(watch.id)
        if newest is None:
            return True
        if newest is watch:
            del self._watches[watch.id]
            return True
        if watch.grants:
            with ki_protection():
                watch.grants -= 1
                newest.grants += 1
        return False

    def close(self) -> None:
        """Forget all handles; living ones become useless, not dangerous."""
        self._watches.clear()

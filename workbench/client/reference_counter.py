"""The handles (ObjectRef) alive in this process: one per object.

The server hears of the first and the end of the last; counting inside the process is Python's.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.engine.base import Engine
from workbench.errors import ForeignRefError
from workbench.memory.views import Callback, Watch
from workbench.ref import ObjectRef
from workbench.system.ki_protection import ki_protection


class HandleWatch(Watch):
    """Watches a handle. ``grants``: how many holds the server counts for it."""

    __slots__ = ()


class ReferenceCounter:
    """Handles by object id.

    ``on_finalized`` and ``wake`` are called when a handle dies: at any allocation, in any thread;
    see `Watch`. ``engine`` is set by whoever makes it, before the first handle.
    """

    engine: Engine

    def __init__(self, on_finalized: Callback, wake: Callback) -> None:
        self._on_finalized = on_finalized
        self._wake = wake
        self._watches: dict[int, HandleWatch] = {}

    def new(self, id: int, is_said: bool = True) -> ObjectRef:
        """A handle for which the server counts one hold (or will, by a message on its way). If it
        isn't said, the server hears of it later, and of its end then: nobody needs to be woken for
        that before `said`."""
        ref = ObjectRef(id, self.engine)
        wake = self._wake if is_said else None
        self._watches[id] = HandleWatch.of(ref, self._on_finalized, id, wake)
        return ref

    def said(self, ids: Iterable[int]) -> None:
        """The server is about to hear of these objects."""
        for id in ids:
            watch = self._watches.get(id)
            ref = None if watch is None else watch()
            if watch is not None and ref is not None:
                watch.wakes(ref, self._wake)
            del ref

    def find(self, id: int) -> ObjectRef | None:
        """This process's handle of the object, if one lives."""
        watch = self._watches.get(id)
        return watch() if watch is not None else None

    def grant(self, id: int) -> ObjectRef:
        """The server counted one more hold: on the living handle, or a new one."""
        ref = self.find(id)
        if ref is None:
            return self.new(id)
        self._watches[id].grants += 1
        return ref

    def alive(self, id: int) -> bool:
        return self.find(id) is not None

    def is_counted(self, id: int) -> bool:
        """Whether it is alive, or `finalized` has yet to be told of its end."""
        return id in self._watches

    def check(self, ref: ObjectRef) -> None:
        """TypeError if it is no ref, ForeignRefError if it is another session's.

        One from before this process joined the session anew, as after a fork, gets another handle,
        which lives as long: nobody counts its own any more.
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
        """True if the object has no newer handle. May be asked twice of one watch.

        A newer one takes over a hold: were the last one dropped before the next is counted, the
        object could move in between, and nobody would tell us.
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
        """Forget all; living handles become useless, not dangerous."""
        self._watches.clear()

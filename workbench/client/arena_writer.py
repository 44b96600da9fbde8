"""The memory this process writes: one segment, its arena, and how much of it may be touched.

One lock guards the arena's books; it is never held while bytes are copied or an answer awaited.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.errors import LimitError, StoreFullError
from workbench.format import human_bytes
from workbench.memory import segment as seg
from workbench.memory import spill
from workbench.memory.arena import Arena, Extent
from workbench.memory.copying import Bytes, Copier, fill, write_cold
from workbench.memory.views import Views
from workbench.serialization import codec
from workbench.system import limits, machine
from workbench.system.fallocate import punch
from workbench.system.ki_protection import ki_protection
from workbench.system.sizes import inline_allowance, round_up
from workbench.system.spare_descriptors import NONE_LEFT, SpareDescriptors
from workbench.wire.buffers import Parcel

if TYPE_CHECKING:
    from workbench.report.facts import Held

GROW = (32 << 20, 2 << 20, 0)
"""Least bytes to ask the server for: one round trip per chunk, not per object. Smaller ones are
tried where the store has less left."""

WORTH_A_ROUND_TRIP = 256 << 10
"""Bytes from which on writing to cold memory takes longer than asking what was freed meanwhile."""

ADDRESS_SLACK = 2
"""Address space of the segment ÷ capacity of the store: fragments then don't stop a put."""

ASK_AGAIN = 0.1
"""Seconds after a refusal until we ask again to send small objects in messages."""

MOST_INLINE = 8 << 20
"""Most bytes of small objects in one message: no frame is longer than 64 MB."""

PROBE_SHARE, LEAST_PROBE = 8, 1 << 20
"""A measurement of the copy speed may take capacity / `PROBE_SHARE` bytes for a moment, and always
`LEAST_PROBE`: where memory is short, looking at a view mustn't end the notebook."""

Claims = list[tuple[int, int]]
"""Extents (offset, length) that were allocated and that the server doesn't know yet. The first may
be the bytes used of our allowance for inline objects: no extent, so its offset is `INLINE`."""

INLINE = -1


class _Memory(NamedTuple):
    descriptors: seg.Descriptors
    mapped: Bytes
    arena: Arena


class ArenaWriter:
    """Arena of this process. The server decides how much may be touched (`Grow`, `Trim`).

    ``huge``: ask for huge pages. ``held`` returns which variables of this process hold objects:
    errors name them.
    """

    def __init__(
        self,
        send: Callable[[Any], None],
        ask: Callable[[Callable[[int], Any]], Any],
        views: Views,
        next_id: Callable[[], int],
        spares: SpareDescriptors,
        threads: int,
        huge: bool = False,
    ) -> None:
        self._send = send
        self._ask = ask
        self._views = views
        self._next_id = next_id
        self._spares = spares
        self._huge = huge
        self._starting = threading.Lock()  # alone, because sending takes other locks
        self._lock = threading.Lock()
        self._copier = Copier(threads, ki_protection)
        self._capacity = 0
        self._segment = 0
        self._memory: _Memory | None = None
        self._granted = 0
        self._is_welcome = False
        self._spill_dir = ""
        self._inline_left = 0
        self._ask_again_at = 0.0
        self._probe = 0
        self.held: Callable[[], Held] = dict

    def welcome(self, capacity: int, spill_dir: str) -> None:
        """Note the store's capacity and spill directory. Later calls do nothing."""
        if not self._is_welcome:
            self._is_welcome = True
            self._spill_dir = spill_dir
            self._inline_left = inline_allowance(capacity)
            self._probe = capacity // PROBE_SHARE

    def copy_speed(self) -> float:
        """Measure now how many bytes of a large array are copied in a second."""
        return self._copier.speed(max(self._probe, LEAST_PROBE))

    def may_inline(self, nbytes: int, capacity: int, claims: Claims) -> bool:
        """True if ``nbytes`` may travel inside a message: then they are added to ``claims``. False
        if they have to lie in the arena."""
        used = claims[0][1] if claims and claims[0][0] == INLINE else 0
        if used + nbytes > MOST_INLINE:
            return False
        if self._inline_left < nbytes and not self._has_leave_for_more(capacity):
            return False
        if used:
            claims[0] = INLINE, used + nbytes
        else:
            claims.insert(0, (INLINE, nbytes))
        with self._lock:
            self._inline_left -= nbytes
        return True

    def _has_leave_for_more(self, capacity: int) -> bool:
        if time.monotonic() < self._ask_again_at:
            return False
        if self._ask(partial(ev.Ask, what="inline")).text:
            self._ask_again_at = time.monotonic() + ASK_AGAIN
            return False
        with self._lock:
            self._inline_left += inline_allowance(capacity)
        return True

    def write(
        self, serialized: codec.Serialized, contains: tuple[int, ...], capacity: int, claims: Claims
    ) -> tuple[ev.Value, float, bool]:
        """Copy the parts into an extent of our arena, and add that to ``claims``; or into a file,
        if there is no room and none can be made.

        Returns the value, the seconds of copying (without waiting for room), and whether the
        memory was cold. Raises StoreFullError if there is no room on disk either.
        """
        if (memory := self._memory) is None:
            with limits.explained(LimitError, "This process can't have memory of the store"):
                memory = self._started(capacity)
        try:
            extent = self._allocate(memory, serialized.size, claims)
        except StoreFullError as full:
            if not self._spill_dir:
                raise
            return self._write_file(serialized, contains, full)
        fd = memory.descriptors.writable
        began = time.perf_counter()
        fill(memory.mapped, fd, extent, serialized.layout(), self._copier, self._huge)
        seconds = time.perf_counter() - began
        place = self._segment, extent.offset, extent.length
        return ev.Value(serialized.header(), *place, contains), seconds, not extent.warm

    def _write_file(
        self, serialized: codec.Serialized, contains: tuple[int, ...], full: StoreFullError
    ) -> tuple[ev.Value, float, bool]:
        """Write an object that finds no room to disk, into a file of its own."""
        began, size = time.perf_counter(), round_up(serialized.size)
        segment = self._next_id()
        try:
            descriptors = seg.create_file(size, self._spill_dir)
        except OSError as error:
            raise self._no_file(full, error) from None
        try:
            spill.check_space(descriptors.writable, size)
            for offset, part in serialized.layout():
                data = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
                write_cold(descriptors.writable, data, offset)
            digest = spill.digest(descriptors.readonly, 0, size)
            self._views.map(segment, os.dup(descriptors.readonly), size)
        except BaseException as error:
            descriptors.close()
            if isinstance(error, OSError):
                raise self._no_file(full, error) from None
            raise
        fds = descriptors.writable, descriptors.readonly
        try:
            self._send(Parcel(ev.Opened(segment, size, disk=True), fds))
            self._ask(ev.Ask)  # the answer says that they have arrived
        finally:
            descriptors.close()
        value = ev.Value(serialized.header(), segment, 0, size, contains, digest=digest)
        return value, time.perf_counter() - began, False

    def _no_file(self, full: StoreFullError, error: OSError) -> StoreFullError:
        why = limits.reason(error) or error.strerror or error
        return StoreFullError(
            f"{full}\nIt can't be written to {self._spill_dir} either: {why}. "
            "`init(spill_dir=...)` names another disk."
        )

    def most_pickled_beyond(self) -> int:
        """Return how many bytes of pickle beyond the store's capacity an object may have: none
        without a disk; else half of the available memory, which they take until written."""
        return machine.MemoryGauge().read()[0] // 2 if self._spill_dir else 0

    def copying(self) -> tuple[int, int] | None:
        filling = self._copier.filling
        return None if filling is None else (filling.done, filling.whole)

    def _started(self, capacity: int) -> _Memory:
        """Make the arena, with the spare descriptors if there are no others."""
        try:
            return self._start(capacity)
        except OSError as error:
            if error.errno not in NONE_LEFT:
                raise
        with self._spares.lent():
            return self._start(capacity)

    def _start(self, capacity: int) -> _Memory:
        """Make one sparse segment with room for all the store may hold."""
        with self._starting, ki_protection():
            if self._memory is not None:
                return self._memory
            size = round_up(capacity * ADDRESS_SLACK)
            segment = self._next_id()
            descriptors = seg.create(size)
            try:
                mapping = seg.map_writable(descriptors.writable, size, self._huge)
                self._views.map(segment, os.dup(descriptors.readonly), size)
            except BaseException:  # no descriptors, or no address space, at this moment
                descriptors.close()
                raise
            fds = (descriptors.writable, descriptors.readonly)
            self._send(Parcel(ev.Opened(segment, size), fds))
            self._capacity = capacity
            self._segment = segment
            memory = _Memory(descriptors, np.frombuffer(mapping, np.uint8), Arena(size))
            self._memory = memory
            return memory

    def _allocate(self, memory: _Memory, nbytes: int, claims: Claims) -> Extent:
        """Take warm memory; else what was freed meanwhile; else cold; else what others free."""
        length = round_up(nbytes)
        if length > self._capacity:
            raise StoreFullError(
                f"The object needs {human_bytes(length)}, and the whole store holds "
                f"{human_bytes(self._capacity)}. Start a larger one (`%workbench start --memory "
                "…`, `init(memory=…)`), or put it in pieces."
            )
        extent = self._take(memory.arena, length, claims)
        if extent is None and length >= WORTH_A_ROUND_TRIP:
            self._ask(ev.Ask)
            extent = self._take(memory.arena, length, claims)
        while extent is None:
            self._grow(memory, length)
            extent = self._take(memory.arena, length, claims)
        return extent

    def _take(self, arena: Arena, length: int, claims: Claims) -> Extent | None:
        with self._lock, ki_protection():
            extent = arena.allocate(length, warm=True)
            if extent is None and arena.footprint + length <= self._granted:
                extent = arena.allocate(length, warm=False)
            if extent is not None:
                claims.append((extent.offset, extent.length))
            return extent

    def _grow(self, memory: _Memory, length: int) -> None:
        """Get leave for ``length`` bytes more, or raise StoreFullError.

        Take it from unused memory first, then from extents that we keep warm and that are too
        small, then from objects that can move to disk.
        """
        short = length - (self._granted - memory.arena.footprint)
        if short > 0:
            for nbytes in dict.fromkeys(max(short, least) for least in GROW):
                if not self._ask(partial(ev.Grow, nbytes=nbytes, spill=False)).text:
                    return
        with self._lock, ki_protection():
            cooled = _cool(memory, max(short, length))
        if cooled:
            return
        snapshot, reason = None, "The memory is in pieces."
        if short > 0:
            answer = self._ask(partial(ev.Grow, nbytes=short))
            if not answer.text:
                return
            snapshot, reason = answer.snapshot, answer.text
        from workbench.report.facts import full_text  # late: only errors need it

        raise StoreFullError(full_text(length, snapshot, reason, self.held()))

    def huge_pages(self) -> str:
        """Return, in words, whether huge pages were granted; '' if nobody asked for them."""
        if not self._huge:
            return ""
        mapped = machine.huge_pages_mapped()
        if mapped:
            return f"granted, {human_bytes(mapped)} here"
        offer = machine.huge_pages()
        if offer in ("advise", "always", "within_size", "force"):
            return "Linux gives them; nothing large has been put here yet"
        return (
            f"asked for, and not granted: Linux has {machine.SHMEM_ENABLED} at "
            f"{offer or 'nothing'!r}, and root can set it to 'advise'"
        )

    # -- what the server says ---------------------------------------------------------------------

    def granted(self, message: do.Grown) -> None:
        """Count more bytes that we may touch. Not by the asker: Ctrl-C may have stopped it."""
        with self._lock, ki_protection():
            self._granted += message.granted

    def released(self, message: do.Release) -> None:
        """Free extents of ours that nobody needs any more; cold ones have lost their memory."""
        if message.cold and self._memory is not None:
            with self._lock, ki_protection():
                for offset, _ in message.extents:
                    self._granted -= self._memory.arena.free(offset, touched=False)
        else:
            self.give_back(message.extents)

    def trim(self, message: do.Trim) -> None:
        """Give up untouched or free warm memory: another process needs it."""
        given = 0
        memory = self._memory
        if memory is not None:
            with self._lock, ki_protection():
                given = min(self._granted - memory.arena.footprint, message.nbytes)
                given += _cool(memory, message.nbytes - given)
                self._granted -= given
        self._send(ev.Trimmed(given, answer=True))

    def reopen(self, message: do.Reopen) -> None:
        """Send our segment's descriptors again: the server had none left when they came."""
        if self._memory is not None and message.segment == self._segment:
            descriptors = self._memory.descriptors
            fds = (descriptors.writable, descriptors.readonly)
            self._send(Parcel(ev.Opened(self._segment, descriptors.size), fds))

    def give_back(self, extents: Iterable[tuple[int, int]]) -> None:
        """Free these extents, (offset, length): they hold nothing that anybody knows of."""
        if self._memory is None:
            return
        with self._lock, ki_protection():
            for offset, _ in extents:
                self._memory.arena.free(offset)

    def withdraw(self, claims: Claims) -> None:
        """Give back what was claimed: it isn't needed, and the server never hears of it."""
        if claims and claims[0][0] == INLINE:
            with self._lock:
                self._inline_left += claims.pop(0)[1]
        self.give_back(claims)

    # -- the end ------------------------------------------------------------------------------

    def abandon(self) -> None:
        """Close the descriptors in a forked child: only the parent may write its segment.

        Takes no lock: another thread of the parent may have held it.
        """
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.descriptors.close()

    def close(self) -> None:
        self._copier.close()
        with self._starting, self._lock:
            self.abandon()


def _cool(memory: _Memory, nbytes: int) -> int:
    """Punch free warm extents; return how many bytes the machine got back. Locked."""
    cooled = memory.arena.cool(nbytes)
    for extent in cooled:
        punch(memory.descriptors.writable, extent.offset, extent.length)
    return sum(extent.length for extent in cooled)

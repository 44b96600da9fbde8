"""Descriptors of a session's segments, as the server keeps them. No sockets, no decisions.

If a segment's descriptors got lost on their way, because the server had none left, it is kept
without them until its maker has sent them again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.memory.segment import Descriptors, create, create_file
from workbench.system.fallocate import punch
from workbench.wire.buffers import CARRIERS, Parcel


class Segments:
    """See the module. ``spill_dir``: directory of segments on disk. ``nothing`` stands for a
    descriptor that is closed before it could be sent."""

    def __init__(self, spill_dir: str) -> None:
        self._spill_dir = spill_dir
        self._descriptors: dict[int, Descriptors] = {}
        self._shared: set[int] = set()  # segments sent to clients other than their writer
        self.awaited: dict[int, int] = {}  # segment without descriptors → its maker
        self.nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def opened(self, client: int, parcel: Parcel) -> ev.Opened | None:
        """Keep a new segment's descriptors; close them if the id is taken.

        Return the event for the core; None if it knows the segment.
        """
        message: ev.Opened = parcel.message
        segment = message.segment
        again = self.awaited.get(segment) == client
        if len(parcel.fds) < CARRIERS[ev.Opened]:
            for fd in parcel.fds:
                os.close(fd)
            if segment not in self._descriptors:
                self.awaited.setdefault(segment, client)
        else:
            writable, readonly = parcel.fds
            descriptors = Descriptors(writable, readonly, message.size)
            if segment in self._descriptors or (segment in self.awaited and not again):
                descriptors.close()
            else:
                self._descriptors[segment] = descriptors
                self.awaited.pop(segment, None)
        return None if again else message

    def refuse(self, known: Iterable[int], segment: int) -> None:
        """Close a segment that a client opened, unless the core knows it."""
        if segment not in known:
            self.awaited.pop(segment, None)
            descriptors = self._descriptors.pop(segment, None)
            if descriptors is not None:
                descriptors.close()

    def on_client_left(self, client: int) -> None:
        """Stop waiting for descriptors from a client that left."""
        for segment in [s for s, maker in self.awaited.items() if maker == client]:
            del self.awaited[segment]

    def share(self, message: do.Shared) -> Parcel | None:
        """Return the parcel for a client; None without the descriptor: the client asks again."""
        descriptors = self._descriptors.get(message.segment)
        if descriptors is None:
            return None
        self._shared.add(message.segment)
        return Parcel(message, (descriptors.readonly,))

    def punch(self, segment: int, extents: Iterable[tuple[int, int]]) -> None:
        descriptors = self._descriptors.get(segment)
        if descriptors is not None:  # else making it failed, or they are awaited
            for offset, length in extents:
                punch(descriptors.writable, offset, length)

    def discard(self, segment: int) -> Iterator[tuple[int, int]]:
        """Close a segment's descriptors. Yield before the one that may be queued to be sent, with
        the one to send instead."""
        self.awaited.pop(segment, None)
        descriptors = self._descriptors.pop(segment, None)
        if descriptors is not None:
            if segment in self._shared:  # processes that map it would keep its memory
                self._shared.discard(segment)
                punch(descriptors.writable, 0, descriptors.size)
                yield descriptors.readonly, self.nothing
            descriptors.close()

    def for_copy(self, copy: do.Copy) -> tuple[int, int]:
        """Return the descriptors to read from and to write to; make the target if it doesn't exist.

        Raises OSError if that fails.
        """
        source, target = copy.source[0], copy.target[0]
        if source not in self._descriptors:
            raise OSError(errno.EBADF, "the server has no descriptor of its memory now")
        if target not in self._descriptors:
            size = copy.size
            made = create_file(size, self._spill_dir) if copy.disk else create(size)
            self._descriptors[target] = made
        return self._descriptors[source].readonly, self._descriptors[target].writable

    def close(self) -> None:
        os.close(self.nothing)
        for descriptors in self._descriptors.values():
            descriptors.close()

"""The two ends of each line, until both processes have theirs. No decisions."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from workbench.core import instructions as do
from workbench.wire.buffers import Parcel


class LineEnds:
    """Socket pairs of lines that the server still has. They carry packets, never parts of one.
    ``nothing``: see `Segments`."""

    def __init__(self, nothing: int) -> None:
        self._ends: dict[int, list[socket.socket]] = {}  # [the worker's, the caller's]
        self._nothing = nothing

    def connect(self, line: int) -> Parcel:
        """Make a line; return the worker's Attach, without a socket if no descriptor is left."""
        try:
            ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return Parcel(do.Attach(line), (self._nothing,))
        for end in ends:
            end.setblocking(False)
        self._ends[line] = list(ends)
        return Parcel(do.Attach(line), (ends[0].fileno(),))

    def offer(self, message: do.Offer) -> Parcel:
        ends = self._ends.get(message.line)
        return Parcel(message, (ends[1].fileno() if ends else self._nothing,))

    def disconnect(self, line: int) -> Iterator[tuple[int, int]]:
        """Close the ends that are left. Yield each descriptor before, with the one to send instead
        if it is still queued."""
        for end in self._ends.pop(line, ()):
            yield end.fileno(), self._nothing
            end.close()

    def close(self) -> None:
        for line in list(self._ends):
            list(self.disconnect(line))

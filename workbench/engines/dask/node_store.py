"""A store on each node: large buffers in segments that the node's workers and their children share.

A `NodeSegment` is anonymous memory with a read-only descriptor, so nothing has a name on a disk or
in /dev/shm, and the kernel frees it with its last user, however that ends. Who has one serves it
under a name in the abstract namespace of unix sockets, which is the node's: others there are given
the descriptor. Between nodes bytes go over Dask's comms, once to each node: who wins the name
fetches, the others wait for the descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import select
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from workbench.engines.dask.leases import LEASE, Leases
from workbench.memory import segment as seg
from workbench.memory.copying import write_cold
from workbench.system.spare_descriptors import NONE_LEFT

LARGE = 1 << 20
"""Bytes of buffers from which on a value lies in a segment."""

ALIGN = 64

NODE = "WORKBENCH_NODE"
"""Environment variable: workers where it differs share no memory, though they could."""

_ANSWER = 30.0
"""Seconds that somebody of this node has to hand over a descriptor that he has."""

_WORD = 0.2
"""Seconds to wait for what who asks says at once."""

_CREDENTIALS = struct.Struct("3i")

_LEASE = struct.Struct("Q")
"""What who asks says: by which lease the segment is kept for him; 0: by none."""


def node_id() -> str:
    """The same for all processes that can share memory: one user's, in one network namespace."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    network = os.stat("/proc/self/ns/net").st_ino
    return f"{boot}.{network}.{os.getuid()}.{os.environ.get(NODE, '')}"


def offsets(lengths: Iterable[int]) -> list[int]:
    """Where in a segment buffers of these lengths begin; at last, where the segment ends."""
    found = [0]
    for length in lengths:
        found.append(found[-1] + -(-length // ALIGN) * ALIGN)
    return found


def write_segment(buffers: Sequence[Any]) -> int:
    """A new segment with these contiguous buffers; its read-only descriptor.

    OSError if there is no memory, or no descriptor.
    """
    views = [memoryview(buffer).cast("B") for buffer in buffers]
    *starts, end = offsets(view.nbytes for view in views)
    descriptors = seg.create(end)
    try:
        for start, view in zip(starts, views, strict=True):
            write_cold(descriptors.writable, view, start)
    except BaseException:
        os.close(descriptors.readonly)
        raise
    finally:
        os.close(descriptors.writable)
    return descriptors.readonly


def open_segment(fd: int, lengths: Sequence[int]) -> list[memoryview]:
    """Its buffers, read-only. They keep the mapping; ``fd`` stays the caller's."""
    *starts, end = offsets(lengths)
    if not end:
        return [memoryview(b"") for _ in lengths]
    mapping = seg.map_readonly(fd, end)
    # Each from the mapping itself, by numpy: what is made of it keeps it alive.
    return [
        np.frombuffer(mapping, np.uint8, length, start).data if length else memoryview(b"")
        for start, length in zip(starts, lengths, strict=True)
    ]


class NodeSegment:
    """A segment that this process has, and serves to its node while it lives."""

    __slots__ = ("__weakref__", "_listener", "_owner", "fd", "token")

    def __init__(self, token: str, fd: int, listener: socket.socket | None) -> None:
        self.token = token
        self.fd = fd
        self._owner = seg.owner_of(fd)
        self._listener = None if listener is None else seg.owner_of(listener.detach())

    @property
    def listener(self) -> int:
        """The descriptor that others ask at; -1 if somebody else is asked."""
        return -1 if self._listener is None else self._listener.fileno()


Fetch = Callable[[str, str, int, Sequence[str], int], Future[NodeSegment]]


class NodeStore:
    """The segments that this process serves. Any thread."""

    def __init__(self) -> None:
        self.node = node_id()
        self.address = ""
        """Of the worker that this process is, as others reach it; '' if it is none."""
        self.lends = False
        """Whether who gets a handle from here can come by its segment: else all bytes travel."""
        self.fetch: Fetch | None = None
        """In a worker: have a segment (token, Dask's key, bytes, places, and the lease by which the
        first of those keeps it) come to this node."""
        self.leases = Leases(time.monotonic)
        """Of segments whose handles were sent from here."""
        self.fetched = 0
        """Bytes that this process had come from other nodes."""
        self._segments: weakref.WeakValueDictionary[str, NodeSegment] = (
            weakref.WeakValueDictionary()
        )
        self._served: dict[int, weakref.ref[NodeSegment]] = {}  # by listener
        self._epoll = select.epoll()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        _many_descriptors()

    def get(self, token: str) -> NodeSegment | None:
        """The segment, if this process has it."""
        return self._segments.get(token)

    def add(self, token: str, fd: int, listener: socket.socket | None = None) -> NodeSegment:
        """Serve a segment. ``fd``, and the ``listener`` that `claim` gave, are ours from here."""
        segment = NodeSegment(token, fd, listener or self.claim(token))
        self._segments[token] = segment
        if segment.listener >= 0:
            self._served[segment.listener] = weakref.ref(segment)
            self._start()
            self._epoll.register(segment.listener, select.EPOLLIN)
        return segment

    def claim(self, token: str) -> socket.socket | None:
        """Be the one who is asked for this segment on this node; None if somebody is already.

        Who asks waits until `add`, or until the socket is closed.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.setblocking(False)
            listener.bind(self._name(token))
            listener.listen(64)
        except OSError:
            listener.close()
            return None
        return listener

    def ask(self, token: str, timeout: float = _ANSWER, lease: int = 0) -> NodeSegment | None:
        """The segment from who has it on this node, perhaps once he has it; None if nobody does.

        ``lease``: by which he keeps it for us until then.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            try:
                sock.settimeout(timeout)
                sock.connect(self._name(token))
                if _uid(sock) != os.getuid():
                    return None
                sock.sendall(_LEASE.pack(lease))
                _, fds, _, _ = socket.recv_fds(sock, 1, 1)
            except OSError:
                return None
        if not fds:
            return None
        return self.get(token) or self.add(token, fds[0])

    def _name(self, token: str) -> str:
        return f"\0workbench-{os.environ.get(NODE, '')}-{os.getuid()}-{token}"

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="workbench-node-store", daemon=True
                )
                self._thread.start()

    def _serve(self) -> None:
        while True:
            for number, _ in self._epoll.poll(LEASE / 4):
                self._hand_out(number)
            self.leases.expire()

    def _hand_out(self, number: int) -> None:
        """A function of its own: no variable keeps the segment while nobody asks."""
        segment = self._served.get(number, _gone)()
        if segment is None or segment.listener != number:
            self._served.pop(number, None)
            return
        listener = socket.socket(fileno=os.dup(segment.listener))
        with contextlib.suppress(OSError), listener:
            asker, _ = listener.accept()
            with asker:
                if _uid(asker) == os.getuid():
                    socket.send_fds(asker, [b"."], [segment.fd])
                    asker.settimeout(_WORD)
                    said = asker.recv(_LEASE.size)
                    if len(said) == _LEASE.size:
                        self.leases.end(*_LEASE.unpack(said))


def _gone() -> None:
    return None


def _uid(sock: socket.socket) -> int:
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(data)[1])


def _many_descriptors() -> None:
    """A segment takes two: have as many as this process may."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 1 << 16)), hard))


@functools.cache
def this_process() -> NodeStore:
    """The one store of this process, whatever workers it is."""
    return NodeStore()


def try_segment(buffers: Sequence[Any]) -> int | None:
    """As `write_segment`; None if there is no descriptor, or no shared memory, left."""
    try:
        return write_segment(buffers)
    except OSError as error:
        if error.errno in (*NONE_LEFT, errno.ENOMEM, errno.ENOSPC):
            return None
        raise

"""A channel between a worker of Dask's and its child: messages with descriptors beside them.

A unix stream socket, used with blocking calls. Several threads may send; one receives.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from workbench.system.ki_protection import ki_protection

MOST_DESCRIPTORS = 250
"""That the kernel takes with one call; a message with more is refused by it."""

_HEAD = struct.Struct("<IB")
_READ = 64 << 10


class Hello(msgspec.Struct, tag=0, array_like=True):
    """A child is ready. Beside it: the file in memory that its descriptor 2 leads to."""


class Run(msgspec.Struct, tag=1, array_like=True):
    """Run a task: its ``head``, and the frames of each argument.

    ``frames`` gives the lengths of each argument's buffers; those of ``segments`` lie in segments,
    whose descriptors come beside this, the others follow in ``inline``. ``function`` is the pickled
    function if this child hasn't had it under this key.
    """

    task: int
    head: bytes
    key: bytes
    function: bytes | None
    args: list[Packed]


class Packed(msgspec.Struct, array_like=True):
    """One value: what was pickled, and its buffers. ``lengths`` are given if these lie in a
    segment (its descriptor comes beside the message), each at the next multiple of 64."""

    head: bytes
    buffers: list[bytes] = []
    lengths: list[int] | None = None


class Done(msgspec.Struct, tag=2, array_like=True):
    """The task is over. ``position``: so far its process's descriptor 2 was read."""

    task: int
    results: list[Packed]
    position: int = 0
    seconds: float = 0.0
    again: bool = False
    leaves: bool = False


class Shown(msgspec.Struct, tag=3, array_like=True):
    """Something that a task shows, on its way."""

    data: bytes


class Waits(msgspec.Struct, tag=4, array_like=True):
    """The task waits for others, or (not ``on``) wants its slot back."""

    on: bool


class GoOn(msgspec.Struct, tag=5, array_like=True):
    """It has its slot again."""


class Stop(msgspec.Struct, tag=6, array_like=True):
    """Interrupt that task. On the second channel, which a thread of the child's reads."""

    task: int


Message = Hello | Run | Done | Shown | Waits | GoOn | Stop


class Channel:
    """One end of it. ``send`` in any thread, ``receive`` in one."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Message).decode
        self._data = bytearray()
        self._fds: list[int] = []

    def send(self, message: Any, fds: Sequence[int] = ()) -> None:
        """Send a message; its descriptors stay the caller's. OSError if nobody listens.

        An interrupt waits until all of it is out: a torn message would be the channel's end.
        """
        body = self._encode(message)
        data = memoryview(_HEAD.pack(len(body), len(fds)) + body)
        with ki_protection(), self._lock:
            while fds and len(data):
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
                data = data[self._socket.sendmsg([data], ancillary) :]
                fds = ()
            if len(data):
                self._socket.sendall(data)

    def receive(self) -> tuple[Any, list[int]]:
        """The next message, and its descriptors, which are the caller's now. EOFError at the end.

        May be interrupted: what came so far is kept.
        """
        while True:
            if len(self._data) >= _HEAD.size:
                length, count = _HEAD.unpack_from(self._data)
                end = _HEAD.size + length
                if len(self._data) >= end:
                    with ki_protection():
                        message = self._decode(memoryview(self._data)[_HEAD.size : end].tobytes())
                        fds, self._fds = self._fds[:count], self._fds[count:]
                        del self._data[:end]
                        return message, fds
                self._read(end - len(self._data))
            else:
                self._read(_HEAD.size)

    def _read(self, wanted: int) -> None:
        self._wait()
        size = max(wanted, _READ)
        with ki_protection():
            try:
                data, ancillary, _, _ = self._socket.recvmsg(
                    size, socket.CMSG_SPACE(4 * MOST_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC
                )
            except ConnectionResetError:
                data, ancillary = b"", []
            for level, kind, rights in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    self._fds.extend(array.array("i", rights[: len(rights) // 4 * 4]))
            self._data += data
        if not data:
            raise EOFError

    def _wait(self) -> None:
        """Until there is something to read: outside the protection, so an interrupt comes
        through."""
        with contextlib.suppress(InterruptedError):
            self._socket.recv(1, socket.MSG_PEEK)

    def close(self) -> None:
        self._socket.close()
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

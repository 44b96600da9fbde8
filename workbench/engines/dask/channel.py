"""A channel between a worker of Dask's and its child: messages with descriptors beside them.

A unix stream socket, used with blocking calls. Several threads may send; one receives.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from workbench.engines.dask.packed import NativeForm, PackedValue
from workbench.system.ki_protection import ki_protection

MOST_DESCRIPTORS = 250
"""That the kernel takes with one call; a message with more is refused by it."""

_HEAD = struct.Struct("<IB")
_READ = 64 << 10


class ChildReady(msgspec.Struct, tag=0, array_like=True):
    """A child is there. Beside it: the file in memory that its descriptor 2 leads to."""


class ActorShape(msgspec.Struct, array_like=True):
    """How an actor runs its calls: see `cluster.backend.ActorLaunch`."""

    restarts: int = 0
    concurrency: int = 1
    groups: list[tuple[str, int]] = []
    is_async: bool = False
    in_order: bool = True


class RunHead(msgspec.Struct, tag=1, array_like=True):
    """Run a task's ``head`` with these values; the descriptors of their segments come beside it.
    Its session is one at the ``scheduler`` of that address.

    ``inside`` are the natives of refs in the arguments. With a ``shape`` it makes an
    actor (``restarted``: again), which this process is from then on. ``ahead``: it is a stream.
    ``function``: the value of the native that stands first in ``inside`` comes last in ``values``.
    """

    task: int
    head: bytes
    session: str
    scheduler: str
    values: list[PackedValue]
    inside: list[NativeForm]
    shape: ActorShape | None = None
    restarted: bool = False
    group: str = ""
    ahead: int = 0
    function: bool = False


class HeadDone(msgspec.Struct, tag=2, array_like=True):
    """It is over: its `TaskEnd`, encoded, and its results, their segments beside this.

    So far its process's descriptor 2 was read: ``position``. ``leaves``: the process ends now.
    """

    task: int
    end: bytes
    values: list[PackedValue]
    position: int = 0
    leaves: bool = False


class ShownBytes(msgspec.Struct, tag=3, array_like=True):
    """Messages for the keeper, encoded."""

    data: bytes


class LendsSlot(msgspec.Struct, tag=4, array_like=True):
    """The task waits for others, or (not ``on``) wants its slot back, and waits for `SlotBack`."""

    on: bool


class SlotBack(msgspec.Struct, tag=5, array_like=True):
    """It has its slot again."""


class StopTask(msgspec.Struct, tag=6, array_like=True):
    """Interrupt that task. On the second channel, which a thread of the child's reads."""

    task: int


class MadeItem(msgspec.Struct, tag=7, array_like=True):
    """The next item of a stream; its segment beside this."""

    task: int
    number: int
    value: PackedValue


class TookItems(msgspec.Struct, tag=8, array_like=True):
    """So many items of that stream were taken in all; -1: no more are wanted. Second channel."""

    task: int
    taken: int


class Credentials(msgspec.Struct, tag=11, array_like=True):
    """The first message to a child: the worker's `distributed.Security`, pickled; empty if its
    connections aren't encrypted."""

    security: bytes


class AskHolder(msgspec.Struct, tag=9, array_like=True):
    """What does this process have of an object? A `HolderQuestion`, encoded. Second channel."""

    number: int
    session: str
    question: bytes


class ToldHolder(msgspec.Struct, tag=10, array_like=True):
    """The answer to that, on the same channel. b"": nothing."""

    number: int
    answer: bytes


ChannelMessage = (
    Credentials | ChildReady | RunHead | HeadDone | ShownBytes | LendsSlot | SlotBack | StopTask
    | MadeItem | TookItems | AskHolder | ToldHolder
)  # fmt: skip


class Channel:
    """One end of it. ``send`` in any thread, ``receive`` in one."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(ChannelMessage).decode
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
                        message = self._decode(bytes(self._data[_HEAD.size : end]))
                        fds, self._fds = self._fds[:count], self._fds[count:]
                        del self._data[:end]
                        return message, fds
                self._read(end - len(self._data))
            else:
                self._read(_HEAD.size)

    def receive_within(self, seconds: float) -> Any:
        """The next message without descriptors; TimeoutError if none comes in time."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(1000 * max(seconds, 0.0)):
            raise TimeoutError
        return self.receive()[0]

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

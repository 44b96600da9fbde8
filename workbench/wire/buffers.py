"""The two halves of a connection's state: what is to be sent, and what came. No socket here.

Both survive an exception between any two bytecodes, because Ctrl-C can raise one there in the
main thread: a half-sent frame is finished later, a byte that was read is never lost. The means
is one rule: **each step is a pure computation ended by one store**, and the two steps with an
outside effect (send, receive) record their result inside a single C call,
``list.extend(map(call, …))``, where no signal handler can run.
"""

from __future__ import annotations

import os
import socket
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import methodcaller
from typing import Any, NamedTuple

from workbench.core.events import Opened
from workbench.core.instructions import Shared
from workbench.errors import ProtocolError
from workbench.wire.codec import encode
from workbench.wire.framing import LARGEST, frame, missing, split

FRAME_MESSAGES = 512
"""Most messages in one frame: the reader can start on the first while the rest is encoded."""

CARRIERS: dict[type, int] = {Opened: 2, Shared: 1}
"""How many descriptors travel beside a message of these types."""

READ_SIZE = 64 << 10
"""Bytes read at a time: malloc takes more than 128 KiB from the kernel, and gives it back."""

FRAME_PARCELS = 32
"""Most parcels in one frame: the kernel takes 253 descriptors with one call, not one more."""

ANCILLARY = socket.CMSG_SPACE(FRAME_PARCELS * max(CARRIERS.values()) * array("i").itemsize)

_popleft = methodcaller("popleft")

Ancillary = Sequence[tuple[int, int, bytes]]
SendMsg = Callable[[Sequence[memoryview], Ancillary], int]
Translate = Callable[[list[Any]], list[Any]]
RecvMsg = Callable[[int, int, int], tuple[bytes, Ancillary, int, object]]


class Parcel(NamedTuple):
    """A message and the descriptors that travel beside it."""

    message: Any
    fds: tuple[int, ...]


class _Sending:
    """One frame on its way: its messages, bytes, descriptors, and what each send call took.

    ``messages`` can be more than fit into the frame: ``rest`` are those that come after it.
    """

    __slots__ = ("ancillary", "data", "messages", "rest", "sent")

    def __init__(self, messages: list[Any]) -> None:
        self.messages = messages
        self.rest: list[Any] = []
        self.ancillary: Ancillary = ()
        self.data: memoryview | None = None
        self.sent: list[int] = []

    def encode(self, translate: Translate | None) -> memoryview:
        """The frame's bytes. Pure but for the stores at the end, so it can be done again."""
        messages = self.messages
        parcels = [i for i, m in enumerate(messages) if type(m) is Parcel]
        count = parcels[FRAME_PARCELS] if len(parcels) > FRAME_PARCELS else len(messages)
        while True:
            now = messages[:count]
            told = now if translate is None else translate(now)
            payload = encode([m.message if type(m) is Parcel else m for m in told])
            if len(payload) < LARGEST // 4 or count == 1:
                break
            count //= 2  # large messages: fewer of them in a frame
        fds = [fd for m in now if type(m) is Parcel for fd in m.fds]
        if fds:
            self.ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds).tobytes())]
        self.rest = messages[count:]
        self.data = memoryview(frame(payload))
        return self.data

    def encodable(self, translate: Translate | None) -> list[Any]:
        """Its messages without those that can't be encoded."""
        kept = []
        for message in self.messages:
            try:
                _Sending([message]).encode(translate)
            except (TypeError, ValueError, OverflowError):
                continue
            kept.append(message)
        return kept


class Outbox:
    """Messages (or parcels) to send. Any thread may put; one at a time may send.

    ``translate`` turns what was put into messages when it is sent; after an interruption it is
    asked again for the same list.
    """

    def __init__(self, translate: Translate | None = None) -> None:
        self._translate = translate
        self._queue: deque[Any] = deque()
        self._sending = _Sending([])
        self.put = self._queue.append

    def __bool__(self) -> bool:
        return bool(self._queue or self._sending.messages)

    def send(self, sendmsg: SendMsg) -> bool:
        """Send as much as goes; True when all is out.

        ``sendmsg`` is a non-blocking socket's own method (it must be a C function). What it
        raises passes through, but for BlockingIOError. So does the error of a message that can't
        be encoded, which is dropped.
        """
        while True:
            now = self._sending
            if not now.messages:
                count = min(len(self._queue), FRAME_MESSAGES)
                if not count:
                    return True
                # One C call: a message is in the queue or in the frame, never in neither.
                now.messages.extend(map(_popleft, repeat(self._queue, count)))
            data = now.data
            if data is None:
                try:
                    data = now.encode(self._translate)
                except (TypeError, ValueError, OverflowError):
                    # Whoever made the message hears of it. It mustn't keep the others here.
                    self._sending = _Sending(now.encodable(self._translate))
                    raise
            done = sum(now.sent)
            if done == len(data):
                self._sending = _Sending(now.rest)
                continue
            try:
                # Descriptors go with the frame's first byte.
                beside: Ancillary = () if done else now.ancillary
                now.sent.extend(map(sendmsg, ((data[done:],),), (beside,)))
            except BlockingIOError:
                return False


class _Received:
    """What came and isn't used up: raw chunks, the start of a frame, messages, descriptors.

    ``missing`` bytes must come before the frame that begins in ``rest`` is whole, at least.
    """

    __slots__ = ("chunks", "fds", "messages", "missing", "rest")

    def __init__(self, rest: bytes, messages: deque[Any], fds: list[int]) -> None:
        self.rest = rest
        self.missing = missing(rest)
        self.messages = messages
        self.fds = fds
        self.chunks: list[tuple[bytes, Ancillary, int, object]] = []


class Inbox:
    """Bytes in, messages out. One thread at a time may use it. ``decode`` is one of the codec's."""

    def __init__(self, decode: Callable[[bytes], Sequence[Any]]) -> None:
        self._decode = decode
        self._state = _Received(b"", deque(), [])

    def receive(self, recvmsg: RecvMsg) -> bool:
        """Read once; False at the end of the stream. BlockingIOError passes through."""
        chunks = self._state.chunks
        chunks.extend(map(recvmsg, (READ_SIZE,), (ANCILLARY,), (socket.MSG_CMSG_CLOEXEC,)))
        return chunks[-1][0] != b""

    def messages(self) -> deque[Any]:
        """The messages that are whole. Take one out (``popleft``) *after* it has been handled.

        So a handler that is interrupted sees the message again: handlers must bear that. A
        message that carries descriptors comes as a :class:`Parcel`.

        Raises
        ------
        ProtocolError
            If the bytes are not ours. The stream is of no use after that.
        """
        state = self._state
        # A long frame's chunks are joined once, not at each of them.
        if state.chunks and sum(len(c[0]) for c in state.chunks) >= state.missing:
            payloads, rest = split(b"".join((state.rest, *(c[0] for c in state.chunks))))
            fds = state.fds + [fd for c in state.chunks for fd in _descriptors(c[1])]
            messages = state.messages.copy()
            for payload in payloads:
                for message in self._decode(payload):
                    count = CARRIERS.get(type(message))
                    if count is not None:
                        if len(fds) < count:
                            raise ProtocolError("A message came without its descriptors.")
                        message = Parcel(message, tuple(fds[:count]))
                        del fds[:count]
                    messages.append(message)
            if fds and not rest:
                raise ProtocolError("Descriptors came without a message that carries them.")
            self._state = state = _Received(rest, messages, fds)
        return state.messages

    def close(self) -> None:
        """Close the descriptors nobody took."""
        state, self._state = self._state, _Received(b"", deque(), [])
        fds = state.fds + [fd for c in state.chunks for fd in _descriptors(c[1])]
        fds += [fd for m in state.messages if type(m) is Parcel for fd in m.fds]
        for fd in fds:
            os.close(fd)


def _descriptors(ancillary: Ancillary) -> list[int]:
    fds = array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)

"""Send and receive buffers of a connection. No socket here.

Both survive an exception between any two bytecodes, because Ctrl-C can raise one there in the main
thread: a half-sent frame is finished later, a byte that was read is never lost. One rule ensures
that: **each step is a pure computation ended by one store**, and the two steps with an outside
effect (send, receive) record their result inside a single C call, ``list.extend(map(call, …))``,
where no signal handler can run.

If the receiving process has no descriptor left, the kernel closes those that travel with a message
and sets a flag. Then the parcel has fewer descriptors than it should, and its receiver asks for
them again.
"""

from __future__ import annotations

import os
import socket
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate, repeat
from operator import methodcaller
from typing import Any, NamedTuple

from workbench.core.events import Opened
from workbench.core.instructions import Attach, Offer, Shared
from workbench.errors import ProtocolError
from workbench.wire.codec import encode
from workbench.wire.framing import HEAD, LARGEST, frame, missing, split

FRAME_MESSAGES = 512
"""Most messages in one frame, so that the reader can begin while the rest is encoded."""

CARRIERS: dict[type, int] = {Opened: 2, Shared: 1, Attach: 1, Offer: 1}
"""How many descriptors travel with a message of these types."""

READ_SIZE = 64 << 10
"""Bytes read at a time: malloc takes blocks above 128 KiB from the kernel, and gives them back."""

FRAME_PARCELS = 32
"""Most parcels in one frame: the kernel takes at most 253 descriptors in one call."""

_LOST = socket.MSG_CTRUNC
"""Flag: the kernel could not deliver some descriptors."""

_NOTHING: tuple[tuple[int, ...], bool] = ((), False)

_popleft = methodcaller("popleft")

Ancillary = Sequence[tuple[int, int, bytes]]
SendMsg = Callable[[Sequence[memoryview], Ancillary], int]
Translate = Callable[[list[Any]], list[Any]]
RecvMsg = Callable[[int, int, int], tuple[bytes, Ancillary, int, object]]


class Parcel(NamedTuple):
    """A message and the descriptors that came with it; fewer than sent, if some got lost."""

    message: Any
    fds: tuple[int, ...]


class _Sending:
    """The frame being sent: its messages, bytes, descriptors, and what each send call took.

    ``messages`` may be more than fit into the frame; ``rest`` are those for the next one.
    """

    __slots__ = ("data", "fds", "messages", "rest", "sent")

    def __init__(self, messages: list[Any]) -> None:
        self.messages = messages
        self.rest: list[Any] = []
        self.fds: list[int] = []
        self.data: memoryview | None = None
        self.sent: list[int] = []

    def encode(self, translate: Translate | None, largest: int) -> memoryview:
        """Return the frame's bytes. Pure except for the stores at the end: it can be repeated."""
        messages = self.messages
        parcels: list[int] = []
        if Parcel in map(type, messages):
            parcels = [i for i, m in enumerate(messages) if type(m) is Parcel]
        count = parcels[FRAME_PARCELS] if len(parcels) > FRAME_PARCELS else len(messages)
        while True:
            now = messages[:count]
            told = now if translate is None else translate(now)
            if not told:
                self.rest, self.data = messages[count:], memoryview(b"")
                return self.data
            if parcels:
                told = [m.message if type(m) is Parcel else m for m in told]
            payload = encode(told)
            if len(payload) < LARGEST // 4 or count == 1:
                break
            count //= 2  # large messages: put fewer in a frame
        if len(payload) > largest:
            raise ValueError(f"A message of {len(payload)} bytes; it can have {largest}.")
        self.fds = [fd for i in parcels if i < count for fd in messages[i].fds]
        self.rest = messages[count:]
        self.data = memoryview(frame(payload))
        return self.data

    def encodable(self, translate: Translate | None, largest: int) -> list[Any]:
        """Return its messages without those that can't be encoded."""
        kept = []
        for message in self.messages:
            try:
                _Sending([message]).encode(translate, largest)
            except (TypeError, ValueError, OverflowError):
                continue
            kept.append(message)
        return kept


class Outbox:
    """Messages (or parcels) to send. Any thread may put; one thread at a time may send.

    ``translate`` turns queued items into messages when they are sent; after an interruption it is
    called again with the same list. ``largest``: most bytes of one message.
    """

    def __init__(self, translate: Translate | None = None, largest: int = LARGEST) -> None:
        self._translate = translate
        self._largest = largest
        self.queue: deque[Any] = deque()  # without the current frame
        self._sending = _Sending([])
        self.put = self.queue.append

    def __bool__(self) -> bool:
        return bool(self.queue or self._sending.messages)

    def send(self, sendmsg: SendMsg, most: int | None = None) -> bool:
        """Send what the socket takes, at most ``most`` queued messages; True when all that is out.

        ``sendmsg`` is a non-blocking socket's own method (it must be a C function). What it raises
        passes through, except BlockingIOError. So does the error of a message that can't be
        encoded; that message is dropped.
        """
        while True:
            now = self._sending
            if not now.messages:
                count = min(len(self.queue), FRAME_MESSAGES)
                if most is not None:
                    count = min(count, most)
                    most -= count
                if not count:
                    return True
                # One C call: a message is in the queue or in the frame, never in neither.
                now.messages.extend(map(_popleft, repeat(self.queue, count)))
            data = now.data
            if data is None:
                try:
                    data = now.encode(self._translate, self._largest)
                except (TypeError, ValueError, OverflowError):
                    # The sender gets the error. The message mustn't block the others.
                    self._sending = _Sending(now.encodable(self._translate, self._largest))
                    raise
            done = sum(now.sent)
            if done == len(data):
                self._sending = _Sending(now.rest)
                continue
            try:
                # Descriptors travel with the frame's first byte.
                beside: Ancillary = ()
                if now.fds and not done:
                    rights = array("i", now.fds).tobytes()
                    beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                now.sent.extend(map(sendmsg, ((data[done:],),), (beside,)))
            except BlockingIOError:
                return False

    @property
    def has_begun(self) -> bool:
        return bool(self._sending.messages)

    @property
    def unsent(self) -> int:
        """Bytes of the current frame that the socket hasn't taken yet."""
        data = self._sending.data
        return 0 if data is None else len(data) - sum(self._sending.sent)

    def substitute(self, fd: int, other: int) -> None:
        """Send ``other`` in place of a descriptor that is about to be closed."""
        self._sending.fds = [other if each == fd else each for each in self._sending.fds]
        for messages in (self._sending.messages, self._sending.rest, self.queue):
            for i, message in enumerate(messages):
                if type(message) is Parcel and fd in message.fds:
                    fds = tuple(other if each == fd else each for each in message.fds)
                    messages[i] = Parcel(message.message, fds)


class _Received:
    """Received data that isn't consumed: raw chunks, the start of a frame, messages, descriptors.

    At least ``missing`` bytes must come before the frame that begins in ``rest`` is whole. ``fds``
    are that frame's descriptors; ``lost``: it had more.
    """

    __slots__ = ("chunks", "fds", "lost", "messages", "missing", "rest")

    def __init__(self, rest: bytes, messages: deque[Any], fds: list[int], lost: bool) -> None:
        self.rest = rest
        self.missing = missing(rest)
        self.messages = messages
        self.fds = fds
        self.lost = lost
        self.chunks: list[tuple[bytes, Ancillary, int, object]] = []


class Inbox:
    """Bytes in, messages out. One thread at a time may use it. ``decode`` is one of the codec's.

    ``parcels``: most parcels in one frame; the kernel closes descriptors beyond that. ``largest``:
    most bytes of one frame.
    """

    def __init__(
        self,
        decode: Callable[[bytes], Sequence[Any]],
        parcels: int = FRAME_PARCELS,
        largest: int = LARGEST,
    ) -> None:
        self._decode = decode
        self._largest = largest
        self._most = parcels * max(CARRIERS.values())
        self._ancillary = socket.CMSG_SPACE(self._most * array("i").itemsize)
        self._state = _Received(b"", deque(), [], False)

    def receive(self, recvmsg: RecvMsg) -> bool:
        """Read once; False at the end of the stream. BlockingIOError passes through."""
        chunks = self._state.chunks
        chunks.extend(map(recvmsg, (READ_SIZE,), (self._ancillary,), (socket.MSG_CMSG_CLOEXEC,)))
        return chunks[-1][0] != b""

    @property
    def unfinished(self) -> int:
        """Bytes that are kept because their frame isn't whole."""
        state = self._state
        size = len(state.rest)
        return size + sum(len(c[0]) for c in state.chunks) if state.chunks else size

    def messages(self) -> deque[Any]:
        """Return the whole messages. Take one out (``popleft``) *after* it has been handled.

        So an interrupted handler sees its message again, and must allow for that. A message that
        carries descriptors comes as a :class:`Parcel`. ProtocolError if the bytes aren't valid
        frames: the stream can't be used after that.
        """
        state = self._state
        if not state.chunks:
            return state.messages
        # A long frame's chunks are joined once, when it is whole.
        if sum(len(c[0]) for c in state.chunks) >= state.missing:
            data = b"".join((state.rest, *(c[0] for c in state.chunks)))
            payloads, rest = split(data, self._largest)
            beside = self._beside(payloads)
            messages = state.messages.copy()
            for number, payload in enumerate(payloads):
                fds, lost = beside.get(number, _NOTHING) if beside else _NOTHING
                taken = 0
                decoded = self._decode(payload)
                if not fds and CARRIERS.keys().isdisjoint(map(type, decoded)):
                    messages.extend(decoded)  # the usual case
                    continue
                for message in decoded:
                    count = CARRIERS.get(type(message))
                    if count is not None:
                        if len(fds) < taken + count and not lost:
                            raise ProtocolError("A message came without its descriptors.")
                        message = Parcel(message, tuple(fds[taken : taken + count]))
                        taken += count
                    messages.append(message)
                if len(fds) > taken:
                    raise ProtocolError("Descriptors came without a message that carries them.")
            fds, lost = beside.get(len(payloads), _NOTHING) if beside else _NOTHING
            self._state = state = _Received(rest, messages, list(fds), lost)
        elif state.chunks[-1][1] and len(self._beside([])[0][0]) > self._most:
            raise ProtocolError("A frame came with more descriptors than it may have.")
        return state.messages

    def _beside(self, payloads: Sequence[bytes]) -> dict[int, tuple[Sequence[int], bool]]:
        """Return, by frame number, the descriptors of each frame that has any, and if it had more.

        Descriptors come with their frame's first byte, and a read ends after the piece that they
        came with (`unix(7)`): so they belong to the last frame that begins in the bytes read.
        """
        state = self._state
        found: dict[int, tuple[Sequence[int], bool]] = {}
        if state.fds or state.lost:
            found[0] = state.fds, state.lost
        for _, ancillary, flags, _ in state.chunks:
            if ancillary or flags & _LOST:
                break
        else:
            return found
        begins = [0, *accumulate(HEAD + len(payload) for payload in payloads)]
        end = len(state.rest)
        for data, ancillary, flags, _ in state.chunks:
            end += len(data)
            if ancillary or flags & _LOST:
                number = bisect_left(begins, end) - 1
                before, lost = found.get(number, _NOTHING)
                found[number] = [*before, *_descriptors(ancillary)], lost or bool(flags & _LOST)
        return found

    def close(self) -> None:
        """Close the descriptors that were not taken."""
        state, self._state = self._state, _Received(b"", deque(), [], False)
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

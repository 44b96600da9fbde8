"""Both halves of a connection: cut anywhere, stuffed, interrupted at any bytecode, fed junk."""

from __future__ import annotations

import inspect
import itertools
import os
import socket
import sys
from contextlib import suppress
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.sockets import MESSAGES, count_descriptors, drain, feed, pair
from workbench.core import events as ev
from workbench.errors import ProtocolError
from workbench.wire import buffers, codec, framing
from workbench.wire.buffers import FRAME_MESSAGES, FRAME_PARCELS, Inbox, Outbox, Parcel
from workbench.wire.codec import decode_from_client, encode
from workbench.wire.framing import HEAD, LARGEST, frame, missing, split


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted({c % (len(data) + 1) for c in cuts}), len(data)]
    return [p for p in (data[a:b] for a, b in pairwise(edges)) if p]


# -- frames ----------------------------------------------------------------------------------------


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=6), st.integers(0, 400))
def test_split_finds_all_whole_frames(payloads: list[bytes], end: int) -> None:
    data = b"".join(map(frame, payloads))[:end]
    found, rest = split(data)
    assert found == payloads[: len(found)]
    assert b"".join(map(frame, found)) + rest == data
    assert missing(rest) > 0
    if len(rest) >= HEAD:
        assert missing(rest) == len(frame(payloads[len(found)])) - len(rest)


@pytest.mark.parametrize("length", [0, LARGEST + 1, 2**32 - 1])
def test_a_length_that_cannot_be_is_refused_at_once(length: int) -> None:
    with pytest.raises(ProtocolError, match=str(length)):
        split(length.to_bytes(HEAD, "big"))


# -- the inbox -------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 500), max_size=10))
def test_however_the_bytes_are_cut_the_messages_are_the_same(cuts: list[int]) -> None:
    data = frame(encode(MESSAGES[:3])) + frame(encode(MESSAGES[3:]))
    assert list(feed(Inbox(decode_from_client), cut(data, cuts))) == MESSAGES


@given(st.binary(min_size=1, max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_junk_behind_good_frames_waits_for_more_or_is_an_error(
    junk: bytes, cuts: list[int]
) -> None:
    inbox = Inbox(decode_from_client)
    assert list(feed(inbox, [frame(encode(MESSAGES))])) == MESSAGES
    with suppress(ProtocolError):
        for message in feed(inbox, cut(junk, cuts)):
            assert type(message).__module__ == ev.__name__


def test_the_end_of_the_stream_is_told() -> None:
    assert not Inbox(decode_from_client).receive(lambda *_: (b"", [], 0, None))


# -- both, over a socket ---------------------------------------------------------------------------


def test_a_full_socket_keeps_the_rest_for_later() -> None:
    many = [ev.Output(i, "stdout", b"x" * 1000) for i in range(2000)]
    outbox, inbox = Outbox(), Inbox(decode_from_client)
    for message in many:
        outbox.put(message)
    with pair() as (a, b):
        assert not outbox.send(a.sendmsg)
        got = drain(inbox, b)
        while not outbox.send(a.sendmsg):
            got += drain(inbox, b)
        got += drain(inbox, b)
    assert got == many
    assert not outbox


def test_many_messages_share_frames_and_large_ones_do_not() -> None:
    sent: list[bytes] = []
    outbox = Outbox()
    small = [ev.Drop((i,)) for i in range(FRAME_MESSAGES + 1)]
    large = [ev.Output(i, "stdout", bytes(LARGEST // 8)) for i in range(3)]
    for message in small + large:
        outbox.put(message)
    assert outbox.send(lambda data, _: sent.append(bytes(data[0])) or len(data[0]))  # type: ignore[func-returns-value]
    payloads, rest = split(b"".join(sent))
    assert rest == b""
    assert [m for p in payloads for m in decode_from_client(p)] == small + large
    assert len(decode_from_client(payloads[0])) == FRAME_MESSAGES
    assert all(len(p) < LARGEST // 4 for p in payloads)


def test_translation_happens_when_it_is_sent() -> None:
    outbox = Outbox(lambda queued: [ev.Drop(tuple(queued))])
    for i in range(3):
        outbox.put(i)
    with pair() as (a, b):
        assert outbox.send(a.sendmsg)
        assert drain(Inbox(decode_from_client), b) == [ev.Drop((0, 1, 2))]


@pytest.mark.parametrize("count", [1, 4 * FRAME_PARCELS])
def test_descriptors_travel_beside_their_messages(count: int) -> None:
    before = count_descriptors()
    outbox, inbox = Outbox(), Inbox(decode_from_client)
    files = [(os.memfd_create(f"w{i}"), os.memfd_create(f"r{i}")) for i in range(count)]
    for i, fds in enumerate(files):
        outbox.put(ev.Find(i, "between"))
        outbox.put(Parcel(ev.Opened(i, 10), fds))
    with pair() as (a, b):
        got = []
        while not outbox.send(a.sendmsg):
            got += drain(inbox, b)
        got += drain(inbox, b)
    parcels = [m for m in got if type(m) is Parcel]
    assert [p.message.segment for p in parcels] == list(range(count))
    for parcel in parcels:
        names = [os.readlink(f"/proc/self/fd/{fd}") for fd in parcel.fds]
        i = parcel.message.segment
        assert [n.split()[0] for n in names] == [f"/memfd:w{i}", f"/memfd:r{i}"]
        for fd in parcel.fds:
            os.close(fd)
    for fds in files:
        for fd in fds:
            os.close(fd)
    assert count_descriptors() == before


def test_a_carrier_without_its_descriptors_is_refused() -> None:
    with pytest.raises(ProtocolError, match="without its descriptors"):
        list(feed(Inbox(decode_from_client), [frame(encode([ev.Opened(1, 2)]))]))


def test_a_broken_socket_says_so_and_loses_nothing() -> None:
    outbox = Outbox()
    outbox.put(ev.Bye())
    with pair() as (a, b):
        b.close()
        for _ in range(2):
            with pytest.raises(BrokenPipeError):
                outbox.send(a.sendmsg)
    assert outbox


@pytest.mark.parametrize("handled", [False, True])
def test_descriptors_nobody_took_are_closed(handled: bool) -> None:
    before = count_descriptors()
    inbox = Inbox(decode_from_client)
    with pair() as (a, b), open(os.devnull) as file:
        fds = (file.fileno(), file.fileno())
        outbox = Outbox()
        outbox.put(Parcel(ev.Opened(1, 2), fds))
        outbox.send(a.sendmsg)
        inbox.receive(b.recvmsg)
        if handled:
            inbox.messages()
        inbox.close()
    assert count_descriptors() == before


def test_unasked_descriptors_are_refused_and_closed() -> None:
    before = count_descriptors()
    inbox = Inbox(decode_from_client)
    with pair() as (a, b), open(os.devnull) as file:
        socket.send_fds(a, [frame(encode([ev.Bye()]))], [file.fileno()])
        inbox.receive(b.recvmsg)
        with pytest.raises(ProtocolError, match="without a message"):
            inbox.messages()
        inbox.close()
    assert count_descriptors() == before


def test_a_message_that_cannot_be_encoded_is_dropped_and_no_other() -> None:
    outbox, sent = Outbox(), bytearray()

    def send(data: Any, beside: Any) -> int:
        sent.extend(data[0])
        return len(data[0])

    for message in (MESSAGES[0], ev.Find(2**70, "x"), MESSAGES[1]):
        outbox.put(message)
    with pytest.raises(OverflowError):
        outbox.send(send)
    assert outbox.send(send)
    assert list(feed(Inbox(decode_from_client), [bytes(sent)])) == MESSAGES[:2]


# -- interrupted anywhere --------------------------------------------------------------------------

OURS = {buffers.__file__, framing.__file__, codec.__file__}


class Interrupter:
    """KeyboardInterrupt at the n-th bytecode of the wire's own code, as Ctrl-C raises it, once."""

    def __init__(self, n: int) -> None:
        self.left = n

    @property
    def came(self) -> bool:
        return self.left <= 0

    def __enter__(self) -> Interrupter:
        self._old = sys.gettrace()
        frame = inspect.currentframe()
        assert frame is not None
        frame.f_trace_opcodes = True  # Python 3.12 looks only here whether anyone wants them
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._old)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in OURS:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
        return self._trace


def translate(queued: list[Any]) -> list[Any]:
    """Numbers stand for dead handles, as in the client; it may be asked twice for the same."""
    drops = tuple(m for m in queued if type(m) is int)
    return [*[m for m in queued if type(m) is not int], *([ev.Drop(drops)] if drops else [])]


def interrupted_exchange(n: int, messages: list[Any]) -> tuple[list[Any], bool]:
    """Send it all with Ctrl-C at the n-th bytecode; returns what arrived, and whether it came.

    Whoever is interrupted tries again, as the next call does in a notebook. The socket takes
    less than a frame at a time.
    """
    outbox, inbox = Outbox(translate), Inbox(decode_from_client)
    got: list[Any] = []
    with pair() as (a, b):
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        for message in messages:
            outbox.put(message)
        with Interrupter(n) as ctrl_c:
            sent = False
            while not sent:
                with suppress(KeyboardInterrupt):
                    sent = outbox.send(a.sendmsg)
                with suppress(KeyboardInterrupt, BlockingIOError):
                    inbox.receive(b.recvmsg)
                with suppress(KeyboardInterrupt):
                    while arrived := inbox.messages():
                        got.append(arrived.popleft())
        got += drain(inbox, b)
    inbox.close()
    return got, ctrl_c.came


def test_an_interrupt_at_any_bytecode_loses_doubles_and_tears_nothing() -> None:
    before = count_descriptors()
    fds = os.memfd_create("writable"), os.memfd_create("readonly")
    first, last = (ev.Output(i, "stdout", bytes(5000)) for i in range(2))
    for n in itertools.count(1):
        got, came = interrupted_exchange(n, [first, Parcel(ev.Opened(1, 1), fds), 7, last])
        (parcel,) = [m for m in got if type(m) is Parcel]
        names = [os.readlink(f"/proc/self/fd/{fd}").split()[0] for fd in parcel.fds]
        for fd in parcel.fds:
            os.close(fd)
        assert got == [first, parcel, last, ev.Drop((7,))], f"interrupted at bytecode {n}"
        assert names == ["/memfd:writable", "/memfd:readonly"]
        if not came:
            break
    assert n > 300, "the trace saw next to nothing"
    for fd in fds:
        os.close(fd)
    assert count_descriptors() == before

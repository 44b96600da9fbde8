"""Both halves of a connection: cut anywhere, stuffed, interrupted at any bytecode, fed junk; what
travels beside messages, where there is no room for it, and how much is kept for a peer."""

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

from tests.process.processes import few_descriptors
from tests.unit.wire import sockets
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.errors import ProtocolError
from workbench.wire import buffers, codec, framing, packets
from workbench.wire.buffers import FRAME_MESSAGES, FRAME_PARCELS, Inbox, Outbox, Parcel
from workbench.wire.codec import decode_from_client, decode_from_server, encode
from workbench.wire.framing import HEAD, LARGEST, LARGEST_OF_SERVER, frame, split


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted({c % (len(data) + 1) for c in cuts}), len(data)]
    return [p for p in (data[a:b] for a, b in pairwise(edges)) if p]


@pytest.mark.parametrize("length", [0, LARGEST + 1, 2**32 - 1])
def test_a_length_that_cannot_be_is_refused_at_once(length: int) -> None:
    with pytest.raises(ProtocolError, match=str(length)):
        split(length.to_bytes(HEAD, "big"))


@given(st.lists(st.integers(0, 500), max_size=10))
def test_however_the_bytes_are_cut_the_messages_are_the_same(cuts: list[int]) -> None:
    data = frame(encode(sockets.MESSAGES[:3])) + frame(encode(sockets.MESSAGES[3:]))
    assert list(sockets.feed(Inbox(decode_from_client), cut(data, cuts))) == sockets.MESSAGES


def test_the_end_of_the_stream_is_told() -> None:
    assert not Inbox(decode_from_client).receive(lambda *_: (b"", [], 0, None))


def test_many_messages_share_frames_and_large_ones_do_not() -> None:
    outbox = Outbox()
    small = [ev.Drop((i,)) for i in range(FRAME_MESSAGES + 1)]
    large = [ev.Output(i, "stdout", bytes(LARGEST // 8)) for i in range(3)]
    for message in small + large:
        outbox.put(message)
    payloads, rest = split(sockets.sent(outbox))
    assert rest == b""
    assert [m for p in payloads for m in decode_from_client(p)] == small + large
    assert len(decode_from_client(payloads[0])) == FRAME_MESSAGES
    assert all(len(p) < LARGEST // 4 for p in payloads)


@pytest.mark.parametrize("count", [1, 4 * FRAME_PARCELS])
def test_descriptors_travel_beside_their_messages(count: int) -> None:
    before = sockets.count_descriptors()
    outbox, inbox = Outbox(), Inbox(decode_from_client)
    files = [(os.memfd_create(f"w{i}"), os.memfd_create(f"r{i}")) for i in range(count)]
    for i, fds in enumerate(files):
        outbox.put(ev.Find(i, "between"))
        outbox.put(Parcel(ev.Opened(i, 10), fds))
    with sockets.pair() as (a, b):
        got = sockets.exchange(outbox, a, inbox, b)
    assert sockets.parcels_in(got) == [(i, [f"w{i}", f"r{i}"]) for i in range(count)]
    sockets.close_all(itertools.chain(*files))
    assert sockets.count_descriptors() == before


def test_a_carrier_without_its_descriptors_is_refused() -> None:
    with pytest.raises(ProtocolError, match="without its descriptors"):
        list(sockets.feed(Inbox(decode_from_client), [frame(encode([ev.Opened(1, 2)]))]))


def test_a_broken_socket_says_so_and_loses_nothing() -> None:
    outbox = Outbox()
    outbox.put(ev.Bye())
    with sockets.pair() as (a, b):
        b.close()
        for _ in range(2):
            with pytest.raises(BrokenPipeError):
                outbox.send(a.sendmsg)
    assert outbox


@pytest.mark.parametrize("handled", [False, True])
def test_descriptors_nobody_took_are_closed(handled: bool) -> None:
    before = sockets.count_descriptors()
    inbox = Inbox(decode_from_client)
    with sockets.pair() as (a, b), open(os.devnull) as file:
        fds = (file.fileno(), file.fileno())
        outbox = Outbox()
        outbox.put(Parcel(ev.Opened(1, 2), fds))
        outbox.send(a.sendmsg)
        inbox.receive(b.recvmsg)
        if handled:
            inbox.messages()
        inbox.close()
    assert sockets.count_descriptors() == before


def test_unasked_descriptors_are_refused_and_closed() -> None:
    before = sockets.count_descriptors()
    inbox = Inbox(decode_from_client)
    with sockets.pair() as (a, b), open(os.devnull) as file:
        socket.send_fds(a, [frame(encode([ev.Bye()]))], [file.fileno()])
        inbox.receive(b.recvmsg)
        with pytest.raises(ProtocolError, match="without a message"):
            inbox.messages()
        inbox.close()
    assert sockets.count_descriptors() == before


@pytest.mark.parametrize(
    ("bad", "error"),
    [(ev.Find(2**70, "x"), OverflowError), (ev.Find(1, "x" * LARGEST), ValueError)],
    ids=["what can't be encoded", "too long"],
)
def test_only_what_cannot_be_sent_is_dropped(bad: ev.Find, error: type[Exception]) -> None:
    outbox = Outbox()
    for message in (bad, sockets.MESSAGES[0]):
        outbox.put(message)
    with pytest.raises(error):
        sockets.sent(outbox)
    assert (
        list(sockets.feed(Inbox(decode_from_client), [sockets.sent(outbox)]))
        == sockets.MESSAGES[:1]
    )


def test_what_the_server_sends_may_be_longer() -> None:
    """A task with many small arguments is one message."""
    values = (ev.Value(bytes(LARGEST * 2 // 3)),) * 2
    run = do.Run(1, 2, b"", (3, 4), values, 1, "", 0)
    outbox = Outbox(largest=LARGEST_OF_SERVER)
    outbox.put(run)
    inbox = Inbox(decode_from_server, largest=LARGEST_OF_SERVER)
    assert list(sockets.feed(inbox, [sockets.sent(outbox)])) == [run]


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
    with sockets.pair() as (a, b):
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        for message in messages:
            outbox.put(message)
        with Interrupter(n) as ctrl_c:
            sockets.sent = False
            while not sockets.sent:
                with suppress(KeyboardInterrupt):
                    sockets.sent = outbox.send(a.sendmsg)
                with suppress(KeyboardInterrupt, BlockingIOError):
                    inbox.receive(b.recvmsg)
                with suppress(KeyboardInterrupt):
                    while arrived := inbox.messages():
                        got.append(arrived.popleft())
        got += sockets.drain(inbox, b)
    inbox.close()
    return got, ctrl_c.came


def test_an_interrupt_at_any_bytecode_loses_doubles_and_tears_nothing() -> None:
    before = sockets.count_descriptors()
    fds = os.memfd_create("writable"), os.memfd_create("readonly")
    first, last = (ev.Output(i, "stdout", bytes(5000)) for i in range(2))
    for n in itertools.count(1):
        got, came = interrupted_exchange(n, [first, Parcel(ev.Opened(1, 1), fds), 7, last])
        (parcel,) = [m for m in got if type(m) is Parcel]
        assert got == [first, parcel, last, ev.Drop((7,))], f"interrupted at bytecode {n}"
        assert sockets.parcels_in(got) == [(1, ["writable", "readonly"])]
        if not came:
            break
    assert n > 300, "the trace saw next to nothing"
    sockets.close_all(fds)
    assert sockets.count_descriptors() == before


@pytest.mark.parametrize("room", range(8))
def test_who_is_out_of_descriptors_gets_the_messages_without_them(room: int) -> None:
    """Each frame's parcels have their own, or some of them, or none: never another's."""
    before = sockets.count_descriptors()
    outbox, inbox = Outbox(), Inbox(decode_from_client)
    files = [(os.memfd_create(f"w{i}"), os.memfd_create(f"r{i}")) for i in range(4)]
    with sockets.pair() as (a, b):
        for i, fds in enumerate(files):
            outbox.put(ev.Find(i, "x" * 3000))
            outbox.put(Parcel(ev.Opened(i, 10), fds))
            if i % 2:  # two to a frame
                outbox.send(a.sendmsg)
        outbox.put(ev.Bye())
        outbox.send(a.sendmsg)
        with few_descriptors(os.getpid(), room):
            got = sockets.drain(inbox, b)
    assert [type(m) for m in got] == [ev.Find, Parcel] * 4 + [ev.Bye]
    found = sockets.parcels_in(got)
    assert sum(len(names) for _, names in found) == room
    for n, names in found:
        assert names == [f"w{n}", f"r{n}"][: len(names)]
    sockets.close_all(itertools.chain(*files))
    assert sockets.count_descriptors() == before


def test_a_frame_has_no_more_descriptors_than_it_may() -> None:
    """The kernel closes what is beyond the first read's, and the second one's are refused."""
    before = sockets.count_descriptors()
    inbox = Inbox(decode_from_client, parcels=1)
    with sockets.pair() as (a, b), open(os.devnull) as file:
        data = frame(encode(sockets.MESSAGES))
        socket.send_fds(a, [data[:5]], [file.fileno()] * 200)
        inbox.receive(b.recvmsg)
        inbox.messages()
        assert sockets.count_descriptors() <= before + 3 + 2
        socket.send_fds(a, [data[5:9]], [file.fileno()])
        inbox.receive(b.recvmsg)
        with pytest.raises(ProtocolError, match="more descriptors"):
            inbox.messages()
        inbox.close()
    assert sockets.count_descriptors() == before


def test_a_descriptor_that_is_closed_before_it_could_be_sent_is_replaced() -> None:
    before = sockets.count_descriptors()
    outbox, inbox = Outbox(), Inbox(decode_from_client)
    gone, kept, other = (os.memfd_create(name) for name in ("gone", "kept", "other"))
    with sockets.pair() as (a, b):
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        for i in range(10):  # more than it takes: some are in the frame on its way
            outbox.put(ev.Output(i, "stdout", bytes(5000)))
            outbox.put(Parcel(ev.Opened(i, 10), (gone, kept)))
            outbox.send(a.sendmsg)
        outbox.substitute(gone, other)
        os.close(gone)
        got = sockets.exchange(outbox, a, inbox, b)
    found = [names for _, names in sockets.parcels_in(got)]
    assert found[-1] == ["other", "kept"]
    assert all(names in (["gone", "kept"], found[-1]) for names in found)
    assert len(found) == 10
    sockets.close_all((kept, other))
    assert sockets.count_descriptors() == before


def test_what_is_kept_is_counted() -> None:
    inbox, data = Inbox(decode_from_client), frame(encode(sockets.MESSAGES))
    for end in range(1, len(data)):
        list(sockets.feed(inbox, [data[end - 1 : end]]))
        assert inbox.unfinished == end
    assert list(sockets.feed(inbox, [data[-1:]])) == sockets.MESSAGES
    assert inbox.unfinished == 0


@pytest.mark.parametrize("unread", [0, 1])
def test_all_that_was_sent_is_read(unread: int) -> None:
    """Also if the other side went without having read all: the system tells that first."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there:
        here.setblocking(False)
        assert packets.receive(here) is None
        for _ in range(unread):
            here.send(b"call")
        there.send(b"first")
        there.send(b"second")
        there.close()
        assert [packets.receive(here) for _ in range(4)] == [b"first", b"second", b"", b""]

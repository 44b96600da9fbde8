"""What travels beside messages, where there is no room for it; and how much is kept for a peer."""

from __future__ import annotations

import itertools
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unit.wire import sockets
from workbench.core import events as ev
from workbench.errors import ProtocolError
from workbench.wire import packets
from workbench.wire.buffers import Inbox, Outbox, Parcel
from workbench.wire.codec import decode_from_client, encode
from workbench.wire.framing import frame


@contextmanager
def room_for(count: int) -> Iterator[None]:
    """This process can have so many more descriptors."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    names = os.listdir("/proc/self/fd")
    used = {int(name) for name in names if os.path.exists(f"/proc/self/fd/{name}")}
    free = (number for number in itertools.count() if number not in used)
    soft = next(itertools.islice(free, count, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


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
        with room_for(room):
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

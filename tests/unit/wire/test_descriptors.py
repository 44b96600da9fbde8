"""What travels beside messages, where there is no room for it; and how much is kept for a peer."""

from __future__ import annotations

import itertools
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unit.wire.sockets import MESSAGES, count_descriptors, drain, feed, pair
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.errors import ProtocolError
from workbench.wire.buffers import Inbox, Outbox, Parcel
from workbench.wire.codec import decode_from_client, decode_from_server, encode
from workbench.wire.framing import LARGEST, LARGEST_OF_SERVER, frame


@contextmanager
def room_for(count: int) -> Iterator[None]:
    """This process can have so many more descriptors."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    names = os.listdir("/proc/self/fd")
    used = {int(name) for name in names if os.path.exists(f"/proc/self/fd/{name}")}
    unused = (number for number in itertools.count() if number not in used)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (next(itertools.islice(unused, count, None)), limits[1])
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("room", range(8))
def test_who_is_out_of_descriptors_gets_the_messages_without_them(room: int) -> None:
    """Each frame's parcels have their own, or some of them, or none: never another's."""
    before = count_descriptors()
    outbox, inbox = Outbox(), Inbox(decode_from_client)
    files = [(os.memfd_create(f"w{i}"), os.memfd_create(f"r{i}")) for i in range(4)]
    with pair() as (a, b):
        for i, fds in enumerate(files):
            outbox.put(ev.Find(i, "x" * 3000))
            outbox.put(Parcel(ev.Opened(i, 10), fds))
            if i % 2:  # two to a frame
                outbox.send(a.sendmsg)
        outbox.put(ev.Bye())
        outbox.send(a.sendmsg)
        with room_for(room):
            got = drain(inbox, b)
    assert [type(m) for m in got] == [ev.Find, Parcel] * 4 + [ev.Bye]
    found = [fd for m in got if type(m) is Parcel for fd in m.fds]
    names = [os.readlink(f"/proc/self/fd/{fd}").split()[0][7:] for fd in found]
    assert len(names) == room
    place = 0
    for parcel in (m for m in got if type(m) is Parcel):
        n = parcel.message.segment
        assert names[place : place + len(parcel.fds)] == [f"w{n}", f"r{n}"][: len(parcel.fds)]
        place += len(parcel.fds)
    for fd in (*found, *itertools.chain(*files)):
        os.close(fd)
    assert count_descriptors() == before


def test_a_frame_has_no_more_descriptors_than_it_may() -> None:
    """The kernel closes what is beyond the first read's, and the second one's are refused."""
    before = count_descriptors()
    inbox = Inbox(decode_from_client, parcels=1)
    with pair() as (a, b), open(os.devnull) as file:
        data = frame(encode(MESSAGES))
        socket.send_fds(a, [data[:5]], [file.fileno()] * 200)
        inbox.receive(b.recvmsg)
        inbox.messages()
        assert count_descriptors() <= before + 3 + 2
        socket.send_fds(a, [data[5:9]], [file.fileno()])
        inbox.receive(b.recvmsg)
        with pytest.raises(ProtocolError, match="more descriptors"):
            inbox.messages()
        inbox.close()
    assert count_descriptors() == before


def test_a_descriptor_that_is_closed_before_it_could_be_sent_is_replaced() -> None:
    before = count_descriptors()
    outbox, inbox = Outbox(), Inbox(decode_from_client)
    gone, kept, other = (os.memfd_create(name) for name in ("gone", "kept", "other"))
    with pair() as (a, b):
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        for i in range(10):  # more than it takes: some are in the frame on its way
            outbox.put(ev.Output(i, "stdout", bytes(5000)))
            outbox.put(Parcel(ev.Opened(i, 10), (gone, kept)))
            outbox.send(a.sendmsg)
        outbox.substitute(gone, other)
        os.close(gone)
        got = []
        while not outbox.send(a.sendmsg):
            got += drain(inbox, b)
        got += drain(inbox, b)
    parcels = [m for m in got if type(m) is Parcel]
    names = [[os.readlink(f"/proc/self/fd/{fd}").split()[0] for fd in p.fds] for p in parcels]
    assert names[-1] == ["/memfd:other", "/memfd:kept"]
    assert all(n in (["/memfd:gone", "/memfd:kept"], names[-1]) for n in names)
    assert len(names) == 10
    for fd in (kept, other, *(fd for p in parcels for fd in p.fds)):
        os.close(fd)
    assert count_descriptors() == before


def test_what_is_kept_is_counted() -> None:
    inbox, data = Inbox(decode_from_client), frame(encode(MESSAGES))
    for end in range(1, len(data)):
        list(feed(inbox, [data[end - 1 : end]]))
        assert inbox.unfinished == end
    assert list(feed(inbox, [data[-1:]])) == MESSAGES
    assert inbox.unfinished == 0


def test_a_message_longer_than_one_may_be_is_an_error_of_its_senders() -> None:
    outbox, sent = Outbox(), bytearray()
    outbox.put(ev.Find(1, "x" * LARGEST))
    outbox.put(MESSAGES[0])
    with pytest.raises(ValueError, match="A message of"):
        outbox.send(lambda data, _: sent.extend(data[0]) or len(data[0]))  # type: ignore[func-returns-value]
    assert outbox.send(lambda data, _: sent.extend(data[0]) or len(data[0]))  # type: ignore[func-returns-value]
    assert list(feed(Inbox(decode_from_client), [bytes(sent)])) == MESSAGES[:1]


def test_what_the_server_sends_may_be_longer() -> None:
    """A task with many small arguments is one message."""
    values = (ev.Value(bytes(LARGEST * 2 // 3)),) * 2
    run = do.Run(1, 2, b"", (3, 4), values, 1, "", 0)
    outbox, sent = Outbox(largest=LARGEST_OF_SERVER), bytearray()
    outbox.put(run)
    assert outbox.send(lambda data, _: sent.extend(data[0]) or len(data[0]))  # type: ignore[func-returns-value]
    inbox = Inbox(decode_from_server, largest=LARGEST_OF_SERVER)
    assert list(feed(inbox, [bytes(sent)])) == [run]

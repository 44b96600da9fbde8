"""What the server keeps for a client that asks much, or reads nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.unit.wire.sockets import drain
from workbench.core import events as ev
from workbench.server.peers import MOST_HELD, MOST_OBJECTS, MOST_SHOWN, HeldMemory, Peer
from workbench.wire.buffers import Inbox, Outbox
from workbench.wire.codec import decode_from_server

Ends = tuple[Peer, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    a, b = socket.socketpair()
    with a, b:
        a.setblocking(False)
        b.setblocking(False)
        yield Peer(1, a), b


def test_output_that_nobody_reads_is_left_out_from_some_size_on(ends: Ends) -> None:
    peer, sock = ends
    piece = ev.Output(7, "stdout", bytes(1 << 20), 5, 2)
    inbox, got = Inbox(decode_from_server), []
    for _ in range(2 * MOST_SHOWN >> 20):
        peer.put(piece)
        peer.stuck = not peer.outbox.send(peer.sock.sendmsg)
    assert peer.stuck
    assert peer.held < MOST_SHOWN + (4 << 20)
    while not peer.outbox.send(peer.sock.sendmsg):
        got += drain(inbox, sock)
    peer.stuck = False
    peer.goes_on()
    assert peer.outbox.send(peer.sock.sendmsg)
    *got, last = got + drain(inbox, sock)
    assert MOST_SHOWN < sum(len(output.data) for output in got) < MOST_SHOWN + (4 << 20)
    assert (last.task, last.kind, last.origin) == (7, "stderr", 5)
    assert b"left out" in last.data
    assert peer.held == 0


def test_who_has_kept_us_waiting_longest_is_hung_up_on_when_it_is_too_much(ends: Ends) -> None:
    memory = HeldMemory()
    peers = []
    beginning = (60 << 20).to_bytes(4, "big") + bytes((50 << 20) - 4)
    for number in range(MOST_HELD // len(beginning) + 1):
        peer = Peer(number, ends[1])
        peer.inbox.receive(lambda *_: (beginning[:10], [], 0, None))
        memory.update_held(peer)
        assert memory.excess() is None
        peers.append(peer)
    for peer in reversed(peers):
        assert memory.excess() is None
        peer.inbox.receive(lambda *_: (beginning[10:], [], 0, None))
        memory.update_held(peer)
    assert memory.excess() is peers[0]
    memory.forget(peers[0])
    assert memory.excess() is None
    peers[1].inbox.close()
    memory.update_held(peers[1])
    memory.update_held(peers[0])
    peers[0].inbox.close()
    memory.update_held(peers[0])
    assert memory.excess() is None


def say(ends: Ends, *messages: ev.Event) -> None:
    """Have the client say this, and the server read it."""
    peer, sock = ends
    outbox = Outbox()
    for message in messages:
        outbox.put(message)
    sent = False
    while not sent:
        sent = outbox.send(sock.sendmsg)
        with suppress(BlockingIOError):
            while True:
                peer.inbox.receive(peer.sock.recvmsg)


def test_messages_about_many_objects_are_taken_in_parts_and_in_order(ends: Ends) -> None:
    peer, _ = ends
    ids = tuple(range(2 * MOST_OBJECTS + 5))
    said = [
        ev.Hold((1, 2)),
        ev.Free(ids),
        ev.Cancel((3,)),
        ev.Unview(tuple((id, 7) for id in ids)),
        ev.Ask(4),
        ev.Drop((1,)),
    ]
    say(ends, *said)
    turns = []
    while True:
        turns.append(peer.take(gone=False))
        if not peer.is_waiting:
            break
    for turn in turns:
        assert sum(about is not None for _, about in named(turn)) <= MOST_OBJECTS
        assert not any(isinstance(message, ev.Ask) for message in turn[:-1])
    assert [len(turn) for turn in turns] == [2, 1, 3, 1, 2, 1]
    assert named([message for turn in turns for message in turn]) == named(said)


def named(messages: list[ev.Event]) -> list[tuple[type, object]]:
    """What each message is about, one after the other, with its type."""
    found: list[tuple[type, object]] = []
    for message in messages:
        about: tuple[object, ...] = (None,)
        if isinstance(message, ev.Unview):
            about = message.views
        elif isinstance(message, ev.Hold | ev.Free | ev.Drop):
            about = message.objects
        found += [(type(message), each) for each in about]
    return found


def test_of_who_has_gone_all_is_taken_but_questions(ends: Ends) -> None:
    peer, _ = ends
    ids = tuple(range(MOST_OBJECTS + 5))
    say(ends, ev.Ask(4), ev.Free(ids), ev.Drop(ids))
    assert peer.take(gone=True) == [ev.Free(ids), ev.Drop(ids)]
    assert not peer.is_waiting

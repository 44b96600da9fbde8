"""Packets of a line's end: what was sent is read, however the other side went."""

from __future__ import annotations

import socket

import pytest

from workbench.wire import packets


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

"""The gate's descriptors come and go while the connection's thread arms and disarms it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from workbench.client.gate import Gate


@pytest.fixture
def gate() -> Iterator[Gate]:
    ours, theirs = socket.socketpair()
    wake = os.eventfd(0)
    gate = Gate(ours.fileno(), wake)
    yield gate
    gate.close()
    ours.close()
    theirs.close()
    os.close(wake)


def test_a_descriptor_that_was_just_closed_is_no_error(gate: Gate) -> None:
    """Another thread, which reads, has closed it since the thread looked which there are."""
    end, other = socket.socketpair()
    gate.watch(end.fileno(), int)
    end.close()
    gate.disarm()
    gate.arm()
    other.close()


def test_what_is_watched_wakes_who_waits_unless_somebody_leads(gate: Gate) -> None:
    end, other = socket.socketpair()
    gate.watch(end.fileno(), int)
    other.send(b"x")
    assert [fd for fd, _ in gate.wait(0)] == [end.fileno()]
    gate.disarm()
    assert not gate.wait(0)
    assert [fd for fd, _ in gate.now()] == [end.fileno()]
    gate.unwatch(end.fileno())
    assert not gate.now()
    end.close()
    other.close()

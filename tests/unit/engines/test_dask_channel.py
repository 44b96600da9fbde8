"""The channel to a child: messages come whole, in order, with their descriptors."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from workbench.engines.dask.channel import Channel, RunHead, ShownBytes, StopTask
from workbench.engines.dask.packed import PackedValue


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    one, two = (Channel(sock) for sock in socket.socketpair())
    yield one, two
    one.close()
    two.close()


def test_messages_come_in_order_however_large(ends: tuple[Channel, Channel]) -> None:
    one, two = ends
    sent = [ShownBytes(b"x" * size) for size in (0, 10, 3 << 20, 5)]
    thread = threading.Thread(target=lambda: [one.send(message) for message in sent])
    thread.start()
    assert [two.receive() for _ in sent] == [(message, []) for message in sent]
    thread.join()


def test_descriptors_come_with_their_message(ends: tuple[Channel, Channel]) -> None:
    one, two = ends
    files = []
    for text in (b"a", b"b", b"c"):
        fd = os.memfd_create("test")
        os.write(fd, text)
        files.append(fd)
    run = RunHead(7, b"head", "s", "tcp://x", [PackedValue(b"F", [], [1], [], [])], [])
    one.send(StopTask(1))
    one.send(run, files[:2])
    one.send(StopTask(2), files[2:])
    for fd in files:
        os.close(fd)
    came = [two.receive() for _ in range(3)]
    assert [message for message, _ in came] == [StopTask(1), run, StopTask(2)]
    assert [[os.pread(fd, 9, 0) for fd in fds] for _, fds in came] == [[], [b"a", b"b"], [b"c"]]
    for _, fds in came:
        for fd in fds:
            os.close(fd)


def test_the_other_ends_end_is_heard(ends: tuple[Channel, Channel]) -> None:
    one, two = ends
    one.send(StopTask(1))
    one.close()
    assert two.receive() == (StopTask(1), [])
    with pytest.raises(EOFError):
        two.receive()

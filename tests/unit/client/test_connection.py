"""Who reads the socket, and what the others do meanwhile."""

from __future__ import annotations

import socket
import threading
import time

from tests.leaks import eventually
from workbench.client.connection import Connection


def test_who_waits_for_a_reader_sleeps() -> None:
    """Instead of asking again and again, which would keep the reader from going on."""
    ours, theirs = socket.socketpair()
    connection = Connection(ours, lambda _: None, lambda queued: queued, lambda _: None)
    asked, is_done = 0, False

    def done() -> bool:
        nonlocal asked
        asked += 1
        return is_done

    connection._reader.acquire()  # as the connection's thread does, which doesn't lead
    began = time.monotonic()
    waiting = threading.Thread(target=connection.wait_for, args=(done,))
    waiting.start()
    assert eventually(lambda: asked > 4)  # it looks now and then
    so_far = asked
    assert so_far < 20 + 3 * (time.monotonic() - began) / 0.05
    is_done = True
    connection._reader.release()
    connection._notify()
    waiting.join()
    connection.abandon()
    theirs.close()


def test_what_can_wait_longer_isnt_taken_along() -> None:
    """By what was posted before it, and goes with the next tick."""
    ours, theirs = socket.socketpair()
    sent: list[str] = []

    def translate(queued: list[str]) -> list[str]:
        sent.extend(queued)
        return []

    connection = Connection(ours, lambda _: None, translate, lambda _: None)
    connection.lateness.due = lambda queued, seen, late: 1 if "soon" in queued else 0
    connection.post("soon")
    connection.defer("late")
    connection._tick()
    assert sent == ["soon"]
    connection._tick()
    assert sent == ["soon"]
    connection.push()
    assert sent == ["soon", "late"]
    connection.abandon()
    theirs.close()

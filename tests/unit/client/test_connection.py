"""Who reads the socket, and what the others do meanwhile."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.leaks import eventually
from tests.patience import TIMEOUT
from workbench.client.connection import Connection
from workbench.client.reporting_delay import ReportingDelay
from workbench.errors import SessionError

Translate = Callable[[list[Any]], list[Any]]


@pytest.fixture
def connect() -> Iterator[Callable[[Translate], Connection]]:
    """Makes a connection to nobody; closed in the end."""
    with contextlib.ExitStack() as stack:

        def make(translate: Translate) -> Connection:
            ours, theirs = socket.socketpair()
            stack.enter_context(theirs)
            connection = Connection(ours, lambda _: None, translate, lambda _: None)
            stack.callback(connection.close)
            return connection

        yield make


def test_who_waits_for_a_reader_sleeps(connect: Callable[[Translate], Connection]) -> None:
    """Instead of asking again and again, which would keep the reader from going on."""
    connection = connect(list)
    looks, reads = 0, threading.Event()

    def never() -> bool:
        nonlocal looks
        looks += 1
        if looks == 2:
            reads.set()
        return False

    def read() -> None:
        with contextlib.suppress(SessionError):
            connection.wait_for(never)

    reader = threading.Thread(target=read)
    reader.start()
    assert reads.wait(TIMEOUT)
    asked: list[int] = []
    assert not connection.wait_for(lambda: asked.append(1), timeout=0.2)
    assert len(asked) < 20  # it looks now and then, and a pause is never shorter than 0.05 s
    connection.close()
    reader.join(TIMEOUT)
    assert not reader.is_alive()


def test_what_can_wait_longer_isnt_taken_along(connect: Callable[[Translate], Connection]) -> None:
    """By what was posted before it, and goes with the next tick."""
    sent: list[str] = []
    ticks: list[int] = []

    def translate(queued: list[str]) -> list[str]:
        sent.extend(queued)
        return []

    def due(queued: deque[str], seen: int, late: bool) -> int:
        ticks.append(len(queued))
        return 1 if "soon" in queued else 0

    connection = connect(translate)
    connection.send_by(bool, ReportingDelay(due))
    connection.post("soon")
    connection.defer("late")
    connection.start()
    assert eventually(lambda: ticks.count(1) > 2)
    assert (ticks[0], sent) == (2, ["soon"])
    connection.push()
    assert sent == ["soon", "late"]

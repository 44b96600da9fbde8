"""Who reads the socket, and what the others do meanwhile, of whom some wait a moment and others
until it's known; descriptors at the gate come and go while the connection's thread arms and disarms
it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from tests.leaks import eventually
from tests.patience import TIMEOUT
from workbench.client.connection import Connection
from workbench.client.gate import Gate
from workbench.client.reporting_delay import ReportingDelay
from workbench.client.requests import Requests
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.descriptions import ObjectDescription
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


FOUND = cast(ObjectDescription, "what it is")


class Busy:
    """A connection whose server answers to those alone who have that much time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked: list[ev.Ask] = []
        self.requests: Requests | None = None

    def check_open(self) -> None:
        """It is."""

    def post(self, message: ev.Ask) -> None:
        self._asked.append(message)

    def wait_for(self, done: Callable[[], object], timeout: float | None = None) -> bool:
        if timeout is not None and timeout < self._seconds:
            return False
        assert self.requests is not None
        for each in self._asked:
            self.requests.answer(each.request, do.Answer(each.request, description=FOUND))
        return bool(done())


@pytest.mark.parametrize(
    ("glance", "patient", "seen"),
    [(0.0, False, None), (59.0, False, None), (60.0, False, FOUND), (0.0, True, FOUND)],
)
def test_a_glance_ends_without_an_answer_unless_who_asks_is_patient(
    glance: float, patient: bool, seen: ObjectDescription | None
) -> None:
    connection = Busy(60.0)
    connection.requests = Requests(cast(Connection, connection), glance=glance)
    assert connection.requests.describe(7, patient=patient) == seen

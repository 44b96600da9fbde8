"""Calls through the server join the last message in the queue, and never overtake another."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from workbench.client.call_batches import MOST_BYTES, MOST_CALLS, CallBatch, CallBatches
from workbench.client.connection import Connection
from workbench.client.direct_calls import DirectCalls
from workbench.client.direct_line import CallForm
from workbench.core import events as ev

FORM = CallForm(7, (), "f", 1, 0, 0, "", 0, 0)
CALL = CallForm(0, (), "call", 1, 0, 9, "call", 0, 0)


class Queue:
    """What a process has queued; nothing of it is sent by itself."""

    def __init__(self, sock: socket.socket) -> None:
        self.connection = Connection(sock, lambda _: None, self._tell, lambda _: None)
        self.connection.nudge = bool  # type: ignore[method-assign]
        objects: Any = None  # nothing comes by a line
        self.lines = DirectCalls(self.connection, objects, {}, False)
        self.batches = CallBatches(self.connection, self.lines)
        self.said: list[Any] = []

    def _tell(self, queued: list[Any]) -> list[Any]:
        self.said += [m.tell(self.lines) if type(m) is CallBatch else m for m in queued]
        return []

    def submit(self, *tasks: int, args: bytes = b"", form: CallForm = FORM) -> None:
        for task in tasks:
            self.batches.submit(task, args, form)

    def sent(self) -> list[Any]:
        self.connection.flush()
        said, self.said = self.said, []
        return said


@pytest.fixture
def queue() -> Iterator[Queue]:
    one, other = socket.socketpair()
    with other:
        queue = Queue(one)
        yield queue
        queue.connection.close()


def many(*tasks: int) -> ev.SubmitCalls:
    return ev.SubmitCalls(tasks, (b"",) * len(tasks), 7, "f", 1)


def one(task: int) -> ev.Submit:
    return ev.Submit(task, 7, b"", name="f", origin=1)


def test_those_that_follow_one_another_go_in_one_message(queue: Queue) -> None:
    queue.submit(1, 2, 3)
    assert queue.sent() == [many(1, 2, 3)]


def test_one_alone_goes_alone(queue: Queue) -> None:
    queue.submit(1)
    assert queue.sent() == [one(1)]


def test_none_joins_what_was_sent(queue: Queue) -> None:
    queue.submit(1, 2)
    assert queue.sent() == [many(1, 2)]
    queue.submit(3, 4)
    assert queue.sent() == [many(3, 4)]


def test_none_overtakes_what_was_said_before_it(queue: Queue) -> None:
    queue.submit(1, 2)
    queue.connection.post(ev.Bind("name", 5))
    queue.submit(3, 4)
    assert queue.sent() == [many(1, 2), ev.Bind("name", 5), many(3, 4)]


def test_others_have_a_message_of_their_own(queue: Queue) -> None:
    queue.submit(1, 2)
    queue.submit(3, form=CALL)
    queue.submit(4)
    first, call, last = queue.sent()
    assert (first, call.method, last) == (many(1, 2), "call", one(4))


def test_a_message_has_an_end(queue: Queue) -> None:
    queue.submit(*range(1, MOST_CALLS + 2))
    assert queue.sent() == [many(*range(1, MOST_CALLS + 1)), one(MOST_CALLS + 1)]
    queue.submit(1, 2, args=bytes(MOST_BYTES // 2))
    queue.submit(3, args=b"x")
    assert [type(message) for message in queue.sent()] == [ev.SubmitCalls, ev.Submit]


def test_each_counts_as_said(queue: Queue) -> None:
    queue.submit(1, 2, 3)
    assert queue.connection.said == 3


def test_the_last_call_of_an_actor_is_the_one_that_a_line_waits_for(queue: Queue) -> None:
    queue.submit(1, 2, form=CALL)
    assert queue.lines._last[9] == (1, 0)
    queue.sent()
    assert queue.lines._last[9] == (2, 0)


def test_nor_does_a_line_wait_for_one_that_a_later_call_follows(queue: Queue) -> None:
    queue.submit(1, 2, form=CALL)
    queue.submit(3)
    queue.submit(4, 5, form=CALL)
    first, _, last = queue.connection.queue
    first.tell(queue.lines)
    assert queue.lines._last[9] == (4, 0)
    last.tell(queue.lines)
    assert queue.lines._last[9] == (5, 0)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_what_is_sent_while_a_call_joins_is_not_joined(queue: Queue, before: bool) -> None:
    """By a `__del__` that runs just then: the call goes with that message, or by itself."""

    class Calls(dict[int, bytes]):
        def __setitem__(self, task: int, args: bytes) -> None:
            if before:
                queue.connection.flush()
            super().__setitem__(task, args)
            queue.connection.flush()

    queue.submit(1)
    (batch,) = queue.connection.queue
    batch.calls = Calls(batch.calls)
    queue.submit(2)
    assert queue.sent() == ([one(1), one(2)] if before else [many(1, 2)])


def test_asked_again_it_says_the_same(queue: Queue) -> None:
    queue.submit(1, 2)
    (batch,) = queue.connection.queue
    said = batch.tell(queue.lines)
    batch.calls[3] = b""  # as a call that found just then that it has to go by itself
    assert batch.tell(queue.lines) == said

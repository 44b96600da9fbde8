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
from workbench.core import instructions as do
from workbench.wire.buffers import Parcel

LINE, ACTOR = 1, 9
FORM = CallForm(7, (), "f", 1, 0, 0, "", 0, 0)
CALL = CallForm(0, (), "call", 1, 0, ACTOR, "call", 0, 0)


class Queue:
    """What a process has queued; nothing of it is sent by itself."""

    def __init__(self, sock: socket.socket) -> None:
        self.connection = Connection(sock, lambda _: None, self._tell, lambda _: None)
        self.connection.nudge = bool  # type: ignore[method-assign]
        objects: Any = None  # nothing comes by a line
        self.handlers: dict[type, Any] = {}
        self.lines = DirectCalls(self.connection, objects, self.handlers, False)
        self.batches = CallBatches(self.connection, self.lines)
        self.said: list[Any] = []

    def _tell(self, queued: list[Any]) -> list[Any]:
        self.said += [m.tell(self.lines) if type(m) is CallBatch else m for m in queued]
        return []

    def submit(self, *tasks: int, args: bytes = b"", form: CallForm = FORM) -> None:
        for task in tasks:
            self.batches.submit(task, args, form)

    def waits_for(self, task: int) -> bool:
        """Whether calls may go by the actor's line once the server has had this one."""
        self.handlers[do.Grant](do.Grant(LINE, task, ()))
        return self.lines.of(ACTOR) is not None

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
    assert queue.connection.said == 3
    assert queue.sent() == [many(1, 2, 3)]
    queue.submit(4, 5)  # they don't join what was sent
    assert queue.sent() == [many(4, 5)]
    queue.submit(6)
    assert queue.sent() == [one(6)]


def test_none_overtakes_what_was_said_before_it(queue: Queue) -> None:
    queue.submit(1, 2)
    queue.connection.post(ev.Bind("name", 5))
    queue.submit(3, 4)
    queue.submit(5, form=CALL)  # another kind
    queue.submit(6)
    *first, call, last = queue.sent()
    assert first == [many(1, 2), ev.Bind("name", 5), many(3, 4)]
    assert (call.method, last) == ("call", one(6))


def test_a_message_has_an_end(queue: Queue) -> None:
    queue.submit(*range(1, MOST_CALLS + 2))
    assert queue.sent() == [many(*range(1, MOST_CALLS + 1)), one(MOST_CALLS + 1)]
    queue.submit(1, 2, args=bytes(MOST_BYTES // 2))
    queue.submit(3, args=b"x")
    assert [type(message) for message in queue.sent()] == [ev.SubmitCalls, ev.Submit]


def test_the_last_call_of_an_actor_is_the_one_that_a_line_waits_for(queue: Queue) -> None:
    end, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    queue.handlers[do.Offer](Parcel(do.Offer(LINE, ACTOR), (end.detach(),)))
    queue.sent()
    with worker:
        queue.submit(1, 2, form=CALL)
        queue.submit(3)
        queue.submit(4, 5, form=CALL)
        first, _, last = queue.connection.queue
        first.tell(queue.lines)
        assert not queue.waits_for(2)  # a later call has followed it
        last.tell(queue.lines)
        assert not queue.waits_for(4)
        assert queue.waits_for(5)
        queue.lines.abandon()


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

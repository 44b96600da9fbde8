"""Calls through the server join the last message in the queue, and never overtake another. Calls by
a line of one's own: when they may go by it, and when through the server instead."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.client.conftest import ACTOR, LINE, Process
from workbench.client.call_batches import MOST_BYTES, MOST_CALLS, CallBatches
from workbench.client.direct_calls import DirectCalls
from workbench.client.direct_line import DirectLine
from workbench.core import events as ev
from workbench.core import instructions as do

USUAL = ev.CallForm(7, (), "f", 1, 0, 0, "", 0, 0)
CALL = ev.CallForm(0, (), "call", 1, 0, ACTOR, "call", 0, 0)


class Caller:
    """Submits tasks, and says nothing by itself."""

    def __init__(self, process: Process) -> None:
        self.connection = process.base.connection
        self.connection.nudge = bool  # type: ignore[method-assign]
        self.lines = process.lines
        self.sent = process.sent
        self._handlers = process.base.handlers
        self._batches = CallBatches(self.connection, self.lines)

    def submit(self, *tasks: int, args: bytes = b"", form: ev.CallForm = USUAL) -> None:
        for task in tasks:
            self._batches.submit(task, args, form)

    def waits_for(self, task: int) -> bool:
        """Whether calls may go by the actor's line once the server has had this one."""
        self._handlers[do.Grant](do.Grant(LINE, task, ()))
        return self.lines.line_to(ACTOR) is not None


@pytest.fixture
def caller(process: Process) -> Caller:
    return Caller(process)


def many(*tasks: int) -> ev.SubmitCalls:
    return ev.SubmitCalls(tasks, (b"",) * len(tasks), USUAL)


def one(task: int) -> ev.Submit:
    return ev.Submit(task, 7, b"", name="f", origin=1)


def test_those_that_follow_one_another_go_in_one_message(caller: Caller) -> None:
    said = caller.connection.ordered_sent
    caller.submit(1, 2, 3)
    assert caller.connection.ordered_sent == said + 3
    assert caller.sent() == [many(1, 2, 3)]
    caller.submit(4, 5)  # they don't join what was sent
    assert caller.sent() == [many(4, 5)]
    caller.submit(6)
    assert caller.sent() == [one(6)]


def test_none_overtakes_what_was_said_before_it(caller: Caller) -> None:
    caller.submit(1, 2)
    caller.connection.post(ev.Bind("name", 5))
    caller.submit(3, 4)
    caller.submit(5, form=CALL)  # another kind
    caller.submit(6)
    *first, call, last = caller.sent()
    assert first == [many(1, 2), ev.Bind("name", 5), many(3, 4)]
    assert (call.method, last) == ("call", one(6))


def test_a_message_has_an_end(caller: Caller) -> None:
    caller.submit(*range(1, MOST_CALLS + 2))
    assert caller.sent() == [many(*range(1, MOST_CALLS + 1)), one(MOST_CALLS + 1)]
    caller.submit(1, 2, args=bytes(MOST_BYTES // 2))
    caller.submit(3, args=b"x")
    assert [type(message) for message in caller.sent()] == [ev.SubmitCalls, ev.Submit]


def test_the_last_call_of_an_actor_is_the_one_that_a_line_waits_for(caller: Caller) -> None:
    caller.submit(1, 2, form=CALL)
    caller.submit(3)
    caller.submit(4, 5, form=CALL)
    first, _, last = caller.connection.queue
    first.tell(caller.lines)
    assert not caller.waits_for(2)  # a later call has followed it
    last.tell(caller.lines)
    assert not caller.waits_for(4)
    assert caller.waits_for(5)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_what_is_sent_while_a_call_joins_is_not_joined(caller: Caller, before: bool) -> None:
    """By a `__del__` that runs just then: the call goes with that message, or by itself."""

    class Calls(dict[int, bytes]):
        def __setitem__(self, task: int, args: bytes) -> None:
            if before:
                caller.connection.flush()
            super().__setitem__(task, args)
            caller.connection.flush()

    caller.submit(1)
    batch: Any
    (batch,) = caller.connection.queue
    batch.calls = Calls(batch.calls)
    caller.submit(2)
    assert caller.sent() == ([one(1), one(2)] if before else [many(1, 2)])


class End:
    """The line's socket. While a packet is sent, a finalizer may run, which calls as well."""

    def __init__(self) -> None:
        self.packets = 0
        self.finalizer: Any = bool

    def send(self, packet: Any) -> None:
        self.packets += 1
        self.finalizer()


@pytest.fixture
def calls(process: Process) -> DirectCalls:
    return process.lines


@pytest.fixture
def line() -> DirectLine:
    end: Any = End()
    line = DirectLine(LINE, ACTOR, end)
    line.is_granted = True
    return line


def call(calls: DirectCalls, line: DirectLine, *tasks: int) -> list[bool]:
    return [calls.call(line, task, b"", CALL) for task in tasks]


def test_none_overtakes_what_goes_through_the_server(calls: DirectCalls, line: DirectLine) -> None:
    assert call(calls, line, 1, 2, 3) == [True, True, True]
    assert line.ahead == 3
    assert line.packed is not None  # the third, which the next would join
    line.is_granted = False
    assert call(calls, line, 4) == [False]
    line.is_granted, line.most = True, line.ahead
    assert call(calls, line, 5) == [False]  # nor more than the line takes


def test_a_finalizers_call_goes_through_the_server(calls: DirectCalls, line: DirectLine) -> None:
    end: Any = line.end
    inside: list[bool] = []
    end.finalizer = lambda: inside.extend(call(calls, line, 2))
    assert call(calls, line, 1) == [True]
    assert inside == [False]
    assert (end.packets, line.sent, list(calls.unreported_tasks)) == (1, 1, [1])


def test_what_is_answered_and_told_is_forgotten(calls: DirectCalls, line: DirectLine) -> None:
    call(calls, line, 1, 2)
    first, _ = line.runs
    first.answers[1] = Any
    first.answer_number = 5
    line.forget(4)
    assert line.known == 0  # the server hasn't been told of it
    line.forget(5)
    assert (line.known, len(line.runs)) == (1, 1)

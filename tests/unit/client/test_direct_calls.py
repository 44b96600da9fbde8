"""Calls by a line of one's own: when they may go by it, and when through the server instead."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.client.conftest import ACTOR, LINE, Process
from workbench.client.direct_calls import DirectCalls
from workbench.client.direct_line import DirectLine
from workbench.core import events as ev

CALL = ev.CallForm(0, (), "call", 1, 0, ACTOR, "call", 0, 0)


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

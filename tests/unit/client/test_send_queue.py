"""What the server is told of calls that went by a line: nothing, once nobody can ask for them."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import deque
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec import structs

from workbench.client.direct_calls import MOST_UNHEARD, DirectCalls
from workbench.client.direct_line import CallForm, CallRun, DirectLine
from workbench.client.reference_counter import HandleWatch
from workbench.client.send_queue import SendQueue
from workbench.core import events as ev
from workbench.core import instructions as do

NONE = ev.Value(b"N")


class Handle:
    pass


class Queue:
    """A send queue, with a line. Each call's result has a handle until that is `gone`."""

    def __init__(self) -> None:
        self.rest: list[Any] = []
        self.lines = DirectCalls(Mock(), Mock(), {}, False)
        self.lines._by_actor[9] = LINE
        self.held: set[int] = set()
        objects, marshal = Mock(unheld=lambda ids: {*ids} - self.held), Mock()
        marshal.report.return_value = None
        self.queue = SendQueue(objects, Mock(), marshal, self.lines, 1, lambda: self.rest)

    def translate(self, queued: list[Any]) -> list[Any]:
        for message in queued:
            if type(message) is CallRun and not message.is_said:
                self.lines.unsaid.update(message.calls)
        calls = {task for m in queued if type(m) is CallRun for task in m.calls}
        ends = {m.id for m in [*queued, *self.rest] if type(m) is HandleWatch}
        self.held |= calls - ends
        return self.queue.translate(queued)

    def due(self, queued: list[Any], late: bool, seen: int = 0) -> int:
        for message in queued:
            if type(message) is CallRun:
                self.lines.unsaid.update(message.calls)
        return self.queue.due(deque(queued), seen, late)


def queue() -> Queue:
    return Queue()


FORM = CallForm(0, (), "", 0, 0, 9, "m", 0, 0)
LINE = DirectLine(1, 9, Mock())


@pytest.fixture(autouse=True)
def _line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has its own."""
    monkeypatch.setattr(sys.modules[__name__], "LINE", DirectLine(1, 9, Mock()))


def call(*tasks: int, answer: ev.Value | None = NONE) -> CallRun:
    """A run of calls that was sent: each has the answer, or none."""
    made = CallRun(LINE, FORM, tasks[0], b"")
    made.calls |= dict.fromkeys(tasks, b"")
    made.is_sent = True
    if answer is not None:
        made.answers = dict.fromkeys(tasks, answer)
        made.heard = 1
    return made


def ran(*tasks: int, value: ev.Value = NONE) -> ev.SettledCalls:
    return ev.SettledCalls(1, tasks, (value,) * len(tasks))


def gone(id: int) -> HandleWatch:
    return HandleWatch.of(Handle(), lambda _: None, id)


def told(*queued: Any) -> list[Any]:
    return queue().translate(list(queued))


def test_an_answered_call_whose_result_nobody_has_is_not_told() -> None:
    assert told(call(1), gone(1), call(2), gone(2)) == []
    assert told(ev.Settled(7, NONE), call(1), gone(1)) == [ev.Settled(7, NONE)]


def test_one_that_isnt_answered_or_is_held_is() -> None:
    open_call, held = call(1, answer=None), call(2)
    messages = told(open_call, held, gone(1))
    assert messages == [open_call.submit(1), ran(2), ev.Drop((1,))]
    assert open_call.is_said
    assert held.is_said


def test_beside_anything_else_all_is_told_in_order() -> None:
    """It may be about one of them."""
    made = call(1)
    other = ev.Submit(5, 3, b"", deps=(1,))
    messages = told(made, other, gone(1))
    assert messages == [ran(1), other, ev.Drop((1,))]


def test_nor_at_the_end_of_the_task_that_called_unless_it_returns_one_of_them() -> None:
    done = ev.Done(5, (NONE,), 0.0)
    assert told(call(1), gone(1), ev.Unblocked(3), done) == [ev.Unblocked(3), done]
    returned = ev.Done(5, (ev.Value(b"ref", contains=(1,)),), 0.0)
    assert told(call(1), gone(1), returned) == [ran(1), returned, ev.Drop((1,))]


def test_what_was_said_once_is_said_to_its_end() -> None:
    """A frame that was interrupted is translated again, perhaps when the answer is there."""
    made, queued = call(1, answer=None), queue()
    first = queued.translate([made, gone(1)])
    made.answers[1] = NONE
    again = queued.translate([made, gone(1)])
    assert first == [made.submit(1), ev.Drop((1,))]
    assert again == [ran(1), ev.Drop((1,))]


def test_what_results_took_of_the_leave_for_messages_is_told_in_sums() -> None:
    """Else the worker would ask for leave again and again, and the server think it unused."""
    half, queued = ev.Value(bytes(MOST_UNHEARD // 2)), queue()
    assert queued.translate([call(1, answer=half), gone(1), call(2), gone(2)]) == []
    failed = ev.Value(bytes(MOST_UNHEARD), failed=True)  # takes none
    assert queued.translate([call(3, answer=failed), gone(3)]) == []
    assert queued.translate([call(4, answer=half), gone(4)]) == [ev.Unheard(1, MOST_UNHEARD)]
    assert queued.translate([call(5, answer=half), gone(5)]) == []


def test_a_frame_translated_again_is_counted_once() -> None:
    half = ev.Value(bytes(MOST_UNHEARD // 2))
    made, queued = call(1, answer=half), queue()
    assert queued.translate([made, gone(1)]) == []
    assert ran(1, value=half) in queued.translate([made, gone(1)])  # said: so that counts it
    assert queued.translate([call(2, answer=ev.Value(bytes(MOST_UNHEARD // 2))), gone(2)]) == []


def test_what_was_kept_silent_is_told_before_a_line_is_closed() -> None:
    """Its worker may live: a line that was lent objects, or a lease, is taken back."""
    some, queued = ev.Value(bytes(100)), queue()
    line = queued.lines._by_actor[9]
    assert queued.translate([call(1, answer=some), gone(1)]) == []
    line.has_ended = True  # it has been read
    queued.lines._ended(do.LineEnded(line.number))
    closed = ev.LineClosed(line.number)
    for _ in range(2):  # a frame that was interrupted is translated again
        assert queued.translate([closed]) == [ev.Unheard(1, 100), closed]


def test_a_run_of_calls_that_are_over_is_one_message() -> None:
    other = call(4)
    other.line = DirectLine(2, 8, Mock())
    messages = told(call(1, 2), call(3, answer=None), call(5), other)
    open_call = ev.Submit(3, 0, b"", actor=9, method="m", line=1)
    assert messages == [ran(1, 2), open_call, ran(5), ev.SettledCalls(2, (4,), (NONE,))]


def test_one_whose_end_is_queued_behind_what_is_said_now_is_not_told() -> None:
    queued, end = queue(), gone(1)
    queued.rest = [end]
    assert queued.translate([call(1)]) == []
    queued.rest = []
    assert queued.translate([end]) == []


def test_what_is_queued_behind_it_may_be_about_it() -> None:
    queued, end = queue(), gone(1)
    queued.rest = [ev.Submit(5, 3, b"", deps=(1,)), end]
    assert queued.translate([call(1)]) == [ran(1)]
    queued.rest = []
    assert queued.translate([end]) == [ev.Drop((1,))]


def test_calls_wait_until_they_are_late_and_then_for_their_answers_once_more() -> None:
    queued, calls = queue(), [call(1), call(2, answer=None), call(3)]
    assert queued.due([*calls, gone(1)], late=False) == 0
    assert queued.due(calls, late=True) == 1
    assert queued.due(calls, late=True) == 3


def test_what_isnt_about_calls_waits_for_a_tick_and_takes_those_before_it_along() -> None:
    queued, calls = queue(), [call(1, answer=None), gone(7), call(2, answer=None)]
    assert queued.due(calls, late=False) == 2
    assert queued.due(calls, late=False, seen=2) == 0


def test_an_answer_that_is_queued_isnt_told() -> None:
    """Its worker keeps the result until it is."""
    queued, first, second = queue(), call(1), call(2)
    first.heard, second.heard = 6, 7
    assert queued.queue.told(9) == 9
    queued.rest = [second, call(3, answer=None)]
    assert queued.queue.told(9) == 6


def test_calls_that_could_not_be_sent_go_through_the_server_in_order() -> None:
    queued = queue()
    line = queued.lines._by_actor[9]
    line.is_granted = True
    line.end.send.side_effect = [None, None, BlockingIOError]  # type: ignore[attr-defined]
    queued.lines._last[9] = 5, 0
    queued.lines._connection.told = queued.lines._connection.spoken = 0  # type: ignore[misc]
    form = structs.replace(FORM, parent=3)
    for task in range(10, 14):
        assert queued.lines.call(line, task, b"", form)
    runs = [c.args[0] for c in queued.lines._connection.defer.call_args_list]  # type: ignore[attr-defined]
    submits = [ev.Submit(n, 0, b"", actor=9, method="m", line=1, parent=3) for n in (10, 11)]
    by_server = [ev.Submit(n, 0, b"", actor=9, method="m", parent=3) for n in (12, 13)]
    assert queued.translate(runs) == [*submits, *by_server]
    assert (line.is_granted, line.unanswered, queued.lines._last[9]) == (False, 2, (13, 0))


def test_finalizers_append_while_it_is_looked_through() -> None:
    """The collector may run wherever something is made."""
    queued: deque[Any] = deque()
    due = queue().queue.due
    refs: list[weakref.ref[Any]] = []

    def garbage() -> weakref.ref[Any]:
        ring = Handle()
        ring.ring = ring  # type: ignore[attr-defined]
        return weakref.ref(ring, lambda _: queued.append(call(1)))

    threshold = gc.get_threshold()
    try:
        for number in range(300):
            gc.disable()
            queued.clear()
            queued.extend([call(1)] * 10)
            refs[:] = [garbage() for _ in range(3)]
            gc.set_threshold(1 + number % 9)
            gc.enable()
            due(queued, 3, True)
    finally:
        gc.set_threshold(*threshold)
        gc.enable()

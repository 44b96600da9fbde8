"""What the server is told of calls that went by a line, and of views: nothing, once nobody can ask
for them."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from contextlib import suppress
from typing import Any

import numpy as np
from msgspec import structs

from tests.unit.client.conftest import ACTOR, FORM, LINE, NONE, Gone, Process
from workbench.client.direct_calls import MOST_UNHEARD
from workbench.client.direct_line import DirectLine
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.memory.views import Watch


class Ring:
    """May refer to itself."""


def ran(*tasks: int, value: ev.Value = NONE) -> ev.SettledCalls:
    return ev.SettledCalls(1, tasks, (value,) * len(tasks))


def test_an_answered_call_whose_result_nobody_has_is_not_told(process: Process) -> None:
    assert process.translate(process.call(1), Gone(1), process.call(2), Gone(2)) == []
    settled = ev.Settled(7, NONE)
    assert process.translate(settled, process.call(3), Gone(3)) == [settled]
    made = process.call(4)
    process.is_behind(Gone(4))  # queued behind what is said now
    assert process.translate(made) == []
    process.is_behind()
    assert process.translate(Gone(4)) == []


def test_one_that_isnt_answered_or_is_held_is(process: Process) -> None:
    open_call, held = process.call(1, answer=None), process.call(2)
    messages = process.translate(open_call, held, Gone(1))
    assert messages == [open_call.submit(1), ran(2), ev.Drop((1,))]
    assert open_call.is_reported
    assert held.is_reported


def test_beside_anything_else_all_is_told_in_order(process: Process) -> None:
    """It may be about one of them, also if it is queued behind what is said now."""
    other = ev.Submit(5, 3, b"", deps=(1,))
    messages = process.translate(process.call(1), other, Gone(1))
    assert messages == [ran(1), other, ev.Drop((1,))]
    process.is_behind(other, Gone(2))
    assert process.translate(process.call(2)) == [ran(2)]
    process.is_behind()
    assert process.translate(Gone(2)) == [ev.Drop((2,))]


def test_nor_at_the_end_of_its_task_unless_it_returns_one(process: Process) -> None:
    done = ev.Done(5, (NONE,), 0.0)
    lent = ev.Unblocked(3)
    assert process.translate(process.call(1), Gone(1), lent, done) == [lent, done]
    returned = ev.Done(5, (ev.Value(b"ref", contains=(2,)),), 0.0)
    messages = process.translate(process.call(2), Gone(2), returned)
    assert messages == [ran(2), returned, ev.Drop((2,))]


def test_what_was_said_once_is_said_to_its_end(process: Process) -> None:
    """A frame that was interrupted is translated again, perhaps when the answer is there."""
    made = process.call(1, answer=None)
    first = process.translate(made, Gone(1))
    made.answers[1] = NONE
    again = process.translate(made, Gone(1))
    assert first == [made.submit(1), ev.Drop((1,))]
    assert again == [ran(1), ev.Drop((1,))]


HALF = ev.Value(bytes(MOST_UNHEARD // 2))


def test_what_results_took_of_the_leave_for_messages_is_told_in_sums(process: Process) -> None:
    """Else the worker would ask for leave again and again, and the server think it unused."""
    assert process.translate(process.call(1, answer=HALF), Gone(1), process.call(2), Gone(2)) == []
    failed = ev.Value(bytes(MOST_UNHEARD), failed=True)  # takes none
    assert process.translate(process.call(3, answer=failed), Gone(3)) == []
    assert process.translate(process.call(4, answer=HALF), Gone(4)) == [ev.Unheard(1, MOST_UNHEARD)]
    made = process.call(5, answer=HALF)
    assert process.translate(made, Gone(5)) == []
    assert ran(5, value=HALF) in process.translate(made, Gone(5))  # said: so that counts it
    assert process.translate(process.call(6, answer=HALF), Gone(6)) == []


def test_what_was_kept_silent_is_told_before_a_line_is_closed(process: Process) -> None:
    """Its worker may live: a line that was lent objects, or a lease, is taken back."""
    some = ev.Value(bytes(100))
    assert process.translate(process.call(1, answer=some), Gone(1)) == []
    process.worker.close()
    process.base.handlers[do.LineEnded](do.LineEnded(LINE))
    closed = ev.LineClosed(LINE)
    for _ in range(2):  # a frame that was interrupted is translated again
        assert process.translate(closed) == [ev.Unheard(LINE, 100), closed]


def test_a_run_of_calls_that_are_over_is_one_message(process: Process) -> None:
    other = process.call(4)
    other.line = DirectLine(2, 8, process.line.end)
    messages = process.translate(
        process.call(1, 2), process.call(3, answer=None), process.call(5), other
    )
    open_call = ev.Submit(3, 0, b"", actor=ACTOR, method="m", line=LINE)
    assert messages == [ran(1, 2), open_call, ran(5), ev.SettledCalls(2, (4,), (NONE,))]


def test_late_calls_wait_for_their_answers_once_more(process: Process) -> None:
    calls = [process.call(1), process.call(2, answer=None), process.call(3)]
    assert process.due(*calls, Gone(1), late=False) == 0
    assert process.due(*calls, late=True) == 1
    assert process.due(*calls, late=True) == 3


def test_what_isnt_about_calls_takes_those_before_it_along(process: Process) -> None:
    calls = [process.call(1, answer=None), Gone(7), process.call(2, answer=None)]
    assert process.due(*calls, late=False) == 2
    assert process.due(*calls, late=False, seen=2) == 0


def test_an_answer_that_is_queued_isnt_told(process: Process) -> None:
    """Its worker keeps the result until it is."""
    first, second = process.call(1), process.call(2)
    first.answer_number, second.answer_number = 6, 7
    assert process.sending.reported(9) == 9
    process.is_behind(second, process.call(3, answer=None))
    assert process.sending.reported(9) == 6


def test_calls_that_could_not_be_sent_go_through_the_server_in_order(process: Process) -> None:
    lines, line = process.lines, process.line
    form = structs.replace(FORM, parent=3)
    assert lines.call(line, 10, b"", form)
    assert lines.call(line, 11, b"", form)
    with suppress(BlockingIOError):
        while True:
            line.end.send(bytes(1000))
    assert lines.call(line, 12, b"", form)
    assert lines.call(line, 13, b"", form)
    assert (line.is_granted, line.unanswered) == (False, 2)
    submits = [ev.Submit(n, 0, b"", actor=ACTOR, method="m", line=LINE, parent=3) for n in (10, 11)]
    by_server = [ev.Submit(n, 0, b"", actor=ACTOR, method="m", parent=3) for n in (12, 13)]
    assert process.sent() == [*submits, *by_server]
    assert process.granted(13) is line


def test_finalizers_append_while_it_is_looked_through(process: Process) -> None:
    """The collector may run wherever something is made."""
    queued: deque[Any] = deque()
    refs: list[weakref.ref[Any]] = []

    def garbage() -> weakref.ref[Any]:
        ring = Ring()
        ring.ring = ring  # type: ignore[attr-defined]
        return weakref.ref(ring, lambda _: queued.append(process.call(1)))

    threshold = gc.get_threshold()
    try:
        for number in range(300):
            gc.disable()
            queued.clear()
            queued.extend([process.call(1)] * 10)
            refs[:] = [garbage() for _ in range(3)]
            gc.set_threshold(1 + number % 9)
            gc.enable()
            process.sending.due(queued, 3, True)
    finally:
        gc.set_threshold(*threshold)
        gc.enable()


OBJECT, SEGMENT = 5, 9
DONE = ev.Done(1, (), 0.0)
VIEW, UNVIEW = ev.View(OBJECT, SEGMENT), ev.Unview(((OBJECT, SEGMENT),))


class Viewer:
    """Queues what its views, their ends and its tasks have to say."""

    def __init__(self, process: Process) -> None:
        self.queued: list[Any] = []
        self._process = process
        self._watches: list[Watch] = []  # as `Views` keeps them

    def view(self, segment: int = SEGMENT) -> Any:
        array = np.zeros(1)
        watch = Watch.of(array, self.queued.append, OBJECT)
        watch.segment = segment
        self._watches.append(watch)
        self.queued.append(ev.View(OBJECT, segment))
        return array

    def said(self) -> list[Any]:
        queued, self.queued[:] = list(self.queued), []
        return self._process.translate(*queued)


def test_views_of_an_argument_are_told_if_they_outlive_its_task(process: Process) -> None:
    viewer = Viewer(process)
    first = viewer.view()
    del first
    second, third = viewer.view(), viewer.view(SEGMENT + 1)
    del third
    viewer.queued.append(DONE)
    assert viewer.said() == [VIEW, DONE]
    del second
    assert viewer.said() == [UNVIEW]


def test_who_has_a_handle_tells_each_use(process: Process) -> None:
    """What was read last moves to disk last."""
    process.base.objects.values[OBJECT] = NONE
    viewer = Viewer(process)
    view = viewer.view()
    del view
    assert viewer.said() == [VIEW, UNVIEW]

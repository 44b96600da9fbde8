"""What the server is told of calls that went by a line: nothing, once nobody can ask for them."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from workbench.client.direct_calls import MOST_UNHEARD, DirectCall, DirectCalls, DirectLine
from workbench.client.reference_counter import HandleWatch
from workbench.client.send_queue import SendQueue
from workbench.core import events as ev

NONE = ev.Value(b"N")


class Handle:
    pass


def queue() -> SendQueue:
    marshal = Mock()
    marshal.report.return_value = None
    lines = DirectCalls(Mock(), Mock(), {})
    lines._by_actor[9] = DirectLine(1, 9, Mock())
    return SendQueue(Mock(), Mock(), marshal, lines, 1)


def call(task: int, answer: ev.Value | None = NONE) -> DirectCall:
    made = DirectCall(ev.Submit(task, 0, b"", actor=9, method="m", line=1), 1)
    made.answer = answer
    return made


def gone(id: int) -> HandleWatch:
    return HandleWatch(Handle(), lambda _: None, id)


def told(*queued: Any) -> list[Any]:
    return queue().translate(list(queued))


def test_an_answered_call_whose_result_nobody_has_is_not_told() -> None:
    assert told(call(1), gone(1), call(2), gone(2)) == []
    assert told(ev.Settled(7, NONE), call(1), gone(1)) == [ev.Settled(7, NONE)]


def test_one_that_isnt_answered_or_is_held_is() -> None:
    open_call, held = call(1, None), call(2)
    messages = told(open_call, held, gone(1))
    assert messages == [open_call.submit, held.submit, ev.Settled(2, NONE), ev.Drop((1,))]
    assert open_call.is_said
    assert held.is_said


def test_beside_anything_else_all_is_told_in_order() -> None:
    """It may be about one of them."""
    made = call(1)
    other = ev.Submit(5, 3, b"", deps=(1,))
    messages = told(made, other, gone(1))
    assert messages == [made.submit, ev.Settled(1, NONE), other, ev.Drop((1,))]


def test_what_was_said_once_is_said_to_its_end() -> None:
    """A frame that was interrupted is translated again, perhaps when the answer is there."""
    made, queued = call(1, None), queue()
    first = queued.translate([made, gone(1)])
    made.answer = NONE
    again = queued.translate([made, gone(1)])
    assert first == [made.submit, ev.Drop((1,))]
    assert again == [made.submit, ev.Settled(1, NONE), ev.Drop((1,))]


def test_what_results_took_of_the_leave_for_messages_is_told_in_sums() -> None:
    """Else the worker would ask for leave again and again, and the server think it unused."""
    half, queued = ev.Value(bytes(MOST_UNHEARD // 2)), queue()
    assert queued.translate([call(1, half), gone(1), call(2), gone(2)]) == []
    failed = ev.Value(bytes(MOST_UNHEARD), failed=True)  # takes none
    assert queued.translate([call(3, failed), gone(3)]) == []
    assert queued.translate([call(4, half), gone(4)]) == [ev.Unheard(1, MOST_UNHEARD)]
    assert queued.translate([call(5, half), gone(5)]) == []


def test_a_frame_translated_again_is_counted_once() -> None:
    made, queued = call(1, ev.Value(bytes(MOST_UNHEARD // 2))), queue()
    assert queued.translate([made, gone(1)]) == []
    assert made.submit in queued.translate([made, gone(1)])  # said: so that counts it
    assert queued.translate([call(2, ev.Value(bytes(MOST_UNHEARD // 2))), gone(2)]) == []

"""What is said of views that come and go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from workbench.client.outgoing_translator import OutgoingTranslator
from workbench.core import events as ev
from workbench.memory.views import Watch

OBJECT, SEGMENT = 5, 9


class Queue:
    """The send queue of a process that has handles to ``values``."""

    def __init__(self, *values: int) -> None:
        self.finalized: list[Any] = []
        self.queued: list[Any] = []
        self._watches: list[Watch] = []  # as `Views` keeps them
        objects: Any = SimpleNamespace(
            values=dict.fromkeys(values), finalized=self.finalized.append
        )
        marshal, none = cast(Any, SimpleNamespace(report=lambda known: None)), cast(Any, None)
        lines: Any = SimpleNamespace(unreported_tasks=set())
        self._queue = OutgoingTranslator(none, objects, none, marshal, lines, 1)

    def view(self, segment: int = SEGMENT) -> Any:
        array = np.zeros(1)
        watch = Watch.of(array, self.queued.append, OBJECT)
        watch.segment = segment
        self.queued.append(ev.View(OBJECT, segment))
        self._watches.append(watch)
        return array

    def said(self) -> list[Any]:
        queued, self.queued[:] = list(self.queued), []
        return self._queue.translate(queued)


DONE = ev.Done(1, (), 0.0)
VIEW, UNVIEW = ev.View(OBJECT, SEGMENT), ev.Unview(((OBJECT, SEGMENT),))


def test_a_view_of_an_argument_that_is_gone_when_its_task_is_makes_no_message() -> None:
    queue = Queue()
    view = queue.view()
    queue.queued.append(DONE)
    del view
    assert queue.said() == [DONE]
    assert len(queue.finalized) == 1


def test_of_several_those_that_are_kept_are_told_and_their_ends() -> None:
    queue = Queue()
    first = queue.view()
    del first
    second = queue.view()
    third = queue.view(SEGMENT + 1)
    del third
    queue.queued.append(DONE)
    assert queue.said() == [VIEW, DONE]
    del second
    assert queue.said() == [UNVIEW]


def test_who_has_a_handle_tells_each_use() -> None:
    """What was read last moves to disk last."""
    queue = Queue(OBJECT)
    view = queue.view()
    del view
    assert queue.said() == [VIEW, UNVIEW]

"""What is said of views that come and go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from workbench.client.send_queue import SendQueue
from workbench.core import events as ev
from workbench.memory.views import Watch

OBJECT, SEGMENT = 5, 9


class Queue:
    """A send queue of a process that has handles to ``values``."""

    def __init__(self, *values: int) -> None:
        self.finalized: list[Any] = []
        self.queued: list[Any] = []
        self.watches: list[Watch] = []
        objects = SimpleNamespace(values=dict.fromkeys(values), finalized=self.finalized.append)
        marshal = SimpleNamespace(report=lambda known: None)
        self._queue = SendQueue(
            cast(Any, objects),
            cast(Any, None),
            cast(Any, marshal),
            cast(Any, SimpleNamespace(unsaid=set())),
            1,
        )

    def view(self, segment: int = SEGMENT) -> Any:
        array = np.zeros(1)
        watch = Watch.of(array, self.queued.append, OBJECT)
        watch.segment = segment
        self.queued.append(ev.View(OBJECT, segment))
        self.watches.append(watch)  # as `Views` does
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
    assert queue.finalized == queue.watches


def test_one_that_is_kept_is_told_and_so_is_its_end() -> None:
    queue = Queue()
    view = queue.view()
    queue.queued.append(DONE)
    assert queue.said() == [VIEW, DONE]
    del view
    assert queue.said() == [UNVIEW]


def test_of_several_those_that_live_are_told() -> None:
    queue = Queue()
    first = queue.view()
    del first
    second = queue.view()
    third = queue.view(SEGMENT + 1)
    del third
    assert queue.said() == [VIEW]
    del second
    assert queue.said() == [UNVIEW]


def test_an_old_views_end_doesnt_hide_a_new_one() -> None:
    queue = Queue()
    old = queue.view()
    assert queue.said() == [VIEW]
    del old
    new = queue.view()
    assert queue.said() == [VIEW, UNVIEW]
    del new
    assert queue.said() == [UNVIEW]


def test_who_has_a_handle_tells_each_use() -> None:
    """What was read last moves to disk last."""
    queue = Queue(OBJECT)
    view = queue.view()
    del view
    assert queue.said() == [VIEW, UNVIEW]

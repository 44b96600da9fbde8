"""The queue beside lists: who is in it, who is first, whose turn it is, that gaps don't gather."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.core.turns import Turns
from workbench.core.events import Submit
from workbench.core.queue import TaskQueue
from workbench.core.task_states import DONE, QUEUED, SENT
from workbench.core.tasks import Task

Steps = list[tuple[str, int, int]]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "appendleft", "popleft", "remove", "hurry", "again"]),
        st.integers(0, 1000),
        st.sampled_from([1, 1, 2, 3]),
    ),
    max_size=60,
)


def by_driver(usual: dict[int, list[Task]]) -> dict[int, int]:
    """By task, its driver."""
    return {task.submit.task: driver for driver, line in usual.items() for task in line}


def follow(steps: Steps) -> None:
    """Take these steps with a queue, and with lists: by driver, and of those that are urgent."""
    queue, turns = TaskQueue(), Turns()
    usual: dict[int, list[Task]] = {1: [], 2: [], 3: []}
    urgent, sent = list[Task](), list[Task]()
    for number, (step, where, driver) in enumerate(steps):
        task = Task(Submit(number, 0, b""), driver)
        own = usual[driver]
        if step == "append":
            task.urgent = where % 3 == 0  # somebody waits for it already
            queue.append(task)
            own.append(task) if not task.urgent else urgent.insert(0, task)
        elif step == "appendleft":
            queue.appendleft(task)
            own.insert(0, task)
        elif step == "hurry":
            some = [task for line in usual.values() for task in line][where % 5 :: 3]
            queue.hurry(some)
            usual = {n: [task for task in line if task not in some] for n, line in usual.items()}
            urgent = [*some, *urgent]
        elif step == "again" and sent:
            task = sent.pop()
            queue.appendleft(task)
            (urgent if task.urgent else usual[task.owner]).insert(0, task)
        elif step == "popleft" and queue:
            first = queue.first
            assert queue.popleft() is first
            if urgent:
                assert first is urgent.pop(0)
            else:
                turns.had(first.owner, by_driver(usual))
                assert first is usual[first.owner].pop(0)
            first.to(SENT)
            sent.append(first)
        elif step == "remove" and queue:
            listed = list(queue)
            task = listed[where % len(listed)]
            (urgent if task.urgent else usual[task.owner]).remove(task)
            task.to(DONE)
            queue.left(task)
        listed = list(queue)
        assert listed[: len(urgent)] == urgent
        for driver, line in usual.items():
            assert [task for task in listed[len(urgent) :] if task.owner == driver] == line
        assert len(queue) == len(listed) == len(urgent) + sum(map(len, usual.values()))
        assert queue.has_urgent == bool(urgent)
        assert bool(queue) == bool(listed)
        assert not listed or queue.first is listed[0]
        assert all(task.state is QUEUED for task in listed)
        kept = [queue._urgent, queue._usual, *queue._others.values()]
        assert all(len(line.tasks) <= 2 * len(list(line)) + 1 for line in kept), "too many gaps"
        assert queue._usual.tasks or not queue._others
    listed = list(queue)
    for task in listed:  # what is to come was said in its order
        if not task.urgent:
            turns.had(task.owner, by_driver(usual))
            usual[task.owner].pop(0)
        assert queue.popleft() is task
        task.to(SENT)
    assert not queue


@given(STEPS)
def test_drivers_take_turns_and_any_task_can_leave(steps: Steps) -> None:
    """What is urgent comes first, the newest group of it before the others."""
    follow(steps)


def test_a_queue_without_turns_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskQueue, "_line_of", lambda queue, _: queue._usual)
    with pytest.raises(AssertionError):
        settings(max_examples=400, database=None, derandomize=True)(given(STEPS)(follow))()


def test_it_is_shared_until_it_is_empty() -> None:
    queue = TaskQueue()
    tasks = [Task(Submit(number, 0, b""), owner) for number, owner in enumerate((1, 1, 2, 1))]
    for task, shared in zip(tasks[:3], (False, False, True), strict=True):
        queue.append(task)
        assert queue.is_shared == shared
    while queue:
        queue.popleft().to(SENT)
    queue.append(tasks[3])
    assert not queue.is_shared

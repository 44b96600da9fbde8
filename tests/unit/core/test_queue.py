"""The queue beside two lists: who is in it, who is first, and that gaps don't gather."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workbench.core.events import Submit
from workbench.core.queue import TaskQueue
from workbench.core.tasks import DONE, QUEUED, SENT, Task

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "appendleft", "popleft", "remove", "hurry", "again"]),
        st.integers(0, 1000),
    ),
    max_size=60,
)


@given(STEPS)
def test_it_is_a_list_whose_middle_can_leave(steps: list[tuple[str, int]]) -> None:
    """What is urgent comes first, the newest group of it before the others."""
    queue, usual, urgent = TaskQueue(), list[Task](), list[Task]()
    sent: list[Task] = []
    for number, (step, where) in enumerate(steps):
        task = Task(Submit(number, 0, b""), 1)
        listed = urgent or usual
        if step == "append":
            task.urgent = where % 3 == 0  # somebody waits for it already
            queue.append(task)
            usual.append(task) if not task.urgent else urgent.insert(0, task)
        elif step == "appendleft":
            queue.appendleft(task)
            usual.insert(0, task)
        elif step == "hurry":
            some = usual[where % 5 :: 3]
            queue.hurry(some)
            usual = [task for task in usual if task not in some]
            urgent = [*some, *urgent]
        elif step == "again" and sent:
            task = sent.pop()
            queue.appendleft(task)
            (urgent if task.urgent else usual).insert(0, task)
        elif listed and step == "popleft":
            assert queue.first is listed[0]
            first = queue.popleft()
            assert first is listed.pop(0)
            first.to(SENT)
            sent.append(first)
        elif step == "remove" and urgent + usual:
            task = (urgent + usual)[where % len(urgent + usual)]
            (urgent if task.urgent else usual).remove(task)
            task.to(DONE)
            queue.left(task)
        listed = urgent + usual
        assert list(queue) == listed
        assert len(queue) == len(listed)
        assert queue.has_urgent == bool(urgent)
        assert bool(queue) == bool(listed)
        assert not listed or queue.first is listed[0]
        assert all(task.state is QUEUED for task in listed)
        for line, there in ((queue._usual, usual), (queue._urgent, urgent)):
            assert len(line.tasks) <= 2 * len(there) + 1, "more gaps than tasks"

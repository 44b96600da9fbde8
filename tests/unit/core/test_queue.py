"""The queue beside a list: who is in it, who is first, and that gaps don't gather."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workbench.core.events import Submit
from workbench.core.queue import TaskQueue
from workbench.core.tasks import DONE, QUEUED, SENT, Task

STEPS = st.lists(st.tuples(st.sampled_from(["append", "appendleft", "popleft", "remove"]),
                           st.integers(0, 1000)), max_size=60)  # fmt: skip


@given(STEPS)
def test_it_is_a_list_whose_middle_can_leave(steps: list[tuple[str, int]]) -> None:
    queue, listed = TaskQueue(), list[Task]()
    for number, (step, where) in enumerate(steps):
        task = Task(Submit(number, 0, b""), 1)
        if step == "append":
            queue.append(task)
            listed.append(task)
        elif step == "appendleft":
            queue.appendleft(task)
            listed.insert(0, task)
        elif listed and step == "popleft":
            assert queue.first is listed[0]
            first = queue.popleft()
            assert first is listed.pop(0)
            first.to(SENT)
        elif listed:
            listed.pop(where % len(listed)).to(DONE)
            queue.left()
        assert list(queue) == listed
        assert len(queue) == len(listed)
        assert bool(queue) == bool(listed)
        assert not listed or queue.first is listed[0]
        assert all(task.state is QUEUED for task in listed)
        assert len(queue._tasks) <= 2 * len(listed) + 1, "more gaps than tasks"

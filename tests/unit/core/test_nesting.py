"""Tasks that wait for tasks: none is stuck, and no more run than there are processors. The queue
beside lists: who is in it, who is first, whose turn it is, that gaps don't gather.

At random: `test_session_machine`, `test_lease_machine`.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.core.conftest import Make, Pair, Stage
from tests.unit.core.peers import BOOM, NONE, Peer
from tests.unit.core.turns import Turns
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import Submit
from workbench.core.queue import TaskQueue
from workbench.core.scheduler import BATCH_TASKS, SHARED_BATCH_TASKS
from workbench.core.task_states import DONE, QUEUED, SENT
from workbench.core.tasks import Task

LENGTH = 40


@pytest.mark.parametrize("most", [60, 30])
def test_a_chain_takes_a_worker_each_and_fails_without(stage: Make, most: int) -> None:
    """Each waits for one that it has submitted; the last one finds no worker, or ends."""
    s = stage(workers=1)
    s.session.state.pool.most = most
    driver = s.driver()
    f = s.function(driver)
    (root,) = driver.submit(f, (), ())
    chain = []
    while s.starting:
        chain.append(worker := s.worker())
        s.all_read()
        assert len(worker.runs) == 1
        if len(chain) < LENGTH:
            worker.block(worker.submit(f, (), ()))
            s.turn()
    assert len(chain) == min(most, LENGTH)
    s.all_read()
    failed = [value for peer in chain for value in peer.values.values() if value.failed]
    assert len(failed) == (most < LENGTH)
    assert all(b"each waits for another one" in value.header for value in failed)
    for worker in reversed(chain):
        if worker.waits:
            worker.unblock()
        s.finish(worker, (NONE,), 1.0)
    assert driver.values[root] == NONE
    assert not s.session.state.scheduler.tasks


def test_what_is_needed_by_what_has_begun_comes_first_with_its_arguments(pair: Pair) -> None:
    """Also if another submitted it, and it waits for others itself."""
    s, driver, worker = pair(workers=1)
    f = s.function(driver)
    began = s.all_hear(driver.submit(f, (), ()))[0]
    others = [driver.submit(f, (), ())[0] for _ in range(5)]
    first = driver.submit(f, (), ())[0]
    last = s.hears(driver.submit(f, (first,), ()))[0]
    assert worker.runs[0].task == began
    worker.borrow((last,))
    worker.post(ev.Want((last,)))
    worker.block((last,))
    s.turn()
    helper = s.all_hear(s.worker())
    order = []
    for _ in range(8):
        if worker.waits and last in worker.values:
            worker.unblock()
        able = [peer for peer in (worker, helper) if peer.runs and not peer.waits]
        assert len(able) == 1
        order.append(able[0].runs[0].task)
        s.finish(able[0], (NONE,), 1.0)
    assert order == [first, last, began, *others]


def test_who_waits_for_what_is_there_lends_nothing(pair: Pair) -> None:
    """Nor does one whose wait is over, though it hasn't said so yet."""
    s, driver, worker = pair(workers=1)
    f = s.function(driver)
    ready, failed = driver.put(NONE), driver.put(BOOM)
    tasks = s.all_hear([driver.submit(f, (), ())[0] for _ in range(3)])
    pending = worker.submit(f, (), ())[0]
    for objects, enough in (
        ((ready,), 0), ((ready, failed), 0), ((failed, pending), 0), ((ready, pending), 1),
        ((999,), 0),
    ):  # fmt: skip
        worker.block(objects, enough)
        assert not s.turn(), objects
        worker.unblock()
        assert not s.turn()
    assert not s.starting
    worker.block((pending,))
    s.turn()
    helper = s.all_hear(s.worker())
    assert helper.runs[0].task == pending
    s.finish(helper, (NONE,), 1.0)
    assert not helper.runs, "the slot is the first one's"
    worker.unblock()
    s.finish(worker, (NONE,), 1.0)
    assert {p.runs[0].task for p in (worker, helper) if p.runs} == {tasks[1]}


def test_a_wait_ends_with_its_task(pair: Pair) -> None:
    """A thread that a task left waits on: the next task's slot isn't lent by that."""
    s, driver, worker = pair(workers=1)
    f = s.function(driver)
    first, second = (driver.submit(f, (), ())[0] for _ in range(2))
    s.all_read()
    worker.post(ev.Blocked(first))
    s.finish(worker, (NONE,), 1.0)
    assert worker.runs[0].task == second
    driver.submit(f, (), ())
    worker.post(ev.Blocked(first, 2))
    worker.post(ev.Unblocked(1))
    assert not s.turn()


def test_items_of_a_generator_end_the_wait_for_them(pair: Pair) -> None:
    s, driver, worker = pair(workers=1)
    f = s.function(driver)
    s.all_hear(driver.submit(f, (), ()))
    driver.submit(f, (), ())  # what would begin there
    stream = worker.submit(f, (), (), spec=ev.TaskSpec(ahead=4))[0]
    s.say(worker, ev.Blocked(worker.runs[0].task, 1, (stream,), 1, item=1))
    helper = s.all_hear(s.worker())
    assert helper.runs[0].task == stream
    used = s.session.state.scheduler
    helper.post(ev.Blocked(stream, 1))  # as if there were no room for more
    helper.post(ev.Yielded(stream, helper.id(), NONE))
    s.turn()
    assert used.used == used.cpus, "the first one's"
    worker.post(ev.Unblocked(1))
    worker.post(ev.Blocked(worker.runs[0].task, 2, (stream,), 1, item=1))  # it had come
    s.turn()
    assert used.used == used.cpus


Steps = list[tuple[str, int, int]]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "appendleft", "popleft", "remove", "hurry", "again"]),
        st.integers(0, 1000),
        st.sampled_from([1, 1, 2, 3]),
    ),
    max_size=60,
)


Tasks = dict[int, list[Task]]


def follow(steps: Steps, queue: TaskQueue) -> None:
    """Take these steps with a queue, and with lists: of each driver its usual and urgent tasks."""
    turns = Turns()
    usual: Tasks = {1: [], 2: [], 3: []}
    urgent: Tasks = {1: [], 2: [], 3: []}
    sent = list[Task]()

    def waiting() -> dict[int, int]:
        """By task, its driver."""
        return {t.submit.task: n for n in usual for t in (*urgent[n], *usual[n])}

    def had_turn(task: Task) -> None:
        turns.had(task.owner, waiting())
        assert task is (urgent[task.owner] or usual[task.owner]).pop(0)

    for number, (step, where, driver) in enumerate(steps):
        task = Task(Submit(number, 0, b""), driver)
        if step == "append":
            task.urgent = where % 3 == 0  # somebody waits for it already
            queue.append(task)
            usual[driver].append(task) if not task.urgent else urgent[driver].insert(0, task)
        elif step == "appendleft":
            queue.appendleft(task)
            usual[driver].insert(0, task)
        elif step == "hurry":
            some = [task for line in usual.values() for task in line][where % 5 :: 3]
            queue.hurry(some)
            for n, line in usual.items():
                urgent[n] = [*(task for task in line if task in some), *urgent[n]]
                usual[n] = [task for task in line if task not in some]
        elif step == "again" and sent:
            task = sent.pop()
            queue.appendleft(task)
            (urgent if task.urgent else usual)[task.owner].insert(0, task)
        elif step == "popleft" and queue:
            first = queue.first
            assert queue.popleft() is first
            had_turn(first)
            first.to(SENT)
            sent.append(first)
        elif step == "remove" and queue:
            listed = list(queue)
            task = listed[where % len(listed)]
            (urgent if task.urgent else usual)[task.owner].remove(task)
            task.to(DONE)
            queue.on_task_left(task)
        listed = list(queue)
        for n in usual:
            assert [task for task in listed if task.owner == n] == urgent[n] + usual[n]
        assert len(queue) == len(listed) == len(waiting())
        assert queue.has_urgent == any(urgent.values())
        assert bool(queue) == bool(listed)
        assert not listed or queue.first is listed[0]
        if queue.has_urgent:
            assert queue.first_that_is_waited_for.urgent
        assert all(task.state is QUEUED for task in listed)
        kept = [tasks for line in queue.lines() for tasks in (line.urgent, line.usual)]
        assert all(len(t) <= 2 * len(list(filter(t.is_here, t))) + 1 for t in kept), "too many gaps"
    for task in list(queue):  # what is to come was said in its order
        had_turn(task)
        assert queue.popleft() is task
        task.to(SENT)
    assert not queue


@given(STEPS)
def test_drivers_take_turns_and_any_task_can_leave(steps: Steps) -> None:
    """Of each driver what is urgent comes first, the newest group of it before the others."""
    follow(steps, TaskQueue())


class WithoutTurns(TaskQueue):
    def _line_of(self, _: Task) -> Any:
        return self._line


@pytest.mark.extended
def test_a_queue_without_turns_is_found() -> None:
    searching = settings(max_examples=400, database=None, derandomize=True)
    with pytest.raises(AssertionError, match="was passed over"):
        searching(given(STEPS)(lambda steps: follow(steps, WithoutTurns())))()


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


def order(s: Stage, worker: Peer) -> list[int]:
    """Tasks as they run, one after the other, until none is left."""
    ran = []
    s.all_read()
    while worker.runs:
        ran.append(worker.runs[0].task)
        s.finish(worker, (NONE,), 1.0)
    return ran


def burst(driver: Peer, function: int, many: int) -> list[int]:
    return [driver.submit(function, (), ())[0] for _ in range(many)]


def test_what_tasks_submit_is_their_drivers(stage: Make) -> None:
    s = stage()
    one, two, worker = s.driver(), s.driver(), s.worker()
    f, g = s.function(one), s.function(two)
    parent = burst(one, f, 2)
    s.all_read()
    other = burst(two, g, 2)
    worker.borrow((f,))
    children = burst(worker, f, 2)
    assert order(s, worker) == [parent[0], parent[1], other[0], children[0], other[1], children[1]]


def test_fewer_are_sent_ahead_while_they_do(stage: Make) -> None:
    s = stage()
    one, two, worker = s.driver(), s.driver(), s.worker()
    f, g = s.function(one, seconds=0.0), s.function(two, seconds=0.0)
    burst(one, f, 2 * BATCH_TASKS)
    burst(two, g, 1)
    s.turn()
    assert sum(isinstance(m, do.Run) for m in worker.inbox) == SHARED_BATCH_TASKS

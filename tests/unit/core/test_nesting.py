"""Tasks that wait for tasks: none is stuck, and no more run than there are processors."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.core.conftest import FUNCTION, Make, Stage
from tests.unit.core.peers import BOOM, NONE, Peer
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.entry import PENDING
from workbench.core.pool import LENT

Awaited = tuple[tuple[int, ...], int]
"""Objects, and how many of them: see `events.Blocked`."""
Program = Iterator[Awaited]


class Family:
    """Tasks that submit tasks and wait for them, in honest workers, in any order of events."""

    def __init__(self, workers: int, seed: int, seconds: tuple[float, ...] = (1.0,)) -> None:
        self.stage = Stage(workers, 1 << 20)
        self.seconds = seconds
        self.chance = random.Random(seed)
        self.driver = self.stage.driver()
        self.function = self.driver.put(FUNCTION)
        self.programs: dict[int, Callable[[Peer], Program]] = {}  # by task
        self.running: dict[int, Program] = {}  # by task that has begun
        self.waiting: dict[int, Awaited] = {}  # by worker's client
        self.most_processes = 0
        self.most_running = 0

    def submit(self, by: Peer, program: Callable[[Peer], Program]) -> int:
        (task,) = by.submit(self.function, (), ())
        self.programs[task] = program
        return task

    def is_there(self, peer: Peer) -> bool:
        """Whether what it waits for is, in the session; it may not have heard."""
        ids, enough = self.waiting[peer.number]
        get = self.stage.session.state.catalog.get
        entries = [get(id) for id in ids]
        there = sum(entry is None or entry.state is not PENDING for entry in entries)
        return there >= (enough or len(ids))

    def look(self) -> None:
        """Count those that have a task, but for those that wait for what isn't there."""
        workers = [p for p in self.stage.peers.values() if p.worker]
        pool = self.stage.session.state.scheduler.pool
        busy = [p for p in workers if p.number in pool and pool[p.number].sent]
        waits = [p for p in busy if p.number in self.waiting and not self.is_there(p)]
        self.most_processes = max(self.most_processes, len(workers))
        self.most_running = max(self.most_running, len(busy) - len(waits))

    def turn(self) -> bool:
        """Whether anything came of what was said."""
        out = self.stage.turn()
        for instruction in out:
            if isinstance(instruction, do.Hangup):
                self.stage.leave(self.stage.peers[instruction.client])
        self.look()
        return bool(out)

    def step(self, peer: Peer) -> None:
        """Its task goes on, up to where it waits, or to its end."""
        task = peer.runs[0].task
        if peer.number in self.waiting:
            peer.unblock()
            del self.waiting[peer.number]
        program = self.running.get(task)
        if program is None:
            program = self.running[task] = self.programs[task](peer)
        awaited = next(program, None)
        if awaited is None:
            del self.running[task]
            peer.finish((NONE,), self.chance.choice(self.seconds))
        else:
            self.waiting[peer.number] = awaited
            peer.block(*awaited)

    def can_step(self, peer: Peer) -> bool:
        if not peer.runs:
            return False
        ids, enough = self.waiting.get(peer.number, ((), 0))
        return sum(id in peer.values for id in ids) >= (enough or len(ids))

    def run(self) -> None:
        """Until nothing is left to be done."""
        self.turn()
        for _ in range(200_000):
            if self.stage.starting and self.chance.random() < 0.5:
                self.stage.meet(self.stage.starting.pop(0))
            reading = [p for p in self.stage.peers.values() if p.inbox]
            able = [p for p in self.stage.peers.values() if p.worker and self.can_step(p)]
            if not (reading or able or self.stage.starting):
                if not self.turn():
                    break
                continue
            if reading and (not able or self.chance.random() < 0.6):
                self.chance.choice(reading).read()
            elif able:
                self.step(self.chance.choice(able))
            if self.chance.random() < 0.7 or not (reading or able):
                self.turn()
        assert not self.stage.session.state.scheduler.tasks, "they wait for each other for ever"


def tree(family: Family, depth: int, width: int) -> Callable[[Peer], Program]:
    """A task with that many children, each with as many: it waits for all, or one by one."""

    def program(peer: Peer) -> Program:
        chance = family.chance
        children = [
            family.submit(peer, tree(family, depth - 1, width))
            for _ in range(chance.randint(1, width) if depth else 0)
        ]
        if not children:
            return
        if chance.random() < 0.5:
            yield tuple(children), 0
        elif chance.random() < 0.5:
            for child in children:
                yield (child,), 1
        else:
            for count in range(len(children)):
                yield tuple(children), count + 1

    return program


@settings(max_examples=settings().max_examples // 2)
@given(
    seed=st.integers(0, 2**32), workers=st.integers(1, 3), roots=st.integers(1, 12),
    depth=st.integers(1, 4), width=st.integers(1, 3), short=st.booleans(),
)  # fmt: skip
def test_trees_of_tasks_end_and_never_overfill(
    seed: int, workers: int, roots: int, depth: int, width: int, short: bool
) -> None:
    """Short ones are sent ahead, and run on for a moment when somebody has its slot again. What
    somebody waits for may then stand behind one that turns out to be long, while another slot takes
    something new: of 3 000 trees 6 took more than twice the
    processes that are needed, the worst 3.5 times."""
    family = Family(workers, seed, (0.0001, 1.0) if short else (1.0,))
    for _ in range(roots):
        family.submit(family.driver, tree(family, depth, width))
    family.run()
    assert short or family.most_running <= workers
    assert family.most_processes <= (6 if short else 2) * workers * (depth + 1)


def test_many_that_wait_for_one_each_take_few_processes() -> None:
    family = Family(2, 0)
    for _ in range(2 * LENT):
        family.submit(family.driver, tree(family, 1, 1))
    family.run()
    assert family.most_running == 2
    assert family.most_processes <= 6


def chain(family: Family, depth: int) -> Callable[[Peer], Program]:
    def program(peer: Peer) -> Program:
        if depth:
            yield (family.submit(peer, chain(family, depth - 1)),), 0

    return program


@pytest.mark.parametrize("most", [60, 30])
def test_a_chain_takes_a_worker_each_and_fails_where_there_are_no_more(most: int) -> None:
    family = Family(1, 0)
    family.stage.session.state.pool.most = most
    root = family.submit(family.driver, chain(family, 40))
    family.run()
    assert family.most_running == 1
    assert family.most_processes <= most
    assert family.driver.values[root] == NONE
    failed = [v for p in family.stage.peers.values() for v in p.values.values() if v.failed]
    assert len(failed) == (most < 40)
    assert all("each waits for another one" in v.header.decode() for v in failed)


def test_what_is_needed_by_what_has_begun_comes_first_with_its_arguments(stage: Make) -> None:
    """Also if another submitted it, and it waits for others itself."""
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    f = s.function(driver)
    began = driver.submit(f, (), ())[0]
    s.all_read()
    others = [driver.submit(f, (), ())[0] for _ in range(5)]
    first = driver.submit(f, (), ())[0]
    last = driver.submit(f, (first,), ())[0]
    s.turn()
    assert worker.runs[0].task == began
    worker.borrow((last,))
    worker.post(ev.Want((last,)))
    worker.block((last,))
    s.turn()
    helper = s.worker()
    order = []
    for _ in range(8):
        s.all_read()
        if worker.waits and last in worker.values:
            worker.unblock()
        able = [peer for peer in (worker, helper) if peer.runs and not peer.waits]
        assert len(able) == 1
        order.append(able[0].runs[0].task)
        able[0].finish((NONE,), 1.0)
        s.turn()
    assert order == [first, last, began, *others]


def test_who_waits_for_what_is_there_lends_nothing(stage: Make) -> None:
    """Nor does one whose wait is over, though it hasn't said so yet."""
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    f = s.function(driver)
    ready, failed = driver.put(NONE), driver.put(BOOM)
    tasks = [driver.submit(f, (), ())[0] for _ in range(3)]
    s.all_read()
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
    helper = s.worker()
    s.all_read()
    assert helper.runs[0].task == pending
    helper.finish((NONE,), 1.0)
    s.all_read()
    assert not helper.runs, "the slot is the first one's"
    worker.unblock()
    worker.finish((NONE,), 1.0)
    s.all_read()
    assert {p.runs[0].task for p in (worker, helper) if p.runs} == {tasks[1]}


def test_a_wait_ends_with_its_task(stage: Make) -> None:
    """A thread that a task left waits on: the next task's slot isn't lent by that."""
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    f = s.function(driver)
    first, second = (driver.submit(f, (), ())[0] for _ in range(2))
    s.all_read()
    worker.post(ev.Blocked(first))
    worker.finish((NONE,), 1.0)
    s.all_read()
    assert worker.runs[0].task == second
    driver.submit(f, (), ())
    worker.post(ev.Blocked(first, 2))
    worker.post(ev.Unblocked(1))
    assert not s.turn()


def test_items_of_a_generator_end_the_wait_for_them(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    f = s.function(driver)
    driver.submit(f, (), ())
    s.all_read()
    driver.submit(f, (), ())  # what would begin there
    stream = worker.submit(f, (), (), spec=ev.TaskSpec(ahead=4))[0]
    worker.post(ev.Blocked(worker.runs[0].task, 1, (stream,), 1, item=1))
    s.turn()
    helper = s.worker()
    s.all_read()
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

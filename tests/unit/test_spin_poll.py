"""When a poll spins before it sleeps. Clock, yields and messages are made up."""

from __future__ import annotations

import os
import sys
import threading
from itertools import pairwise

import pytest

from workbench.system import spin_poll

READY = [(3, 1)]
SOON = spin_poll.SPIN / 2


class Machine:
    """A message comes ``after`` seconds of waiting; a yield takes ``turn`` seconds."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.after = SOON
        self.turn = 1e-6
        self.yields = 0
        self.due = 0.0

    def sched_yield(self) -> None:
        self.yields += 1
        self.now += self.turn

    def poll(self, timeout: float | None) -> list[tuple[int, int]]:
        if timeout is None:
            self.now = max(self.now, self.due)
        return READY if self.now >= self.due else []

    def wait(self, poll: spin_poll.SpinThenPoll) -> int:
        """One wait for a message; how many yields it took."""
        before, self.due = self.yields, self.now + self.after
        assert poll(None) == READY
        return self.yields - before


def poll_of(machine: Machine, may_spin: bool = True) -> spin_poll.SpinThenPoll:
    """One that has waited once: that tells it that messages come soon."""
    poll = spin_poll.SpinThenPoll(machine.poll, machine.sched_yield, lambda: machine.now, may_spin)
    assert not machine.wait(poll)
    return poll


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_it_spins_while_messages_follow_each_other(machine: Machine) -> None:
    poll = poll_of(machine)
    assert machine.wait(poll) > 10
    machine.after = 1.0
    assert machine.wait(poll) <= spin_poll.SPIN / machine.turn + 1  # in vain, and it says so
    machine.after = SOON
    assert not machine.wait(poll)
    assert machine.wait(poll) > 10


def test_where_others_want_the_core_it_sleeps(machine: Machine) -> None:
    """A yield that takes long says so; it is tried again later, and ever more seldom."""
    poll = poll_of(machine)
    machine.turn = 2 * spin_poll.CONTESTED
    tried = []
    until = machine.now + 60
    while machine.now < until:
        if machine.wait(poll):
            tried.append(machine.now)
        machine.now += spin_poll.SHORTEST / 4
    pauses = [later - now for now, later in pairwise(tried)]
    assert len(tried) < 20
    assert pauses[0] >= spin_poll.SHORTEST
    assert all(later >= now for now, later in pairwise(pauses[:5]))
    assert pauses[-1] == pytest.approx(spin_poll.LONGEST, rel=0.1)


def test_when_they_have_gone_it_spins_again(machine: Machine) -> None:
    poll = poll_of(machine)
    machine.turn = 2 * spin_poll.CONTESTED
    started = machine.now
    assert machine.wait(poll) == 1
    assert machine.now == started + machine.turn  # what came meanwhile isn't waited for
    machine.turn = 1e-6
    assert not machine.wait(poll)
    machine.now += 1.01 * spin_poll.SHORTEST
    machine.wait(poll)
    assert machine.wait(poll) > 10
    assert machine.wait(poll) > 10


def test_with_one_processor_it_never_spins(machine: Machine) -> None:
    """One by quota, too: a container of one processor on a large machine."""
    assert [spin_poll.can_spin(each) for each in [(1, None), (8, 1.0), (8, 1.5)]] == [False] * 3
    assert [spin_poll.can_spin(each) for each in [(2, None), (8, 2.0)]] == [True] * 2
    machine.wait(poll_of(machine, may_spin=False))
    assert not machine.yields
    assert SOON < spin_poll.SHORT_WAIT


def test_a_look_and_a_short_timeout_dont_spin(machine: Machine) -> None:
    poll = poll_of(machine)
    machine.due = machine.now + 1.0
    assert poll(0) == poll(spin_poll.SPIN / 2) == []
    assert not machine.yields


def test_our_own_threads_arent_taken_for_others() -> None:
    """A yield lets none of them have the GIL: how long it takes tells of other processes alone."""
    turns, over, yield_ = [0], threading.Event(), spin_poll.yield_with_gil()

    def work() -> None:
        while not over.is_set():
            turns[0] += 1
            os.sched_yield()  # lets go of the GIL

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=work)
    thread.start()
    try:
        sys.setswitchinterval(10.0)
        seen = []
        for _ in range(500):
            before = turns[0]
            yield_()
            seen.append(turns[0] > before)
    finally:
        sys.setswitchinterval(interval)
        over.set()
        thread.join()
    assert sum(seen) <= 2  # it may have asked for its turn before the interval was set

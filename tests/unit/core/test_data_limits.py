"""The limits that keep a process from taking the memory of all: `core.data_limits`."""

from __future__ import annotations

from workbench.core.data_limits import DataLimits
from workbench.core.loop_events import MeasuredProcess

MB = 1_000_000
OWN = 1 << 50
HEADROOM = 50 * MB


class Machine:
    """A kernel, and memory that others have not; everything in MB."""

    def __init__(self, left: int = 300) -> None:
        self.limits, self.now, self.left = DataLimits(), 0.0, left
        self.private, self.data, self.code, self.limit = 150, 400, 10, OWN

    def look(self, touches: int = 0, reserves: int = 0, seconds: float = 0.03) -> int:
        """The kernel takes so much; return how much more than it has it may then reserve."""
        self.now += seconds
        self.private, self.data = self.private + touches, self.data + reserves
        self.left -= touches
        kernel = MeasuredProcess(1, 7, self.private * MB, self.data * MB, self.code, self.limit)
        available = self.left * MB
        spare = available - HEADROOM - self.limits.note([kernel], self.now)
        ((pid, self.limit, before),) = self.limits.decide([kernel], spare, available, HEADROOM)
        assert (pid, before) == (7, kernel.limit)
        return round(self.limit / MB) - self.data


def test_a_process_may_take_what_is_left_of_the_memory_but_the_headroom() -> None:
    kernel = Machine(left=300)
    assert kernel.look() == 250
    assert kernel.look(touches=100, reserves=100) == 150
    assert kernel.look(touches=-40, reserves=-40) == 190


def test_what_is_reserved_counts_until_it_seems_never_to_be_used() -> None:
    kernel = Machine(left=300)
    kernel.look(), kernel.look()
    assert kernel.look(reserves=100) == 150, "arrays of zeros, before they are filled"
    assert kernel.look(touches=100) == 150
    assert kernel.look(reserves=50) == 100
    assert kernel.look(seconds=30.0) == 125
    assert kernel.look(seconds=600.0) == 150
    kernel.code += 1
    assert kernel.look(reserves=100) == kernel.look() == 150, "a library's, for its threads"
    assert kernel.look(touches=-100) == 150, "what is freed inside is used again"
    assert kernel.look(touches=100) == 150


def test_small_things_go_on_when_the_headroom_is_reached() -> None:
    kernel = Machine(left=300)
    kernel.look(), kernel.look()
    assert kernel.look(touches=260, reserves=260) == 5, "an eighth of what is left"
    assert kernel.look(touches=4, reserves=4) == 1, "once"
    kernel.limit += MB  # after a MemoryError, itself: see `system.data_limit`
    assert kernel.look() == 18, "half of what is left"
    assert kernel.look(touches=-200, reserves=-200) == 186


def test_an_own_limit_holds_and_comes_back() -> None:
    kernel = Machine(left=300)
    kernel.limit = 500 * MB
    assert kernel.look() == 100
    assert kernel.look(reserves=100) == 0
    assert kernel.limits.release(client=1) == ((7, 500 * MB, 500 * MB),)
    assert not kernel.limits.release(client=2)

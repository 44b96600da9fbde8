"""Which functions count as short: a hiccup doesn't change that, a change does."""

from __future__ import annotations

import pytest

from workbench.core.durations import APART, BATCH_SECONDS, Durations

F = 1


@pytest.mark.parametrize("usual", [0.0, 1e-6, 5e-5, 1e-4])
def test_a_run_now_and_then_that_waited_for_a_processor_leaves_a_function_short(
    usual: float,
) -> None:
    durations = Durations()
    for _ in range(10):
        for _ in range(APART):
            durations.ran(F, usual)
        durations.ran(F, 10.0)
        assert durations.is_short(F)


@pytest.mark.parametrize("usual", [0.0, 1e-6, 5e-5, 1e-4, BATCH_SECONDS])
def test_a_function_that_has_become_long_is_known_for_it_after_two_runs(usual: float) -> None:
    durations = Durations()
    durations.ran(F, usual)
    for _ in range(2):
        durations.ran(F, 10.0)
    assert not durations.is_short(F)


def test_one_that_is_long_now_and_then_is_long() -> None:
    durations = Durations()
    for seconds in (1e-4, 1.0, 1e-4, 1.0):
        durations.ran(F, seconds)
    assert not durations.is_short(F)


def test_one_that_is_long_at_first_and_then_short_becomes_so() -> None:
    durations = Durations()
    durations.ran(F, 0.1)
    assert not durations.is_short(F)
    for _ in range(20):
        durations.ran(F, 1e-5)
    assert durations.is_short(F)
    durations.forget(F)
    assert not durations.is_short(F)

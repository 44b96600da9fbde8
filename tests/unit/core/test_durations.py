"""Which functions count as short: a hiccup doesn't change that, a change does."""

from __future__ import annotations

import pytest

from workbench.core.durations import APART, BATCH_SECONDS, Durations

F = 1
LONG = 10.0


@pytest.mark.parametrize(
    ("runs", "is_short"),
    [
        # A run now and then waited for a processor.
        *[(([usual] * APART + [LONG]) * 10, True) for usual in (0.0, 1e-6, 5e-5, 1e-4)],
        # It has become long.
        *[([usual, LONG, LONG], False) for usual in (0.0, 1e-6, 1e-4, BATCH_SECONDS)],
        # It is long now and then.
        ([1e-4, 1.0, 1e-4, 1.0], False),
        # It is long at first, and then short.
        ([0.1], False),
        ([0.1, *[1e-5] * 20], True),
    ],
)
def test_which_functions_are_short(runs: list[float], is_short: bool) -> None:
    durations = Durations()
    for seconds in runs:
        durations.record_run(F, seconds)
    assert durations.is_short(F) == is_short
    durations.forget(F)
    assert not durations.is_short(F)

"""A cell on a worker does what it would have done in the notebook: random programs show it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.twins.programs import WORLDS, program
from tests.twins.run import Twins

QUICK = tuple(
    n for n, each in WORLDS.items() if not re.search(r"pd\.|from sk|scipy|plt", str(each))
)


@pytest.fixture(scope="module")
def twins(runtime_dir: str) -> Iterator[Twins]:
    made = Twins(runtime_dir)
    yield made
    made.close()


MORE = [pytest.param(range(n, n + 38), marks=pytest.mark.extended) for n in range(10, 200, 38)]


@pytest.mark.parametrize("seeds", [range(10), *MORE])
def test_they_show_the_same_and_leave_the_same_notebook(twins: Twins, seeds: range) -> None:
    """Or the cell says what differs; nor does it say so where nothing does."""
    for seed in seeds:
        made = program(seed, QUICK if seed < 10 else tuple(WORLDS))
        found = twins.differ(made)
        assert not found.is_silent, f"{seed}\n{made}\n{found}"

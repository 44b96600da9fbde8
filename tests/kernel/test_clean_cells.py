"""What one remote cell sets doesn't colour the next one's; random numbers and their seeds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.conftest import Kernel


@pytest.fixture(scope="module")
def one(kernel: Kernel) -> Iterator[Kernel]:
    """A session of one worker, so that it runs all cells of all tests here."""
    kernel.ok("%load_ext workbench\n%workbench stop\n%workbench start --workers 1")
    kernel.ok("import workbench as wb")
    yield kernel
    kernel.ok("%workbench stop\n%reset -f")


def test_how_things_are_shown(one: Kernel) -> None:
    """`tests/process/test_clean_workers.py` has what is set of libraries."""
    shows = "%%remote -w\ndisplay(0.123456, {1})"
    first = one.ok(shows).results()
    one.ok(
        "%%remote -w\n%precision 2\nshell = get_ipython()\n"
        "shell.display_formatter.formatters['text/plain'].for_type(set, lambda o, p, c: "
        "p.text('a set'))\nshell.events.register('pre_run_cell', print)\nshell = None"
    )
    assert one.ok(shows).results() == first
    for _ in range(3):  # what IPython gives a cell is there in the next one
        one.ok("%%remote -w\n%time 1\nlen?\ndisplay(get_ipython())\n__IPYTHON__")


DRAW = "import random, numpy as np\ndrawn = random.random(), np.random.rand()"


def test_the_same_seed_gives_the_same_numbers(one: Kernel) -> None:
    """As in the notebook; of a cell's items each has its own."""
    drawn = []
    for line in "--seed 7", "", "--seed 7", "", "--seed 8":
        one.ok(f"%%remote -w {line}\n{DRAW}")
        drawn.append(one.value("drawn"))
    assert drawn[0] == drawn[2]
    assert len(set(drawn)) == 4
    one.ok(f"import random, numpy as np\nrandom.seed(7); np.random.seed(7)\n{DRAW}")
    assert one.value("drawn") == drawn[0]
    runs = []
    for line in "--seed 7", "--seed 7", "":
        one.ok(f"%%remote -w -n 4 {line}\n{DRAW}")
        runs.append(one.value("drawn"))
    assert runs[0] == runs[1] != runs[2]
    assert len(set(eval(runs[0]))) == len(set(eval(runs[2]))) == 4


def test_a_notebook_that_seeds_itself_draws_the_same_in_each_run(one: Kernel) -> None:
    """Also in background cells, each of which has its own numbers."""
    runs = []
    for _ in range(2):
        one.ok("import random, numpy as np\nrandom.seed(3); np.random.seed(3)")
        drawn = []
        for line in "", "", "-n 2":
            one.ok(f"%%remote {line}\n{DRAW}")
            one.ok("%get drawn")
            drawn.append(one.value("drawn"))
        runs.append((*drawn, one.value("random.random()")))
    assert runs[0] == runs[1]
    assert len({*runs[0][:2], *map(str, eval(runs[0][2]))}) == 4


def test_torch_is_seeded_too_when_the_cell_imports_it(one: Kernel, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("seeded = []\nmanual_seed = seeded.append\n")
    one.ok(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})")
    for seed in (5, 6):
        one.ok(f"%%remote -w --seed {seed}\nimport torch\nlast = torch.seeded[-1]")
        assert one.value("last") == str(seed)
    one.ok("sys.path.pop(0)")

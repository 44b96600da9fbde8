"""A notebook that keeps its variables: over a kernel's death, at earlier cells, in branches."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.conftest import Kernel
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.twins.kept import Kept
from tests.twins.programs import WORLDS, program

RUNTIME = "__import__('os').environ['WORKBENCH_RUNTIME_DIR']"


@pytest.fixture(scope="module")
def kept(runtime_dir: str) -> Iterator[Kept]:
    made = Kept(runtime_dir)
    yield made
    made.stop()


@pytest.fixture
def kernel(kept: Kept) -> Iterator[Kernel]:
    kept.kernel.ok("%reset -f\n%reload_ext workbench")
    yield kept.kernel
    kept.kernel.run("%workbench stop")


def test_a_new_kernel_has_what_the_old_one_had(kernel: Kernel) -> None:
    assert re.match(
        "From now on the variables are kept after each cell: 0 of 0 variables .* 2 min after",
        kernel.ok("%workbench keep").text(),
    )
    kernel.ok("import os, math as m\nos.chdir('/')\nlines = (n for n in [1])\nx = [m.pi]\ny = x")
    was = kernel.value("os.getpid()")
    kernel.restart(now=True)
    kernel.ok("x = 'its own'")
    line = kernel.ok("%load_ext workbench").text().splitlines()[-1]
    assert re.fullmatch(
        r"3 of 5 variables are back, as of cell \[\d+\], [\d:]+[.] Not back: `lines` "
        r"\(generator, cell \[\d+\]\)[.] The notebook had its own `x` already[.] "
        r"`%workbench lost` lists them[.]",
        line,
    )
    assert kernel.value("(os.getpid(), os.getcwd(), y, x)") != was
    assert kernel.value("(os.getcwd(), y == [m.pi], x)") == "('/', True, 'its own')"
    assert "lines" in kernel.ok("%workbench lost").results()[0]
    kernel.ok("y.append(2)")
    kernel.restart(now=False)
    kernel.ok("%load_ext workbench")
    assert kernel.value("(len(y), x)") == "(2, 'its own')"


def test_variables_go_along_in_a_file(kernel: Kernel, tmp_path: Path) -> None:
    kernel.ok("import numpy as np\na = np.arange(10**6)\nb = [a]\nx = 'text'\nc = np.ones(3)")
    assert "4 variables" in kernel.ok(f"del np\n%workbench save {tmp_path}/f.wb").text()
    kernel.ok("%reset -f\n%reload_ext workbench")
    said = kernel.ok(f"%workbench open {tmp_path}/f.wb").text()
    assert re.search(r"`c`, `x` opened[.]\n`\w`, `\w`: opening these runs code", said)
    kernel.ok(f"%workbench open {tmp_path}/f.wb --trust")
    assert kernel.value("(b[0] is a, a[-1] == 10**6 - 1, x, c.sum())").startswith("(True")
    assert "no file that" in kernel.failure(f"%workbench open {__file__}")
    assert "can't be written" in kernel.failure("%workbench save /nowhere/f.wb")
    assert "is a directory" in kernel.failure("%workbench save /")


def test_the_shell_saves_what_a_notebook_keeps(kernel: Kernel, tmp_path: Path) -> None:
    kernel.ok(
        "%workbench keep\nimport numpy as np\na = np.arange(10**6)\nb = [a]\ng = (n for n in b)"
    )
    name = re.search(r"session ([\w-]+)", kernel.ok("%workbench").text(), re.IGNORECASE)
    assert name is not None
    shell = [sys.executable, "-m", "workbench", "save", name[1], f"{tmp_path}/f.wb"]
    environment = {**os.environ, "WORKBENCH_RUNTIME_DIR": str(kernel.value(RUNTIME))[1:-1]}
    saved = subprocess.run(
        shell, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert re.match(r"/.*f.wb: \d variables, .*Not saved: `g` \(", saved.stdout), saved
    kernel.ok(f"%reset -f\n%reload_ext workbench\n%workbench open {tmp_path}/f.wb --trust")
    assert kernel.value("(b[0] is a, a[-1] == 10**6 - 1)") == "(True, np.True_)"


def test_cells_are_undone_and_branches_gone_to(kernel: Kernel) -> None:
    kernel.ok("%workbench keep")
    assert "No earlier checkpoint" in kernel.failure("%undo")
    kernel.ok("import numpy as np\na = np.zeros(10**6)\nb = a[:3]")
    first = kernel.ok("x = [1]").number
    kernel.ok("a[1] = x[0] = 7")
    kernel.ok("print(b)")
    said = kernel.ok("%undo").text()
    assert re.search(rf"as of cell \[{first}\], .*: `a`, `b`, `x` changed", said)
    assert kernel.value("(b[1], x)") == "(np.float64(0.0), [1])"
    assert "is new" in kernel.ok("%workbench branch try\nb[:] = 5; y = 1").text()
    assert "`a`, `b`, `y` changed" in kernel.ok("%checkout main").text()
    assert kernel.value("(a[0], 'y' in globals())") == "(np.float64(0.0), False)"
    kernel.ok("%workbench branch try")
    assert kernel.value("a[0] + y") == "np.float64(6.0)"
    table = kernel.ok("%workbench branches").results()[0]
    assert re.search(r"main .*\n.*try \(here\)", table)
    assert f"{first}, " in kernel.failure("%checkout 99")
    assert "Did you mean 'main'?" in kernel.failure("%checkout mian")
    assert "aren't kept in this" in kernel.ok("%workbench stop\n%workbench start").text()
    kernel.ok("%workbench keep")
    assert kernel.ok("%workbench keep off").text().startswith("The variables aren't kept any more")
    assert "Nothing is kept" in kernel.failure("%undo")


def test_what_cant_be_stored_goes_with_the_cell_that_is_undone(kernel: Kernel) -> None:
    kernel.ok("%workbench keep")
    kernel.ok("x = 1")
    raised = "\ntry: 1 / 0\nexcept Exception as error: e = error"
    made = kernel.ok(f"x = 2; lines = (n for n in [1]){raised}").number
    kernel.ok("%undo")
    said = kernel.ok(f"%checkout {made}").text()
    assert "Not back: `lines`" in said
    assert "Not as before: `e` (without a traceback)." in said
    assert "lines" in kernel.ok("%workbench lost").results()[0]
    kernel.ok("%undo")
    kernel.ok("print(x, 'lines' in globals())")
    assert "`x` changed" in kernel.ok("%undo").text()  # the cell between deleted nothing


def test_what_is_large_is_compared_when_the_notebook_is_idle(kernel: Kernel) -> None:
    kernel.ok("import workbench.checkpoints.checkpointer as k\nlarge = [[0]]\n%workbench keep")
    kernel.ok("k.SOON = k.LARGE = 0.0")
    kernel.ok("held = large[0]; held.append(1)")
    kernel.ok("held.append(2)")
    done = "All variables are kept."
    assert eventually(lambda: kernel.ok("%workbench lost").results() == [done])
    kernel.restart(now=True)
    kernel.ok("%load_ext workbench")
    assert kernel.value("(large, held is large[0])") == "([[0, 1, 2]], True)"


@pytest.mark.parametrize(
    "seeds",
    [range(3), *(pytest.param(range(n, n + 30), marks=pytest.mark.extended) for n in (3, 33))],
)
def test_random_programs_are_restored_as_they_were(kept: Kept, seeds: range) -> None:
    for seed in seeds:
        made = program(seed, tuple(WORLDS))
        found = kept.differences(made, kill=seed % 15 == 2)
        assert not found, "\n".join([*made.cells, *found])


def test_what_changed_between_cells_is_undone_too(kernel: Kernel) -> None:
    kernel.ok("%workbench keep")
    later = "x = [1]; __import__('asyncio').get_running_loop().call_soon(x.append, 2)"
    then = kernel.ok(later).number
    assert "`x` changed" in kernel.ok(f"%checkout {then}").text()
    assert kernel.value("x") == "[1]"


def test_an_ended_session_takes_no_variable_along(kernel: Kernel) -> None:
    kernel.ok("%workbench keep")
    kernel.ok("x = [1]")
    kernel.ok("%workbench stop")
    for line in ("%undo", "%workbench lost"):
        assert "Nothing is kept" in kernel.failure(line)
    assert kernel.value("x") == "[1]"


def test_variables_are_kept_after_the_extension_was_loaded_anew(kernel: Kernel) -> None:
    kernel.ok("%workbench keep\nx = [1]")
    assert "From now on" in kernel.ok("%reload_ext workbench").text()
    kernel.ok("x.append(2)")
    kernel.ok("%undo")
    assert kernel.value("x") == "[1]"
    assert "aren't kept in this" in kernel.ok("%workbench stop\n%workbench start").text()

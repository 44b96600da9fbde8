"""A notebook's modules that are edited or changed: what workers have of them, and what is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernel.conftest import Kernel
from tests.process.test_clean_workers import Project

Edit = Callable[[str], None]
"""Gives the module another answer."""

TOLD = "`edited_helpers` was edited after it had been imported"
ASKS = "print(set(wb.get([asks.remote(n) for n in range(8)])))"
IN_CELL = "%%remote --wait\nimport edited_helpers\nprint(edited_helpers.answer())"


@pytest.fixture
def edit(fresh: Kernel, tmp_path: Path) -> Edit:
    """Each edit is a second newer than the last. The notebook has begun no session yet."""
    project = Project(tmp_path)

    def edit(answer: str) -> None:
        project.edit(f"def answer(): return {answer!r}")

    edit("first")
    kernel = fresh
    kernel.ok(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    kernel.ok("sys.modules.pop('edited_helpers', None); import workbench as wb")
    return edit


def test_a_notebook_with_an_older_module_is_told_so_once(kernel: Kernel, edit: Edit) -> None:
    kernel.ok("import edited_helpers\nwb.init(workers=2)")
    kernel.ok("asks = wb.remote(lambda n: edited_helpers.answer())")
    edit("second")  # no worker has imported it by now
    assert not kernel.ok("1 + 1").notes
    cell = kernel.ok(ASKS)
    assert cell.text() == "{'second'}\n"
    assert cell.notes.count(TOLD) == 1
    assert not kernel.ok(ASKS).notes
    kernel.ok("del sys.modules['edited_helpers']; import edited_helpers")
    assert not kernel.ok(ASKS).notes
    edit("third")
    assert kernel.ok(ASKS).notes.count(TOLD) == 1  # though the workers have it, too
    reload = "import importlib; importlib.reload(edited_helpers)"
    assert kernel.ok(f"{reload}\n{ASKS}").text() == "{'third'}\n"  # the workers do so, too


def test_with_autoreload_an_edited_module_reaches_the_workers(kernel: Kernel, edit: Edit) -> None:
    kernel.ok("%load_ext autoreload\n%autoreload 2\n%workbench start")
    try:
        for _ in range(3):  # whichever worker it is, it has the module
            assert kernel.ok(IN_CELL).text() == "first\n"
        edit("second")
        for _ in range(3):
            cell = kernel.ok(IN_CELL)
            assert (cell.text(), cell.notes) == ("second\n", "")
    finally:
        kernel.ok("%autoreload 0\n%workbench stop")


def test_a_worker_with_an_older_module_says_so(kernel: Kernel, edit: Edit) -> None:
    """Also of one that the notebook hasn't imported."""
    kernel.ok("wb.init(workers=1)")
    assert kernel.ok(IN_CELL).text() == "first\n"
    edit("second")
    cell = kernel.ok(IN_CELL)
    assert cell.text() == "first\n"
    assert cell.notes.count(TOLD) == 1
    assert not kernel.ok(IN_CELL).notes
    kernel.ok("import importlib, edited_helpers\nimportlib.reload(edited_helpers)")
    cell = kernel.ok(IN_CELL)
    assert (cell.text(), cell.notes) == ("second\n", "")


def test_an_attribute_that_a_cell_sets_is_told_of_once(kernel: Kernel, edit: Edit) -> None:
    kernel.ok("import edited_helpers as helpers, numpy\nwb.init(workers=1)")
    kernel.ok("def asks(n):\n    helpers.here = n\n    return getattr(helpers, 'rate', None)")
    ask = "print(wb.get(wb.remote(asks).remote(1)))"
    assert not kernel.ok(ask).notes
    assert not kernel.ok("helpers.rate = 2\nnumpy.rate = 3\nasks.rate = 4").notes
    cell = kernel.ok(ask)
    assert cell.text() == "None\n"
    assert cell.notes.startswith("`edited_helpers.rate` was set in this notebook")
    assert cell.notes.count("\n") == 1
    assert not kernel.ok(f"helpers.rate += 1\n{ask}").notes
    assert "helpers.other" in kernel.ok(f"helpers.other = 1\n{ask}").notes
    made = "helpers.Kind = type('Kind', (), {'__module__': 'edited_helpers'})"
    assert "helpers.Kind`" in kernel.ok(f"{made}\n{ask}").notes
    said = kernel.ok(f"helpers.Kind.rate = 1\n{ask}").notes
    assert "`edited_helpers.Kind.rate` was set in this notebook" in said

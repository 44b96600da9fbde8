"""A ref used as the value it refers to, and names that stayed on a worker: what the errors say."""

from __future__ import annotations

import pytest

from tests.kernel.conftest import Cell, Kernel
from tests.kernel.gates import Gate
from tests.tables import tables


@pytest.fixture
def made(session: Kernel) -> Cell:
    """A cell; `made` is a ref to what it made."""
    cell = session.ok("%%remote\nmade = [1.0, 2.0]")
    session.ok("_ = wb.wait([made])")
    return cell


USES = [use for use, _ in tables(__file__)[""]]


def test_the_error_says_what_a_ref_is_to_and_how_to_get_it(session: Kernel, made: Cell) -> None:
    session.ok("import json, numpy as np, pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})")
    wanted = (
        f"`made` is a ref to what cell {made.number} made: `%get made` binds the value; "
        "`--wait` does so by itself."
    )
    said = {use: session.failure(use) for use in USES}
    assert [use for use in USES if wanted not in said[use]] == []
    assert session.value("list(df)") == "['a']"


def test_what_works_with_refs_still_does(session: Kernel, made: Cell) -> None:
    session.ok("import pandas as pd, copy\nassert made in {made} and made in [1, made]")
    session.ok("assert made != 3 and {made: 1}[made] == 1 and copy.copy(made) is made")
    session.ok("table = pd.DataFrame({'run': [made], 'score': [1]})\nrepr(table), str(made)")
    assert session.value("wb.get(table['run'].iloc[0])") == "[1.0, 2.0]"
    session.ok("assert await made == [1.0, 2.0]")


def test_one_that_is_being_made_is_waited_for(session: Kernel, gate: Gate) -> None:
    cell = session.ok(f"%%remote --name training\nprint('here')\n{gate.wait}\nmodel = 1")
    session.until(cell.text)
    said = session.failure("model.coef_")
    gate.open()
    assert "`model` is a ref to what training is making: `%get model` waits for it and" in said


def test_what_failed_or_was_freed_or_was_put(session: Kernel) -> None:
    cell = session.run("%%remote -q\nbad = 1 / 0")
    session.run("wb.wait([bad])")
    failed = f"`bad` is a ref to what cell {cell.number} failed to make"
    assert failed in session.failure("bad + 1")
    session.ok("import numpy as np\nx = np.zeros(3)\nput = %put x")
    wanted = "`put` is a ref to a stored ndarray: `%get put` binds the value."
    assert wanted in session.failure("put + 1")
    session.ok("%free x")
    assert "`put` is a ref to an object that was freed" in session.failure("put + 1")


def test_lists_of_refs(session: Kernel) -> None:
    """In a task, such are got with the API."""
    cell = session.ok("%%remote --each 2\nlosses = index + 0.5")
    session.ok("_ = wb.wait(losses, num_returns=2)")
    inside = f"`losses` contains refs, one of them to what cell {cell.number} made: "
    assert f"{inside}`%get losses` binds the values" in session.failure("sum(losses)")
    session.ok("refs = [wb.put(2.0)]")
    said = session.failure("%%remote -w\ny = refs[0] + 1")
    assert "`refs` contains refs, one of them to" in said
    assert "`wb.get(refs)` returns the values." in said


def test_other_errors_are_left_alone(session: Kernel, made: Cell) -> None:
    assert "is a ref" not in session.failure("made; [].nothing")
    assert "is a ref" not in session.failure("made, 1 + 'a'")
    said = session.failure("wb.get([made, 5])")  # a list with something else than refs
    assert said.strip().endswith("An ObjectRef, or a name, was expected, not int.")


def test_names_that_a_remote_cell_doesnt_bring_back(session: Kernel) -> None:
    """One that isn't waited for: until it is asked for them."""
    cell = session.ok(
        "%%remote\nimport json as js\nfrom math import tau\n_hidden = 1\nkept = 2\n"
        "def helper(): return 2\nclass Model: pass\nfor number in range(3): pass"
    )
    session.over(cell)
    stayed = f"in remote cell {cell.number} and stayed there"
    for name, said in {
        "helper": f"`helper` was defined {stayed}: define it in the notebook",
        "Model": f"`Model` was defined {stayed}: define it in the notebook",
        "js": f"`js` was imported {stayed}: import it in the notebook too",
        "tau": f"`tau` was imported {stayed}: import it in the notebook too",
        "_hidden": f"`_hidden` was assigned {stayed}, as names that begin with _ do",
        "number": f"`number` was assigned {stayed}: `--out number`",
    }.items():
        assert said in session.failure(f"{name} + 1")
        assert "Did you mean" not in session.failure(f"{name}()")
    assert "`--out helper`, or run such cells with `--actor`" in session.failure("helper()")
    assert session.value("wb.get(kept)") == "2"
    assert session.value("(helper(), number, js.dumps(1))", after="%get helper") == "(2, 2, '1')"


def test_another_remote_cell_that_reads_one(session: Kernel) -> None:
    cell = session.ok("%%remote\ndef helper(): return 5")
    session.over(cell)
    wanted = f"`helper` was defined in remote cell {cell.number} and stayed there"
    said = session.failure("%%remote -w\nz = helper()")
    assert wanted in said
    assert "Nothing was sent." in said
    assert wanted in session.failure("%%remote -w\ndef f(): return helper()\nz = f()")
    session.ok("%%remote -w --out helper\ndef helper(): return 5")
    assert session.value("helper()") == "5"


def test_what_out_left_and_what_is_in_a_namespace(session: Kernel) -> None:
    session.ok("%%remote -w --out a --name first\na = b = 1")
    stayed = "`b` was assigned in job 'first' and stayed there, because `--out`"
    assert stayed in session.failure("b")
    cell = session.ok("%%remote -w --actor shop\nprice = 3")
    assert (
        f"`price` was assigned in remote cell {cell.number} and is in its namespace: "
        "a cell with `--actor shop` has it." in session.failure("price")
    )


def test_errors_are_as_before_once_unloaded(session: Kernel) -> None:
    session.over(session.ok("%%remote\ndef helper(): pass"))
    session.ok("%unload_ext workbench")
    assert "stayed" not in session.failure("helper()")
    session.ok("%load_ext workbench")

"""A ref used as the value it refers to, and names that stayed on a worker: what the errors say."""

from __future__ import annotations

import pytest

from tests.kernel.conftest import Kernel
from tests.kernel.gates import Gate


def failure(kernel: Kernel, code: str) -> str:
    return kernel.run(code).failure


@pytest.fixture
def made(session: Kernel) -> tuple[Kernel, int]:
    """`made` is a ref to what a cell made."""
    cell = session.ok("%%remote\nmade = [1.0, 2.0]")
    session.ok("_ = wb.wait([made])")
    return session, cell.number


USES = [
    "made.coef_",
    "made[-1]",
    "made[0] = 1",
    "made.x = 3",
    "','.join(made)",
    "x = [1]; x[:] = made",
    "x = []; x.extend(made)",
    "{**made}",
    "print(*made)",
    "round(made)",
    "made += 1",
    "made @ made",
    "sorted(made)",
    "made + 1",
    "1 - made",
    "-made",
    "len(made)",
    "for each in made: pass",
    "a, b = made",
    "2 in made",
    "made()",
    "with made: pass",
    "float(made)",
    "range(made)",
    "'%d' % made",
    "f'{made:.2f}'",
    "made < 3",
    "if made: pass",
    "np.mean(made)",
    "np.ones(2) + made",
    "np.ones(2) == made",
    "pd.Series(made)",
    "df['b'] = made",
    "np.array([made])",
    "sum([made])",
    "json.dumps(made)",
    "(lambda x: x.shape)(made)",
]


def test_the_error_says_what_a_ref_is_to_and_how_to_get_it(made: tuple[Kernel, int]) -> None:
    kernel, number = made
    kernel.ok("import json, numpy as np, pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})")
    wanted = (
        f"`made` is a ref to what cell {number} made: `%get made` binds the value; "
        "`--wait` does so by itself."
    )
    said = {use: failure(kernel, use) for use in USES}
    assert [use for use in USES if wanted not in said[use]] == []
    assert kernel.value("list(df)") == "['a']"


def test_what_works_with_refs_still_does(made: tuple[Kernel, int]) -> None:
    kernel, _ = made
    kernel.ok("import pandas as pd, copy\nassert made in {made} and made in [1, made]")
    kernel.ok("assert made != 3 and {made: 1}[made] == 1 and copy.copy(made) is made")
    kernel.ok("table = pd.DataFrame({'run': [made], 'score': [1]})\nrepr(table), str(made)")
    assert kernel.value("wb.get(table['run'].iloc[0])") == "[1.0, 2.0]"
    kernel.ok("assert await made == [1.0, 2.0]")


def test_one_that_is_being_made_is_waited_for(session: Kernel, gate: Gate) -> None:
    cell = session.ok(
        f"%%remote --name training\nprint('here', flush=True)\n{gate.wait}\nmodel = 1"
    )
    session.until(lambda: "here" in cell.text())
    said = failure(session, "model.coef_")
    gate.open()
    assert (
        "`model` is a ref to what training is making: `%get model` waits for it and binds the "
        "value; `--wait` does so by itself." in said
    )


def test_what_failed_or_was_freed_or_was_put(session: Kernel) -> None:
    cell = session.run("%%remote -q\nbad = 1 / 0")
    session.run("wb.wait([bad])")
    said = failure(session, "bad + 1")
    assert f"`bad` is a ref to what cell {cell.number} failed to make" in said
    session.ok("import numpy as np\nx = np.zeros(3)\nput = %put x\n%free x")
    assert "`put` is a ref to an object that was freed" in failure(session, "put + 1")
    session.ok("put = %put x")
    said = failure(session, "put + 1")
    assert "`put` is a ref to a stored ndarray" in said
    assert "`%get put` binds the value." in said


def test_lists_of_refs(session: Kernel) -> None:
    cell = session.ok("%%remote --each 2\nlosses = index + 0.5")
    session.ok("_ = wb.wait(losses, num_returns=2)")
    said = failure(session, "sum(losses)")
    assert f"`losses` contains refs, one of them to what cell {cell.number} made" in said
    assert "`%get losses` binds the values" in said


def test_in_a_task_it_is_got_with_the_api(session: Kernel) -> None:
    session.ok("refs = [wb.put(2.0)]")
    cell = session.run("%%remote -w\ny = refs[0] + 1")
    assert "`refs` contains refs, one of them to" in cell.failure
    assert "`wb.get(refs)` returns the values." in cell.failure


def test_other_errors_are_left_alone(made: tuple[Kernel, int]) -> None:
    kernel, _ = made
    assert "is a ref" not in failure(kernel, "made; [].nothing")
    assert "is a ref" not in failure(kernel, "made, 1 + 'a'")
    said = failure(kernel, "wb.get([made, 5])")  # a list with something else than refs
    assert said.strip().endswith("An ObjectRef, or a name, was expected, not int.")


# -- names that stayed ----------------------------------------------------------------------------


def test_names_that_a_remote_cell_doesnt_bring_back(session: Kernel) -> None:
    cell = session.ok(
        "%%remote -w\nimport json as js\nfrom math import tau\n_hidden = 1\nkept = 2\n"
        "def helper(): pass\nclass Model: pass\nfor number in range(3): pass"
    )
    stayed = f"in remote cell {cell.number} and stayed there"
    for name, said in {
        "helper": f"`helper` was defined {stayed}: define it in the notebook",
        "Model": f"`Model` was defined {stayed}: define it in the notebook",
        "js": f"`js` was imported {stayed}: import it in the notebook too",
        "tau": f"`tau` was imported {stayed}: import it in the notebook too",
        "_hidden": f"`_hidden` was assigned {stayed}, as names that begin with _ do",
        "number": f"`number` was assigned {stayed}: `--out number`",
    }.items():
        assert said in failure(session, f"{name} + 1")
        assert "Did you mean" not in failure(session, f"{name}()")
    assert "`--out helper`, or run such cells with `--actor`" in failure(session, "helper()")
    assert session.value("kept") == "2"
    session.ok("def helper(): return 3")
    assert session.value("helper()") == "3"


def test_another_remote_cell_that_reads_one(session: Kernel) -> None:
    cell = session.ok("%%remote -w\ndef helper(): return 5")
    wanted = f"`helper` was defined in remote cell {cell.number} and stayed there"
    said = failure(session, "%%remote -w\nz = helper()")
    assert wanted in said
    assert "Nothing was sent." in said
    assert "Did you mean" not in said
    assert wanted in failure(session, "%%remote -w\ndef f(): return helper()\nz = f()")
    session.ok("%%remote -w --out helper\ndef helper(): return 5")
    assert session.value("helper()") == "5"


def test_what_out_left_and_what_is_in_a_namespace(session: Kernel) -> None:
    session.ok("%%remote -w --out a --name first\na = b = 1")
    assert "`b` was assigned in job 'first' and stayed there, because `--out`" in failure(
        session, "b"
    )
    cell = session.ok("%%remote -w --actor shop\nprice = 3")
    assert (
        f"`price` was assigned in remote cell {cell.number} and is in its namespace: "
        "a cell with `--actor shop` has it." in failure(session, "price")
    )


def test_errors_are_as_before_once_unloaded(session: Kernel) -> None:
    session.ok("%%remote -w\ndef helper(): pass")
    session.ok("%unload_ext workbench")
    assert "stayed" not in failure(session, "helper()")
    session.ok("%load_ext workbench")

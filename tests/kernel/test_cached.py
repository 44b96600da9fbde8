"""Cells whose results are kept on disk: found if nothing has changed, and only then."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.twins.cached import IMPORTS, Edit, Notebook, edits


@pytest.fixture(scope="module")
def notebook(runtime_dir: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    made = Notebook(runtime_dir, str(tmp_path_factory.mktemp("cached")))
    yield made
    made.stop()


MORE = [pytest.param(each, marks=pytest.mark.extended, id=each.kind) for each in edits()]


@pytest.mark.parametrize("edit", MORE)
def test_an_edit_gives_what_a_run_gives(notebook: Notebook, edit: Edit) -> None:
    for value in (*edit.values, edit.values[0]):
        looked = notebook.look(edit, value)
        assert not (looked.is_found and looked.is_stale) or looked.is_said, looked.text
    assert looked.is_found or edit.is_outside or not edit.claimed, looked.text


def test_what_a_cell_made_and_showed_is_found(notebook: Notebook) -> None:
    kernel = notebook.kernel
    kernel.ok("class P:\n    pass\nd = {'x': [1]}\np = P()\ndef f(x):\n    return x * 2")
    cell = "%%remote --cache{}\nimport sys\nprint('out'); sys.stderr.write('err')\n{}"
    body = "class Q(P):\n    pass\nd['x'].append(2); q = P(); r = f(4)\nimport math as m\nd['x']"
    first = kernel.ok(cell.format(" --wait", body))
    kernel.ok(
        "d = {'x': [1]}\ndef f(x):\n    # x\n    return x * 2\nclass P:\n    pass\ndel q, r, m"
    )
    again = kernel.ok(cell.format(" --wait", "# a comment\n" + body))
    assert "found, not run: it ran at" in again.notes
    assert (again.text(), again.results()) == (first.text(), first.results())
    assert (
        kernel.value("(d['x'], r, m.nan, type(q) is P is Q.mro()[1])") == "([1, 2], 8, nan, True)"
    )
    kernel.ok("d = {'x': [1]}")
    kernel.ok(cell.format(" -q", body))
    assert kernel.ok("%get r\nprint(r, d['x'])").text() == "8 [1]\n"
    kernel.ok("%get d")
    assert kernel.value("d") == "{'x': [1, 2]}"


def test_another_kernel_finds_it_and_the_shell_clears_it(notebook: Notebook) -> None:
    kernel = notebook.kernel
    setup = "os.chdir(TMP)\nclass P:\n    pass\np = P()\np.v = [3]\na = np.arange(9.0)"
    cell = "%%remote --cache --wait\nb = a + 1\np.v.append(4)\np.w = P()"
    kernel.ok(setup)
    kernel.ok(cell)
    kernel.restart(now=True)
    kernel.ok(IMPORTS.format(notebook.files))
    kernel.ok(setup)
    assert "found, not run" in kernel.ok(cell).notes
    assert kernel.value("(p.v, type(p.w) is P, b[0])") == "([3, 4], True, np.float64(1.0))"
    command = "import subprocess, sys\nprint(subprocess.run([sys.executable, '-m', 'workbench', "
    said = kernel.ok(command + "'cache', '--json'], capture_output=True, text=True).stdout)").text()
    assert json.loads(said)["results"] > 0
    said = kernel.ok(command + "'cache', 'clear'], capture_output=True, text=True).stdout)").text()
    assert re.match(r"\d+ results? removed \([\d.]+ .B\), from /", said)
    kernel.ok(setup)
    assert "found" not in kernel.ok(cell).notes


def test_inputs_that_are_still_made_and_items_are_found(notebook: Notebook) -> None:
    kernel = notebook.kernel
    slow = "%%remote\nimport os\nz = len(os.listdir('/'))*0 + 5"
    for said in ("", "found, not run"):
        kernel.ok(slow)
        assert said in kernel.ok("%%remote --cache --wait\ny = z + 1").notes
        assert kernel.value("y") == "6"
    for said in ("", "3 of 3 found, not run"):
        done = kernel.ok("%%remote --cache --wait --map range(3)\nprint(item)\nw = item + 10")
        assert said in done.notes
        assert done.printed == ["[0] 0", "[1] 1", "[2] 2"]
        assert kernel.value("w") == "[10, 11, 12]"


def test_what_cant_be_kept_is_said(notebook: Notebook) -> None:
    kernel = notebook.kernel
    kernel.ok("import threading, workbench\nf = workbench.remote(lambda: 1)")
    for body, why in (
        ("workbench.get(f.remote())", "it submits calls"),
        (
            "e = threading.Event()\nthreading.Thread(target=lambda: e.wait(), daemon=True).start()",
            "thread",
        ),
        ("open(f'{TMP}/log', 'a').write('x')\nopen(f'{TMP}/log').read()", ""),
    ):
        for _ in range(2):
            notes = kernel.run(f"%%remote --cache --wait\n{body}").notes
        assert "found" not in notes
        assert why in notes
    assert "changed while it ran" in notes
    failed = kernel.run("%%remote --cache --wait --actor N\n1").failure
    assert "no --cache" in failed
    failed = kernel.run("%%remote --cache --wait --reads nowhere.csv\n1").failure
    assert "there is no file" in failed


def test_a_file_that_is_named_counts(notebook: Notebook, tmp_path: Path) -> None:
    kernel, file = notebook.kernel, tmp_path / "x.bin"
    cell = f"%%remote --cache{{}} --wait --reads {file}\nimport time\nprint(time.time())"
    file.write_text("one")
    kernel.ok(cell.format(""))
    assert "Not checked: the clock" in kernel.ok(cell.format("")).notes
    file.write_text("two")
    assert "found" not in kernel.ok(cell.format("")).notes


def test_a_function_is_found(notebook: Notebook) -> None:
    kernel = notebook.kernel
    kernel.ok(
        "import workbench, os\nk = 2\n@workbench.remote(cache=True)\ndef g(x, y=1):\n"
        "    print('ran')\n    return os.urandom(8), x, k"
    )
    first = kernel.value("workbench.get(g.remote(1))")
    assert kernel.value("workbench.get(g.remote(1))") == first
    assert kernel.value("workbench.get(g.remote(2))") != first
    kernel.ok("k = 3")
    assert kernel.value("workbench.get(g.remote(1))") != first
    for name in "ab":  # its files are in the working directory
        kernel.ok(f"d = TMP + '/{name}'; os.mkdir(d); os.chdir(d); open('h', 'w').write('{name}')")
        kernel.ok("@workbench.remote(cache=True)\ndef h():\n    return open('h').read()")
        assert kernel.ok("%%remote --wait\nprint(h.__wrapped__())").text() == f"{name}\n"
    inside = "%%remote --cache --wait\nprint(h.__wrapped__(), open('h').read())"
    assert "found, not run" in (kernel.ok(inside), kernel.ok(inside))[1].notes
    assert "Only functions" in kernel.run("workbench.remote(cache=True)(dict)").failure

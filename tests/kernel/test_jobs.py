"""Background cells after their end: what stays of them, for whom, and what their line says."""

from __future__ import annotations

import re

from tests.kernel.conftest import Gates, Kernel, Opens
from tests.kernel.gates import Gate
from tests.leaks import eventually


def finished(kernel: Kernel, body: str) -> str:
    """A background cell that is over; its name."""
    cell = kernel.ok(f"%%remote\n{body}")
    kernel.over(cell)
    return f"cell {cell.number}"


def test_what_a_living_notebook_lets_go_of_is_gone_at_once(session: Kernel) -> None:
    for _ in range(3):
        finished(session, "import numpy as np; big, other = np.ones(10**6), 1")
    large = "sum(o.size > 10**6 for o in wb.snapshot().objects)"
    assert session.value(large) == "1"
    session.ok("del big")
    assert eventually(lambda: session.value(large) == "0")


def test_in_a_console_a_line_appears_when_all_is_over(session: Kernel) -> None:
    """Such a front end replaces no output."""
    cell = session.run("%%remote\nprint('said')\nmade = 3", console=True)
    session.until(lambda: re.search(r"said\ncell \d+ · done in .* · made\n$", cell.text()))
    assert not cell.lines


def test_a_result_that_no_variable_waited_for_is_on_the_line(session: Kernel, gate: Gate) -> None:
    for loses in ("answer = 'mine'", "del answer"):
        cell = session.ok(f"%%remote\n{gate.wait}\nanswer, other = 1, 2")
        session.ok(loses)
        gate.open()
        first, *notes = session.over(cell).splitlines()
        assert first.endswith(" · other")
        assert notes == ["  answer: not kept: no variable referred to it when the cell ended"]


def test_it_ends_whatever_its_variable_means_by_then(session: Kernel, gate: Gate) -> None:
    """An array refuses to be compared with a ref."""
    session.ok("import numpy as np\nkept = 1")
    cell = session.ok(f"%%remote\n{gate.wait}\nkept = 1 / 0")
    session.ok("held, kept = kept, np.arange(3)")
    gate.open()
    session.until(lambda: cell.failure)
    assert "failed" in cell.line
    assert session.value("kept.tolist()") == "[0, 1, 2]"


def test_of_two_under_one_cell_each_has_its_own_progress(session: Kernel, gates: Gates) -> None:
    """And both lines are there again after one of them has cleared the cell's output."""
    gate, other = gates(), gates()
    one = (
        f"{gate.wait}\nimport sys\nfrom IPython.display import clear_output\nclear_output()\n"
        f"print(' 40%|##', file=sys.stderr)\n{gate.wait}"
    )
    cell = session.ok(
        "run = get_ipython().run_cell_magic\n"
        f"run('remote', '--name one', {one!r})\n"
        f"run('remote', '--name two', {other.wait!r})"
    )
    session.until(lambda: len(cell.lines) >= 2)
    gate.open()
    session.until(lambda: session.says(r"^one .* 40 %"))
    assert not session.says(r"^two .* 40 %")
    names = [str(line["text/plain"]).split()[0] for line in cell.lines]
    other.open()
    session.until(lambda: session.says(r"^two .*done"))
    gate.open()
    session.until(lambda: session.says(r"^one .*done"))
    assert min(names.count("one"), names.count("two")) >= 2


def test_where_a_script_needs_a_view_a_running_line_has_one(notebook: Opens, gate: Gate) -> None:
    """In VS Code, that is; what is saved at the end is plain."""
    vscode = notebook()
    vscode.ok("%load_ext workbench\n__vsc_ipynb_file__ = 'a.ipynb'")
    cell = vscode.ok(f"%%remote\n{gate.wait}\nx = 1")
    view = "application/vnd.jupyter.widget-view+json"
    vscode.until(lambda: cell.lines and view in cell.lines[-1])
    page = cell.lines[-1][view]["model_id"]
    vscode.until(lambda: vscode.says(r"running \d+ s$"))
    (line,) = re.findall('data-line="(.*?)"', cell.lines[-1]["text/html"])
    vscode.tell(page, do="stop", line=line)
    vscode.until(lambda: "stopped" in cell.line)
    assert set(cell.lines[-1]) == {"text/plain", "text/html"}


def test_a_page_loaded_again_is_told_of_workers_widgets(session: Kernel, gate: Gate) -> None:
    cell = session.ok(
        "%%remote\nimport ipywidgets\n_bar = ipywidgets.IntProgress(value=3, max=4)\n"
        f"display(_bar)\n{gate.wait}"
    )

    def bars() -> list[str]:  # not the kernel's own
        return [id for id, made in cell.opened().items() if made.get("max") == 4]

    session.until(bars)
    states = "__import__('ipywidgets').Widget.get_manager_state()['state']"
    told = f"{states}.get({bars()[0]!r}, {{'state': {{}}}})['state'].get('value')"
    assert eventually(lambda: session.value(told) == "3")

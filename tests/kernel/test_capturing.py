"""Which cell gets what is printed: what captures, and a notebook that only imports workbench."""

from __future__ import annotations

import pytest

from tests import notebooks
from tests.kernel.conftest import Kernel
from tests.kernel.gates import Gate

SHOWS = """\
import sys
from IPython.display import HTML, display
print('out')
print('err', file=sys.stderr)
display(HTML('<b>shown</b>'))
'last'
"""


def test_capture_has_all_in_its_parts(session: Kernel) -> None:
    with session.patient("workbench.ipython.magics.remote"):  # a line would be captured, too
        cell = session.ok(f"%%capture kept\n%%remote --wait\n{SHOWS}")
    assert cell.outputs == []
    assert session.value("[kept.stdout, kept.stderr]") == "['out\\n', 'err\\n']"
    shown = session.value("[each.data.get('text/html') or each.data for each in kept.outputs]")
    assert shown == """['<b>shown</b>', {'text/plain': "'last'"}]"""
    session.ok(
        "%%capture cleared\n%%remote --wait\nfrom IPython.display import clear_output, display\n"
        "display('one')\nclear_output()\ndisplay('two')"
    )
    assert session.value("[each.data['text/plain'] for each in cleared.outputs]") == """["'two'"]"""
    again = session.ok("kept.show()")
    assert (again.text(), again.results("text/html")) == ("out\n", ["<b>shown</b>"])

    cell = session.ok(f"%%capture kept --no-stderr\n%%remote --wait\n{SHOWS}")
    assert (cell.text(), cell.text("stderr")) == ("", "err\n")
    assert session.value("[kept.stdout, kept.stderr]") == "['out\\n', '']"


def test_what_runs_for_long_or_by_several_is_captured_too(session: Kernel, gate: Gate) -> None:
    """A line is shown then, and each line says whose it is."""
    cell = session.start(
        "%%capture kept\n%%remote --wait --each 2\nprint(index, end=' ')\n"
        f"print('begins')\nif index: {gate.wait}\nprint('ends')"
    )
    session.start("'behind it'")
    session.until(lambda: session.client.is_alive())
    gate.open()
    session.until(lambda: cell.idle)
    assert (cell.outputs, cell.lines, cell.bars) == ([], [], {})
    lines = sorted(session.ok("print(kept.stdout)").text().split("\n"))
    assert [line for line in lines if line] == [
        "[0] 0 begins", "[0] ends", "[1] 1 begins", "[1] ends"
    ]  # fmt: skip


def test_another_cells_output_is_not_captured(session: Kernel, gate: Gate) -> None:
    background = session.ok(f"%%remote --quiet\n{gate.wait}\nprint('mine')")
    gate.open()
    session.ok("%%capture kept\nwb.get(wb.remote(print).remote('captured'))\n%get --jobs")
    session.until(lambda: background.text() == "mine\n")
    session.ok("%%capture kept\nwb.get(wb.remote(print).remote('captured'))")
    assert session.value("kept.stdout") == "'captured\\n'"


@pytest.mark.extended
def test_what_is_printed_within_an_output_widget_is_there(runtime_dir: str) -> None:
    """Front ends put there whatever comes with the cell's number meanwhile. A worker's widget takes
    its own."""
    waits = "get_ipython().run_cell_magic('remote', '--wait', \"print('inside')\")"
    cells = [
        f"import os; os.environ['WORKBENCH_RUNTIME_DIR'] = {runtime_dir!r}\n"
        "%load_ext workbench\nimport workbench as wb, ipywidgets\nout = ipywidgets.Output()",
        f"with out:\n    {waits}\n    wb.get(wb.remote(print).remote('a task'))\nprint('outside')",
        "%%remote --wait\nimport ipywidgets\nout = ipywidgets.Output()\ndisplay(out)\n"
        "with out:\n    print('inside')\nprint('outside')",
        "%workbench stop",
    ]
    notebook = notebooks.executed(cells)
    assert [output.get("text") for output in notebook.cells[1].outputs] == ["outside\n"]
    states = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    outputs = [s["state"] for s in states.values() if s["model_name"] == "OutputModel"]
    # Beside the cell's line, which a machine that is busy shows.
    printed = [each["text"] for state in outputs for each in state["outputs"] if "text" in each]
    assert "inside\na task\n" in "".join(printed)
    texts = "".join(output["text"] for output in notebook.cells[2].outputs if "text" in output)
    assert "outside\n" in texts
    assert "inside" not in texts


def test_prints_are_under_the_cell_that_submitted(kernel: Kernel, gate: Gate) -> None:
    kernel.ok("import workbench as wb\nimport sys\nwb.init(workers=1)")
    first = kernel.ok(
        "@wb.remote\n"
        "def speak(word):\n"
        f"    print(word)\n    print(word, file=sys.stderr)\n    {gate.wait}\n    print('end')\n"
        "ref = speak.remote('first')"
    )
    kernel.until(lambda: "first\n" in first.text())
    other = kernel.ok("print('another cell')")
    gate.open()
    last = kernel.ok("wb.get(ref)\nprint('got')")
    kernel.until(lambda: "end\n" in first.text())
    assert first.text() == "first\nend\n"
    assert first.text("stderr") == "first\n"
    assert (other.text(), last.text()) == ("another cell\n", "got\n")
    kernel.ok("wb.shutdown()")


def test_they_can_be_turned_off_with_the_extension_too(kernel: Kernel) -> None:
    kernel.ok("import workbench as wb\nwb.init(workers=1, log_to_driver=False)")
    kernel.ok("say = wb.remote(lambda word: print(word))")
    assert kernel.ok("wb.get(say.remote('nobody wants this'))").text() == ""
    kernel.ok("%load_ext workbench")
    assert kernel.ok("wb.get(say.remote('nor this'))").text() == ""
    cell = kernel.ok("%%remote -w\nprint('but a cell of mine')")
    assert cell.text() == "but a cell of mine\n"
    kernel.ok("wb.shutdown()")

"""Figures that come from a worker: they show in the notebook, and can be drawn and changed."""

from __future__ import annotations

import re

from tests.kernel.conftest import Kernel, Opens
from tests.kernel.gates import Gate

PNG = "iVBORw0KGgo"
MADE = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2, 3])"


def test_a_figure_shows_where_nobody_imported_pyplot(notebook: Opens) -> None:
    kernel = notebook()
    kernel.ok("%load_ext workbench")
    kernel.ok(f"%%remote --out fig\n{MADE}")
    kernel.ok("%get fig")
    assert kernel.value("'matplotlib.pyplot' in __import__('sys').modules") == "False"
    (shown,) = kernel.ok("fig").results("image/png")
    assert shown.startswith(PNG)
    kernel.ok("%unload_ext workbench")
    assert kernel.ok("fig").results("image/png") == []
    kernel.ok("%load_ext workbench")
    # From now on it is pyplot that shows figures, each once.
    for change in (
        "import matplotlib.pyplot as plt",
        "%unload_ext workbench\n%load_ext workbench",
        "fig.axes[0].set_title('changed'); fig.axes[0].plot([3, 1])",
    ):
        kernel.ok(change)
        assert len(kernel.ok("fig").results("image/png")) == 1


def test_a_cell_draws_on_a_figure_of_the_notebook(session: Kernel) -> None:
    """And says nothing of hooks that pyplot adds at its first figure."""
    session.ok(MADE)
    plots = "line, = ax.plot([3, 1]); ax.set_title('on'); fig.suptitle('all')"
    more = "line.set_color('red'); bar = fig.colorbar(ax.imshow([[1, 2]]))"
    cells = [session.ok(f"%%remote -w\n{code}") for code in (plots, more)]
    assert [cell.remarks for cell in cells] == ["", ""]
    assert not re.search("worker|compared|new ones", "".join(cell.notes for cell in cells))
    drawn = "(ax.get_title(), ax.lines[1].get_color(), len(fig.axes), fig.get_suptitle())"
    assert session.value(drawn) == "('on', 'red', 2, 'all')"
    same = "ax is fig.axes[0] is line.axes, line is ax.lines[1], bar.ax is fig.axes[1]"
    assert session.ok(f"fig.canvas.draw()\n{same}").results() == ["(True, True, True)"]


MODEL = "%%remote{}\nimport numpy, types\nnet = types.SimpleNamespace(coef_=numpy.ones((9**5, 3)))"


def test_a_model_that_came_back_read_only(session: Kernel) -> None:
    session.ok(MODEL.format(" -w"))
    said = session.failure("net.coef_[0] = 1")
    assert "The way out: `net = copy.deepcopy(net)`." in said
    assert "get(" not in said
    session.ok("import copy\nnet = copy.deepcopy(net)\nnet.coef_[0] = 1")
    # One to which there is a ref.
    session.ok(MODEL.format(""))
    session.ok("model = wb.get(net)")
    said = session.failure("model.coef_[0] = 1")
    assert "Two ways out: `model = copy.deepcopy(model)`" in said
    assert "`get(net, copy=True)`" in said
    session.ok("model = wb.get(net, copy=True)\nmodel.coef_[0] = 1")


PAGES = (
    "from workbench.widgets.lines import LinePage\nview = wb.widgets.Jobs()\n"
    "line = LinePage(lambda line, said: line.send_message({'kind': 'heard'}))\n"
    "print(view.model_id, line.model_id)"
)


def test_what_pages_say_leaves_a_figure_to_its_cell(session: Kernel, gate: Gate) -> None:
    models = session.ok(PAGES).text().split()
    session.custom.clear()
    subshell = session.subshell()
    cell = session.start(
        "import matplotlib.pyplot as plt\nfig = plt.figure(figsize=(2, 1))\nprint('begun')\n"
        f"{gate.wait}\nplt.plot([1, 2])\nplt.gcf() is fig"
    )
    session.until(lambda: "begun" in cell.text())
    pages = [session.tell(each, subshell, do="resync") for each in models]
    session.until(lambda: {"world", "heard"} <= {said["kind"] for said in session.custom})
    assert not cell.idle
    gate.open()
    session.until(lambda: cell.idle)
    assert cell.results() == ["True", "<Figure size 200x100 with 1 Axes>"]
    assert [page.outputs for page in pages] == [[], []]

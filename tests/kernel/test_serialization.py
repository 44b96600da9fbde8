"""What a person meets of serialization in a notebook: errors that are others', the paths, %inspect
and %cost. The notes: `test_figures.py`."""

from __future__ import annotations

import pickle
import threading

import pytest

from tests.kernel.conftest import Kernel


def test_other_errors_and_other_handlers_are_left_alone(session: Kernel) -> None:
    assert "stored" not in session.run("int('x')").failure
    session.ok(
        "%unload_ext workbench\n"
        "seen = []\n"
        "def own(shell, kind, error, tb, tb_offset=None):\n"
        "    seen.append(str(error)); shell.showtraceback((kind, error, tb), tb_offset)\n"
        "get_ipython().set_custom_exc((ValueError,), own)\n"
        "%load_ext workbench"
    )
    assert session.run("raise ValueError('theirs')").error == "ValueError"
    assert session.value("seen") == "['theirs']"
    session.ok("%unload_ext workbench")
    assert session.run("raise ValueError('again')").error == "ValueError"
    assert session.value("seen") == "['theirs', 'again']"
    session.ok("get_ipython().set_custom_exc((), None)\n%load_ext workbench")


def test_inspect_leads_to_what_fails(session: Kernel) -> None:
    session.ok("import threading\nlock = threading.Lock()\nclass Model: pass\nmodel = Model()")
    session.ok("model.parts = [1, 2, lock]\ndef test(): print(lock)")
    shown = session.ok("%inspect model")
    assert "model.parts[2] (_thread.lock)" in shown.results()[0]
    assert "<code>model.parts[2]</code>" in shown.results("text/html")[0]
    session.ok("ok, failures = %inspect model.parts[:2]")
    assert session.value("(ok, failures)") == "(True, ())"
    assert "global of test → lock" in session.ok("%inspect test").results()[0]
    (text,) = session.ok("%inspect [1] + [lock]").results()
    assert "([1] + [lock])[1] (_thread.lock)" in text  # the path can be pasted
    session.ok("bad = wb.remote(threading.Lock).remote()\nimport ipywidgets")
    assert "A lock belongs to one process" in session.failure("%inspect bad")
    session.ok("slider = ipywidgets.IntSlider()")
    assert "A widget belongs to one process" in session.ok("%inspect slider").results()[0]
    assert session.value("slider in type(slider).widgets.values()") == "True"  # it still is one


with pytest.raises(TypeError) as _unpicklable:
    pickle.dumps(threading.Thread())

SAME = (
    f"[1] (threading.Thread): TypeError: {_unpicklable.value}\n"
    "    A thread belongs to one process: make it inside the task."
)


def test_the_same_words_everywhere(session: Kernel) -> None:
    session.ok(
        "import threading\njob = [1, threading.Thread()]\n"
        "def take(first, second=None, *more): ...\n"
        "class Keep:\n"
        "    def __init__(self, start=None): ...\n"
        "    def keep(self, what): ...\n"
        "Keeper = wb.remote(Keep)"
    )
    assert f"job{SAME}" in session.ok("%inspect job").results()[0]
    session.ok("%%remote\nimport threading\nlater = 1, threading.Thread()\n")
    for code, name in {
        "%put job": "job",
        "%put --name n [0, job[1]]": "n",
        "wb.remote(take).remote(job)": "first",
        "wb.remote(take).remote(0, job)": "second",
        "wb.remote(take).remote(0, 1, 2, job)": "more[1]",
        "wb.remote(take).remote(0, second=job)": "second",
        "Keeper.remote().keep.remote(job)": "what",
        "Keeper.remote(job)": "start",
        "%%remote\nprint(job)": "job",
        "%%remote --wait\nimport threading\nmade = 1, threading.Thread()": "made",
        "%get later": "later",
    }.items():
        failure = session.failure(code)
        assert f"{name}{SAME}" in failure, code
        assert "Traceback" not in failure


def test_cost(session: Kernel) -> None:
    names = "pd.Series([f'n{i}' for i in range(50_000)], dtype=object)"
    session.ok(f"import pandas as pd\ndf = pd.DataFrame({{'n': 1.0, 'name': {names}}})\n%put df")
    cell = session.ok("%cost df")
    assert "column 'name'" in cell.results()[0]
    assert "<table" in cell.results("text/html")[0]
    session.ok("del df")
    assert "column 'name'" in session.ok("%cost df").results()[0]  # from the store
    assert session.run("%cost").error == "MagicError"


@pytest.mark.extended
def test_cost_estimates_first_and_then_measures(session: Kernel) -> None:
    session.ok("big = [{'a': str(i), 'b': [float(i)]} for i in range(1_200_000)]")
    first, *_, last = session.ok("%cost big").results()
    assert "Estimated from a sample." in first or first == ""  # it makes way for the last
    assert "The total was measured; its parts are estimated from a sample." in last
    assert "1 200 000 × dict" in last
    assert session.value("wb.explain_cost(big, 'big').is_estimate") == "True"

"""What a person meets of serialization in a notebook: the notes, the paths, %inspect and %cost."""

from __future__ import annotations

import pickle
import re
import threading

import pytest

from tests.kernel.conftest import Kernel

# -- the read-only lesson --------------------------------------------------------------------------


def test_writing_to_what_get_brought_or_in_a_remote_cell(session: Kernel) -> None:
    for prepare, write, note in [
        ("x = np.arange(100_000)\n%put x\n%get x", "x[0] = 1", "`x = x.copy()`"),
        ("x = np.arange(9)\n%put x\n%get x", "x.sort()", "`x = x.copy()`"),
        ("x = [np.arange(100_000), 1]\n%put x\n%get x", "x[0][:] = 1", "copy the array before"),
    ]:
        session.ok(f"import numpy as np\n{prepare}")
        cell = session.run(write)
        assert cell.error == "ValueError"
        assert "read-only" in cell.failure
        assert "`x` shows the stored object 'x'" in cell.failure
        assert note in cell.failure
        assert "`%get x --copy`" in cell.failure
        session.ok(f"%get x --copy\n{write}")
    session.ok("x = np.arange(100_000)\n%put x")
    cell = session.run("%%remote --wait\nx += 1")
    assert "`x` shows the stored object 'x'" in cell.failure
    assert cell.failure.count("The way out in a task: `x = x.copy()`.") == 1
    assert "%get" not in cell.failure  # which isn't for a remote cell
    assert re.search(r"Cell In\[\d+\], line 2", cell.failure)


def test_other_errors_and_other_handlers_are_left_alone(session: Kernel) -> None:
    assert "stored" not in session.run("int('x')").failure
    session.ok(
        "import numpy as np\n"
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
    session.ok("import workbench as wb")


# -- what can't be serialized ----------------------------------------------------------------------

MODEL = """
import logging, threading
class Logger:
    def __init__(self):
        self.lock = threading.Lock()
class Callback:
    def __init__(self):
        self.logger = Logger()
class Model:
    def __init__(self):
        self.callbacks = [1, 2, Callback()]
        self.stream = (i for i in range(3))
model = Model()
"""


def test_what_fails_says_where_without_being_asked(session: Kernel) -> None:
    session.ok(MODEL)
    for code in (
        "%put model",
        "wb.put(model)",
        "wb.remote(print).remote(model=model)",
        "%%remote\nprint(model)",
    ):
        cell = session.run(code)
        assert (code, cell.error) == (code, "SerializationError")
        assert "model.callbacks[2].logger.lock (_thread.lock): TypeError" in cell.failure
        assert "model.stream (generator)" in cell.failure
        assert "__getstate__" in cell.failure
        assert "Traceback" not in cell.failure
    shown = session.ok("%inspect model")
    assert "model.callbacks[2].logger.lock (_thread.lock)" in shown.results()[0]
    assert "<code>model.callbacks[2].logger.lock</code>" in shown.results("text/html")[0]
    assert "model.stream" in shown.results("text/html")[0]
    session.ok("ok, failures = %inspect model.callbacks[:2]")
    assert session.value("(ok, failures)") == "(True, ())"
    session.ok("lock = threading.Lock()\ndef test():\n    print(lock)")
    assert "global of test → lock" in session.ok("%inspect test").results()[0]
    (text,) = session.ok("%inspect [1] + [lock]").results()
    assert "([1] + [lock])[1] (_thread.lock)" in text  # the path can be pasted


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
        assert f"{name}{SAME}" in session.failure(code), code


def test_inspect_of_a_thread_in_a_kernel_is_one_line(session: Kernel) -> None:
    """Its prints lead to the kernel, and from there to everything."""
    session.ok("import threading")
    for what in ("threading.Thread(target=print)", "get_ipython()", "get_ipython().kernel"):
        (text,) = session.ok(f"%inspect {what}").results()
        assert len(text.splitlines()) == 3
        assert "belongs to one process" in text
    session.ok("import ipywidgets\nslider = ipywidgets.IntSlider()")
    assert "A widget belongs to one process" in session.ok("%inspect slider").results()[0]
    assert (
        session.value("slider.comm is not None and slider in type(slider).widgets.values()")
        == "True"
    )


def test_cost(session: Kernel) -> None:
    session.ok(
        "import numpy as np, pandas as pd\n"
        "df = pd.DataFrame({'n': np.arange(200_000.), 'name': pd.Series([f'n{i}' for i in "
        "range(200_000)], dtype=object)})\n%put df"
    )
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

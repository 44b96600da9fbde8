"""%put and %get with all their options, and what they show while they take long."""

from __future__ import annotations

import re

import pytest

from tests.kernel.conftest import Kernel
from tests.kernel.gates import Gate


def test_several_variables_at_once(session: Kernel) -> None:
    session.ok("a, b, c = [1], 'two', 3.0")
    lines = session.ok("%put a b c").text().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["a", "b", "c"]
    assert session.value("wb.api.engine().ask(wb.engine.queries.Names())") == "['a', 'b', 'c']"
    assert session.value("wb.get(refs)", after="refs = %put a c a") == "[[1], 3.0]"


def test_all_or_none(session: Kernel) -> None:
    session.ok("import threading\na, b, lock = [1], 2, threading.Lock()\n%put --name a 'before'")
    for line, error, says in [
        ("%put a nope", "NotDefinedError", "'nope' is not defined in the notebook. Nothing was"),
        ("%put a lock", "SerializationError", "lock"),
        ("%put a b --name both", "MagicError", "--name names one object"),
        ("%put --replace --name n a.copy()", "MagicError", "'a.copy()' is an expression"),
    ]:
        cell = session.run(line)
        assert (line, cell.error) == (line, error)
        assert says in cell.failure
        assert session.value("wb.api.engine().ask(wb.engine.queries.Names())") == "['a']"
        assert session.value("wb.get('a')") == "'before'"
        # The error's traceback may hold a ref still, but there is nothing behind it.
        states = session.value("{r.state for r in wb.objects() if not r.names}")
        assert states in ("set()", "{'freed'}"), line


def test_an_unknown_name(session: Kernel) -> None:
    session.ok("lock = 1")
    for line, says in {
        "%put nope": "'nope' is not defined in the notebook.",  # open is not what was meant
        "%put lokc": "'lokc' is not defined in the notebook. Did you mean 'lock'?",
        "%get nope": "'nope' is not defined in the store.",
        "%inspect nope": "'nope' is not defined in the notebook or the store.",
        "%free nope": "no variable, name or id is that.",
        "%%remote\nnope + 1": "or the store. Did you mean 'open'? Nothing was sent.",
    }.items():
        assert session.failure(line).endswith(says)


def test_pin(session: Kernel) -> None:
    session.ok("a, b = [1], [2]")
    assert session.ok("%put --pin a b").text().count("; pinned\n") == 2
    assert session.ok("%put --pin --name c [3]").text().endswith("; pinned\n")
    pinned = "{n for r in wb.api.snapshot().objects if r.pinned for n in r.names}"
    assert session.value(f"sorted({pinned})") == "['a', 'b', 'c']"
    assert session.value(pinned, after="%unpin a\n%free b c") == "set()"


def test_replace_frees_the_private_copy_and_says_who_keeps_it(session: Kernel) -> None:
    session.ok("import numpy as np, weakref\nx = np.ones(10**6)\nwatch = weakref.ref(x)")
    line = session.ok("%put --replace x").text()
    assert line.endswith("; `x` is a read-only view of it now, 8 MB freed\n")
    assert session.value("(watch(), x.flags.writeable, x.sum() == 10**6)") == (
        "(None, False, np.True_)"
    )
    session.ok("x = np.ones(10**6)\npart = x[10:]")
    line = session.ok("%put --replace x").text()
    assert "but 8 MB of private memory stay: `part` holds the same arrays" in line
    session.ok("x = np.ones(10**6)\nx[:1]")
    assert "`Out` holds the same arrays" in session.ok("%put --replace x").text()


def test_replace_of_what_is_stored_needs_no_room_for_a_second_one(fresh: Kernel) -> None:
    fresh.ok("import numpy as np\nwb.init(workers=1, memory='64MB')")
    fresh.ok("x, y = np.ones(5 * 10**6), np.ones(10**5)\n%put x\n%put y")
    line = fresh.ok("%put --replace x").text()
    assert line == "x: as stored; `x` is a read-only view of it now, 40 MB freed\n"
    assert fresh.ok("%put --replace x").text().startswith("x: as stored; ")
    fresh.ok("y[-1] = 2")
    assert fresh.ok("%put --replace x y").text().startswith("x: as stored; ")
    assert fresh.value("(float(y.sum()), y.flags.writeable)") == "(100001.0, False)"


def test_replace_of_a_table_and_of_what_has_nothing_to_share(session: Kernel) -> None:
    session.ok(
        "import numpy as np\nd = {'a': np.ones(10**6), 'b': np.ones(10**6)}\nkept, t = d['b'], [1]"
    )
    line = session.ok("%put --replace --name stored d").text()
    assert "`d` is a read-only view of it now, 8 MB freed, but 8 MB of private memory stay" in line
    assert session.value("(d['a'].flags.writeable, kept.flags.writeable)") == "(False, True)"
    before = session.value("id(t)")
    assert "`t` stays as it is" in session.ok("%put --replace t").text()
    assert session.value("id(t)") == before


SLOW_TASK = """
@wb.remote
def slow():
    return {wait}.decode()
y, x = slow.remote(), 1
"""

SLOW_PUT = """
class Slow:
    def __init__(self):
        self.data = bytes(2 * 10**6)
    def __reduce__(self):
        {wait}
        return list, ()
s = Slow()
"""


def test_a_timeout_says_what_is_to_come_and_loses_nothing(session: Kernel, gate: Gate) -> None:
    session.ok(SLOW_TASK.format(wait=gate.wait))
    session.ok("%put x")
    cell = session.run("%get y x --timeout 0")
    assert cell.error == "GetTimeoutError"
    assert "'y' (of task slow) is not there yet. 'x' is. Nothing was bound" in cell.failure
    assert session.value("type(y).__name__") == "'ObjectRef'"
    gate.open()
    assert session.value("(y, x)", after="%get y x --timeout 60") == "('x', 1)"


LONG = {
    "%get y": (SLOW_TASK, r"%get y: waiting for task slow, \d s", r"%get y: arrived after .*"),
    "%put s": (SLOW_PUT, r"%put s: about 2 MB, pickling, \d+ s", r"s: Slow, .*"),
}


@pytest.mark.parametrize("line", LONG)
def test_a_long_one_says_what_it_is_at(session: Kernel, gate: Gate, line: str) -> None:
    """One that is interrupted takes its line away."""
    setup, begins, ends = LONG[line]
    session.ok(setup.format(wait=gate.wait))
    with session.patient("workbench.ipython.progress", "AFTER", 0.1):  # it is told at once
        interrupted = session.start(line)
        session.until(lambda: interrupted.told)
        session.interrupt()
        session.until(lambda: interrupted.idle)
        assert session.value("wb.api.engine().ask(wb.engine.queries.Names())") == "[]"
        cell = session.start(line)
        session.until(lambda: cell.told)
        gate.open()
        session.until(lambda: cell.idle)
    assert re.fullmatch(begins, interrupted.told[0])
    assert "KeyboardInterrupt" in interrupted.failure
    assert interrupted.told[-1] == ""
    assert re.fullmatch(ends, cell.told[-1])
    assert [kind for kind, _ in cell.outputs].count("display_data") == 1
    assert len({shown["transient"]["display_id"] for _, shown in cell.outputs}) == 1
    threads = "[t.name for t in __import__('threading').enumerate() if 'progress' in t.name]"
    assert session.value(threads) == "[]"


def test_a_cell_that_gets_what_a_cell_assigned_can_run_again(session: Kernel) -> None:
    session.ok("%%remote -w\nn, rows = 6 * 7, [1, 2]")
    session.ok("%%remote\nm, table = n + 1, [*rows, 3]")
    for _ in range(2):
        assert session.value("(m, table)", after="%get m table") == "(43, [1, 2, 3])"
    session.ok("m = 5")
    assert "'m' is not defined in the store" in session.failure("%get m")

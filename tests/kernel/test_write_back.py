"""What a remote cell changes in place of what it captured by value: it is changed here too."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kernel.conftest import Kernel
from tests.kernel.gates import Gate
from tests.tables import tables

CLASSES = """
import numpy as np

class Model:
    def __init__(self):
        self.coef_, self.fits = None, 0
    def fit(self, X, y):
        self.coef_, self.fits = [x * y for x in X], self.fits + 1
        return self
"""

CASES = tables(__file__)


def check(session: Kernel, cases: str, around: str = "{}", also: str = "True") -> None:
    """Each holds, and ``also`` of what is made ``around`` what the case makes; without a word."""
    for kind, make, change, holds in CASES[cases]:
        session.ok(f"{CLASSES}\n{around.format(make)}")
        cell = session.ok(f"%%remote -w\n{change}")
        there = session.value(f"bool(({holds}) and {also})")
        assert (kind, there, cell.remarks) == (kind, "True", "")


def test_who_has_what_was_changed_has_it_changed(session: Kernel) -> None:
    check(session, "in place", "{}\nalias, holder = x, [x]", "alias is x and holder[0] is x")


def test_what_cannot_be_changed_in_place_is_bound_anew(session: Kernel) -> None:
    check(session, "bound anew", "{}\nalias = x", "alias is x")


def test_what_connects_variables_connects_them_afterwards(session: Kernel) -> None:
    check(session, "connected")
    cell = session.ok("%%remote -w\nwith open('/dev/null') as f: pass")
    assert "f stays on the worker: " in cell.notes


def test_what_is_changed_and_assigned_or_not_asked_for(session: Kernel) -> None:
    """`tests/unit/serialization/test_mutations.py` has objects that refer to each other."""
    session.ok("x = alias = [1]")
    session.ok("%%remote -w\nx += [2]\ny = x\nx = [*x, 3]")
    assert session.value("(x, alias is y, y)") == "([1, 2, 3], True, [1, 2])"
    # Only what was asked for.
    session.ok("x, y = [1], [1]")
    session.ok("%%remote -w --out y\nx.append(2); y.append(2)")
    assert session.value("(x, y)") == "([1], [1, 2])"


def test_frames(session: Kernel) -> None:
    session.ok(
        "import pandas as pd\ndf = pd.DataFrame({'a': [1., 2.], 'b': ['x', 'y']})\n"
        "alias, column, s = df, df['a'], pd.Series([1, 2])\nt = s"
    )
    session.ok("%%remote -w\ndf['c'] = df['a'] * 2\ndf.loc[0, 'a'] = 100\ns[0] = 7")
    seen = "(alias is df, list(df), df['a'].tolist(), column.tolist(), t.tolist())"
    assert session.value(seen) == "(True, ['a', 'b', 'c'], [100.0, 2.0], [1.0, 2.0], [7, 2])"
    session.ok("df.loc[1, 'a'] = 5; df['c'].to_numpy(copy=True)[0]")


def test_a_background_cell_says_what_changed_and_get_brings_it(session: Kernel, gate: Gate) -> None:
    session.ok(f"{CLASSES}\nmodel = Model()\nalias, kept = model, [1]")
    cell = session.ok("%%remote\nmodel.fit([1], kept[0])\nlen(kept)")
    said = session.over(cell)
    assert said.endswith("\n  model changed on the worker: `%get model` brings it")
    assert session.value("alias.coef_") == "None"
    assert session.ok("%get model").text() == f"cell {cell.number}: model\n"
    assert session.value("(alias.coef_, alias is model)") == "([1], True)"
    assert "'model' is not defined in the store" in session.failure("%get model")
    # Several, also one that was stored before.
    session.ok("a, b, c = [1], {'k': 1}, [1]\n%put c")
    cell = session.ok("%%remote\na.append(2)\nb['k'] = 2\nc.append(2)\n;")
    assert session.over(cell).endswith("changed on the worker: `%get a b c` brings them")
    assert session.ok("%get a b c").text() == f"cell {cell.number}: a, b, c\n"
    assert session.value("(a, b, c)") == "([1, 2], {'k': 2}, [1, 2])"
    # All that a cell did, as if it had been waited for; `b` has another value by now.
    did = "a.append(3); b = 1; x = [a]; import math as m, os; os.environ['SET'] = '1'; del c"
    cell = session.ok(f"%%remote\n{did}")
    assert "os.environ was set on the worker: `%get --jobs` brings it" in session.over(cell)
    session.ok("b = 2")
    assert session.ok("%get --jobs").text().endswith(": x, a, m, os, c, os.environ\n")
    seen = "(x[0] is a, a, b, m.pi > 3, os.environ.pop('SET'), 'c' in dir())"
    assert session.value(seen) == "(True, [1, 2, 3], 2, True, '1', False)"
    # In the order of the cells; what was assigned here since stays, and runs' settings there.
    for cell in ("y = [1]", "y.append(2)", "z = [1]", "z.append(2)\nfor i in 'a': pass", "z = 9"):
        session.over(session.ok(f"%%remote\n{cell}"))
    session.over(session.ok("%%remote -n 2\nnp.seterr(all='raise')"))
    session.ok("%%remote -w\nos.environ['SET'] = '2'")  # brought once only
    session.ok("i = 'mine'; del os.environ['SET']\n%get --jobs")
    seen = "(y, z, i, np.geterr()['under'], os.getenv('SET'))"
    assert session.value(seen) == "([1, 2], 9, 'mine', 'ignore', None)"
    # A cell that isn't over is waited for.
    session.ok("x = [1]")
    assert session.value("x", after=f"%%remote\nx.append(2)\n{gate.wait}") == "[1]"
    waiting = session.start("%get x\nprint(x)")
    gate.open()
    session.until(lambda: waiting.idle)
    assert waiting.text().endswith("[1, 2]\n")


def test_what_the_notebook_changed_meanwhile_is_not_overwritten(session: Kernel) -> None:
    session.ok("x = [1]\ny = x")
    session.over(session.ok("%%remote\nx.append(2)"))
    session.ok("x.append('own')")
    assert session.ok("%get x").text().endswith("took it along, and has both changes now\n")
    assert session.value("(x, y is x)") == "([1, 'own', 2], True)"
    for own in ("x[0] = 'own'", "x = ['own']"):
        session.ok("x = [1]")
        cell = session.ok("%%remote\nx[0] = 2")
        session.over(cell)
        session.ok(own)
        failure = session.failure("%get x")
        assert f"x changed in the notebook too, since cell {cell.number} took it along" in failure
        assert "own" in session.value("x")
        assert session.value("('own' in x, theirs)", after="%get x --as theirs") == "(True, [2])"
    # Of two cells that changed it each is brought.
    session.ok("x = [1]")
    for cell in [session.ok(f"%%remote\nx.append({n})") for n in (2, 3)]:
        session.over(cell)
    assert session.value("x", after="%get x") == "[1, 2, 3]"
    # No change inside what is bound anew is lost, nor one that a later cell fails to replace.
    session.ok("import pandas as pd\nx = pd.DataFrame({'a': [1, 2]})")
    session.over(session.ok("%%remote\nx['there'] = 1"))
    session.ok("x['here'] = 2")
    assert "would be overwritten" in session.failure("%get x")
    assert session.value("[*x]") == "['a', 'here']"
    session.ok("x = [1]")
    session.over(session.ok("%%remote\nx.append(2)"))
    session.over(session.ok("%%remote\nx = x / 0"))
    assert session.value("x", after="%get x") == "[1, 2]"
    # What was assigned since has taken its place.
    session.ok("x = [1]")
    session.over(session.ok("%%remote\nx.append(2)"))
    session.ok("x.append('here')\nx = 0")
    session.over(session.ok("%%remote\nx = x + 1"))
    assert session.value("x", after="%get x") == "1"
    assert session.value("x", after="%get x") == "1"
    # What was written before is no change since.
    session.ok("import numpy as np\nbig = np.zeros(1_000_000)\n%put big")
    session.ok("%get big --cow --as x\nx[0] = 1")
    session.over(session.ok("%%remote --name j\nx[1] = 5"))
    assert session.value("(x[0].item(), x[1].item())", after="%get x") == "(1.0, 5.0)"


def test_a_cell_that_fails_changes_nothing_and_says_so(session: Kernel) -> None:
    session.ok("x = [1]")
    failure = session.failure("%%remote -w\nx.append(2)\n1 / 0")
    assert "ZeroDivisionError" in failure
    assert "Before that the cell changed x on the worker." in failure
    assert session.value("x") == "[1]"


def test_what_cannot_travel_back_or_be_replaced_is_said(session: Kernel) -> None:
    session.ok("x = {}")
    said = session.ok("%%remote -w\nx['lines'] = (n for n in [1])").notes
    assert "x changed on the worker and can't be brought back" in said
    assert "generator" in said
    assert session.value("x") == "{}"
    session.ok("import numpy as np\nx = np.array(['a', None]); x.flags.writeable = False\ny = [x]")
    said = session.ok("%%remote -w\ny[0][1] = 2; y.append(1)").notes
    assert "y changed on the worker and can't be changed here" in said
    assert session.value("(len(y), x[1])") == "(1, None)"


def test_what_is_stored_is_changed_here_too(session: Kernel) -> None:
    """An array of the store is read-only; a list, a dict, a model is the cell's own copy."""
    session.ok(f"{CLASSES}\nmodel, x = Model(), np.zeros(3)\nalias = model\n%put model x")
    cell = session.ok("%%remote -w\nmodel.fit([1], 2)\n;")
    assert session.value("(alias is model, alias.coef_)") == "(True, [2])"
    assert not cell.remarks
    assert "read-only" in session.failure("%%remote -w\nx[0] = 1")
    # Also if somebody has it.
    session.ok("x = np.arange(5.)\n%put x --replace\nd = {'x': x}")
    assert "read-only" in session.failure("%%remote -w\nx[0] = 9; d")
    session.ok("%%remote -w\nd['x'][0] = 9; x")
    assert session.value("(d['x'][0].item(), x[0].item())") == "(9.0, 9.0)"


def test_who_has_a_read_only_array_has_the_new_one(session: Kernel) -> None:
    check(session, "read-only", "z = np.arange(6.)\n%put z --replace\n{}")


def test_what_stays_where_it_was_changed_is_said(session: Kernel) -> None:
    session.ok("total, parts = [0], [[1], [2]]")
    cell = session.ok(
        "%%remote --map part=parts\ntotal[0] += part[0]\npart.append(0)\nt = total[0]"
    )
    said = "total and part changed in the runs, each of which has a copy of its own"
    assert said in session.over(cell)
    assert session.value("(total, parts, wb.get(t))") == "([0], [[1], [2]], [1, 2])"
    session.ok("x = [1]")
    cell = session.ok("%%remote -w --actor there\nx.append(2)")
    assert "x changed in there and stays there" in cell.notes
    session.ok("%%remote -w --actor there --out y\nx.append(3); y = [*x]")
    assert session.value("(x, y)") == "([1], [1, 2, 3])"
    cell = session.ok("x = [1, 2]\nlast = %remote x.pop()\nwb.get(last)")
    session.until(lambda: cell.text("stderr"))
    assert "x changed on the worker, and not in the notebook" in cell.text("stderr")
    assert session.value("x") == "[1, 2]"


TOUCHY = """
import os, signal
class Touchy:
    def __setstate__(self, state):
        self.__dict__.update(state)
        if 'fails' in state: raise ValueError('not this')
        if 'stops' in state: os.kill(os.getpid(), signal.SIGINT)
first, touchy, last = Touchy(), Touchy(), Touchy()
lst, d, array = [1], {}, np.zeros(2)
"""
CHANGE = "first.n = last.n = 1\nlst.append(2)\nd['a'] = 1\narray[0] = 1"
STATE = "(vars(first), vars(touchy), vars(last), lst, d, array.tolist())"


def test_an_update_is_made_whole_or_not_at_all(session: Kernel) -> None:
    session.ok(CLASSES + TOUCHY)
    cell = session.ok(f"%%remote -w\ntouchy.fails = 1\n{CHANGE}\ndone = True")
    assert "changed on the worker and can't be changed here: ValueError: not this" in cell.notes
    assert session.value(STATE) == "({}, {}, {}, [1], {}, [0.0, 0.0])"
    assert session.value("done") == "True"
    session.ok(CLASSES + TOUCHY)
    session.run(f"%%remote -w\ntouchy.stops = 1\n{CHANGE}")  # a Ctrl-C in the midst of it
    expected = "({'n': 1}, {'stops': 1}, {'n': 1}, [1, 2], {'a': 1}, [1.0, 0.0])"
    assert session.value(STATE) == expected


def test_what_takes_long_to_pickle_is_not_compared(session: Kernel, tmp_path: Path) -> None:
    """The notebook knows it of what is stored; then it costs the cell nothing, and is said."""
    session.ok(f"""
import os, time
class Slow:
    def __getstate__(self):
        open({str(tmp_path)!r} + f"/{{os.getpid()}}", "w").close()
        end = time.thread_time() + 0.25
        while time.thread_time() < end: pass
        return dict(self.__dict__)
slow, inside, x = Slow(), {{'a': Slow()}}, [1]
%put slow inside
""")
    for wait in ("-w", ""):
        cell = session.ok(f"%%remote {wait}\nx.append(1)\nslow.n = inside['n'] = 1\ndone = True")
        said = cell.notes if wait else session.over(cell)
        assert "slow and inside weren't compared with what was sent" in said
    assert session.value("x") == "[1, 1]"  # of the second cell `%get x` brings it
    assert [path.name for path in tmp_path.iterdir()] == [session.value("os.getpid()")]


def test_so_many_objects_come_back_as_new_ones(session: Kernel) -> None:
    session.ok("rows = [{'n': n} for n in range(11_000)]\nalias, first = rows, rows[0]")
    cell = session.ok("%%remote -w\nrows[0]['n'] = 'changed'")
    assert session.value("(alias is rows, rows[0], first)") == "(True, {'n': 'changed'}, {'n': 0})"
    assert "rows: its objects came back as new ones" in cell.notes


def test_two_names_of_one_object_are_one_in_the_cell(session: Kernel) -> None:
    for kind, make, change, reads in CASES["aliases"]:
        session.ok(make)
        cell = session.ok(f"%%remote -w --out got\n{change}; x\ngot = list({reads})")
        assert (kind, session.value("got")) == (kind, "[1, 2]")
        assert "share" not in cell.notes
        cell = session.ok(f"%%remote -w\n{change}; x, y\nseen = list({reads})")
        assert (kind, session.value(f"(seen, {reads})")) == (kind, "([1, 2], [1, 2])")


def test_a_dry_run_tells_how_it_would_travel(session: Kernel) -> None:
    session.ok("x = {'a': [1]}\ny = x['a']\nlarge = [y, b'x' * 2_000_000]\n%put x large")
    for code, row in {
        "x": r"x +dict .*by reference",
        "x, y": r"x +dict .*by value",
        "large, y": r"large +list .*by reference",
    }.items():
        assert re.search(row, session.ok(f"%%remote --dry-run\n{code}").results()[0]), code


def test_of_what_is_too_large_for_that_the_line_says_it(session: Kernel) -> None:
    session.ok("x = [[1], b'x' * 2_000_000]\ny = x[0]\n%put x")
    assert "share" not in session.ok("alone = %remote len(x)").text()
    common = "x and y share an object, but on the worker each"
    assert f"{common} has its own copy" in session.ok("both = %remote len(x) + len(y)").text()
    assert "share" not in session.over(session.ok("%%remote\nseen = len(x), y"))
    said = session.over(session.ok("%%remote\ny.append(2); seen = x[0], y"))
    assert session.value("wb.get(seen)") == "([1], [1, 2])"
    assert f"{common} had its own copy of it" in said
    assert "`%free x`" in said
    session.ok("%get y\n%free x")
    session.ok("%%remote -w\ny.append(3); both = x[0], y")
    assert session.value("both") == "([1, 2, 3], [1, 2, 3])"


def test_what_cannot_be_as_in_the_notebook_is_said(session: Kernel, gate: Gate) -> None:
    """A namespace's own variable, an item's, a thread that goes on, a result that can't be sent."""
    session.ok("v, index, log = 1, 7, []")
    session.ok("%%remote --wait --actor own\nv = 5")
    cell = session.ok("%%remote --wait --actor own\nprint(v)")
    assert (cell.text(), cell.notes.strip()) == (
        "5\n",
        "v was the namespace's own: `--in v` sends the notebook's",
    )
    assert not session.ok("%%remote --wait --actor own\nprint(v)").notes
    session.ok("%%remote --wait --actor own\nimport decimal\ndecimal.getcontext().prec = 5")
    session.ok("import sys\nsys.setrecursionlimit(3456)")  # what isn't changed here stays there
    cell = session.ok("%%remote --wait --actor own\nprint(decimal.getcontext().prec)")
    assert cell.text() == "5\n"
    cell = session.ok("%%remote --wait --map [1]\nprint(index)")
    assert "index was that of the item, not the notebook's variable" in cell.notes
    later = f"def later():\n    {gate.wait}\n    log.append(1)\n"
    cell = session.ok(
        f"%%remote --wait\nimport threading\n{later}threading.Thread(target=later).start()"
    )
    assert cell.notes.startswith("later goes on in a thread of the worker")
    gate.open()
    failure = session.failure("%%remote --wait\nimport threading\na, lock = 1, threading.Lock()")
    assert "lock can't be serialized" in failure
    assert session.value("a") == "1"
    session.ok("import pandas as pd\ndf, least = pd.DataFrame({'a': [1, 2]}), 1")
    assert session.ok("%%remote --wait\nprint(len(df.query('a > @least')))").text() == "1\n"
    cell = session.ok(
        "%%remote --wait\nimport signal\nold = signal.signal(signal.SIGUSR1, print)\n;"
    )
    assert "the handler of SIGUSR1 was set on the worker only" in cell.notes
    cell = session.ok("%%remote\nimport numpy\nold = numpy.seterr(all='ignore')")
    assert "np.seterr was set on the worker: " in session.over(cell)

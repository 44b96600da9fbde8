"""What a remote cell reads of a stored variable is what the notebook shows: changes are noticed."""

from __future__ import annotations

import re

from tests.kernel.conftest import Kernel

SETUP = """
import numpy as np, pandas as pd
df = pd.DataFrame({"a": [1, 2, 3]})
lst, x, d, s = [1, 2], np.zeros(10**5), {"k": 1}, {1}
class Model: pass
model = Model(); model.weights = [0.5]
both = (lst, x)
"""

CHANGES = {
    "df": ('df["b"] = 7; df.loc[0, "a"] = 100', "(list(df.columns), int(df.a.iloc[0]))"),
    "lst": ("lst.append(3)", "lst[-1]"),
    "x": ("x[5] = 5", "float(x[5])"),
    "d": ('d["k"] = 2', "d['k']"),
    "s": ("s.add(9)", "9 in s"),
    "model": ("model.weights[0] = 1.5; model.fitted = True", "(model.weights, model.fitted)"),
    "both": ("lst.append(4); x[7] = 7", "(both[0], float(both[1][7]))"),
}


def notes(kernel: Kernel, reads: str, options: str = "-w") -> list[str]:
    """What a remote cell that reads this says besides; what it read is `got`."""
    cell = kernel.ok(f"%%remote {options}\ngot = {reads}")
    said = f"{cell.text()}\n{cell.notes}"
    return re.findall(r"\S.*(?:stored again|not compared).*", said)


def test_what_was_changed_after_put_is_stored_again(session: Kernel) -> None:
    session.ok(SETUP)
    session.ok("%put df lst x d s model both")
    session.ok("df.describe(); df.values; df.a.mean(); x.sum(); sorted(lst); list(d)")
    assert notes(session, "(len(df), lst, x.sum(), d, s, model.weights, both[0])") == []
    for name, (change, reads) in CHANGES.items():
        session.ok(f"{SETUP}\nold = %put {name}")
        assert notes(session, reads.replace("model.fitted", "0")) == []
        session.ok(change)
        now = session.value(reads)
        (said,) = notes(session, reads)
        assert re.fullmatch(
            rf"{name} changed since %put: stored again, [\d.]+ [mµ]?s", said.strip()
        )
        assert session.value("got") == now
        assert notes(session, reads) == []  # once
        assert session.value(f"(wb.api.engine().find({name!r}) != old)") == "True"
        named = f"[r.names for r in wb.snapshot().objects].count(({name!r},))"
        assert session.value(named) == "1"


def test_the_line_of_a_background_cell_and_a_dry_run_say_it(session: Kernel) -> None:
    session.ok(SETUP)
    session.ok("old = %put lst")
    session.ok("lst.append(3)")
    (table,) = session.ok("%%remote --dry-run\ngot = lst").results()
    assert "lst changed since %put: it would be stored again" in table
    assert session.value("wb.get(wb.api.engine().find('lst'))") == "[1, 2]"  # nothing was
    cell = session.ok("%%remote\ngot = lst")
    assert "lst changed since %put: stored again" in session.over(cell)
    assert session.value("wb.get(got)") == "[1, 2, 3]"
    session.ok("lst.append(4)")
    assert notes(session, "(lst, old)")
    assert session.value("got") == "([1, 2, 3, 4], [1, 2])", "an explicit ref means what it meant"


def test_an_alias_and_an_expression(session: Kernel) -> None:
    session.ok(SETUP)
    session.ok("%put --name numbers lst")
    session.ok("other = lst; other.append(3)")
    assert "other changed since %put" in session.ok("ref = %remote sum(other)").text()
    assert session.value("wb.get(ref)") == "6"
    assert session.value("wb.get(wb.api.engine().find('numbers'))") == "[1, 2, 3]"


def test_what_a_get_brought_keeps_its_name_for_the_original(session: Kernel) -> None:
    session.ok("config = {'depth': [3], 'names': ['a', 'b']}")
    session.ok("%put config")
    session.ok("%get config --as mine")
    assert notes(session, "mine") == []
    session.ok("mine['depth'].append(4)")
    (said,) = notes(session, "mine")
    assert said.startswith("mine changed since %get: stored again, ")
    assert said.endswith("; 'config' in the store stays as it was")
    assert session.value("got") == "{'depth': [3, 4], 'names': ['a', 'b']}"
    assert session.value("wb.get(wb.api.engine().find('config'))") == (
        "{'depth': [3], 'names': ['a', 'b']}"
    )
    session.ok("mine['depth'].append(5)")
    assert notes(session, "mine")[0].startswith("mine changed since it was stored: ")


def test_what_a_cell_that_is_waited_for_made(session: Kernel) -> None:
    session.ok("%%remote -w\nimport pandas as pd\ndf = pd.DataFrame({'a': [1.0, 2.0]})\nlst = [1]")
    assert notes(session, "(df, lst)") == []
    session.ok("df['b'] = 2; lst.append(2)")
    assert len(notes(session, "(list(df.columns), lst)")) == 2
    assert session.value("got") == "(['a', 'b'], [1, 2])"


CLASS = """
class Model:
    rate, seen, old = 1, [], True
    def scaled(self): return self.rate * FACTOR
FACTOR, model = 1, Model()
"""

OF_ITS_CLASS = {
    "an attribute": ("Model.rate = 2", "model.rate"),
    "what an attribute has": ("Model.seen.append(3)", "model.seen"),
    "a method": ("Model.scaled = lambda self: 'new'", "model.scaled()"),
    "what a method reads": ("FACTOR = 5", "model.scaled()"),
    "one more": ("Model.more = 7", "model.more"),
    "one less": ("del Model.old", "hasattr(model, 'old')"),
}


def test_a_class_that_was_changed(session: Kernel) -> None:
    """Of an instance that came from the store, the class is that of the notebook."""
    for came in ("%put", "%get", "%%remote", "by value"):
        for what in OF_ITS_CLASS if came == "%put" else ("a method", "what a method reads"):
            change, reads = OF_ITS_CLASS[what]
            session.ok(CLASS)
            if came in ("%put", "%get"):
                session.ok("%put model")
            if came == "%get":
                session.ok("%get model")
            if came == "%%remote":
                session.ok("%%remote -w --out model\nmodel = Model()")
            assert notes(session, "(model.rate, model.scaled(), model.old)") == []
            session.ok(change)
            assert (came, what, len(notes(session, reads))) == (came, what, came != "by value")
            assert (came, what, session.value("got")) == (came, what, session.value(reads))
            assert notes(session, reads) == []


def test_an_older_object_does_not_change_a_class_back(session: Kernel) -> None:
    """Neither for the cell that reads it, nor for the next task of that worker."""
    session.ok("wb.shutdown(); wb.init(workers=1)")
    session.ok(CLASS)
    session.ok("old = wb.put(model)\nModel.rate = 2")
    session.ok("@wb.remote\ndef rate(): return Model.rate")
    session.ok("@wb.remote\ndef look(model): return model.rate")
    calls = "(wb.get(rate.remote()), wb.get(look.remote(old)), wb.get(rate.remote()))"
    assert session.value(calls) == "(2, 2, 2)"
    session.ok("Model.rate = 3")
    assert notes(session, "(old.rate, Model.rate, wb.get(wb.put(Model())).rate)") == []
    assert session.value("got") == "(3, 3, 3)"


OF_A_WORKER = """
@wb.remote
def make():
    class Model:
        v = 1
        def f(self): return 'old'
    return Model()
of_worker = make.remote()
m = wb.get(of_worker)
C = type(m)
def mid(self): return 'mid'
def new(self): return 'new'
"""


def test_a_class_of_a_worker_stays_as_this_process_changed_it(session: Kernel) -> None:
    """What this process stored before it changed the class brings nothing newer."""
    session.ok(OF_A_WORKER)
    session.ok("C.f = mid; ref = wb.put(m); C.f = new; C.v = 7")
    for read in ("ref", "of_worker"):
        session.ok(f"again = wb.get({read})")
        assert session.value("(type(again) is C, m.f(), again.f(), m.v)") == (
            "(True, 'new', 'new', 7)"
        )


def test_a_class_that_is_only_in_the_store_is_built_again(session: Kernel) -> None:
    session.ok(OF_A_WORKER)
    session.ok("C.f = mid; ref = wb.put(m); del m, C, of_worker\nimport gc; gc.collect()")
    session.ok("m = wb.get(ref); C = type(m)")
    assert session.value("m.f()") == "'mid'"
    session.ok("later = wb.put(m); C.f = new; wb.get(later)")
    assert session.value("m.f()") == "'new'"


def test_looking_whether_something_changed_changes_no_class(session: Kernel) -> None:
    session.ok("%%remote -w --out m\nclass Model:\n    def f(self): return 'old'\nm = Model()")
    assert notes(session, "len([m])") == []
    session.ok("C = type(m)\ndef new(self): return 'new'\nC.f = new")
    assert len(notes(session, "len([m])")) == 1
    assert session.value("(m.f(), C.f is new)") == "('new', True)"
    assert notes(session, "len([m])") == []


def test_a_view_of_the_store_cannot_change(session: Kernel) -> None:
    session.ok(SETUP)
    session.ok("%put --replace x")
    session.ok("%put --replace df")
    assert notes(session, "(x[0], len(df))") == []
    session.ok("df['new'] = 1")
    assert "df changed since %put" in notes(session, "(x[0], list(df.columns))")[0]
    assert session.value("got[1]") == "['a', 'new']"


def test_a_pin_moves_and_a_name_that_means_something_else_by_now_does_not(session: Kernel) -> None:
    session.ok(SETUP)
    session.ok("%put --pin lst")
    session.ok("lst.append(3)")
    assert notes(session, "lst")
    assert session.value("[r.names for r in wb.snapshot().objects if r.pinned]") == "[('lst',)]"
    session.ok("%put lst d\nwb.put('theirs', name='lst')\nlst.append(4)")
    assert notes(session, "lst")
    assert session.value("(got, wb.get('lst'))") == "([1, 2, 3, 4], 'theirs')"
    # What a session had that is over goes by value.
    session.ok("wb.shutdown(); wb.init(workers=1); other = wb.put([0]); lst.append(5)")
    assert notes(session, "(lst, d)") == []
    assert session.value("got") == "([1, 2, 3, 4, 5], {'k': 1})"


def test_too_dear_to_compare_is_said_and_put_renews_it(session: Kernel) -> None:
    session.ok(
        "class Slow:\n"
        "    def __getstate__(self):\n"
        "        import time\n"
        "        end = time.thread_time() + 0.5\n"
        "        while time.thread_time() < end: pass\n"
        "        return {'value': self.value}\n"
        "slow = Slow(); slow.value = 1"
    )
    session.ok("%put slow")
    assert notes(session, "slow.value") == []  # once, and then it is known to be slow
    session.ok("slow.value = 2")
    (said,) = notes(session, "slow.value")
    expected = r"slow as stored .*, not compared \(\d+ ms\); `%put slow` renews it"
    assert re.fullmatch(expected, said.strip())
    assert session.value("got") == "1"
    session.ok("%put slow")
    notes(session, "slow.value")
    assert session.value("got") == "2"


def test_what_is_on_disk_is_not_read_for_it(session: Kernel) -> None:
    session.ok(SETUP)
    session.ok("%put x d")
    session.ok("%spill x")
    assert "not compared (it is on disk)" in notes(session, "float(x[0])")[0]
    # What can't be stored any more is an error.
    session.ok("import threading; d['lock'] = threading.Lock()")
    cell = session.run("%%remote -w\ngot = d")
    assert cell.error == "SerializationError"
    assert "lock" in cell.failure


def test_a_pickle_that_is_never_the_same_is_stored_each_time(session: Kernel) -> None:
    session.ok(
        "import random\n"
        "class Moody:\n"
        "    def __reduce__(self): return Moody, (), {'mood': random.random()}\n"
        "moody = Moody()"
    )
    session.ok("%put moody")
    for _ in range(2):
        (said,) = notes(session, "moody.mood", "-w --out got")
        assert re.match("moody stored again, .*: it can't be compared", said)


def test_why_tells_a_variable_that_differs(session: Kernel) -> None:
    session.ok(SETUP)
    session.ok("%put lst")
    assert "`lst`, the stored object itself" in session.ok("%why --deep lst").results()[0]
    session.ok("lst.append(3)")
    assert (
        "`lst`, changed since %put: the store has what it was"
        in (session.ok("%why --deep lst").results()[0])
    )
    assert "`lst`, as it was " in session.ok("wb.why('lst', deep=True)").results()[0]


def test_all_items_and_a_namespace_read_it_as_it_is(session: Kernel) -> None:
    session.ok(SETUP)
    session.ok("%put lst d")
    session.ok("lst.append(3)")
    assert notes(session, "(item, lst[-1])", "-w --map=d") != []
    assert session.value("got") == "[('k', 3)]"
    session.ok("d['k'] = 5")
    assert notes(session, "d['k']", "-w --actor room --out got") != []
    assert session.value("got") == "5"

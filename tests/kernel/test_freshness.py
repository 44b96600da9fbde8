"""What a remote cell reads of a stored variable is what the notebook shows: changes are noticed."""

from __future__ import annotations

import re

import pytest

from tests.kernel.conftest import Kernel

SETUP = """
import numpy as np
lst, x, d = [1, 2], np.zeros(10**5), {"k": 1}
"""

STORED = "wb.get(wb.api.engine().ask(wb.engine.queries.Lookup({!r})))"


def notes(kernel: Kernel, reads: str, options: str = "-w") -> list[str]:
    """What a remote cell that reads this says besides; what it read is `got`."""
    cell = kernel.ok(f"%%remote {options}\ngot = {reads}")
    said = f"{cell.text()}\n{cell.notes}"
    return re.findall(r"\S.*(?:stored again|not compared).*", said)


def test_what_was_changed_after_put_is_stored_again(session: Kernel) -> None:
    """Whatever kind it is of: `tests/process/test_function_data.py`."""
    session.ok(f"{SETUP}\nold = %put lst\nsorted(lst)")
    assert notes(session, "lst") == []
    assert "`lst`, the stored object itself" in session.ok("%why --deep lst").results()[0]
    session.ok("lst.append(3)")
    assert "`lst`, changed since %put" in session.ok("%why --deep lst").results()[0]
    (table,) = session.ok("%%remote --dry-run\ngot = lst").results()
    assert "lst changed since %put: it would be stored again" in table
    assert session.value(STORED.format("lst")) == "[1, 2]"  # nothing was
    (said,) = notes(session, "lst")
    assert re.fullmatch(r"lst changed since %put: stored again, [\d.]+ [mµ]?s", said.strip())
    assert session.value("got") == "[1, 2, 3]"
    assert notes(session, "lst") == []  # once
    named = "[r.names for r in wb.snapshot().objects].count(('lst',))"
    assert session.value(named) == "1"
    session.ok("lst.append(4)")
    assert "lst changed since %put: stored" in session.over(session.ok("%%remote\ngot = lst, old"))
    assert session.value("wb.get(got)") == "([1, 2, 3, 4], [1, 2])", "a ref means what it meant"


def test_a_large_variable_is_compared_where_linux_sees_pages_change(session: Kernel) -> None:
    slow = "from workbench.serialization import comparison\ncomparison.ONE_THREAD = 1e6"
    session.ok(f"import numpy as np; big = np.zeros(1 << 23)\n{slow}\n%put big")
    if session.value("wb.serialization.known_memory.marked(big) is None") == "True":
        pytest.skip("this Linux, or this container, doesn't tell which pages were written")
    for _ in range(2):
        assert notes(session, "big.size") == []
    session.ok("big[1 << 22] = 1")
    assert "big changed since %put: stored again" in notes(session, "big.max()")[0]
    assert session.value("float(got)") == "1.0"
    session.ok("wb.serialization.known_memory.mark = lambda *args, **how: None")
    assert "not compared" in notes(session, "big.size")[0]


def test_an_alias_and_an_expression(session: Kernel) -> None:
    session.ok(f"{SETUP}\n%put --name numbers lst\nother = lst; other.append(3)")
    assert "other changed since %put" in session.ok("ref = %remote sum(other)").text()
    assert session.value("wb.get(ref)") == "6"
    assert session.value(STORED.format("numbers")) == "[1, 2, 3]"


def test_what_a_get_brought_keeps_its_name_for_the_original(session: Kernel) -> None:
    session.ok("config = {'depth': [3]}\n%put config\n%get config --as mine")
    assert notes(session, "mine") == []
    session.ok("mine['depth'].append(4)")
    (said,) = notes(session, "mine")
    assert said.startswith("mine changed since %get: stored again, ")
    assert said.endswith("; 'config' in the store stays as it was")
    assert session.value("(got, wb.get('config'))") == "({'depth': [3, 4]}, {'depth': [3]})"
    session.ok("mine['depth'].append(5)")
    assert notes(session, "mine")[0].startswith("mine changed since it was stored: ")


def test_what_a_cell_that_is_waited_for_made(session: Kernel) -> None:
    session.ok("%%remote -w\nimport pandas as pd\ndf = pd.DataFrame({'a': [1.0, 2.0]})\nlst = [1]")
    assert notes(session, "(df, lst)") == []
    session.ok("df['b'] = 2; lst.append(2)")
    assert notes(session, "(list(df.columns), lst)") == []  # they are the notebook's own
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


def test_in_another_session_all_goes_by_value_as_it_is_now(session: Kernel) -> None:
    """Neither for the cell that reads it, nor for the next task of that worker."""
    session.ok(f"{SETUP}\n%put lst d")
    session.ok("wb.shutdown(); wb.init(workers=1); other = wb.put([0]); lst.append(5)")
    assert notes(session, "(lst, d)") == []
    assert session.value("got") == "([1, 2, 5], {'k': 1})"
    session.ok(f"{CLASS}\nold = wb.put(model)\nModel.rate = 2")
    session.ok("rate, look = wb.remote(lambda: Model.rate), wb.remote(lambda m: m.rate)")
    calls = "(wb.get(rate.remote()), wb.get(look.remote(old)), wb.get(rate.remote()))"
    assert session.value(calls) == "(2, 2, 2)"
    session.ok("Model.rate = 3")
    assert notes(session, "(old.rate, Model.rate, wb.get(wb.put(Model())).rate)") == []
    assert session.value("got") == "(3, 3, 3)"


OF_A_WORKER = """
@wb.remote
def make():
    class Model:
        def f(self): return 'old'
    return Model()
of_worker = make.remote()
m = wb.get(of_worker)
type(m).f = lambda self: 'mid'
ref = wb.put(m)
type(m).f = lambda self: 'new'
"""


def test_a_class_of_a_worker_stays_as_this_process_changed_it(session: Kernel) -> None:
    """What this process stored before it changed the class brings nothing newer."""
    session.ok(f"{OF_A_WORKER}\nagain = wb.get([ref, of_worker])")
    assert session.value("[m.f()] + [a.f() for a in again if type(a) is type(m)]") == str(
        ["new"] * 3
    )
    # One that is only in the store is built again.
    session.ok("del m, of_worker, again\nimport gc; gc.collect()\nm = wb.get(ref)")
    assert session.value("m.f()") == "'mid'"


def test_looking_whether_something_changed_changes_no_class(session: Kernel) -> None:
    session.ok("%%remote -w --out m\nclass Model:\n    def f(self): return 'old'\nm = Model()")
    assert notes(session, "len([m])") == []
    session.ok("C = type(m)\ndef new(self): return 'new'\nC.f = new")
    assert len(notes(session, "len([m])")) == 1
    assert session.value("(m.f(), C.f is new)") == "('new', True)"
    assert notes(session, "len([m])") == []


def test_what_is_on_disk_is_not_read_for_it(session: Kernel) -> None:
    session.ok(f"{SETUP}\n%put x d\n%spill x")
    assert "not compared (it is on disk)" in notes(session, "float(x[0])")[0]
    # What can't be stored any more is an error.
    session.ok("import threading; d['lock'] = threading.Lock()")
    cell = session.run("%%remote -w\ngot = d")
    assert cell.error == "SerializationError"
    assert "lock" in cell.failure


def test_a_pickle_that_is_never_the_same_is_stored_each_time(session: Kernel) -> None:
    reduced = "def __reduce__(self): return Moody, (), {'mood': random.random()}"
    session.ok(f"import random\nclass Moody:\n    {reduced}\nmoody = Moody()\n%put moody")
    for _ in range(2):
        (said,) = notes(session, "moody.mood", "-w --out got")
        assert re.match("moody stored again, .*: it can't be compared", said)


def test_all_items_and_a_namespace_read_it_as_it_is(session: Kernel) -> None:
    session.ok(f"{SETUP}\n%put lst d\nlst.append(3)")
    assert notes(session, "(item, lst[-1])", "-w --map=d") != []
    assert session.value("got") == "[('k', 3)]"
    session.ok("d['k'] = 5")
    assert notes(session, "d['k']", "-w --actor room --out got") != []
    assert session.value("got") == "5"

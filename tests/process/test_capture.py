"""What a cell takes along: by reference, by value or by import, and what is said of it."""

from __future__ import annotations

import re
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from IPython.core.formatters import HTMLFormatter

import workbench as wb
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup, StoredAs
from workbench.errors import NotDefinedError
from workbench.ipython.capture import LARGE, CellInputs, InputRecord, InputsPreview
from workbench.ipython.cells import CellNames, analyse
from workbench.ipython.notebook import Notebook

ROWS = 10_000


IPYTHONS_OWN = {"In": ["a cell"]}


def notebook(**variables: Any) -> Notebook:
    """With these variables."""
    shell = SimpleNamespace(user_ns=variables, user_ns_hidden=IPYTHONS_OWN, kernel=None)
    made = Notebook(shell)
    made.settings.close()  # or each watches all imports of the tests to come, through the others
    return made


def reads(*names: str) -> CellNames:
    return analyse("\n".join(names))


def capture(*args: Any, **options: Any) -> dict[str, Any]:
    return CellInputs(*args, **options).take()


def preview(*args: Any) -> InputsPreview:
    return CellInputs(*args).preview()


def table(session: Engine, cell: CellNames, **variables: Any) -> dict[str, InputRecord]:
    return {row.name: row for row in preview(notebook(**variables), session, cell)}


WHOLE = {
    "as it came": lambda a: a,
    "a slice of all": lambda a: a[:],
    "reshaped to what it was": lambda a: a.reshape(-1).reshape(a.shape),
}

NOT_WHOLE = {
    "a part": lambda a: a[1:],
    "from the first on": lambda a: a[:-1],
    "transposed": lambda a: a.T,
    "backwards": lambda a: a[::-1],
    "other numbers": lambda a: a.view(np.int64),
    "a copy": lambda a: a.copy(),
    "a column": lambda a: a[:, :1],
    "swapped bytes": lambda a: a.view(a.dtype.newbyteorder()),
    "a matrix": lambda a: a.view(np.matrix),
}

STORED = {
    "rows": lambda: np.arange(2.0 * ROWS).reshape(ROWS, 2),
    "columns": lambda: np.asfortranarray(np.arange(2.0 * ROWS).reshape(ROWS, 2)),
    "as many": lambda: np.arange(10_000.0).reshape(100, 100),
    "as many columns": lambda: np.asfortranarray(np.arange(10_000.0).reshape(100, 100)),
}


@pytest.mark.parametrize("stored", STORED)
def test_a_view_of_a_whole_object_is_that_object(session: Engine, stored: str) -> None:
    ref = wb.put(STORED[stored]())
    shown = wb.get(ref)
    for view, make in {**WHOLE, **NOT_WHOLE}.items():
        try:
            value = make(shown)
        except ValueError:
            continue  # no such view of this layout
        expected = view in WHOLE and not ("columns" in stored and "reshaped" in view)
        assert session.ask(StoredAs(value)) == (ref if expected else None), view


def test_what_lies_elsewhere_in_an_object_is_not_the_object(session: Engine) -> None:
    ref = wb.put(np.arange(10.0 * ROWS))
    shown = wb.get(ref)
    extent = shown.base  # whole pages, so there is room behind
    shifted = extent[64 : 64 + shown.nbytes].view(shown.dtype)
    assert session.ask(StoredAs(shifted)) is None
    assert session.ask(StoredAs(extent[: shown.nbytes].view(shown.dtype))) is ref
    inside = wb.get(wb.put([np.ones(ROWS)]))
    assert session.ask(StoredAs(inside[0])) is session.ask(StoredAs(inside)) is None


def test_a_view_travels_by_reference_while_there_is_a_ref(session: Engine) -> None:
    ref = wb.put(np.ones(ROWS))
    book = notebook(y=wb.get(ref), y1=wb.get(ref)[1:], z=wb.get(wb.put(np.zeros(ROWS))))
    captured = capture(book, session, reads("y", "y1", "z"))
    assert captured["y"] is ref
    assert captured["y1"] is book.variables["y1"]
    assert captured["z"] is book.variables["z"]
    book.bindings.note("y", book.variables["y"], ref)
    assert capture(book, session, reads("y"))["y"] is ref
    wb.free(ref)
    assert capture(book, session, reads("y"))["y"] is book.variables["y"]


def test_what_is_bound_goes_by_reference_under_any_name(session: Engine) -> None:
    private = [1, 2]
    book = notebook(a=private, b=private, c=[1, 2])
    book.bindings.note("a", private, ref := wb.put(private))
    assert capture(book, session, reads("b", "c")) == {"b": ref, "c": [1, 2]}


def test_given_names_are_taken_along_and_known_ones_left_alone(session: Engine) -> None:
    book = notebook(a=1, b=2, c=3, d=4)
    cell = reads("a", "b", "if a: c")
    assert capture(book, session, cell) == {"a": 1, "b": 2, "c": 3}
    assert capture(book, session, cell, known=frozenset("bc")) == {"a": 1}
    assert capture(book, session, cell, ("d", "b"), frozenset("bc")) == {"d": 4, "b": 2, "a": 1}
    assert capture(book, session, reads("model"), known=frozenset(["model"])) == {}
    ref, *_ = session.put(5, "stored")
    assert capture(book, session, reads(), ("stored",))["stored"] == session.ask(Lookup("stored"))
    wb.free(ref)


def test_a_given_name_that_nobody_has_is_an_error(session: Engine) -> None:
    book = notebook(rows=1, **IPYTHONS_OWN)
    with pytest.raises(NotDefinedError, match="'gone'"):
        preview(book, session, reads("gone"))
    for name, said in (("row", "'row'.*Did you mean 'rows'"), ("In", "In"), ("len", "len")):
        with pytest.raises(NotDefinedError, match=said):
            capture(book, session, reads(), (name,))
    assert capture(book, session, reads("In", "len", "if rows: gone")) == {"rows": 1}


def test_each_kind_says_how_it_travels(session: Engine) -> None:
    ref, *_ = session.put(np.ones(ROWS), "stored")
    rows = table(
        session, reads("np", "frame", "stored", "n", "norm"),
        np=np, frame=np.ones(10**6), n=3, norm=np.linalg.norm,
    )  # fmt: skip
    assert {name: row.how for name, row in rows.items()} == {
        "np": "by import", "frame": "by value", "stored": "by reference", "n": "by value",
        "norm": "by import",
    }  # fmt: skip
    assert rows["frame"].bytes == pytest.approx(8_000_000, abs=200)
    assert rows["frame"].type == "ndarray float64 (1000000,)"
    assert rows["frame"].advice.startswith("`%put frame` once, then it goes by reference: 8 MB")
    assert not rows["n"].advice
    assert rows["stored"].type == "ndarray float64 (10000,)"
    wb.free(ref)


def test_a_function_lists_the_globals_it_brings(session: Engine) -> None:
    variables: dict[str, Any] = {"__name__": "__main__", "np": np}
    exec(
        "table, k = np.ones(10**6), 2\n"
        "def inner(): return table, outer\n"  # and round again
        "def outer(): return inner(), k, np.pi",
        variables,
    )
    rows = table(session, reads("outer"), **variables)
    assert {name: row.how for name, row in rows.items()} == {
        "outer": "by value", "inner, global of outer": "by value", "k, global of outer": "by value",
        "np, global of outer": "by import", "table, global of outer": "by value",
    }  # fmt: skip
    row = rows["table, global of outer"]
    assert row.bytes == pytest.approx(8_000_000, abs=200)
    assert row.advice.startswith("`%put table` once, and pass it to `outer` as an argument: 8 MB")
    twice = table(session, reads("outer", "table"), **variables)
    assert "table, global of outer" not in twice  # one pickle: it is in there once

    book = notebook(**variables)
    book.bindings.note("table", variables["table"], session.put(variables["table"], "")[0])
    (advice,) = [r.advice for r in preview(book, session, reads("outer")) if r.advice]
    assert advice.startswith("it is in the store; pass it to `outer`")


def test_much_by_value_is_shown_first(session: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    big = np.zeros(LARGE // 8 + 1)
    book = notebook(big=big, small=1)
    capture(book, session, reads("small"))
    assert capsys.readouterr().out == ""
    assert capture(book, session, reads("big"))["big"] is big
    assert re.split(r"\n|  +", capsys.readouterr().out) == [
        "This cell sends 50 MB by value, each time it runs:",
        "name", "type", "size", "travels",
        "big", "ndarray float64 (6250001,)", "50 MB", "by value",
        "`%put big` once, then it goes by reference: 50 MB less per cell", "",
    ]  # fmt: skip


def test_what_takes_long_to_pickle_is_shown_too_as_far_as_it_was_counted(
    session: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = [SimpleNamespace(n=n) for n in range(500_000)]
    capture(notebook(objects=objects), session, reads("objects"))
    assert re.match(
        r"This cell sends at least [\d.]+ .B by value, each time it runs:\n.*\n"
        r"objects  list \(500000\)  at least [\d.]+ .B  by value",
        capsys.readouterr().out,
    )


def test_what_cannot_travel_has_no_size_and_is_not_advised_to_be_stored(
    session: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    book = notebook(lock=threading.Lock())
    (record,) = preview(book, session, reads("lock"))
    assert (record.bytes, record.how) == (None, "can't travel")
    assert record.advice == "`%inspect lock` says why"
    capture(book, session, reads("lock"))
    assert capsys.readouterr().out == ""  # the error says all


def test_a_preview_is_a_table_and_sends_nothing(session: Engine) -> None:
    shown = preview(notebook(a="<b>"), session, reads("a"))
    assert str(shown).startswith("This cell would send 18 B by value. Nothing was sent.\nname")
    page = HTMLFormatter()(shown)
    assert "<td" in page
    assert "<b>" not in page
    empty = preview(notebook(), session, reads())
    assert str(empty) == "This cell takes nothing along. Nothing was sent."
    assert not session.snapshot().objects

"""A function is sent again when a name it uses means another object; a site is a person's line."""

from __future__ import annotations

import gc
import io
import uuid
import weakref
from typing import Any

import IPython  # noqa: F401 - without it there are no cells
import numpy as np
import pytest
from joblib import Parallel

from tests.tables import tables
from workbench.call_site import call_site, name_of
from workbench.client.function_cache import Export
from workbench.serialization.pickler import Pickler


def export(function: Any) -> Export:
    pickler = Pickler(io.BytesIO(), {}, lambda buffer: None)
    pickler.dump(function)
    return Export(None, pickler.code)  # type: ignore[arg-type] # the ref isn't asked


TABLES = tables(__file__)
CELLS = dict(TABLES.pop("cells"))


@pytest.fixture
def cell() -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(CELLS["task"], namespace)
    return namespace


@pytest.mark.parametrize("change", [name for rows in TABLES.values() for name, _ in rows])
def test_what_is_changed_in_place(change: str) -> None:
    cell = {"__name__": "__main__"}
    exec(CELLS["data"], cell)
    sent = export(cell["task"])
    for _ in range(2):
        assert sent.is_current()
    exec(change, cell)
    assert not sent.is_current()
    assert export(cell["task"]).is_current()


def test_what_has_no_two_equal_pickles_is_sent_each_time(cell: dict[str, Any]) -> None:
    cell["uuid"] = uuid
    exec("class Odd:\n    def __reduce__(self): return Odd, (), uuid.uuid4().int", cell)
    exec("odd = Odd()\ndef task(): return odd", cell)
    assert not export(cell["task"]).is_current()


def test_much_data_is_left_to_be_compared_as_a_whole(cell: dict[str, Any]) -> None:
    exec("def task(): return data", cell)
    assert not export(cell["task"]).has_more
    cell["data"] = np.zeros(1 << 20)
    assert export(cell["task"]).has_more
    cell["data"] = [*range(1 << 20)]
    assert export(cell["task"]).has_more
    halves = [np.zeros(5 << 17, "u1") for _ in range(2)]  # each little, and both together much
    cell["first"], cell["second"] = halves
    exec("def task(): return first, second", cell)
    assert export(cell["task"]).has_more


@pytest.mark.parametrize(
    "again",
    ["class Model: version = 1", "limit = 2_000_000", "data = [1, 2]", "def helper(): pass",
     "later = 1", "del limit", "len = print"],
)  # fmt: skip
def test_names_that_mean_something_else(cell: dict[str, Any], again: str) -> None:
    sent = export(cell["task"])
    assert sent.is_current()
    exec("unused = 1; other = 2", cell)
    gc.collect()
    assert sent.is_current()
    exec(again, cell)
    assert sent.is_current() == (again == "len = print")  # a builtin hidden later isn't seen
    assert export(cell["task"]).is_current()


def test_it_holds_no_large_thing(cell: dict[str, Any]) -> None:
    assert export(test_it_holds_no_large_thing).is_current()  # a module's, for ever
    cell["data"] = np.zeros(10)
    watch = weakref.ref(cell["data"])
    sent = export(cell["task"])
    del cell["data"]
    assert watch() is None
    assert not sent.is_current()


def site() -> str:
    return call_site()


def test_a_cells_line_is_known_by_its_file_name() -> None:
    code = compile("\n\nfound = call()\ninner = site()", "/tmp/ipykernel_17/123.py", "exec")
    names: dict[str, Any] = {"call": call_site, "site": site}
    exec(code, names)
    assert names["found"] == "a cell, line 3"
    line = site.__code__.co_firstlineno + 1
    assert names["inner"] == f"test_function_cache.py:{line}, from a cell, line 4"
    assert site() == f"test_function_cache.py:{line}"
    exec(code, {"call": lambda: names.update(worker=call_site("cell [7]")), "site": site})
    assert names["worker"].endswith("from cell [7], line 3")


def test_a_line_of_a_library_is_not_named_where_a_persons_own_has_led_to_it() -> None:
    called = compile("found = call()", "/tmp/ipykernel_17/123.py", "exec")
    names: dict[str, Any] = {"call": lambda: Parallel(n_jobs=1)(iter([(call_site, (), {})]))}
    exec(called, names)
    assert "parallel.py" not in names["found"][0]


def test_values_are_called_what_the_caller_calls_them() -> None:
    model, _hidden = [1], [2]
    assert name_of(model) == "model"
    assert name_of(_hidden) == "list"
    assert name_of([3]) == "list"

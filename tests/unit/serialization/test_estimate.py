"""How large a value is said to be, against its pickle; and what a function brings."""

from __future__ import annotations

import io
import threading
import types
from collections import OrderedDict
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.unit.serialization.clocks import Looks
from tests.unit.serialization.samples import points
from workbench.serialization import codec, estimate
from workbench.serialization.estimate import SMALL, Estimator

AMPLE = 60.0
"""Seconds for what mustn't run out of time: a collection in between counts, too."""


class Model:
    def __init__(self) -> None:
        self.weights = [np.ones(1000) for _ in range(300)]


WORDS = [f"{i:50}" for i in range(10**5)]

VALUES: dict[str, Any] = {
    "array": np.ones((300, 1000)),
    "a broadcast row": np.broadcast_to(np.ones(1000), (1000, 1000)),
    "text": "x" * 10**6,
    "a dict of arrays": {i: np.ones(100) for i in range(5000)},
    "ordered": OrderedDict((str(i), "x" * 100) for i in range(10_000)),
    "an instance": Model(),
    "objects in a table": pd.DataFrame({"a": pd.Series(WORDS, dtype=object)}),
    "objects in an array": np.array(WORDS, dtype=object),
}


@pytest.mark.parametrize("name", VALUES)
def test_it_is_about_what_the_pickle_is(name: str) -> None:
    value = VALUES[name]
    stored = codec.serialize(value, {})
    real = stored.inband + stored.outband
    said = Estimator({}, AMPLE).estimate(value)
    assert real == pytest.approx(said.bytes, rel=0.01, abs=50)
    assert not said.at_least


def test_what_two_values_share_counts_for_the_first() -> None:
    shared = np.ones(10**6)
    estimator = Estimator({}, AMPLE)
    assert estimator.estimate([shared]).bytes > shared.nbytes
    assert estimator.estimate({"again": shared}).bytes < 100
    assert estimator.estimate(shared).bytes < 100


def test_after_some_time_it_is_at_least_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "time", clock := Looks(1e-5))
    estimator = Estimator({}, 0.2)
    many = estimator.estimate(points(100_000))
    assert many.at_least
    assert many.bytes > 50_000
    assert clock.now < 0.201, "it ends at the first look after its time"
    before = clock.now
    assert estimator.estimate(points(10_000)).at_least
    assert clock.now - before < 0.01, "what is left is little"
    after = estimator.estimate(np.ones(1000))
    assert not after.at_least
    assert after.bytes == pytest.approx(8100, abs=100)
    assert many.can_be_pickled
    assert not estimator.estimate([threading.Lock()]).can_be_pickled


def test_a_notebooks_function_brings_the_globals_that_it_reads() -> None:
    made: dict[str, Any] = {"__name__": "__main__"}
    exec(
        "import math\n"
        "table, other, k = b'x' * 1000, b'y' * 1000, 2\n"
        "def inner(): return table\n"
        "def outer(a, b=b'z' * 500):\n"
        "    def within(): return k, math.pi\n"
        "    return inner()\n"
        "class Thing:\n"
        "    def method(self): return other\n"
        "def close(over): return lambda: over\n"
        "closure = close(b'w' * 700)",
        made,
    )
    outer = Estimator({}, AMPLE).estimate(made["outer"])
    assert outer.brings.keys() == {"inner", "k", "math"}  # not `table`: that is inner's
    assert 500 < outer.bytes < 1500
    assert not outer.by_import
    for value, name in ((made["inner"], "table"), (made["Thing"](), "other")):
        assert Estimator({}, AMPLE).estimate(value).brings == {name: made[name]}
    assert 700 < Estimator({}, AMPLE).estimate(made["closure"]).bytes < 1500


@pytest.mark.parametrize("thing", [np, np.linalg.norm, np.add, len, io.StringIO, types, pd.concat])
def test_what_is_imported_travels_as_a_name(thing: Any) -> None:
    assert Estimator({}, AMPLE).estimate(thing) == (SMALL, False, True, {}, True)


def never(value: Any, *_: Any) -> Any:
    raise AssertionError(value)


def test_neither_a_custom_reducer_nor_what_a_class_of_the_users_says_is_called() -> None:
    assert Estimator({Model: never}, AMPLE).estimate(Model()).bytes < 100

    class Slow(dict[str, Any]):
        __getstate__ = __reduce__ = __reduce_ex__ = never

    slow = Slow(data=bytes(10**6))
    slow.more = bytes(10**6)  # type: ignore[attr-defined]
    estimate = Estimator({}, AMPLE).estimate(slow)
    assert estimate.bytes == pytest.approx(2 * 10**6, rel=0.01)
    assert not estimate.at_least


def test_a_slice_of_arrow_data_is_not_copied_to_be_counted() -> None:
    data = pa.array(range(10**6)).slice(0, 10**5)
    before = pa.total_allocated_bytes()
    assert Estimator({}, AMPLE).estimate(data).bytes == pytest.approx(8 * 10**5, rel=0.01)
    assert pa.total_allocated_bytes() == before

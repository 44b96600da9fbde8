"""Whether a value is still what was stored is told exactly, in time, and not by how it was used."""

from __future__ import annotations

import inspect
import pathlib
import random
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.patience import THOROUGH, TIMEOUT
from tests.unit.serialization import samples
from tests.unit.serialization.clocks import Looks
from tests.unit.serialization.edits import EDITS, VALUES, edit, exact, inner_values
from workbench.errors import SerializationError
from workbench.serialization import codec, comparison
from workbench.serialization.comparison import ChangeCheck, Verdict
from workbench.serialization.object_state import is_immutable
from workbench.system.ki_protection import interrupt

SAME, CHANGED, UNKNOWN = Verdict
LONG = 60.0
"""Seconds for a check that mustn't run out of time."""


class Stored:
    """A value's bytes as the store would have them: inline, or in an extent."""

    def __init__(self, value: Any, inline: bool = False) -> None:
        done = codec.serialize(value, {})
        inline = inline or not done.size
        self.header = done.inline() if inline else done.header()
        self.extent = None if inline else samples.extent_of(done)

    @property
    def contents(self) -> codec.Contents:
        return codec.contents(self.header, self.extent)

    def verdict(self, value: Any) -> Verdict:
        return comparison.compare(value, self.contents, {}, LONG).verdict

    def load(self) -> Any:
        if self.extent is None:
            return codec.deserialize_inline(self.header)
        return codec.deserialize(self.header, self.extent)


def patient(is_built: bool) -> ChangeCheck:
    check = ChangeCheck(is_built)
    check.budget = LONG
    return check


N = 300


def frame() -> Any:
    made = pd.DataFrame(
        {
            "a": np.arange(N),
            "b": np.linspace(0, 1, N),
            "c": [f"t{i % 7}" for i in range(N)],
            "d": pd.date_range("2020", periods=N),
            "e": pd.Categorical(["x", "y"] * (N // 2)),
            "z": pd.date_range("2020", periods=N, tz="Europe/Rome"),
        }
    )
    for name in "fgh":  # several blocks of a kind
        made[name] = 2.5
    made["o"] = np.array([[1], None] * (N // 2), object)
    return made


def use_frame(d: Any) -> None:
    """All that people do with a table but change it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        d.describe(), d.values, repr(d), d.T, d.copy(), d.memory_usage(deep=True)
        d.groupby("c").b.sum(), d.sort_values("b"), d.query("a > 2"), d.merge(d, on="a")
        d.a.value_counts(), d.c.str.upper(), d.d.dt.year, d.e.cat.codes, d.z.dt.tz_convert("UTC")
        d.index.get_loc(2), d.columns.is_unique, d.columns.get_indexer(["a"]), d.set_index("d")


def use_sparse(m: Any) -> None:
    """The flags that it sets meanwhile say nothing new."""
    for use in (m.max, m.sum, m.toarray, m.copy, m.tocsr, m.nonzero, m.__repr__):
        use()
    _ = m @ np.ones(m.shape[1]), m + m, m.T @ m


def use_any(value: Any) -> None:
    """Show it, hash it, go through it, look at its attributes."""
    repr(value), str(value)
    for read in (hash, list, len, sorted):
        try:
            read(value)
        except TypeError:
            pass
    if not isinstance(value, type) and not inspect.isfunction(value):
        for name in dir(value):
            if not name.startswith("_"):
                inspect.getattr_static(value, name)


ARROW = frame()[["a", "b", "c"]].convert_dtypes(dtype_backend="pyarrow")

UNCHANGED: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "frame": (frame(), use_frame),
    "few rows": (frame().head(60), use_frame),
    "dates": (frame().set_index("d"), lambda d: (d.resample("D").b.sum(), d.index.freq)),
    "arrow-backed": (
        ARROW, lambda d: (d.groupby("c").a.sum(), d.a.value_counts(), d.c.str.upper(), repr(d)),
    ),
    **{
        form: (scipy.sparse.random(60, 50, 0.2, form, rng=1), use_sparse)
        for form in ("csr", "bsr")
    },
    "part of a table": (
        pa.table({"a": np.arange(9000), "s": ["x"] * 9000}).slice(10, 300),
        lambda t: (t.to_pandas(), t["a"]),
    ),
    "polars": (
        pl.DataFrame({"a": np.arange(N), "s": ["a longer text"] * N, "l": [[1]] * N}),
        lambda p: (p.describe(), p.sort("a"), p.group_by("s").len(), repr(p)),
    ),
    "array": (np.arange(30.0), lambda a: (a.sum(), a.T, a.reshape(5, 6), a.astype(int))),
    "strided": (np.arange(60.0).reshape(6, 10)[::2, 1:], lambda a: (a.sum(), a.copy())),
    "objects": (np.array(["a", 1, None, [1]], object), repr),
    "nested": ({str(i): {"name": f"n{i}", "x": [i]} for i in range(300)}, use_any),
    "set": ({*"hello world", 1, (1, 2)}, use_any),
    "deque": (deque([1, 2], 5), use_any),
    "bytearray": (bytearray(b"abc" * 9), use_any),
    "path": (pathlib.Path("/tmp/../x/y"), lambda p: (p.name, p.parts, p.parent, hash(p), str(p))),
    "random": (random.Random(3), repr),
    "attributes": (samples.Holder(a=1, b="a", c=["a", "b"]), use_any),
    "slots": (samples.Slotted(1, [2]), use_any),
    "fields": (samples.points(30), use_any),
    "loop": (samples.looped(), len),
    "function": (samples.closing_over([1, 2]), lambda f: f()),
    "globals": (samples.by_value("def test(): return len(LIST)", LIST=[1, 2]), lambda f: f()),
}  # fmt: skip


@pytest.mark.parametrize("name", UNCHANGED)
def test_use_is_no_change(name: str) -> None:
    """Of a value that was stored, and of one that was built from what is stored."""
    value, use = UNCHANGED[name]
    for stored in (Stored(value), Stored(value, inline=True)):
        check = patient(is_built=False)
        for _ in range(2):
            assert check.run(value, stored.contents, {}).verdict is SAME
            use(value)
        built, check = stored.load(), patient(is_built=True)
        for _ in range(3):
            assert check.run(built, stored.contents, {}).verdict is SAME
            use(built)


def test_a_built_value_that_changes() -> None:
    """However often it was found to be the same before."""
    stored = Stored(
        [samples.Holder(name="a", names=["a", "bc"]), samples.Holder(name="bc", names=[])]
    )
    built, check = stored.load(), patient(is_built=True)
    assert [check.run(built, stored.contents, {}).verdict for _ in range(2)] == [SAME, SAME]
    built[1].names.append("d")
    assert check.run(built, stored.contents, {}).verdict is CHANGED
    del built[1].names[0]
    assert check.run(built, stored.contents, {}).verdict is SAME


def test_an_array_of_the_same_bytes_may_be_another() -> None:
    """The type, the shape and the order of the bytes are compared as well."""
    value = np.zeros((3, 4))
    others = [
        *(np.zeros((3, 4), dtype) for dtype in ("u8", "M8[s]", ">f8")),
        np.zeros((3, 4), np.dtype("f8", metadata={"unit": "m"})),
        np.zeros((3, 4), order="F"), np.zeros((4, 3)), np.zeros(12), [[0.0] * 4] * 3,
        np.ma.zeros((3, 4)),
    ]  # fmt: skip
    for other in others:
        assert Stored(value).verdict(other) is CHANGED
        assert Stored(other).verdict(value) is CHANGED
    assert Stored(value).verdict(np.zeros((3, 4))) is SAME


def test_bytes_between_fields_mean_nothing() -> None:
    kind = np.dtype([("a", "i1"), ("b", np.dtype("i1,f8", align=True), (2,))], align=True)
    value, other = np.zeros(50, kind), np.zeros(50, kind)
    other.view(np.uint8)[:] = 0xFF
    for array in (value, other):
        array["a"], array["b"]["f0"], array["b"]["f1"] = 1, 2, 3
    assert value.tobytes() != other.tobytes()
    stored = Stored(value)
    assert stored.verdict(other) is SAME
    other["b"]["f1"][7, 1] = 4
    assert stored.verdict(other) is CHANGED


def test_what_cannot_change() -> None:
    for value in (None, 1.5, "text", b"bytes", (1, ("a", None)), frozenset({1, (2,)}), range(3)):
        assert is_immutable(value)
    others: list[Any] = [[1], (1, [2]), {}, np.float64(1), (0,) * 10_000, samples.Pair(1, 2)]
    assert not any(map(is_immutable, others))


def test_large_arrays_are_compared_by_several_threads_and_to_the_end() -> None:
    value = np.zeros(comparison.PARALLEL * 3 // 8 + 5)
    stored = Stored(value)
    assert stored.verdict(value) is SAME
    for place in (0, len(value) // 2 + 1, -1):
        value[place] = 1
        assert stored.verdict(value) is CHANGED
        value[place] = -0.0  # another value, though an equal one
        assert stored.verdict(value) is CHANGED
        value[place] = 0
    assert not [t for t in threading.enumerate() if "compare" in t.name]


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(8 * comparison.PIECE, np.uint8),
        np.zeros((4 * comparison.PIECE, 2), np.uint8)[:, 0],
        [np.zeros(8 * comparison.PIECE, np.uint8)] * 2,
        [*map(str, range(100_000))],
    ],
)
def test_it_ends_and_says_what_all_would_take(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Stored(value)
    monkeypatch.setattr(comparison, "time", Looks(1.0))
    found = comparison.compare(value, stored.contents, {}, 0.0)
    assert found.verdict is UNKNOWN
    assert 1 < found.seconds < 1000


class Slow:
    """Code of the user's that takes its time."""

    asked = 0

    def __getstate__(self) -> dict[str, int]:
        Slow.asked += 1
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        return {}


def test_what_would_spend_it_on_pickling_is_not_begun() -> None:
    """Neither if the put took so long, nor if a check has."""
    value = Slow()
    stored = Stored(value)
    for check in (ChangeCheck(False, pickling=0.3), ChangeCheck(False)):
        check.budget = 0.001
        for _ in range(3):
            before = Slow.asked
            found = check.run(value, stored.contents, {})
        assert Slow.asked == before
        assert found.verdict is UNKNOWN
        assert found.seconds > 0.01


def test_a_little_over_the_budget_is_chance_only_once() -> None:
    assert ChangeCheck(False, 5.0).budget == 0.5  # after a slow put, it is larger
    assert ChangeCheck(False, 0.2).budget == comparison.BUDGET
    value = Slow()
    stored, check = Stored(value), ChangeCheck(False)
    check.budget = 0.015
    assert check.run(value, stored.contents, {}).verdict is SAME
    check.run(value, stored.contents, {})
    before = Slow.asked
    assert check.run(value, stored.contents, {}).verdict is UNKNOWN
    assert Slow.asked == before


def test_what_was_spent_on_others_counts_but_a_small_one_is_compared() -> None:
    large, small = [*map(str, range(500_000))], [1]
    stored, check = Stored(large), ChangeCheck(False)
    found = check.run(large, stored.contents, {}, spent=comparison.BUDGET)
    assert found.verdict is UNKNOWN
    assert found.seconds > comparison.AT_LEAST
    assert check.run(large, stored.contents, {}, spent=comparison.BUDGET - 0.01).verdict is UNKNOWN
    check.budget = LONG
    assert check.run(large, stored.contents, {}).verdict is SAME
    stored, check = Stored(small), ChangeCheck(False)
    assert check.run(small, stored.contents, {}, spent=LONG).verdict is SAME
    small.append(2)
    assert check.run(small, stored.contents, {}, spent=LONG).verdict is CHANGED


def test_an_interrupt_ends_it() -> None:
    value = np.zeros(16 * comparison.PIECE, np.uint8)
    contents = Stored(value).contents

    def compare_forever() -> None:
        threading.Timer(0.05, interrupt, (threading.get_ident(),)).start()
        while True:
            comparison.compare(value, contents, {}, LONG)

    with ThreadPoolExecutor(1) as threads:
        comparing = threads.submit(compare_forever)
        assert isinstance(comparing.exception(TIMEOUT), KeyboardInterrupt)
    for thread in threading.enumerate():
        if "compare" in thread.name:  # the interrupt came while they were waited for
            thread.join(TIMEOUT)
            assert not thread.is_alive()


def test_what_it_was_is_remembered_without_a_store() -> None:
    value = [np.arange(5), {"a": [1]}, np.frombuffer(b"12345678", np.uint8)]
    before = comparison.remember(value, {}, 10_000)
    assert before is not None
    assert comparison.compare(value, before, {}).verdict is SAME
    assert before.buffers[1].base is not None  # of what can't change there is no copy
    value[0][2] = 7
    assert comparison.compare(value, before, {}).verdict is CHANGED
    assert comparison.remember(np.zeros(10_000), {}, 10_000) is None
    assert comparison.remember(["long text"] * 10_000, {}, 10_000) is None
    with pytest.raises(SerializationError):
        comparison.remember(threading.Lock(), {}, 10_000)
    assert Stored([1]).verdict([threading.Lock()]) is CHANGED


@settings(max_examples=1000 if THOROUGH else 40)
@given(st.data(), VALUES, st.booleans())
def test_no_edit_is_missed(data: st.DataObject, value: Any, inline: bool) -> None:
    """10 000 edits when thorough. What is said to be the same reads the same."""
    stored = Stored(value, inline)
    assert stored.verdict(value) is SAME
    for _ in range(EDITS):
        editable = inner_values(value)
        if not editable:
            break
        edit(editable[data.draw(st.sampled_from(range(len(editable))))], data.draw)
        if stored.verdict(value) is SAME:
            assert exact(stored.load()) == exact(value)
        else:
            stored = Stored(value, inline)
            assert stored.verdict(value) is SAME

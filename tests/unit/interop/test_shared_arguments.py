"""A large argument is stored once, again if anything about it has changed, and not at all if it was
put; however long it takes to see that it is the same."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.unit.serialization.clocks import Looks
from tests.unit.serialization.samples import extent_of
from workbench.core import events as ev
from workbench.engine.queries import Answering, Compare, StoredAs, WhenFull
from workbench.errors import ObjectFreedError
from workbench.interop import shared_arguments
from workbench.interop.calls import ChunkResult
from workbench.interop.joblib import BATCH_SECONDS, GROWTH, MOST_CALLS, WorkbenchBackend
from workbench.interop.shared_arguments import LARGE, SharedArguments
from workbench.ref import ObjectRef
from workbench.serialization import codec, comparison
from workbench.serialization.comparison import ChangeCheck, Comparison


class Store(Answering):
    """As much of an engine as it needs. What it has stands in no segment."""

    end_reason = None

    def __init__(self) -> None:
        self._stored: dict[int, tuple[bytes, Any]] = {}
        self._by_hand: dict[int, ObjectRef] = {}
        self.answers = {StoredAs: self._stored_as, Compare: self._compare}
        self.answers[WhenFull] = lambda let_go: None

    def put(self, value: Any) -> tuple[ObjectRef, ev.About]:
        done = codec.serialize(value, {})
        me: Any = self
        ref = ObjectRef(len(self._stored) + 1, me)
        self._stored[ref.id] = done.header(), extent_of(done)
        return ref, ev.About("ndarray", 0, 0, 0, 0.0, 0.0)

    def put_by_hand(self, value: Any) -> ObjectRef:
        self._by_hand[id(value)] = ref = self.put(value)[0]
        return ref

    def _stored_as(self, value: Any, changed: bool) -> ObjectRef | None:
        """No value is a view of an object."""
        return self._by_hand.get(id(value)) if changed else None

    def get(self, refs: Sequence[ObjectRef], timeout: None, copy: bool) -> list[Any]:
        return [self.value(ref) for ref in refs]

    def value(self, ref: ObjectRef) -> Any:
        header, extent = self._stored[ref.id]
        if extent is None:
            raise ObjectFreedError("It was freed.")
        return codec.deserialize(header, extent)

    def _compare(self, ref: ObjectRef, value: Any, check: ChangeCheck, spent: float) -> Comparison:
        self.value(ref)
        return check.run(value, codec.contents(*self._stored[ref.id]), {}, spent)

    def free(self, ref: ObjectRef) -> None:
        self._stored[ref.id] = b"", None
        self._by_hand.clear()


N = LARGE // 4
KINDS: dict[str, Callable[[], Any]] = {
    "rows": lambda: np.arange(N, dtype=np.int64).reshape(4, -1),
    "columns": lambda: np.asfortranarray(np.arange(N, dtype=np.float64).reshape(4, -1)),
    "dates": lambda: np.arange(N).astype("M8[s]").reshape(4, -1),
    "strided": lambda: np.arange(2 * N, dtype=np.int64).reshape(4, -1)[:, ::2],
    "fields": lambda: np.arange(4 * N).reshape(4, -1).view([("a", "i4"), ("b", "i4")]),
    "objects": lambda: np.array([[n, str(n)] * N for n in range(2)], object),
    "table": lambda: pd.DataFrame({"a": np.arange(N), "b": np.arange(N) / 2}),
}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A store; values are looked at in several pieces."""
    monkeypatch.setattr(shared_arguments, "PIECE", LARGE // 2)
    return Store()


def same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return bool(a.dtype == b.dtype and np.array_equal(a, b))


def in_another_shape(value: Any) -> None:
    value.shape = (2, -1)


def of_another_type(value: Any) -> None:
    value.dtype = np.uint64


def in_an_item(value: Any) -> None:
    if isinstance(value, pd.DataFrame):
        value.loc[7, "a"] = -1
    else:
        value[-1, -1] = value[0, 1]


CHANGES = [("rows", in_another_shape), ("rows", of_another_type)]
CHANGES += [(kind, in_an_item) for kind in KINDS]


@pytest.mark.parametrize("before", ["used", "put", "put and used"])
@pytest.mark.parametrize(("kind", "change"), CHANGES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # numpy's, of setting a shape
def test_it_sees_changes(store: Any, kind: str, change: Callable[[Any], None], before: str) -> None:
    value, arguments = KINDS[kind](), SharedArguments()
    ref = store.put_by_hand(value) if "put" in before else arguments.ref_of(store, value)
    if isinstance(value, np.ndarray):  # the same bytes in another shape
        assert arguments.ref_of(store, value.reshape(-1)) not in (None, ref)
    for _ in range(3 if "used" in before else 0):
        arguments.begin()
        assert arguments.ref_of(store, value) is ref
    change(value)
    if "used" in before:
        assert arguments.ref_of(store, value) is ref  # looked at once for each call of joblib's
    arguments.begin()
    again = arguments.ref_of(store, value)
    assert again not in (None, ref)
    assert same(store.value(again), value)


@pytest.mark.parametrize("is_put", [False, True])
@pytest.mark.parametrize("compared", [0, 2])
def test_one_that_was_freed_is_stored_again(store: Any, is_put: bool, compared: int) -> None:
    value, arguments = KINDS["rows"](), SharedArguments()
    put = store.put_by_hand(value) if is_put else None
    ref = arguments.ref_of(store, value)
    for _ in range(compared):
        arguments.begin()
        ref = arguments.ref_of(store, value)
    assert put is None or ref is put
    store.free(ref)
    arguments.begin()
    assert same(store.value(arguments.ref_of(store, value)), value)


@pytest.mark.parametrize("at", [0, 4095, 4096, LARGE // 2 - 1, LARGE // 2, 2 * LARGE - 1])
def test_one_byte_that_c_code_writes(store: Any, at: int) -> None:
    """Which tells Python nothing."""
    value, arguments = np.zeros(2 * LARGE, np.uint8), SharedArguments()
    first = arguments.ref_of(store, value)
    arguments.begin()
    assert arguments.ref_of(store, value) is first
    ctypes.memmove(value.ctypes.data + at, b"\7", 1)
    arguments.begin()
    again = arguments.ref_of(store, value)
    assert again is not first
    assert same(store.value(again), value)


@pytest.mark.parametrize(
    "value",
    [np.array([*map(str, range(LARGE // 8))], object), np.zeros((LARGE, 16), np.uint8)[:, ::2]],
    ids=["objects", "strided"],
)
def test_none_is_stored_in_a_hurry(store: Any, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is a second later than the one before."""
    ref, arguments = store.put_by_hand(value), SharedArguments()
    monkeypatch.setattr(comparison, "time", Looks(1.0))
    for _ in range(3):
        arguments.begin()
        assert arguments.ref_of(store, value) is ref
    value[-1] = 1
    arguments.begin()
    assert arguments.ref_of(store, value) is not ref


def backend(*ran: tuple[int, float]) -> WorkbenchBackend:
    """One to which batches came back: (calls, seconds that all took)."""
    found = WorkbenchBackend(nesting_level=0)
    for calls, seconds in ran:
        future: Future[ChunkResult] = Future()
        future.set_result(ChunkResult([1] * calls, seconds))
        assert found.retrieve_result_callback(future) == [1] * calls
    return found


def test_as_many_as_take_their_time_and_no_more_than_were_measured() -> None:
    assert backend().compute_batch_size() == 1
    assert backend((1, 1e-6)).compute_batch_size() == GROWTH
    assert backend((1, 1e-6), (GROWTH, 1e-6)).compute_batch_size() == GROWTH * (GROWTH + 1)
    each = BATCH_SECONDS / 50.5
    assert backend(*[(10, 10 * each)] * 20).compute_batch_size() == 50
    assert MOST_CALLS - 1 <= backend(*[(10, 0.0)] * 1000).compute_batch_size() <= MOST_CALLS
    ran = [(100, 1e-6)] * 9  # slow ones count at once
    assert backend(*ran, (100, 100.0)).compute_batch_size() == 1
    assert backend(*ran, (100, 100.0), *ran * 5).compute_batch_size() > 100


def test_the_next_call_begins_anew() -> None:
    found = backend((100, 1e-6))
    found.terminate()
    assert found.compute_batch_size() == 1

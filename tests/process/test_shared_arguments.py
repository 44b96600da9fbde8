"""A large argument is stored once, and again if anything about it has changed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from workbench.engine.base import Engine
from workbench.interop import shared_arguments
from workbench.interop.shared_arguments import LARGE, SharedArguments

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


@pytest.fixture(autouse=True)
def several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_arguments, "PIECE", LARGE // 2)


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
def test_it_is_stored_again_when_it_has_changed(
    session: Engine, kind: str, change: Callable[[Any], None], before: str
) -> None:
    value, arguments = KINDS[kind](), SharedArguments()
    ref = wb.put(value) if "put" in before else arguments.ref_of(session, value)
    if isinstance(value, np.ndarray):  # the same bytes in another shape
        assert arguments.ref_of(session, value.reshape(-1)) not in (None, ref)
    for _ in range(3 if "used" in before else 0):
        arguments.begin()
        assert arguments.ref_of(session, value) is ref
    change(value)
    if "used" in before:
        assert arguments.ref_of(session, value) is ref  # looked at once for each call of joblib's
    arguments.begin()
    again = arguments.ref_of(session, value)
    assert again not in (None, ref)
    assert same(wb.get(again), value)


@pytest.mark.parametrize("is_put", [False, True])
@pytest.mark.parametrize("compared", [0, 2])
def test_one_that_was_freed_is_stored_again(session: Engine, is_put: bool, compared: int) -> None:
    value, arguments = KINDS["rows"](), SharedArguments()
    put = wb.put(value) if is_put else None
    ref = arguments.ref_of(session, value)
    for _ in range(compared):
        arguments.begin()
        ref = arguments.ref_of(session, value)
    assert put is None or ref is put
    session.free([ref])
    arguments.begin()
    assert same(wb.get(arguments.ref_of(session, value)), value)


@pytest.mark.parametrize("at", [0, 4095, 4096, LARGE // 2 - 1, LARGE // 2, 2 * LARGE - 1])
def test_one_byte_that_c_code_writes(session: Engine, at: int) -> None:
    """Which tells Python nothing."""
    value, arguments = np.zeros(2 * LARGE, np.uint8), SharedArguments()
    first = arguments.ref_of(session, value)
    arguments.begin()
    assert arguments.ref_of(session, value) is first
    ctypes.memmove(value.ctypes.data + at, b"\7", 1)
    arguments.begin()
    again = arguments.ref_of(session, value)
    assert again is not first
    assert same(wb.get(again), value)

"""Of a large buffer only what was written since the put is compared, and nothing is missed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.unit.serialization import samples
from workbench.serialization import codec, comparison, known_memory
from workbench.serialization.comparison import BUDGET, ChangeCheck, Verdict
from workbench.serialization.known_memory import WATCHED, marked, noting

SAME, CHANGED, UNKNOWN = Verdict
LARGE = 16 * comparison.PIECE
"""Bytes that aren't compared in the least budget."""


def stored(value: Any) -> Callable[[float], Verdict]:
    """Store a value; return what compares it, after so many seconds spent on others."""
    with noting(value) as memory:
        done = codec.serialize(value, {})
        codec.serialize(np.zeros(WATCHED, np.uint8), {})  # of another value meanwhile
    extent = samples.extent_of(done)
    contents, check = codec.contents(done.header(), extent), ChangeCheck(False)
    check.memory = memory
    if not memory:
        pytest.skip("this Linux, or this container, doesn't tell which pages were written")
    return lambda spent: check.run(value, contents, {}, spent).verdict


def at_offset(size: int) -> Any:
    """An array whose first and last pages are partly others'."""
    return np.zeros(size + 8192, np.uint8)[100 : size + 100]


@pytest.mark.parametrize("place", [0, LARGE // 2 + 5, -1])
def test_what_is_unchanged_is_not_read_and_any_changed_byte_is_found(place: int) -> None:
    value = at_offset(LARGE)
    compared = stored(value)
    for _ in range(2):
        assert compared(BUDGET) is SAME
    value[place] = 1
    assert compared(BUDGET) is CHANGED
    assert compared(BUDGET) is CHANGED  # not forgotten
    value[:] = 0
    assert compared(0.0) is SAME
    assert compared(BUDGET) is SAME


def test_the_blocks_of_a_frame() -> None:
    frame = pd.DataFrame({"a": np.zeros(LARGE // 8), "b": np.arange(LARGE // 8)})
    compared = stored(frame)
    assert compared(BUDGET) is SAME
    frame.iloc[1234, 1] = 5
    assert compared(BUDGET) is CHANGED


def test_an_object_with_another_array_at_the_same_address() -> None:
    box = [np.zeros(LARGE, np.uint8)]
    before = box[0].ctypes.data
    compared = stored(box)
    box.clear()
    others = [np.zeros(LARGE, np.uint8) for _ in range(4)]
    box.append(next((each for each in others if each.ctypes.data == before), others[0]))
    box[0][LARGE // 2] = 1
    assert compared(0.0) is CHANGED


def test_a_change_that_another_user_of_the_pages_has_seen() -> None:
    value = np.zeros(LARGE, np.uint8)
    compared = stored(value)
    value[LARGE // 2] = 1
    assert marked(value) is not None
    assert compared(BUDGET) is CHANGED


def test_a_fork_of_the_process_knows_nothing() -> None:
    value = np.zeros(LARGE, np.uint8)
    compared = stored(value)
    child = os.fork()
    if not child:
        value[LARGE // 2] = 1
        os._exit(compared(0.0) is CHANGED)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert compared(BUDGET) is SAME


def test_without_a_watch_all_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    value = np.zeros(LARGE, np.uint8)
    compared = stored(value)
    monkeypatch.setattr(known_memory, "mark", lambda *args, **how: None)
    assert compared(BUDGET) is UNKNOWN
    assert compared(0.0) is SAME
    value[LARGE // 2] = 1
    assert compared(0.0) is CHANGED


def test_small_and_strided_memory_is_not_watched() -> None:
    assert marked(np.zeros(WATCHED - 1, np.uint8)) is None
    assert marked(np.zeros((WATCHED, 2), np.uint8)[:, 0]) is None

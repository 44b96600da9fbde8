"""numpy's own functions refuse to write to read-only arrays; one of them only with our help."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from workbench.memory.ufunc_guard import guard_ufunc_at


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


@pytest.fixture(autouse=True)
def guarded() -> None:
    assert guard_ufunc_at()


CALLS = {
    "one element": lambda x: np.add.at(x, 3, 1.0),
    "several": lambda x: np.add.at(x, [0, 1, 1], np.ones(3)),
    "a mask": lambda x: np.multiply.at(x, x > 2, 2.0),
    "a slice": lambda x: np.maximum.at(x, slice(2), 9.0),
    "one operand": lambda x: np.negative.at(x, [0, 2]),
    "of the class": lambda x: np.ufunc.at(np.subtract, x, 0, 1.0),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_read_only_array_is_refused_and_stays_as_it_was(call: str) -> None:
    for array in (read_only(np.arange(5.0)), read_only(np.arange(10.0))[::2]):
        before = array.copy()
        with pytest.raises(ValueError, match=r"array .*is read-only"):
            CALLS[call](array)
        assert np.array_equal(array, before)


@pytest.mark.parametrize("call", CALLS)
def test_a_writable_one_is_written_to_as_ever(call: str) -> None:
    array, before = np.arange(5.0), np.arange(5.0)
    assert CALLS[call](array) is None
    assert not np.array_equal(array, before)


def test_wrong_arguments_have_numpys_own_errors() -> None:
    with pytest.raises(TypeError, match="argument"):
        np.add.at()  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="array"):
        np.add.at([1, 2], 0, 1)  # type: ignore[call-overload]
    with pytest.raises(IndexError):
        np.add.at(np.zeros(3), 7, 1)


def test_an_object_that_answers_for_itself_does_so() -> None:
    class Answers:
        def __array_ufunc__(self, ufunc: Any, method: str, *args: Any) -> Any:
            return ufunc, method

    assert np.add.at(Answers(), 0, 1) == (np.add, "at")  # type: ignore[call-overload,func-returns-value]


def test_it_can_be_pickled_and_tells_what_it_is() -> None:
    at: Any = np.add.at
    assert pickle.loads(pickle.dumps(at)) == at
    assert pickle.loads(pickle.dumps(np.ufunc.at)) is np.ufunc.at
    assert at.__name__ == "at"
    assert "indices" in at.__doc__

"""What a function reads without being given it: of stored arrays the refs go, no copies; and what
has changed between the calls is sent anew."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.test_bad_calls import RUNS, Run
from workbench.client import submitter
from workbench.engine.base import Engine

N = 10**5
SIZE = 8 * N


def large(session: Engine) -> list[Any]:
    return [o for o in session.snapshot().objects if o.size >= SIZE]


def stored() -> tuple[wb.ObjectRef, Any]:
    """An array and its ref, which has to live: else there is no object any more."""
    ref = wb.put(np.arange(N))
    return ref, wb.get(ref)


def in_a_closure(array: Any) -> Callable[[int], int]:
    return lambda n: int(array[n])


@pytest.mark.parametrize("run", [*RUNS.values(), lambda f, n: wb.get(wb.remote(f).remote(n))])
def test_it_is_not_stored_again(session: Engine, run: Run) -> None:
    _ref, array = stored()
    assert [run(in_a_closure(array), n) for n in (3, 4)] == [3, 4]
    assert len(large(session)) == 1


def test_wherever_it_is(session: Engine) -> None:
    _ref, array = stored()
    inside = {"a": [array]}
    inner = in_a_closure(array)
    places: list[Callable[[int], int]] = [
        lambda n, array=array: int(array[n]),  # type: ignore[misc]
        lambda n: int(inside["a"][0][n]),
        lambda n: inner(n),
    ]
    assert [wb.get(wb.remote(place).remote(7)) for place in places] == [7, 7, 7]

    class Reader:
        def item(self, n: int) -> int:
            return int(array[n])

    actor = wb.remote(Reader).remote()
    assert wb.get(actor.item.remote(5)) == 5
    assert len(large(session)) == 1


def test_it_lives_as_long_as_the_function(session: Engine) -> None:
    ref = wb.put(np.arange(N))
    task = wb.remote(in_a_closure(wb.get(ref)))
    assert wb.get(task.remote(6)) == 6
    del ref
    assert wb.get(task.remote(7)) == 7
    assert len(large(session)) == 1
    del task
    assert eventually(lambda: not large(session))


def test_what_is_no_whole_object_or_freed_goes_by_value(session: Engine) -> None:
    ref, array = stored()
    assert wb.get(wb.remote(in_a_closure(array[1:])).remote(7)) == 8
    assert wb.get(wb.remote(in_a_closure(array.copy())).remote(7)) == 7
    task = wb.remote(in_a_closure(array))
    assert wb.get(task.remote(7)) == 7
    session.free([ref])
    assert wb.get(task.remote(8)) == 8


MUCH = 10**6


def reader() -> tuple[Any, Callable[[int], float]]:
    """8 MB, and a function that closes over them."""
    array = np.zeros(MUCH)

    def first(_: int = 0) -> float:
        return float(array[0])

    return array, first


def test_a_loop_sees_each_change(session: Engine) -> None:
    array, first = reader()
    task = wb.remote(first)
    for n in range(6):
        array[0] = n
        assert wb.get(task.remote()) == n


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first comparison there is no time for another."""
    monkeypatch.setattr(submitter, "LOOK_EVERY", 10**9)


@pytest.mark.parametrize("way", ["map", "Pool.map", "joblib"])
def test_a_map_begins_with_what_it_is_then(session: Engine, hurried: None, way: str) -> None:
    array, first = reader()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(3):
            array[0] = n
            assert RUNS[way](first, 0) == n


def test_what_was_not_compared_is_said(session: Engine, hurried: None) -> None:
    array, first = reader()
    task = wb.remote(first)
    assert wb.get(task.remote()) == 0
    assert wb.get(task.remote()) == 0  # compared
    array[0] = 1
    with pytest.warns(UserWarning, match="`.*first` reads much data .*put") as said:
        assert wb.get(task.remote()) == 0
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once a cell: a script is one
        wb.get(task.remote())


class Settings:
    def __init__(self) -> None:
        self.rate = 1

    def read(self) -> int:
        return self.rate


def read(settings: Settings) -> int:
    return settings.rate


def test_what_a_method_or_a_partial_has_may_change(session: Engine) -> None:
    settings = Settings()
    tasks = [wb.remote(settings.read), wb.remote(partial(read, settings))]
    for rate in (1, 2):
        settings.rate = rate
        assert wb.get([task.remote() for task in tasks]) == [rate, rate]

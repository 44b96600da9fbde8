"""Stored arrays that a function refers to without being given them: their refs go, no copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config

import workbench as wb
from tests.leaks import eventually
from workbench.engines.base import Engine

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


def in_a_default(array: Any) -> Callable[[int], int]:
    def item(n: int, array: Any = array) -> int:
        return int(array[n])

    return item


def in_a_container(array: Any) -> Callable[[int], int]:
    inside = {"a": [array]}
    return lambda n: int(inside["a"][0][n])


def in_another_function(array: Any) -> Callable[[int], int]:
    inner = in_a_closure(array)
    return lambda n: inner(n)


def parallel(function: Callable[[int], int]) -> Any:
    wb.register_joblib()
    with parallel_config("workbench"):
        return Parallel(n_jobs=2)(delayed(function)(n) for n in (3, 4))


WAYS: dict[str, Callable[[Callable[[int], int]], Any]] = {
    "submit": lambda f: [wb.Executor().submit(f, n).result() for n in (3, 4)],
    "map": lambda f: [*wb.Executor().map(f, [3, 4])],
    "Pool": lambda f: wb.Pool().map(f, [3, 4]),
    "joblib": parallel,
    "task": lambda f: wb.get([wb.remote(f).remote(n) for n in (3, 4)]),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_not_stored_again(session: Engine, way: str) -> None:
    _ref, array = stored()
    assert WAYS[way](in_a_closure(array)) == [3, 4]
    assert len(large(session)) == 1


@pytest.mark.parametrize("place", [in_a_default, in_a_container, in_another_function])
def test_wherever_it_is(session: Engine, place: Callable[..., Any]) -> None:
    _ref, array = stored()
    assert wb.get(wb.remote(place(array)).remote(7)) == 7
    assert len(large(session)) == 1


def test_an_actor_s_class(session: Engine) -> None:
    _ref, array = stored()

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


def test_what_is_no_whole_object_goes_by_value(session: Engine) -> None:
    _ref, array = stored()
    assert wb.get(wb.remote(in_a_closure(array[1:])).remote(7)) == 8
    assert wb.get(wb.remote(in_a_closure(array.copy())).remote(7)) == 7


def test_one_that_was_freed_goes_by_value(session: Engine) -> None:
    ref = wb.put(np.arange(N))
    task = wb.remote(in_a_closure(wb.get(ref)))
    assert wb.get(task.remote(7)) == 7
    session.free([ref])
    assert wb.get(task.remote(8)) == 8


def test_a_variable_that_means_another_one_now(session: Engine) -> None:
    refs = [wb.put(np.arange(N) + n) for n in range(2)]
    array = wb.get(refs[0])
    task = wb.remote(lambda n: int(array[n]))
    assert wb.get(task.remote(7)) == 7
    array = wb.get(refs[1])
    assert wb.get(task.remote(7)) == 8
    assert len(large(session)) == 2

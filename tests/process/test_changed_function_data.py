"""Much data that a function reads without being given it, changed between the calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config

import workbench as wb
from workbench.client import submitter
from workbench.engines.base import Engine

N = 10**6
CALLS = 20


def reader() -> tuple[Any, Callable[[int], float]]:
    """8 MB, and a function that closes over them."""
    array = np.zeros(N)

    def first(_: int = 0) -> float:
        return float(array[0])

    return array, first


def in_joblib(function: Callable[[int], float]) -> list[float]:
    return list(Parallel(n_jobs=2)(delayed(function)(n) for n in range(4)))


MAPS: dict[str, Callable[[Callable[[int], float]], list[float]]] = {
    "Executor.map": lambda f: [*EXECUTOR.map(f, range(4))],
    "Pool.map": lambda f: POOL.map(f, range(4)),
    "joblib": in_joblib,
}
EXECUTOR, POOL = wb.Executor(), wb.Pool()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first comparison there is no time for another."""
    monkeypatch.setattr(submitter, "LOOK_EVERY", 10**9)


def test_a_loop_sees_each_change(session: Engine) -> None:
    array, first = reader()
    task = wb.remote(first)
    seen = []
    for n in range(CALLS):
        array[0] = n
        seen.append(wb.get(task.remote()))
    assert seen == [*range(CALLS)]


@pytest.mark.parametrize("way", MAPS)
def test_a_map_begins_with_what_it_is_then(session: Engine, hurried: None, way: str) -> None:
    array, first = reader()
    wb.register_joblib()
    with parallel_config("workbench"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(CALLS):
            array[0] = n
            assert MAPS[way](first) == [n] * 4


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


@pytest.mark.parametrize("called", ["method", "partial"])
def test_what_a_method_or_a_partial_has_may_change(session: Engine, called: str) -> None:
    settings = Settings()
    task = wb.remote(settings.read if called == "method" else partial(read, settings))
    assert wb.get(task.remote()) == 1
    settings.rate = 2
    assert wb.get(task.remote()) == 2


class Numbered:
    """Of which no two pickles are the same."""

    numbers = count()
    value = 1

    def __reduce__(self) -> Any:
        return numbered, (self.value, next(self.numbers))


def numbered(value: int, _: int) -> Numbered:
    made = Numbered()
    made.value = value
    return made


def test_what_cannot_be_compared_is_sent_each_time(session: Engine) -> None:
    odd = Numbered()
    task = wb.remote(lambda: odd.value)
    assert wb.get(task.remote()) == 1
    odd.value = 2
    assert wb.get(task.remote()) == 2


CODE = """
class Base:
    depth = 1
class Config(Base):
    rate, steps = 1, [1]
    def doubled(self): return 2 * self.rate
def helper(x=1, *, y=1): return x, y, helper.limit, helper.seen
helper.limit, helper.seen = 1, [1]
def other(x=1, *, y=1): return "other"
def task(): return helper(), Config.rate, Config.steps, Config.depth, Config().doubled(), new()
def new(): return getattr(Config, "new", None)
"""


@pytest.mark.parametrize(
    "change",
    [
        "Config.rate = 2",
        "Config.steps.append(2)",
        "Config.new = 2",
        "Base.depth = 2",
        "Config.doubled = lambda self: 0",
        "helper.limit = 2",
        "helper.seen.append(2)",
        "helper.__defaults__ = (2,)",
        "helper.__kwdefaults__ = {'y': 2}",
        "helper.__code__ = other.__code__",
    ],
)
def test_classes_and_functions_that_it_reads_may_change(session: Engine, change: str) -> None:
    """As `Config.rate = 0.1` in a notebook's next cell."""
    cell: dict[str, Any] = {"__name__": "__main__"}
    exec(CODE, cell)
    task = wb.remote(cell["task"])
    was = cell["task"]()
    assert repr(wb.get(task.remote())) == (before := repr(was))
    exec(change, cell)
    assert repr(wb.get(task.remote())) == repr(cell["task"]()) != before

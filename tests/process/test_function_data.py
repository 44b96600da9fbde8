"""What a function reads without being given it: of stored arrays the refs go, no copies; and what
has changed between the calls is sent anew. What readers of a stored variable get is what it is now;
that no edit is missed: `tests/unit/serialization/test_comparison.py`."""

from __future__ import annotations

import time
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
from workbench.engine.queries import Lookup
from workbench.ipython.bindings import Bindings
from workbench.ipython.freshness import Freshness
from workbench.serialization.comparison import BUDGET

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


def test_a_late_answer_costs_no_name_or_pin(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored again keeps its pin, and takes no name that means another object by now."""
    monkeypatch.setenv("WORKBENCH_GLANCE", "0")
    session = wb.init(workers=1, memory="16MB")
    value, bindings = [1, 2], Bindings()
    ref, about = session.put(value, "value")
    bindings.note("value", value, ref, "%put", "value", about)
    session.pin(ref, True)

    def read() -> Any:
        """What a cell that reads it gets."""
        found = Freshness(bindings, session)
        captured = {"value": found.ref("value", value)}
        found.renew(captured)
        return wb.get(captured["value"])

    value.append(3)
    read()
    (stored,) = [each for each in session.snapshot().objects if each.names]
    assert stored.pinned
    other = wb.put("another", name="value")
    value.append(4)
    assert read() == [1, 2, 3, 4]
    assert session.ask(Lookup("value")) == other


class Slow:
    """More than half of what one variable may take."""

    asked = 0

    def __getstate__(self) -> dict[str, int]:
        Slow.asked += 1
        end = time.thread_time() + BUDGET * 0.6
        while time.thread_time() < end:
            pass
        return {}


def test_all_that_a_cell_reads_has_one_budget(session: Engine) -> None:
    """However many variables it has."""
    bindings = Bindings()
    values: dict[str, Any] = {f"slow{n}": Slow() for n in range(3)}
    values["last"] = [1]
    for name, value in values.items():
        ref, about = session.put(value)
        bindings.note(name, value, ref, "%put", name, about)
    for name, value in values.items():  # one cell each: what they take is known then
        alone = Freshness(bindings, session)
        alone.ref(name, value)
        assert alone.notes == []
    values["last"].append(2)
    before = Slow.asked
    found = Freshness(bindings, session)
    for name, value in values.items():
        found.ref(name, value)
    assert Slow.asked - before < 3
    (said,) = found.notes
    assert said.startswith("slow1 and slow2 as stored earlier, not compared (")
    assert "last changed" in found.preview_advice("last")

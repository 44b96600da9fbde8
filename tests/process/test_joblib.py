"""joblib on the pool: the same results as loky's, large arguments stored once, errors as there."""

from __future__ import annotations

import multiprocessing
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed, parallel_config

import workbench as wb
from tests.leaks import eventually
from tests.patience import THOROUGH, TIMEOUT
from tests.process.gates import Gate
from tests.process.scripts import Script
from workbench.engines.base import Engine
from workbench.interop import joblib as ours
from workbench.interop.joblib import WorkbenchBackend
from workbench.interop.shared_arguments import LARGE, size_of


@pytest.fixture(autouse=True)
def backend(session: Engine) -> Iterator[None]:
    wb.register_joblib()
    with parallel_config("workbench"):
        yield


def square(x: int) -> int:
    return x * x


def not_three(x: int) -> int:
    if x == 3:
        raise LookupError("three")
    return x


def pid(_: int) -> int:
    return os.getpid()


def total(x: Any, n: int) -> Any:
    return float(np.asarray(x).sum()) + n


def large(session: Engine) -> list[Any]:
    objects = session.snapshot().objects
    return [o for o in objects if o.size > LARGE and o.state == "ready"]


# -- the contract ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2, -1, 99])
@pytest.mark.parametrize("options", [{}, {"batch_size": 7}, {"pre_dispatch": "all"}])
def test_results_are_in_order(n_jobs: int, options: dict[str, Any]) -> None:
    parallel = Parallel(n_jobs=n_jobs, **options)
    assert parallel(delayed(square)(n) for n in range(100)) == [n * n for n in range(100)]


def test_it_runs_on_the_pool(session: Engine) -> None:
    workers = {worker.pid for worker in session.snapshot().workers}
    assert set(Parallel()(delayed(pid)(n) for n in range(20))) <= workers
    assert joblib.effective_n_jobs() == 2
    assert joblib.effective_n_jobs(99) == 2
    assert joblib.effective_n_jobs(-2) == 1
    with pytest.raises(ValueError, match="n_jobs"):
        Parallel(n_jobs=0)(delayed(square)(n) for n in range(2))


@pytest.mark.parametrize("return_as", ["generator", "generator_unordered"])
def test_results_come_one_after_the_other(return_as: str) -> None:
    found = Parallel(return_as=return_as)(delayed(square)(n) for n in range(50))
    assert sorted(found) == [n * n for n in range(50)]


def test_what_is_done_first_comes_first(gate: Gate) -> None:
    calls = [delayed(gate.stop)(), delayed(square)(3)]
    found = Parallel(return_as="generator_unordered", batch_size=1)(calls)
    assert next(found) == 9
    gate.next().let_on("late")
    assert list(found) == ["late"]


def test_a_generator_that_is_closed_cancels_the_rest(session: Engine, gate: Gate) -> None:
    calls = [delayed(square)(2), *[delayed(gate.stop)() for _ in range(20)]]
    found = Parallel(return_as="generator", batch_size=1)(calls)
    assert next(found) == 4
    gate.next()
    with pytest.warns(UserWarning, match="have been cancelled"):  # joblib's own
        found.close()
    assert eventually(lambda: not session.snapshot().running + session.snapshot().queued)


def test_no_more_is_taken_than_is_dispatched(gate: Gate) -> None:
    taken: list[int] = []

    def items() -> Iterator[Any]:
        for n in range(12):
            taken.append(n)
            yield delayed(gate.stop)()

    found = Parallel(pre_dispatch=4, batch_size=1, return_as="generator")(items())
    visitors = [gate.next(), gate.next()]
    assert taken == [0, 1, 2, 3]
    for visitor in visitors:
        visitor.let_on("on")
    for _ in range(10):
        gate.next().let_on("on")
    assert list(found) == ["on"] * 12


def test_one_parallel_for_several_calls() -> None:
    with Parallel(n_jobs=2) as parallel:
        for n in (3, 30):
            assert parallel(delayed(square)(i) for i in range(n)) == [i * i for i in range(n)]


def test_an_iterable_that_fails() -> None:
    with pytest.raises(ZeroDivisionError):
        Parallel(n_jobs=2)(delayed(square)(1 // (5 - n)) for n in range(10))
    assert Parallel(n_jobs=2)(delayed(square)(n) for n in range(2)) == [0, 1]


def test_who_needs_shared_memory_gets_threads(session: Engine) -> None:
    found: list[int] = []
    Parallel(n_jobs=2, require="sharedmem")(delayed(found.append)(n) for n in range(5))
    assert sorted(found) == [0, 1, 2, 3, 4]


def test_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    Parallel(n_jobs=2, verbose=10)(delayed(square)(n) for n in range(4))
    said = "".join(capsys.readouterr())
    assert "Using backend WorkbenchBackend with 2 concurrent workers" in said
    assert "Done   4 out of   4" in said


def test_functions_with_a_memory(tmp_path: Path) -> None:
    cached = joblib.Memory(tmp_path, verbose=0).cache(square)
    for _ in range(2):
        assert Parallel(n_jobs=2)(delayed(cached)(n) for n in range(4)) == [0, 1, 4, 9]
    assert cached.check_call_in_cache(3)


def test_an_error_ends_it(session: Engine) -> None:
    with pytest.raises(LookupError, match="three"):
        Parallel()(delayed(not_three)(n) for n in range(1000))
    assert eventually(lambda: not session.snapshot().queued)
    assert Parallel()(delayed(square)(n) for n in range(3)) == [0, 1, 4]


class _Clock:
    """The module time for who sleeps otherwise."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self.sleep = sleep

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def test_short_calls_are_not_looked_at_again_and_again(
    session: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """joblib waits 10 ms between two looks, which would be most of what short calls take."""
    looked: list[float] = []
    monkeypatch.setattr(joblib.parallel, "time", _Clock(looked.append))  # of no other module
    monkeypatch.setattr(ours, "SHORT", TIMEOUT)
    for how in ({}, {"batch_size": 1}, {"pre_dispatch": 1}):
        expected = [n * n for n in range(20)]
        assert Parallel(n_jobs=2, **how)(delayed(square)(n) for n in range(20)) == expected
    assert not looked


def test_who_waits_hears_of_an_error_while_others_run(session: Engine, gate: Gate) -> None:
    calls = [delayed(gate.stop)(), delayed(not_three)(3)]
    with pytest.raises(LookupError, match="three"):
        Parallel(batch_size=1)(calls)
    assert eventually(lambda: not session.snapshot().running)


def test_an_iterable_that_fails_while_calls_run(session: Engine, gate: Gate) -> None:
    def calls() -> Iterator[Any]:
        yield delayed(gate.stop)()
        yield delayed(square)(2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Parallel(batch_size=1, pre_dispatch=2)(calls())
    assert eventually(lambda: not session.snapshot().running)


def test_a_call_that_interrupts_itself() -> None:
    def interrupts(n: int) -> int:
        if n == 3:
            raise KeyboardInterrupt
        return n

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            Parallel(n_jobs=2)(delayed(interrupts)(n) for n in range(10))
        assert Parallel(n_jobs=2)(delayed(square)(n) for n in range(3)) == [0, 1, 4]


def test_another_call_while_a_generator_is_read(gate: Gate) -> None:
    """With loky it would end the generator's calls: there is one executor for all."""
    calls = [delayed(square)(3), delayed(gate.stop)()]
    found = Parallel(return_as="generator", batch_size=1)(calls)
    assert next(found) == 9
    visitor = gate.next()
    assert Parallel(n_jobs=2)(delayed(square)(n) for n in range(20)) == [n * n for n in range(20)]
    visitor.let_on("on")
    assert list(found) == ["on"]


def test_a_generator_that_is_closed_stops_its_calls_and_no_others(
    session: Engine, gate: Gate
) -> None:
    found = Parallel(return_as="generator", batch_size=1)(
        [delayed(square)(3), delayed(gate.stop)()]
    )
    assert next(found) == 9
    gate.next()
    assert Parallel(n_jobs=2)(delayed(square)(n) for n in range(20)) == [n * n for n in range(20)]
    with pytest.warns(UserWarning, match="have been cancelled"):
        found.close()
    assert eventually(lambda: not session.snapshot().running)


def test_no_batch_is_larger_than_what_is_left_for_each_worker() -> None:
    """joblib cuts what is left into crumbs if it doesn't fill a batch for each worker."""
    backend = WorkbenchBackend()
    backend._n_jobs = 2
    backend._measured, backend._each, backend._submitted = 100, 1e-6, 100
    sizes = []
    for calls_before in (0, 101, 140, 10**6, 100):  # of this function: never, or how many
        backend._expected = calls_before
        sizes.append(backend.compute_batch_size())
    assert sizes == [400, 1, 20, 400, 400]


def test_it_knows_how_many_calls_there_were(session: Engine) -> None:
    def one(n: int) -> int:
        return n

    backend = WorkbenchBackend()
    for calls in (30, 20):
        with parallel_config(backend):
            assert Parallel(n_jobs=2)(delayed(one)(n) for n in range(calls)) == [*range(calls)]
        backend.configure(2, Parallel(n_jobs=2))
        backend._is_one((one,))
        assert backend._expected == calls
        backend.terminate()


def test_a_time_limit(gate: Gate, session: Engine) -> None:
    with pytest.raises(multiprocessing.TimeoutError):
        Parallel(timeout=0.05)(delayed(gate.stop)() for _ in range(3))
    assert eventually(lambda: not session.snapshot().running)


def test_nested_calls_end(session: Engine) -> None:
    def inner(n: int) -> int:
        return sum(Parallel(n_jobs=2)(delayed(square)(i) for i in range(n)))

    assert Parallel()(delayed(inner)(n) for n in range(6)) == [0, 0, 1, 5, 14, 30]


def test_arrays_for_an_initializer() -> None:
    for _ in range(2):
        with parallel_config("workbench", initializer=len, initargs=(np.ones(3),)):
            for _ in range(2):
                assert Parallel()(delayed(square)(n) for n in range(3)) == [0, 1, 4]


ready: list[str] = []


def test_an_initializer_runs_before_the_first_call() -> None:
    with parallel_config("workbench", initializer=ready.append, initargs=("ready",)):
        assert Parallel(2)(delayed(lambda: True)() for _ in range(4)) == [True] * 4
    assert ready == []


def test_an_initializer_and_threads() -> None:
    def threads() -> set[int]:
        from threadpoolctl import threadpool_info

        np.ones((2, 2)) @ np.ones((2, 2))
        return {each["num_threads"] for each in threadpool_info()}

    with parallel_config("workbench", inner_max_num_threads=1):
        assert Parallel()(delayed(threads)() for _ in range(3)) == [{1}] * 3


@pytest.mark.parametrize("what", [threading.Lock(), (n for n in "abc")])
def test_what_cannot_be_sent(what: Any) -> None:
    with pytest.raises(TypeError):
        Parallel()(delayed(total)(what, n) for n in range(3))


# -- large arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.ones(2 * 10**5),
        lambda: pd.DataFrame({"a": np.ones(2 * 10**5)}),
        lambda: pd.Series(np.ones(2 * 10**5)),
    ],
)
def test_a_large_argument_is_stored_once(session: Engine, make: Callable[[], Any]) -> None:
    value = make()
    assert size_of(value) > LARGE
    for _ in range(2):
        expected = [2e5 + n for n in range(20)]
        assert Parallel()(delayed(total)(value, n) for n in range(20)) == expected
        assert len(large(session)) == 1
    del value
    assert eventually(lambda: not large(session))


def test_one_that_was_changed_is_stored_again(session: Engine) -> None:
    value = np.ones(2 * 10**5)
    assert Parallel()(delayed(total)(value, n) for n in range(2)) == [2e5, 2e5 + 1]
    value[7] = 3
    assert Parallel()(delayed(total)(value, n) for n in range(2)) == [2e5 + 2, 2e5 + 3]
    assert eventually(lambda: len(large(session)) == 1)


def test_a_view_of_the_store_is_not_stored_again(session: Engine) -> None:
    ref = wb.put(np.ones(2 * 10**5))
    value = wb.get(ref)
    assert Parallel()(delayed(total)(x=value, n=n) for n in range(3)) == [2e5, 2e5 + 1, 2e5 + 2]
    assert len(large(session)) == 1


def test_a_search_takes_the_memory_of_its_data_once(session: Engine) -> None:
    """Beside what scikit-learn copies of it: `python tests/benchmarks/grid_memory.py`."""

    def has_for_itself(x: Any, n: int) -> int:
        total(x, n)
        status = Path("/proc/self/status").read_text()
        return int(re.findall(r"RssAnon:\s+(\d+)", status)[0]) * 1024

    value = np.ones(2 * 10**6)  # 16 MB, in a store of 64
    small = max(Parallel()(delayed(has_for_itself)(np.ones(9), n) for n in range(8)))
    ref = wb.put(value)
    for x in (value, wb.get(ref)):
        most = max(Parallel()(delayed(has_for_itself)(x, n) for n in range(8)))
        assert most - small < value.nbytes / 4
    assert sum(object.size for object in large(session)) < 2.1 * value.nbytes  # one each


def test_a_mapped_file_is_mapped_there_too(session: Engine, tmp_path: Path) -> None:
    found = np.memmap(tmp_path / "found", mode="w+", shape=(4, 10**5))

    def write(array: Any, n: int) -> None:
        array[n] = n + 1

    Parallel()(delayed(write)(found, n) for n in range(4))
    assert found.sum(axis=1).tolist() == [10**5, 2 * 10**5, 3 * 10**5, 4 * 10**5]
    assert not large(session)
    assert Parallel()(delayed(total)(found[1:], 0) for _ in range(2)) == [9e5, 9e5]


def test_small_ones_travel_with_their_call(session: Engine) -> None:
    assert Parallel()(delayed(total)(np.ones(3), n) for n in range(3)) == [3, 4, 5]
    assert size_of("x" * LARGE) == size_of([0] * LARGE) == 0


# -- scikit-learn ----------------------------------------------------------------------------------


@pytest.mark.thorough  # loky's processes take as long as the rest
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_finds_what_it_finds_alone() -> None:
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.inspection import permutation_importance
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.svm import SVC

    x, y = load_iris(return_X_y=True)

    def search(n_jobs: int) -> Any:
        grid = GridSearchCV(SVC(), {"C": [0.1, 1, 10]}, cv=3, n_jobs=n_jobs).fit(x, y)
        forest = RandomForestClassifier(10, random_state=0, n_jobs=n_jobs).fit(x, y)
        importance = permutation_importance(forest, x, y, random_state=0, n_jobs=n_jobs)
        scores = cross_val_score(SVC(), x, y, n_jobs=n_jobs)
        return (
            grid.best_params_, grid.cv_results_["mean_test_score"].tolist(),
            forest.predict_proba(x).tolist(), importance.importances.tolist(), scores.tolist(),
        )  # fmt: skip

    assert search(2) == search(1)
    if THOROUGH:
        with parallel_config("loky"):
            on_loky = search(2)
        assert search(2) == on_loky


# -- where it is known -----------------------------------------------------------------------------


def test_a_worker_knows_it_too(session: Engine) -> None:
    """A cell or a task may call what has an ``n_jobs``; its calls run on the same pool."""

    def inner() -> list[int]:
        from joblib import Parallel, delayed, parallel_config

        with parallel_config("workbench"):
            return list(Parallel(n_jobs=2)(delayed(square)(n) for n in range(5)))

    calls = [wb.remote(inner).remote() for _ in range(4)]  # more than there are workers
    assert wb.get(calls) == [[0, 1, 4, 9, 16]] * 4


def test_who_looks_for_joblib_before_it_is_imported(script: Callable[..., Script]) -> None:
    script_ = script("""
        import importlib.util
        from workbench.interop.registration import register_when_imported
        register_when_imported()
        assert importlib.util.find_spec("joblib") is not None
        import joblib
        wb.init(workers=1)
        with joblib.parallel_config("workbench", n_jobs=2):
            say(joblib.effective_n_jobs())
    """)
    assert script_.line() == "1"


def test_without_workers_it_says_that_it_runs_here(script: Callable[..., Script]) -> None:
    script_ = script("""
        import os, warnings
        from joblib import Parallel, delayed, parallel_config
        wb.init(workers=0)
        wb.register_joblib()
        with parallel_config("workbench"), warnings.catch_warnings(record=True) as said:
            Parallel(n_jobs=1)(delayed(os.getpid)() for _ in range(3))
            pids = Parallel(n_jobs=4)(delayed(os.getpid)() for _ in range(3))
        (warning,) = said
        say(set(pids) == {os.getpid()}, warning.filename, warning.message)
    """)
    assert script_.line().startswith(
        "True <string> The session has no workers, so joblib's calls run"
    )

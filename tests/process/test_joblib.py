"""joblib on the pool: the same results as loky's, large arguments stored once, errors as there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import joblib
import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.scripts import Scripts
from tests.process.test_executor import not_three
from workbench.engine.base import Engine
from workbench.interop import joblib as ours
from workbench.interop.joblib import WorkbenchBackend
from workbench.interop.shared_arguments import LARGE


@pytest.fixture(autouse=True)
def backend(session: Engine) -> Iterator[None]:
    wb.register_joblib()
    with parallel_config("workbench"):
        yield


def square(x: int) -> int:
    return x * x


def total(x: Any, n: int) -> Any:
    return float(np.asarray(x).sum()) + n


def large(session: Engine) -> list[Any]:
    objects = session.snapshot().objects
    return [o for o in objects if o.size > LARGE and o.state == "ready"]


def test_results_are_in_order() -> None:
    chosen: dict[int, Any] = {1: {}, 2: {"batch_size": 7}, -1: {"pre_dispatch": "all"}}
    for n_jobs, options in {**chosen, 99: {"return_as": "generator"}}.items():
        found = Parallel(n_jobs=n_jobs, **options)(delayed(square)(n) for n in range(100))
        assert list(found) == [n * n for n in range(100)], n_jobs


def test_it_runs_on_the_pool(session: Engine) -> None:
    workers = {worker.pid for worker in session.snapshot().workers}
    assert set(Parallel()(delayed(os.getpid)() for _ in range(20))) <= workers
    assert joblib.effective_n_jobs() == 2
    assert joblib.effective_n_jobs(99) == 2
    assert joblib.effective_n_jobs(-2) == 1


def test_a_generator_that_is_closed_stops_its_own_calls(session: Engine, gate: Gate) -> None:
    """With loky another call would end the generator's: there is one executor for all."""
    for waiting in (1, 20):
        calls = [delayed(square)(3), *[delayed(gate.stop)()] * waiting]
        found = Parallel(return_as="generator", batch_size=1)(calls)
        assert next(found) == 9
        gate.next()
        if waiting == 1:
            assert Parallel(n_jobs=2)(delayed(square)(n) for n in range(5)) == [0, 1, 4, 9, 16]
        with pytest.warns(UserWarning, match="have been cancelled"):  # joblib's own
            found.close()
        assert eventually(lambda: not session.snapshot().running + session.snapshot().queued)


def test_short_calls_are_not_polled(session: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """joblib waits 10 ms between two looks, which would be most of what short calls take."""
    looked: list[float] = []
    clock = SimpleNamespace(**{**vars(time), "sleep": looked.append})
    monkeypatch.setattr(joblib.parallel, "time", clock)  # of no other module
    monkeypatch.setattr(ours, "SHORT", TIMEOUT)
    assert Parallel(n_jobs=2, batch_size=1)(delayed(square)(n) for n in range(3)) == [0, 1, 4]
    assert not looked


def test_who_waits_hears_of_an_error_while_others_run(session: Engine, gate: Gate) -> None:
    """Of a call's, and of the iterable's."""

    def calls() -> Iterator[Any]:
        yield delayed(gate.stop)()
        yield delayed(square)(2)
        raise ZeroDivisionError

    with pytest.raises(LookupError, match="three"):
        Parallel(batch_size=1)([delayed(gate.stop)(), delayed(not_three)(3)])
    with pytest.raises(ZeroDivisionError):
        Parallel(batch_size=1, pre_dispatch=2)(calls())
    assert eventually(lambda: not session.snapshot().running)
    assert Parallel()(delayed(square)(n) for n in range(3)) == [0, 1, 4]


class Watched(WorkbenchBackend):
    """Notes how large batches shall be, and how many calls are left by then."""

    seen: list[tuple[int, int]]
    left: int

    def submit(self, func: Any, callback: Any = None) -> Any:
        self.left -= len(func.items)
        return super().submit(func, callback)

    def compute_batch_size(self) -> int:
        self.seen.append((super().compute_batch_size(), self.left))
        return self.seen[-1][0]


def test_no_batch_is_larger_than_what_is_left_for_each_worker() -> None:
    """joblib cuts what is left into crumbs if it doesn't fill a batch for each worker. How many
    there will be, it knows from the last time."""

    def one(n: int) -> int:
        return n

    backend = Watched()
    for again in (False, True):
        backend.seen, backend.left = [], 500
        with parallel_config(backend):
            assert Parallel(n_jobs=2)(delayed(one)(n) for n in range(500)) == [*range(500)]
        sizes = [(size, left) for size, left in backend.seen if left > 0]
        assert len(sizes) > 1
        assert not again or all(size <= max(1, left // 2) for size, left in sizes[1:])


ready: list[str] = []


def test_an_initializer_runs_before_the_first_call() -> None:
    """Its arguments may be arrays."""
    for _ in range(2):
        with parallel_config("workbench", initializer=ready.append, initargs=(np.ones(3),)):
            for _ in range(2):
                assert Parallel()(delayed(square)(n) for n in range(3)) == [0, 1, 4]
            assert Parallel()(delayed(len)(ready) for _ in range(4)) == [0] * 4
    assert ready == []


def test_a_limit_of_threads() -> None:
    def threads() -> set[int]:
        from threadpoolctl import threadpool_info

        np.ones((2, 2)) @ np.ones((2, 2))
        return {each["num_threads"] for each in threadpool_info()}

    with parallel_config("workbench", inner_max_num_threads=1):
        assert Parallel()(delayed(threads)() for _ in range(3)) == [{1}] * 3


def test_a_mapped_file_is_mapped_there_too(session: Engine, tmp_path: Path) -> None:
    found = np.memmap(tmp_path / "found", mode="w+", shape=(4, 10**5))

    def write(array: Any, n: int) -> None:
        array[n] = n + 1

    Parallel()(delayed(write)(found, n) for n in range(4))
    assert found.sum(axis=1).tolist() == [10**5, 2 * 10**5, 3 * 10**5, 4 * 10**5]
    assert not large(session)
    assert Parallel()(delayed(total)(found[1:], 0) for _ in range(2)) == [9e5, 9e5]


def test_a_copy_that_is_kept_for_later_calls_is_named_by_the_variable(session: Engine) -> None:
    X = np.zeros(LARGE)
    Parallel()(delayed(total)(X, n) for n in range(2))
    (reason,) = wb.why(f"{large(session)[0].id:016x}", deep=True).reasons
    assert "joblib's copy of `X` in test_a_copy" in reason.text
    del X
    assert eventually(lambda: not large(session))


def test_a_copy_that_is_kept_gives_way_when_the_store_is_full(script: Scripts) -> None:
    script_ = script("""
        import joblib, numpy as np
        from workbench.interop.shared_arguments import LARGE
        wb.init(workers=2, memory="64MB")
        wb.register_joblib()
        X = np.ones(4_000_000)
        with joblib.parallel_config("workbench"):
            joblib.Parallel(n_jobs=2)(joblib.delayed(np.sum)(X) for _ in range(3))
        say([o.size > X.nbytes for o in wb.snapshot().objects if o.size > LARGE])
        kept = [wb.put(np.ones(1_000_000)) for _ in range(5)]
        say([o.size > X.nbytes for o in wb.snapshot().objects if o.size > LARGE])
    """)
    assert script_.line() == "[True]"
    assert script_.line() == "[False, False, False, False, False]"


def test_without_workers_it_says_that_it_runs_here(script: Scripts) -> None:
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

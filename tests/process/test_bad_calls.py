"""What can go wrong with calls of executors, pools and joblib: each ends with the exception that
its library has for it, and our sentence says what to do."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import signal
import threading
from collections.abc import Callable
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.pool import MaybeEncodingError  # type: ignore[attr-defined]
from typing import Any

import joblib
import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError

import workbench as wb
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from workbench.engine.base import Engine

Run = Callable[..., Any]
"""Calls a function with a value, by one of the interfaces, and gives what it returns."""


def parallel(fn: Run, value: Any, n_jobs: int | None = 2, **options: Any) -> Any:
    wb.register_joblib()
    with joblib.parallel_config("workbench"):
        return joblib.Parallel(n_jobs, **options)([joblib.delayed(fn)(value) for _ in range(2)])[0]


RUNS: dict[str, Run] = {
    "submit": lambda fn, value: wb.Executor().submit(fn, value).result(TIMEOUT),
    "map": lambda fn, value: next(wb.Executor().map(fn, [value])),
    "map in chunks": lambda fn, value: next(wb.Executor().map(fn, [value], chunksize=3)),
    "apply": lambda fn, value: wb.Pool().apply(fn, (value,)),
    "apply_async": lambda fn, value: wb.Pool().apply_async(fn, (value,)).get(TIMEOUT),
    "Pool.map": lambda fn, value: wb.Pool().map(fn, [value])[0],
    "imap": lambda fn, value: next(wb.Pool().imap(fn, [value])),
    "imap_unordered": lambda fn, value: next(wb.Pool().imap_unordered(fn, [value])),
    "joblib": parallel,
}
every = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def same(value: Any) -> Any:
    return value


def dies(_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@every
def test_what_cannot_be_pickled(session: Engine, run: Run) -> None:
    """loky raises a PicklingError, the others mostly a TypeError: it is both."""
    with pytest.raises(pickle.PicklingError, match=r"\['a'\]\[0\] \(_thread\.lock\)") as error:
        run(same, {"a": [threading.Lock()]})
    assert isinstance(error.value, TypeError)

    def makes(value: Any) -> Any:
        return [value, threading.Lock()]

    kinds = pickle.PicklingError, MaybeEncodingError  # a Pool's is multiprocessing's
    with pytest.raises(kinds, match=r"results? of .*_thread\.lock"):
        run(makes, 1)

    class Local:  # which others can't pickle
        n = 7

    assert run(lambda value: value.n, Local()) == 7


def test_numbers_that_cannot_be_and_calls_after_the_end(session: Engine) -> None:
    executor, closed, terminated = wb.Executor(), wb.Pool(), wb.Pool()
    executor.shutdown()
    closed.close()
    terminated.terminate()
    above = "must be greater than 0, not"
    wrong: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: parallel(same, 3, 0), ValueError, "n_jobs"),
        (lambda: wb.Executor(0), ValueError, f"max_workers {above} 0"),
        (lambda: wb.Executor("2"), TypeError, "max_workers='2' must be a whole number"),
        (lambda: wb.Pool(-1), ValueError, f"processes {above} -1"),
        (lambda: wb.Pool(maxtasksperchild=0), ValueError, f"maxtasksperchild {above} 0"),
        (lambda: wb.Pool(maxtasksperchild=0.5), ValueError, "must be a whole number"),
        (lambda: wb.Pool(initializer=3), TypeError, "initializer must be a function"),
        (lambda: wb.Executor(initializer=3), TypeError, "initializer must be a function"),
        (lambda: wb.Executor().map(same, [1], chunksize=0), ValueError, f"chunksize {above} 0"),
        (lambda: wb.Executor().map(same, [1], buffersize=-1), ValueError, f"buffersize {above}"),
        (lambda: next(wb.Pool().imap(same, [1], 0)), ValueError, f"chunksize {above} 0"),
        (lambda: executor.submit(same, 1), RuntimeError, "shut down"),
        (lambda: executor.map(same, [1]), RuntimeError, "shut down"),
        (lambda: closed.apply(same, (1,)), ValueError, "closed"),
        (lambda: terminated.apply(same, (1,)), ValueError, "closed"),
        (closed.__enter__, ValueError, "closed"),
    ]
    for call, kind, text in wrong:
        with pytest.raises(kind, match=re.escape(text)):
            call()


@pytest.mark.parametrize(
    ("run", "kind"), [(RUNS["submit"], BrokenProcessPool), (parallel, TerminatedWorkerError)]
)
def test_a_worker_that_is_killed(session: Engine, run: Run, kind: type[BrokenProcessPool]) -> None:
    """However often it is tried. loky's exception is a BrokenProcessPool too."""
    with pytest.raises(kind, match="was killed by SIGKILL"):
        run(dies, 1)
    assert run(same, 2) == 2  # the pool is whole


def fails(*_: Any) -> None:
    raise LookupError("not there")


def test_an_initializer_that_fails(session: Engine) -> None:
    with wb.Executor(initializer=fails) as executor:
        first = executor.submit(same, 1)
        assert isinstance(first.exception(TIMEOUT), BrokenProcessPool)
        with pytest.raises(BrokenProcessPool, match="fails, failed: LookupError: not there"):
            executor.submit(same, 1)
    with pytest.raises(BrokenProcessPool, match="LookupError: not there"):
        wb.Pool(initializer=fails).map(same, [1])
    wb.register_joblib()
    for _ in range(2):  # joblib's comes again: nobody could make it anew
        with (
            joblib.parallel_config("workbench", initializer=fails),
            pytest.raises(TerminatedWorkerError, match="LookupError: not there"),
        ):
            joblib.Parallel(2)(joblib.delayed(same)(n) for n in range(2))


def test_a_session_that_ends_while_they_wait(runtime: str, gate: Gate) -> None:
    """Only who had done nothing before goes on in the next one."""
    wb.init(workers=2, memory="32MB")
    executor, idle = wb.Executor(), wb.Executor()
    running = executor.submit(gate.stop)
    with futures.ThreadPoolExecutor(len(RUNS)) as threads:
        waiting = [threads.submit(run, lambda stop: stop(), gate.stop) for run in RUNS.values()]
        gate.next()
        wb.shutdown()
        for name, call in zip(RUNS, waiting, strict=True):
            error = call.exception(TIMEOUT)
            assert isinstance(error, BrokenProcessPool), name
            assert "session" in str(error), name
    assert not running.running()
    wb.init(workers=1)
    with pytest.raises(futures.BrokenExecutor, match="session"):
        executor.submit(same, 1)
    assert idle.submit(same, 1).result(TIMEOUT) == 1


def test_time_is_up(session: Engine, gate: Gate) -> None:
    executor, pool = wb.Executor(), wb.Pool()
    late: list[tuple[Callable[[], Any], type[Exception]]] = [
        (lambda: executor.submit(gate.stop).result(0.01), TimeoutError),
        (lambda: next(executor.map(same, [gate.stop], timeout=-1)), TimeoutError),
        (lambda: next(futures.as_completed([executor.submit(gate.stop)], 0.01)), TimeoutError),
        (lambda: pool.apply_async(gate.stop).get(0.01), multiprocessing.TimeoutError),
        (lambda: pool.imap(lambda s: s(), [gate.stop]).next(0.01), multiprocessing.TimeoutError),
        (lambda: parallel(lambda s: s(), gate.stop, timeout=0.01), multiprocessing.TimeoutError),
    ]
    for call, kind in late:
        with pytest.raises(kind):
            call()
    pool.terminate()
    executor.shutdown(wait=False, cancel_futures=True)


def test_what_a_map_that_gave_up_had_submitted_is_withdrawn(session: Engine, gate: Gate) -> None:
    busy = [wb.remote(gate.stop).remote() for _ in range(2)]
    visitors = [gate.next() for _ in busy]
    with pytest.raises(TimeoutError):
        next(wb.Executor().map(same, range(5), timeout=0.01))
    assert not session.snapshot().queued
    for visitor in visitors:
        visitor.let_on()
    wb.get(busy)

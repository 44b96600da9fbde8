"""`workbench.Executor` keeps the contract of `concurrent.futures`, and says so where it can't."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections.abc import Callable
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.scripts import Script
from workbench import Executor
from workbench.engines.base import Engine
from workbench.errors import SerializationError


def double(x: Any) -> Any:
    return 2 * x


def fails(x: Any) -> Any:
    raise LookupError(x)


# -- one call --------------------------------------------------------------------------------------


def test_a_call_and_its_future(session: Engine) -> None:
    with Executor() as executor:
        future = executor.submit(double, 21)
        assert future.result(TIMEOUT) == 42
        assert future.done()
        assert not future.running()
        assert not future.cancel()
        assert executor.submit(dict, a=1, b=2).result(TIMEOUT) == {"a": 1, "b": 2}
        assert executor.submit(lambda: "a lambda").result(TIMEOUT) == "a lambda"
        assert executor.submit("a-b".split, "-").result(TIMEOUT) == ["a", "b"]
        assert executor.submit(double, wb.put(3)).result(TIMEOUT) == 6
        failed = executor.submit(fails, "this")
        assert isinstance(failed.exception(TIMEOUT), LookupError)
        with pytest.raises(LookupError, match="this"):
            failed.result()


def test_states_are_told_truly(session: Engine, gate: Gate) -> None:
    with Executor() as executor:
        first, second = (executor.submit(gate.stop) for _ in range(2))
        visitors = [gate.next(), gate.next()]
        waiting = executor.submit(double, 1)
        assert first.running()
        assert not first.cancel()
        assert not waiting.running()
        assert not waiting.done()
        assert waiting.cancel()
        assert waiting.cancelled()
        assert not waiting.running()
        with pytest.raises(futures.CancelledError):
            waiting.result()
        done, left = futures.wait([first, waiting], return_when=futures.FIRST_COMPLETED)
        assert done == {waiting}
        assert left == {first}
        for visitor in visitors:
            visitor.let_on("on")
        assert {f.result() for f in futures.as_completed([first, second], TIMEOUT)} == {"on"}


def test_no_more_run_than_max_workers(session: Engine, gate: Gate) -> None:
    with Executor(max_workers=1) as executor:
        first, second = (executor.submit(gate.stop) for _ in range(2))
        visitor = gate.next()
        assert wb.get(wb.remote(double).remote(2)) == 4  # the other worker is free
        assert not second.running()
        visitor.let_on("one")
        gate.next().let_on("two")
        assert (first.result(TIMEOUT), second.result(TIMEOUT)) == ("one", "two")
    with Executor(max_workers=1) as executor:
        assert list(executor.map(double, range(100))) == list(range(0, 200, 2))


def test_callbacks_hold_up_nobody(session: Engine) -> None:
    """They run in the executor's thread: whoever waits for something else goes on."""
    held, goes_on = threading.Event(), threading.Event()
    ran: list[str] = []
    with Executor() as executor:
        future = executor.submit(double, 1)
        future.add_done_callback(lambda f: (held.set(), goes_on.wait(TIMEOUT)))
        assert held.wait(TIMEOUT)
        assert wb.get(wb.remote(double).remote(4)) == 8
        goes_on.set()
        future.add_done_callback(lambda f: ran.append("late"))
        assert ran == ["late"]


def test_a_result_s_memory_comes_back_with_its_future(session: Engine) -> None:
    with Executor() as executor:
        future = executor.submit(np.ones, 10**5)
        value = future.result(TIMEOUT)
        assert value.sum() == 10**5
        gone = weakref.ref(value)
        del future, value
        assert eventually(lambda: gone() is None)
        data = np.ones(10**5)
        assert executor.submit(lambda: data.sum()).result(TIMEOUT) == 10**5
        assert eventually(lambda: all(o.size < 10**5 for o in session.snapshot().objects))


def test_what_cannot_be_sent_says_where(session: Engine) -> None:
    with Executor() as executor:
        error = executor.submit(double, threading.Lock()).exception(TIMEOUT)
        assert isinstance(error, SerializationError)
        assert "lock" in str(error)


# -- map -------------------------------------------------------------------------------------------


def test_map_keeps_the_order(session: Engine) -> None:
    with Executor() as executor:
        for sizes in ({}, {"chunksize": 7}, {"buffersize": 3}, {"chunksize": 1}):
            assert list(executor.map(double, range(100), **sizes)) == list(range(0, 200, 2))
            assert list(executor.map(pow, (2, 3), (5, 2, 9), **sizes)) == [32, 9]
            assert list(executor.map(double, [], **sizes)) == []


def test_map_goes_on_after_the_executor_was_shut_down(session: Engine) -> None:
    with Executor() as executor:
        results = executor.map(double, range(1000))
    assert list(results) == list(range(0, 2000, 2))


def test_map_takes_no_more_than_the_buffer_ahead(session: Engine) -> None:
    taken: list[int] = []

    def items() -> Any:
        for n in range(100):
            taken.append(n)
            yield n

    with Executor() as executor:
        results = executor.map(double, items(), buffersize=3)
        assert len(taken) == 3
        assert [next(results) for _ in range(5)] == [0, 2, 4, 6, 8]
        assert len(taken) <= 8
        results.close()  # type: ignore[attr-defined]


def test_map_gives_up_in_time(session: Engine, gate: Gate) -> None:
    busy = [wb.remote(gate.stop).remote() for _ in range(2)]
    visitors = [gate.next() for _ in range(2)]
    with Executor() as executor:
        results = executor.map(double, range(5), timeout=0.01)
        with pytest.raises(TimeoutError):
            next(results)
        assert not session.snapshot().queued  # what hasn't begun by then is withdrawn
        for visitor in visitors:
            visitor.let_on()
    wb.get(busy)


def test_map_raises_at_its_place(session: Engine) -> None:
    def checked(x: int) -> int:
        if x == 30:
            raise ValueError("thirty")
        return x

    with Executor() as executor:
        for chunksize in (None, 1, 7):
            results = executor.map(checked, range(100), chunksize=chunksize)
            assert [next(results) for _ in range(30)] == list(range(30))
            with pytest.raises(ValueError, match="thirty"):
                next(results)


# -- its workers -----------------------------------------------------------------------------------


def test_an_initializer_runs_once_in_each_worker(session: Engine) -> None:
    ready: list[str] = []

    def prepare(word: str) -> None:
        ready.append(word)

    def look(_: int) -> tuple[int, list[str]]:
        return os.getpid(), ready

    with Executor(initializer=prepare, initargs=("ready",)) as executor:
        seen = list(executor.map(look, range(50), chunksize=1))
        assert all(words == ["ready"] for _, words in seen)
        assert executor.submit(look, 0).result(TIMEOUT)[1] == ["ready"]
    assert ready == []


def test_an_initializer_that_fails_breaks_the_executor(session: Engine) -> None:
    with Executor(initializer=fails, initargs=("not there",)) as executor:
        future = executor.submit(double, 1)
        with pytest.raises(futures.BrokenExecutor, match="LookupError: not there"):
            future.result(TIMEOUT)


def test_a_worker_that_dies_again_and_again(session: Engine) -> None:
    def dies() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with Executor() as executor:
        broken = executor.submit(dies)
        assert isinstance(broken.exception(TIMEOUT), BrokenProcessPool)
        assert executor.submit(double, 2).result(TIMEOUT) == 4  # the pool is whole


# -- its end ---------------------------------------------------------------------------------------


def test_after_shutdown_it_takes_no_more(session: Engine) -> None:
    executor = Executor()
    future = executor.submit(double, 1)
    executor.shutdown()
    assert future.done()
    executor.shutdown()
    for call in (lambda: executor.submit(double, 1), lambda: executor.map(double, [1])):
        with pytest.raises(RuntimeError, match="shut down"):
            call()
    Executor().shutdown()


def test_shutdown_cancels_what_has_not_begun(session: Engine, gate: Gate) -> None:
    executor = Executor()
    running = [executor.submit(gate.stop) for _ in range(2)]
    visitors = [gate.next(), gate.next()]
    waiting = [executor.submit(double, n) for n in range(20)]
    executor.shutdown(wait=False, cancel_futures=True)
    assert all(each.cancelled() for each in waiting)
    for visitor in visitors:
        visitor.let_on("on")
    assert [each.result(TIMEOUT) for each in running] == ["on", "on"]


def test_a_session_that_ends_while_futures_wait(runtime: str, gate: Gate) -> None:
    wb.init(workers=1)
    executor = Executor()
    running, waiting = executor.submit(gate.stop), executor.submit(double, 1)
    gate.next()
    wb.shutdown()
    for future in (running, waiting):
        assert isinstance(future.exception(TIMEOUT), futures.BrokenExecutor)
        assert not future.running()
    with pytest.raises(futures.BrokenExecutor, match="session"):
        executor.submit(double, 1)
    executor.shutdown()
    idle = Executor()
    wb.init(workers=1)
    assert idle.submit(double, 1).result(TIMEOUT) == 2
    wb.shutdown()
    with pytest.raises(futures.BrokenExecutor):
        idle.submit(double, 1)
    idle.shutdown()


def test_a_script_ends_when_its_calls_have(script: Callable[..., Script]) -> None:
    script_ = script("""
        def shows(n):
            return n

        wb.init(workers=1)
        executor = wb.Executor()
        for n in range(20):
            executor.submit(shows, n).add_done_callback(lambda f: say(f.result()))
    """)
    assert [script_.line() for _ in range(20)] == [str(n) for n in range(20)]


# -- who uses executors ----------------------------------------------------------------------------


@pytest.mark.parametrize("given", [0, -1])
def test_limits_that_cannot_be(given: int) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        Executor(given)
    with Executor() as executor:
        for name in ("chunksize", "buffersize"):
            with pytest.raises(ValueError, match=name):
                executor.map(double, [1], **{name: given})


def test_calls_from_tasks(session: Engine) -> None:
    """More tasks than workers, and each waits for calls of its own."""

    def inner(n: int) -> int:
        with wb.Executor() as executor:
            return executor.submit(double, n).result() + sum(executor.map(double, range(3)))

    assert wb.get([wb.remote(inner).remote(n) for n in range(4)]) == [6, 8, 10, 12]

    def leaves(n: int) -> list[int]:
        with wb.Executor() as executor:
            calls = [executor.submit(double, i) for i in range(n)]
        return [call.result(0) for call in calls]

    assert wb.get([wb.remote(leaves).remote(n) for n in range(4)]) == [[], [0], [0, 2], [0, 2, 4]]

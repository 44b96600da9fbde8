"""`workbench.Executor` keeps the contract of `concurrent.futures`, and says so where it can't; and
`workbench.Pool` does what multiprocessing's does: both run the same calls."""

from __future__ import annotations

import contextlib
import decimal
import gc
import operator
import os
import threading
import traceback
import weakref
from collections.abc import Callable
from concurrent import futures
from multiprocessing.pool import MaybeEncodingError, ThreadPool  # type: ignore[attr-defined]
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.endings import leave_at_once
from tests.process.gates import Gate
from tests.process.scripts import Scripts
from workbench import Executor, Pool
from workbench.engine.base import Engine
from workbench.errors import SerializationError


def double(x: Any) -> Any:
    return 2 * x


def fails(x: Any) -> Any:
    raise LookupError(x)


def test_a_call_and_its_future(session: Engine) -> None:
    with Executor() as executor:
        future = executor.submit(double, 21)
        assert future.result(TIMEOUT) == 42
        assert future.done()
        assert not future.running()
        assert not future.cancel()
        assert executor.submit(dict, a=1, b=2).result(TIMEOUT) == {"a": 1, "b": 2}
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
        assert (first.running(), first.cancel()) == (True, False)
        assert (waiting.running(), waiting.done(), waiting.cancel()) == (False, False, True)
        assert (waiting.running(), waiting.cancelled()) == (False, True)
        with pytest.raises(futures.CancelledError):
            waiting.result()
        done, left = futures.wait([first, waiting], return_when=futures.FIRST_COMPLETED)
        assert (done, left) == ({waiting}, {first})
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


def test_map_keeps_the_order(session: Engine) -> None:
    with Executor() as executor:
        for sizes in ({}, {"chunksize": 7}, {"buffersize": 3}, {"chunksize": 1}):
            assert list(executor.map(double, range(100), **sizes)) == list(range(0, 200, 2))
            assert list(executor.map(pow, (2, 3), (5, 2, 9), **sizes)) == [32, 9]
            assert list(executor.map(double, [], **sizes)) == []


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


def test_map_raises_at_its_place(session: Engine) -> None:
    with Executor() as executor:
        for chunksize in (None, 1, 7):
            results = executor.map(lambda n: 60 // (30 - n), range(100), chunksize=chunksize)
            assert [next(results) for _ in range(30)] == [60 // (30 - n) for n in range(30)]
            with pytest.raises(ZeroDivisionError):
                next(results)


def test_an_initializer_runs_once_in_each_worker(session: Engine) -> None:
    ready: list[str] = []

    def prepare(word: str) -> None:
        ready.append(word)
        decimal.getcontext().prec = 5
        os.environ["READY"] = word

    def look(_: int) -> tuple[int, list[str]]:
        settings = os.environ.get("READY"), decimal.getcontext().prec
        return os.getpid(), ready if settings == ("ready", 5) else [str(settings)]

    with Executor(initializer=prepare, initargs=("ready",)) as executor:
        seen = list(executor.map(look, range(50), chunksize=1))
        assert all(words == ["ready"] for _, words in seen)
        assert executor.submit(look, 0).result(TIMEOUT)[1] == ["ready"]
        assert wb.get(wb.remote(look).remote(0))[1] == ["(None, 28)"]  # its calls alone have it
    assert ready == []


def test_shutdown_waits_for_calls_and_may_come_twice(session: Engine) -> None:
    executor = Executor()
    future, results = executor.submit(double, 1), executor.map(double, range(1000))
    executor.shutdown()
    assert future.done()
    assert list(results) == list(range(0, 2000, 2))
    executor.shutdown()
    Executor().shutdown()


def test_shutdown_cancels_what_has_not_begun(session: Engine, gate: Gate) -> None:
    executor = Executor()
    running = [executor.submit(gate.stop) for _ in range(2)]
    visitors = [gate.next(), gate.next()]
    waiting = [executor.submit(double, n) for n in range(20)]
    executor.shutdown(wait=False, cancel_futures=True)
    assert eventually(lambda: all(each.cancelled() for each in waiting))
    for visitor in visitors:
        visitor.let_on("on")
    assert [each.result(TIMEOUT) for each in running] == ["on", "on"]


def test_a_script_ends_when_its_calls_have(script: Scripts) -> None:
    script_ = script("""
        wb.init(workers=1)
        executor = wb.Executor()
        for n in range(20):
            executor.submit(abs, n).add_done_callback(lambda f: say(f.result()))
    """)
    assert {script_.line() for _ in range(20)} == {str(n) for n in range(20)}


def dies(_: Any) -> None:
    leave_at_once(3)


def shown(call: Callable[[], object]) -> list[str]:
    """The lines of what it raises, as a script's end prints them."""
    with pytest.raises(Exception) as found:  # noqa: PT011 - whatever it is
        call()
    return "".join(traceback.format_exception(found.value)).splitlines()


@pytest.mark.parametrize(
    "call",
    [
        lambda: wb.Executor().submit(locked, 1).result(),
        lambda: [*wb.Executor().map(locked, [1])],
        lambda: wb.Pool().map(locked, [1]),
        lambda: wb.Pool().apply(locked, (1,)),
        lambda: [*wb.Pool().imap(dies, [1])],
    ],
)
def test_a_traceback_shows_a_persons_own_lines(session: Engine, call: Callable[[], object]) -> None:
    lines = shown(call)
    ours = [line for line in lines if line.startswith('  File "') and "workbench/" in line]
    mine = [line for line in lines if line.startswith('  File "') and __file__ in line]
    assert len(mine) == 2, lines  # `shown`, and the call
    assert len(ours) <= 1, lines
    assert len(lines) < 25


def test_a_person_s_frames_stay_in_a_traceback(session: Engine) -> None:
    """Where what comes back can't be built: its own code failed, here."""

    class Fragile:
        def __reduce__(self) -> Any:
            return fails, (7,)

    lines = shown(wb.Executor().submit(Fragile).result)
    assert any("in fails" in line for line in lines)


def not_three(x: int) -> int:
    if x == 3:
        raise LookupError("three")
    return x


def add(x: int, y: int = 1) -> int:
    return x + y


CALLS: dict[str, Callable[[Any], Any]] = {
    "apply": lambda p: p.apply(add, (1,), {"y": 4}),
    "apply_async": lambda p: p.apply_async(add, (1,)).get(TIMEOUT),
    "map": lambda p: p.map(double, range(50)),
    "map in chunks": lambda p: p.map(double, iter(range(50)), 7),
    "map of nothing": lambda p: p.map(double, []),
    "map_async": lambda p: p.map_async(double, "abc").get(TIMEOUT),
    "starmap": lambda p: p.starmap(add, [(1, 2), [3, 4], (5,)]),
    "starmap_async": lambda p: p.starmap_async(operator.mul, [("a", 2), ("b", 3)]).get(TIMEOUT),
    "imap": lambda p: list(p.imap(double, range(50))),
    "imap in chunks": lambda p: list(p.imap(double, range(50), 7)),
    "imap_unordered": lambda p: sorted(p.imap_unordered(double, range(50), 3)),
    "a failure": lambda p: p.map(not_three, range(9)),
    "a failure, later": lambda p: p.map_async(not_three, range(9)).get(TIMEOUT),
    "a failure of one": lambda p: p.apply(not_three, (3,)),
    "successful": lambda p: [_waited(p.map_async(not_three, range(n))) for n in (3, 5)],
    "chunks of none": lambda p: p.imap(double, [], 0),
    "an iterable that fails": lambda p: p.map(double, (1 / n for n in (1, 0))),
    "no processes": lambda p: type(p)(0),
    "a failing iterable, in part": lambda p: _until_it_fails(
        p.imap(double, (1 // (30 - n) for n in range(40)))
    ),
    "behind a failure": lambda p: _behind_a_failure(p.imap(not_three, range(5))),
    "closed, and then read": lambda p: [p.imap(double, range(40)), p.close()][0],
}


def _until_it_fails(results: Any) -> list[Any]:
    found: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        found.extend(iter(results.__next__, None))
    return found


def _behind_a_failure(results: Any) -> list[Any]:
    found = [next(results) for _ in range(3)]
    with pytest.raises(LookupError):
        next(results)
    return [*found, *results]


def _waited(result: Any) -> bool:
    result.wait(TIMEOUT)
    return bool(result.ready() and result.successful())


def outcome(call: Callable[[Any], Any], pool: Any) -> Any:
    try:
        found = call(pool)
        return list(found) if hasattr(found, "next") else found
    except Exception as error:
        return next(c for c in type(error).__mro__ if c.__module__ == "builtins")


def test_as_multiprocessing_does_it(session: Engine) -> None:
    for name, call in CALLS.items():
        with ThreadPool(2) as theirs, Pool(2) as ours:
            assert outcome(call, ours) == outcome(call, theirs), name


def test_callbacks(session: Engine) -> None:
    said: list[Any] = []
    with Pool() as pool:
        pool.map_async(double, [1, 2], callback=said.append).get(TIMEOUT)
        assert eventually(lambda: said == [[2, 4]])
        failing = pool.apply_async(not_three, (3,), error_callback=said.append)
        failing.wait(TIMEOUT)
        assert eventually(lambda: len(said) == 2)
        assert isinstance(said[1], LookupError)


def test_its_end(session: Engine, gate: Gate) -> None:
    pool = Pool(maxtasksperchild=3, initializer=double, initargs=(1,))
    result = pool.apply_async(gate.stop)
    visitor = gate.next()
    assert not result.ready()
    for too_early, text in ((result.successful, "over"), (pool.join, "close")):
        with pytest.raises(ValueError, match=text):
            too_early()
    pool.close()
    visitor.let_on("on")
    pool.join()
    assert result.get(TIMEOUT) == "on"


def test_it_keeps_no_result_that_nobody_else_has(session: Engine) -> None:
    def fails(_: int) -> None:
        raise LookupError(bytes(100_000))

    gc.disable()  # nor does a cycle
    try:
        with Pool() as pool:
            assert sum(map(len, pool.map(bytes, [100_000] * 3))) == 300_000
            with contextlib.suppress(LookupError):
                list(wb.Executor().map(fails, range(3)))
            assert eventually(lambda: all(each.size < 100_000 for each in wb.snapshot().objects))
    finally:
        gc.enable()


def test_terminate_stops_what_runs(session: Engine, gate: Gate) -> None:
    with Pool() as pool:
        result = pool.map_async(lambda stop: stop(), [gate.stop] * 5)
        gate.next()
    pool.join()
    assert result.ready()
    assert not result.successful()
    assert wb.get(wb.remote(double).remote(1)) == 2


def locked(n: int) -> dict[str, Any]:
    return {"n": n, "locks": [threading.Lock()]} if n else {}


def test_a_result_that_cannot_be_pickled(session: Engine) -> None:
    """multiprocessing's exception, with the path."""
    calls: dict[str, Callable[[Any], Any]] = {
        "result of locked": lambda pool: pool.apply(locked, (1,)),
        "results of locked[1]": lambda pool: pool.map(locked, [0, 1], chunksize=2),
        "results of locked[2]": lambda pool: [*pool.imap(locked, [0, 0, 1], chunksize=3)],
    }
    for what, call in calls.items():
        with wb.Pool() as pool, pytest.raises(MaybeEncodingError) as found:
            call(pool)
        assert f"the {what}['locks'][0] (_thread.lock)" in str(found.value)
        assert "Error sending result: 'what locked returned'" in str(found.value)
    with wb.Pool() as pool, pytest.raises(SerializationError) as caught:
        pool.apply(lambda: wb.put(threading.Lock()))
    assert not isinstance(caught.value, MaybeEncodingError), "it is the call's own failure"


def test_proxies_of_a_manager_go_everywhere(script: Scripts) -> None:
    """Their manager asks for a key, which multiprocessing gives to children alone."""
    script_ = script("""
        import multiprocessing

        def note(n, seen, lock):
            with lock:
                seen.append(n)

        with multiprocessing.get_context("spawn").Manager() as manager:
            seen, lock, queue = manager.list(), manager.Lock(), manager.Queue()
            wb.init(workers=2)
            with wb.Executor(initializer=queue.put, initargs=("begun",)) as executor:
                for n in range(3):
                    executor.submit(note, n, seen, lock).result()
            with wb.Pool(2) as pool:
                pool.starmap(note, [(n, seen, lock) for n in range(3, 6)])
            say(sorted(seen), queue.get())
    """)
    assert script_.line() == "[0, 1, 2, 3, 4, 5] begun"
    assert script_.wait() == 0  # else the manager stays

"""`workbench.Pool` does what multiprocessing's does: both run the same calls."""

from __future__ import annotations

import contextlib
import gc
import operator
import threading
from collections.abc import Callable
from multiprocessing.pool import MaybeEncodingError, ThreadPool  # type: ignore[attr-defined]
from typing import Any

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.scripts import Scripts
from tests.process.test_executor import double
from workbench import Pool
from workbench.engine.base import Engine
from workbench.errors import SerializationError


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

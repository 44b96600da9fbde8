"""Tasks on the real pool: arguments, results, errors, and definitions."""

from __future__ import annotations

import gc
import getpass
import sys
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from workbench.client import connection
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup
from workbench.errors import TaskError


@wb.remote
def echo(value: Any) -> Any:
    return value


def test_arguments_may_have_any_name(session: Engine) -> None:
    names = dict.fromkeys(("self", "cls", "function", "call", "args", "kwargs", "options"), 1)
    assert wb.get(wb.remote(lambda **k: k).remote(**names)) == names

    @wb.remote
    class Named:
        def __init__(this, **given: int) -> None:  # noqa: N805
            this.given = given

        def get(this, **given: int) -> Any:  # noqa: N805
            return this.given, given

    assert wb.get(Named.remote(**names).get.remote(**names)) == (names, names)


def test_what_python_has_comes_back_as_is(session: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (input, print, breakpoint, sys.breakpointhook, getpass.getpass, len, int):
        assert wb.get(echo.remote(value)) is value

    class Kernel:
        def __init__(self) -> None:
            self.lock = threading.Lock()  # so it can't be pickled

        def raw_input(self) -> str:
            return "answer"

    monkeypatch.setattr("builtins.input", Kernel().raw_input)
    assert wb.get(echo.remote(input)) is input
    assert wb.get(wb.remote(lambda value: value()).remote("text".upper)) == "TEXT"


def test_large_arguments_go_through_the_store_and_leave_it(session: Engine) -> None:
    """They are the task's own: it may write to them, as to small ones and a function's globals."""
    ours = np.ones(3)

    def add(array: np.ndarray[Any, Any], small: list[Any], text: str) -> tuple[float, ...]:
        for each in (array, *small, ours):
            each += 1
        return array.sum(), small[0].sum(), ours.sum(), len(text)

    task = wb.remote(add)
    got = task.remote(np.ones(300_000), [np.zeros(2)], "x" * 100_000)
    assert wb.get(got) == (600_000.0, 2.0, 6.0, 100_000)
    assert ours.sum() == 3
    del got, task
    assert eventually(lambda: all(o.size < 10_000 for o in session.snapshot().objects))


def test_what_an_argument_refers_to_is_held_until_the_call_is_sent(session: Engine) -> None:
    """Another thread, or a collection, may let go of the last handle meanwhile."""
    driver: Any = session
    last, origin = [wb.put(np.ones(100_000))], driver.listener.origin
    shown = wb.get(last[0])

    def let_go() -> Any:
        last.clear()
        driver.connection.flush()
        return origin()

    driver.listener = replace(driver.listener, origin=let_go)
    try:
        total = wb.remote(np.sum).remote(shown)
    finally:
        driver.listener = replace(driver.listener, origin=origin)
    assert not last
    assert wb.get(total) == 100_000


def test_a_task_has_as_many_refs_as_results(session: Engine) -> None:
    returns = wb.remote(lambda result: result)
    for count, result, complaint in (
        (2, [1, 2], ""),
        (3, (1, "two", None), ""),
        (2, (1, 2, 3), "returned 3 value"),
        (2, "ab", "returned one value"),
        (2, None, "returned one value"),
    ):
        refs = returns.options(num_returns=count).remote(result)
        assert len(refs) == count
        if not complaint:
            assert wb.get(refs) == list(result)
        for ref in refs if complaint else ():
            with pytest.raises(ValueError, match=f"num_returns={count} and {complaint}"):
                wb.get(ref)
    good, bad = wb.remote(num_returns=2)(lambda: ("good", threading.Lock())).remote()
    assert wb.get(good) == "good"
    with pytest.raises(TypeError, match=r"the result of .*lambda.* can't be serialized"):
        wb.get(bad)
    runs = wb.remote(num_returns=0)(lambda: wb.put("done", name="effect"))
    assert runs.remote() is None
    assert eventually(lambda: session.ask(Lookup("effect")) is not None)
    session.name(None, "effect")


def test_three_threads_at_once(session: Engine) -> None:
    """Each in turn reads for the others, and follows the one that reads."""
    add = wb.remote(lambda a, b: a + b)

    def run(n: int) -> None:
        for i in range(50):
            array = np.full(5_000, i)
            refs = [add.remote(n, j) for j in range(5)]
            assert wb.get(add.remote(wb.put(array), n), timeout=TIMEOUT)[-1] == i + n
            assert wb.wait(refs, num_returns=3, timeout=TIMEOUT)[0]
            assert wb.get(refs, timeout=TIMEOUT) == [n + j for j in range(5)]
            assert add.remote(i, n).future().result(TIMEOUT) == i + n

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(run, range(3))) == [None] * 3


@pytest.fixture
def for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would wait for each other."""
    monkeypatch.setattr(connection, "TOGETHER", 1000 * TIMEOUT)


def double(x: int) -> int:
    return 2 * x


def test_all_go_when_they_are_there_or_somebody_waits(session: Engine, for_long: None) -> None:
    """An error among them keeps none back."""
    remote, refs = wb.remote(double), []
    with session.together():
        refs += [remote.remote(n) for n in range(20)]
    assert wb.get(refs, timeout=TIMEOUT) == [2 * n for n in range(20)]
    with session.together():
        assert wb.get(remote.remote(3), timeout=TIMEOUT) == 6
    assert wb.get(remote.remote(4), timeout=TIMEOUT) == 8

    def submit_and_fail() -> None:
        with session.together():
            refs.append(remote.remote(2))
            raise LookupError

    with pytest.raises(LookupError):
        submit_and_fail()
    assert wb.get(refs[-1], timeout=TIMEOUT) == 4


def test_maps_of_executors_and_pools_do_so(session: Engine, for_long: None) -> None:
    with wb.Executor() as executor, wb.Pool() as pool:
        for _ in range(3):
            assert list(executor.map(double, range(50))) == [2 * n for n in range(50)]
            assert list(executor.map(pow, [2, 3], [3, 2])) == [8, 9]
            assert pool.map(double, range(50)) == [2 * n for n in range(50)]
            assert pool.starmap(pow, [(2, 3), (3, 2)]) == [8, 9]


def test_what_ends_more_than_a_call_elsewhere_is_an_error_of_the_task(session: Engine) -> None:
    """`tests/unit/test_errors.py` shows how each kind of error travels."""

    class AbortError(BaseException):
        """Of a class that only this test has."""

    @wb.remote(name="ends")
    def fails(error: BaseException) -> None:
        raise error

    for kind in (SystemExit, KeyboardInterrupt, StopIteration, AbortError):
        with pytest.raises(TaskError) as caught:
            wb.get(fails.remote(kind(3)))
        assert isinstance(caught.value, kind) is (kind in (StopIteration, AbortError))
        assert caught.value.task == "ends"
        assert caught.value.cause_text.endswith(f"{kind.__name__}: 3")


def test_a_ref_in_an_error_keeps_its_object_as_long(session: Engine) -> None:
    @wb.remote
    def fails() -> None:
        raise LookupError(wb.put(np.arange(10_000)))

    ref = fails.remote()
    for _ in range(2):
        with pytest.raises(LookupError) as caught:
            wb.get(ref)
    assert wb.get(caught.value.args[0])[-1] == 9999
    with pytest.raises(LookupError) as passed:
        wb.get(wb.remote(len).remote(ref))
    assert wb.get(passed.value.args[0])[-1] == 9999


def test_calls_that_are_over_leave_nothing_in_their_process(session: Engine) -> None:
    @wb.remote
    class Measured:
        def traced(self) -> int:
            tracemalloc.start()  # goes on, if it was
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        def nothing(self) -> None: ...

    def traced_after(calls: int) -> int:
        for _ in range(calls // 100):  # what is on its way takes memory, too
            wb.get([actor.nothing.remote() for _ in range(100)])
        return wb.get(actor.traced.remote())

    actor = Measured.remote()
    wb.get(actor.traced.remote())
    before = traced_after(1000)
    # What waits for the next report is some 0.1 MB, more or less.
    assert traced_after(10_000) - before < 30 * 10_000, "bytes"


def test_a_failed_task_leaves_nothing_that_it_had(session: Engine) -> None:
    """Neither in its worker, nor in whoever gets the error and lets go of it."""

    @wb.remote
    def fails(array: Any) -> None:
        try:
            raise ExceptionGroup("inner", [ValueError(array[0])])
        except ExceptionGroup as error:
            again = error
        raise LookupError("no") from again

    kept = wb.put(np.arange(100_000))
    with pytest.raises(LookupError):
        wb.get(fails.remote(kept))
    id = kept.id
    del kept
    assert eventually(lambda: id not in {each.id for each in session.snapshot().objects})


def a_function(number: int) -> None:
    @wb.remote
    def anew(n: int) -> Any:
        return n * number or anew  # it refers to itself

    assert wb.get(anew.remote(2)) == 2 * number


def a_class(number: int) -> None:
    class Anew:
        n = number

        def ring(self) -> Any:
            return Anew

    assert wb.get(wb.remote(lambda value: value).remote(Anew())).n == number


def an_actors_class(number: int) -> None:
    @wb.remote
    class Anew:
        def ring(self) -> Any:
            return Anew, number

    Anew.remote()


def copies() -> int:
    """How many of those are in this process."""
    gc.collect()
    kinds = FunctionType, type
    return sum(isinstance(o, kinds) and o.__name__ in ("anew", "Anew") for o in gc.get_objects())


@pytest.mark.parametrize("define", [a_function, a_class, an_actors_class])
def test_a_loops_definitions_leave_no_copy(session: Engine, define: Callable[[int], None]) -> None:
    for number in range(1, 20):
        define(number)

    def stored() -> int:
        wb.get([wb.remote(gc.collect).remote() for _ in range(4)])
        records = session.snapshot().objects
        return sum("new" in record.about.type for record in records if record.about)

    assert eventually(lambda: stored() <= 2)
    assert max(copies(), *wb.get([wb.remote(copies).remote() for _ in range(4)])) <= 2


def test_a_function_that_is_sent_anew_meanwhile_is_still_there(session: Engine) -> None:
    """By another thread, or by what runs while the arguments are pickled."""
    factor = [1]

    @wb.remote
    def times(n: int) -> int:
        return n * factor[0]

    class Meddles:
        def __reduce__(self) -> tuple[Any, ...]:
            factor[0] = 2
            got.append(wb.get(times.remote(3)))
            return int, (5,)

    got: list[int] = []
    first = times.remote(Meddles())
    assert [wb.get(first, timeout=TIMEOUT), *got] == [5, 6]

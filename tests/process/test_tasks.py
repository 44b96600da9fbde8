"""Tasks on the real pool: arguments, results, errors, and definitions."""

from __future__ import annotations

import gc
import getpass
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from workbench.engines.base import Engine
from workbench.errors import StoreFullError, TaskCancelledError, TaskError


@wb.remote
def echo(value: Any) -> Any:
    return value


# -- arguments and results ------------------------------------------------------------------------


def test_functions_travel_with_what_they_refer_to(session: Engine) -> None:
    base = 10
    table = {"k": np.arange(3)}

    def factorial(n: int) -> int:
        return 1 if n < 2 else n * factorial(n - 1)

    @wb.remote
    def uses(n: int) -> Any:
        return base + factorial(n), table["k"].sum()

    assert wb.get(uses.remote(5)) == (130, 3)
    base = 20
    table["k"][0] = 7
    assert wb.get(uses.remote(5)) == (140, 10)  # as a call here would give


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


def test_what_python_and_notebooks_have_comes_back_as_what_it_is(
    session: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_refs_are_resolved_at_the_top_level_only(session: Engine) -> None:
    @wb.remote
    def kinds(*args: Any, **kwargs: Any) -> list[str]:
        return [type(value).__name__ for value in (*args, *kwargs.values())]

    ref = wb.put(np.arange(20_000))
    got = kinds.remote(ref, [ref], {"a": ref}, key=ref, inside=(ref,))
    assert wb.get(got) == ["ndarray", "list", "dict", "ndarray", "tuple"]

    @wb.remote
    def total(refs: list[wb.ObjectRef], more: wb.ObjectRef) -> Any:
        return sum(wb.get(refs)) + more

    assert wb.get(total.remote([wb.put(1), wb.put(2)], wb.put(3))) == 6


def test_large_arguments_go_through_the_store_and_leave_it(session: Engine) -> None:
    @wb.remote
    def about(array: np.ndarray[Any, Any], text: str, *, ref: Any, nested: Any) -> Any:
        return array.sum(), array.flags.writeable, len(text), ref, wb.get(nested[0])

    array = np.ones(300_000)
    nested = [wb.put("nested")]
    got = about.remote(array, "x" * 100_000, ref=wb.put("top"), nested=nested)
    assert wb.get(got) == (300_000.0, False, 100_000, "top", "nested")
    del got, nested, about
    assert eventually(lambda: all(o.size < 10_000 for o in session.snapshot().objects))


def test_an_array_that_the_store_has_is_not_stored_again_as_an_argument(session: Engine) -> None:
    ref = wb.put(np.ones((300, 200)))
    view = wb.get(ref)

    def about(shown: Any, part: Any = None) -> tuple[float, int]:
        large = [record for record in wb.snapshot().objects if record.size > 100_000]
        return shown.sum(), len(large)

    task = wb.remote(about)
    for call in (task.remote(view), task.remote(shown=view), task.remote(view, part=view[:1])):
        assert wb.get(call) == (60_000.0, 1)
    with wb.Executor() as executor:
        assert executor.submit(about, view).result() == (60_000.0, 1)
    wb.free(ref)  # what is shown stays valid, also where it is sent
    assert wb.get(task.remote(view))[0] == 60_000.0


def test_a_signal_that_ended_no_call_is_sent_again(session: Engine, gate: Gate) -> None:
    """As one that comes between the interpreter's last look and the call."""
    stop = gate.stop

    def waits() -> None:
        import select
        import signal

        kill, sent = signal.pthread_kill, []

        def first_is_lost(thread: int, number: int) -> None:
            sent.append(number)
            if len(sent) > 1:
                kill(thread, number)

        signal.pthread_kill = first_is_lost
        try:
            stop()
            select.select([], [], [])
        finally:
            signal.pthread_kill = kill

    ref = wb.remote(waits).remote()
    gate.next().let_on()
    wb.cancel(ref)
    with pytest.raises(TaskCancelledError):
        wb.get(ref, timeout=TIMEOUT)


def test_what_an_argument_refers_to_is_held_until_the_call_is_sent(session: Engine) -> None:
    """Another thread, or a collection, may let go of the last handle meanwhile."""
    driver: Any = session
    last, origin = [wb.put(np.ones(100_000))], driver.origin
    shown = wb.get(last[0])

    def let_go() -> Any:
        last.clear()
        driver.connection.flush()
        return origin()

    driver.origin = let_go
    try:
        total = wb.remote(np.sum).remote(shown)
    finally:
        driver.origin = origin
    assert not last
    assert wb.get(total) == 100_000


def test_tasks_wait_for_the_tasks_whose_results_they_take(session: Engine, gate: Gate) -> None:
    first = wb.remote(gate.stop).remote()
    word = first
    for _ in range(20):
        word = wb.remote(lambda text: text + ".").remote(word)
    visitor = gate.next()
    assert wb.wait([word], timeout=0) == ([], [word])
    visitor.let_on("chain")
    assert wb.get(word) == "chain" + "." * 20


def test_a_task_has_as_many_refs_as_results(session: Engine) -> None:
    @wb.remote
    def returns(result: Any) -> Any:
        wb.put("done", name="effect")
        return result

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
    session.unname("effect")
    assert returns.options(num_returns=0).remote(1) is None
    assert eventually(lambda: session.find("effect") is not None)
    session.unname("effect")


def test_results_that_hold_refs(session: Engine) -> None:
    """The worker's own handles die with the call; what is in the result has to outlive them."""

    @wb.remote
    def makes(i: int) -> list[wb.ObjectRef]:
        return [wb.put(i)]

    outer = [makes.remote(i) for i in range(200)]
    assert [wb.get(inner[0]) for inner in wb.get(outer)] == list(range(200))


# -- errors ---------------------------------------------------------------------------------------


def test_an_error_comes_back_as_what_it_was(session: Engine) -> None:
    def inner(n: int) -> float:
        return 1 / n

    def outer(n: int) -> float:
        try:
            return inner(n)
        except ZeroDivisionError as error:
            problem = ValueError(f"{n} won't do")
            problem.add_note("try 1")
            raise problem from error

    assert failure(wb.remote(outer).options(name="other name").remote(0)).task == "other name"
    ref = wb.remote(outer).remote(0)
    error = failure(ref)
    assert isinstance(error, ValueError)
    assert str(error).startswith("0 won't do")
    assert error.task.endswith("outer")
    assert error.cause_text == "ValueError: 0 won't do"
    assert error.remote_notes[0] == "try 1"
    assert any("Caused by: ZeroDivisionError: division by zero" in n for n in error.remote_notes)
    [frame] = error.frames
    line = outer.__code__.co_firstlineno + 6
    assert frame == (__file__, line, "outer", "raise problem from error")
    for again in (ref, echo.remote(ref)):  # who takes it fails likewise
        assert isinstance(failure(again), ValueError)


def failure(ref: wb.ObjectRef) -> TaskError:
    with pytest.raises(TaskError) as caught:
        wb.get(ref)
    return caught.value


def test_what_ends_more_than_a_call_elsewhere_is_an_error_of_the_task(session: Engine) -> None:
    """`tests/unit/test_errors.py` shows how each kind of error travels."""

    class AbortError(BaseException):
        """Of a class that only this test has."""

    @wb.remote
    def fails(error: BaseException) -> None:
        raise error

    kinds = (SystemExit, KeyboardInterrupt, StopIteration, AbortError)
    for kind, ref in [(kind, fails.remote(kind(3))) for kind in kinds]:
        error = failure(ref)
        assert isinstance(error, kind)
        assert error.cause_text.endswith(f"{kind.__name__}: 3")


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


def test_what_cannot_travel_fails_where_it_is_sent(session: Engine) -> None:
    lock = threading.Lock()
    model = {"a": lock}
    with pytest.raises(TypeError, match=r"model can't be serialized, because of:\n  model\['a'\] "):
        wb.put(model)
    with pytest.raises(TypeError, match=r"_?\w+\[0\] \(_thread.lock\)"):
        wb.remote(len).remote([lock])
    with pytest.raises(TypeError, match=r"model\['a'\] \(_thread.lock\)"):
        wb.remote(sorted).remote([], model=model)
    with pytest.raises(TypeError, match=r"lambda.*'?lock"):
        wb.remote(lambda: lock).remote()

    @wb.remote(num_returns=2)
    def half() -> Any:
        import threading

        return "good", threading.Lock()

    good, bad = half.remote()
    assert wb.get(good) == "good"
    with pytest.raises(TypeError, match=r"the result of .*half.* can't be serialized"):
        wb.get(bad)

    class Unreadable:
        def __reduce__(self) -> Any:
            return exec, ("raise ValueError('not here')",)

    with pytest.raises(TypeError, match=r"can't be rebuilt.*not here"):
        wb.get(wb.put(Unreadable()))
    with pytest.raises(TypeError, match=r"can't be rebuilt.*not here"):
        wb.get(wb.remote(len).remote(Unreadable()))


def test_a_result_too_large_for_the_store(session: Engine) -> None:
    @wb.remote
    def huge() -> Any:
        return np.zeros(20_000_000)

    error = failure(huge.remote())
    assert isinstance(error, StoreFullError)
    assert "160 MB" in str(error)
    assert wb.get(echo.remote("goes on")) == "goes on"


def test_a_task_waits_with_what_was_queued_behind_it(session: Engine) -> None:
    """Short tasks are sent ahead in batches; one that turns out to wait must not hold the rest."""
    one = wb.remote(lambda: 1)

    @wb.remote
    def sometimes(i: int) -> int:
        return wb.get(one.remote()) if i % 50 == 0 else 0

    assert wb.get([sometimes.remote(-1) for _ in range(100)]) == [0] * 100
    assert sum(wb.get([sometimes.remote(i) for i in range(1000)])) == 20


# -- definitions ----------------------------------------------------------------------------------


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
def test_what_is_defined_anew_in_a_loop_leaves_no_copies(
    session: Engine, define: Callable[[int], None]
) -> None:
    for number in range(1, 20):
        define(number)

    def stored() -> int:
        wb.get([wb.remote(gc.collect).remote() for _ in range(4)])
        records = session.snapshot().objects
        return sum("new" in record.about.type for record in records if record.about)

    assert copies() <= 2
    assert eventually(lambda: stored() <= 2)
    assert max(wb.get([wb.remote(copies).remote() for _ in range(4)])) <= 2


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

"""Tasks on the real pool: arguments, results, errors, tasks of tasks, and what they print."""

from __future__ import annotations

import gc
import getpass
import subprocess
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
from workbench.errors import StoreFullError, TaskCancelledError, TaskError, WorkerCrashedError


async def coroutine() -> None: ...


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
    assert wb.get(wb.remote(lambda *a, **k: (a, k)).remote(1, x=2)) == ((1,), {"x": 2})
    assert wb.get(wb.remote(max).remote([1, 3, 2])) == 3


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


def test_what_python_has_itself_comes_back_as_what_it_is(session: Engine) -> None:
    echo = wb.remote(lambda value: value)
    for value in (input, print, breakpoint, sys.breakpointhook, getpass.getpass, len, int):
        assert wb.get(echo.remote(value)) is value


def test_a_notebooks_input_comes_back_as_what_it_is(
    session: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Kernel:
        def __init__(self) -> None:
            self.lock = threading.Lock()  # so it can't be pickled

        def raw_input(self) -> str:
            return "answer"

    monkeypatch.setattr("builtins.input", Kernel().raw_input)
    assert wb.get(wb.remote(lambda value: value).remote(input)) is input
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
    assert eventually(lambda: session.snapshot().live == 0)


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


def test_what_an_argument_refers_to_is_held_until_the_call_is_sent(
    session: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread, or a collection, may let go of the last handle meanwhile."""
    last = [wb.put(np.ones(100_000))]
    shown, origin = wb.get(last[0]), session.origin

    def let_go() -> int:
        last.clear()
        session.connection.flush()  # type: ignore[attr-defined]
        return origin()

    monkeypatch.setattr(session, "origin", let_go)
    assert wb.get(wb.remote(np.sum).remote(shown)) == 100_000


def test_tasks_wait_for_the_tasks_whose_results_they_take(session: Engine, gate: Gate) -> None:
    first = wb.remote(gate.stop).remote()
    word = first
    for _ in range(20):
        word = wb.remote(lambda text: text + ".").remote(word)
    visitor = gate.next()
    assert wb.wait([word], timeout=0) == ([], [word])
    visitor.let_on("chain")
    assert wb.get(word) == "chain" + "." * 20


@pytest.mark.parametrize(
    ("count", "result", "complaint"),
    [
        (2, [1, 2], ""),
        (3, (1, "two", None), ""),
        (2, (1, 2, 3), "returned 3 value"),
        (2, "ab", "returned one value"),
        (2, None, "returned one value"),
    ],
)
def test_several_results_have_a_ref_each(
    session: Engine, count: int, result: Any, complaint: str
) -> None:
    refs = wb.remote(lambda: result).options(num_returns=count).remote()
    assert len(refs) == count
    if not complaint:
        assert wb.get(refs) == list(result)
    for ref in refs:
        if complaint:
            with pytest.raises(ValueError, match=f"num_returns={count} and {complaint}"):
                wb.get(ref)


def test_no_result_has_no_ref(session: Engine) -> None:
    @wb.remote(num_returns=0)
    def effect() -> None:
        wb.put("done", name="effect")

    assert effect.remote() is None
    assert eventually(lambda: session.find("effect") is not None)


def test_results_that_hold_refs(session: Engine) -> None:
    """The worker's own handles die with the call; what is in the result has to outlive them."""

    @wb.remote
    def makes(i: int) -> list[wb.ObjectRef]:
        return [wb.put(i)]

    outer = [makes.remote(i) for i in range(500)]
    assert [wb.get(inner[0]) for inner in wb.get(outer)] == list(range(500))


# -- options --------------------------------------------------------------------------------------


def test_options(session: Engine) -> None:
    @wb.remote
    def fails() -> None:
        raise ValueError("no")

    assert "in fails" in rendered(fails)
    assert "in other name" in rendered(fails.options(name="other name"))
    with pytest.raises(TypeError, match=r"fails\.remote\("):
        fails()
    for wrong, kind in (({"num_returns": -1}, ValueError), ({"max_retries": 1.5}, TypeError)):
        with pytest.raises(kind, match="whole number"):
            fails.options(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no option colour"):
        wb.remote(colour="red")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="A task has no option max_restarts"):
        wb.remote(max_restarts=1)(len)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"coroutine is `async def`.* `asyncio.run"):
        wb.remote(coroutine)
    for remote in (fails, wb.remote(Exception)):
        with pytest.raises(TypeError, match=r"is remote already: `\w+\.options"):
            wb.remote(remote)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="takes a function or a class"):
        wb.remote(3)  # type: ignore[call-overload]


def rendered(function: Any) -> str:
    with pytest.raises(TaskError) as caught:
        wb.get(function.remote())
    return "\n".join(caught.value._render_traceback_())


# -- errors ---------------------------------------------------------------------------------------


def test_an_error_comes_back_as_what_it_was(session: Engine) -> None:
    def inner(n: int) -> float:
        return 1 / n

    @wb.remote
    def outer(n: int) -> float:
        try:
            return inner(n)
        except ZeroDivisionError as error:
            problem = ValueError(f"{n} won't do")
            problem.add_note("try 1")
            raise problem from error

    ref = outer.remote(0)
    with pytest.raises(ValueError, match="0 won't do") as caught:
        wb.get(ref)
    error = caught.value
    assert isinstance(error, TaskError)
    assert error.cause_text == "ValueError: 0 won't do"
    assert error.remote_notes[0] == "try 1"
    assert any("Caused by: ZeroDivisionError: division by zero" in n for n in error.remote_notes)
    [(filename, line, function, source)] = error.frames
    assert (filename, function) == (__file__, "outer")
    assert line == outer._function.__code__.co_firstlineno + 7
    assert source == "raise problem from error"
    with pytest.raises(ValueError, match="0 won't do"):
        wb.get(ref)  # again
    with pytest.raises(ValueError, match="0 won't do") as caught:
        wb.get(wb.remote(lambda value: value).remote(ref))  # who takes it fails likewise
    assert isinstance(caught.value, TaskError)


class OddError(Exception):
    def __init__(self, a: int, *, b: int) -> None:
        super().__init__(a, b)


def test_odd_errors_are_task_errors_at_least(session: Engine) -> None:
    class LocalError(LookupError):
        """Of a class that only this test has."""

    class LockedError(Exception):
        def __init__(self) -> None:
            import threading

            super().__init__(threading.Lock())

    def odd() -> BaseException:
        return OddError(1, b=2)

    makers: list[tuple[Callable[[], BaseException], str, type[BaseException]]] = [
        (lambda: LocalError("mine"), "LocalError: mine", LookupError),
        (LockedError, "LockedError: <unlocked", LockedError),
        (odd, "OddError: (1, 2)", OddError),
        (lambda: SystemExit(3), "SystemExit: 3", SystemExit),
        (KeyboardInterrupt, "KeyboardInterrupt", KeyboardInterrupt),
        (lambda: StopIteration(1), "StopIteration: 1", StopIteration),
        (
            lambda: UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
            "UnicodeDecodeError",
            UnicodeError,
        ),
    ]

    @wb.remote
    def fails(make: Callable[[], BaseException]) -> None:
        raise make()

    for make, text, kind in makers:
        with pytest.raises(kind) as caught:
            wb.get(fails.remote(make))
        assert isinstance(caught.value, TaskError), text
        assert text in caught.value.cause_text


class AbortError(BaseException):
    def __init__(self, *, code: int) -> None:
        self.code = code


def test_except_sees_what_it_would_see_here(session: Engine) -> None:
    @wb.remote
    def fails(make: Callable[[], BaseException]) -> None:
        try:
            {}["first"]  # type: ignore[index]
        except KeyError as error:
            raise make() from error

    with pytest.raises(subprocess.CalledProcessError) as called:
        wb.get(fails.remote(lambda: subprocess.CalledProcessError(3, ["ls"], b"out")))
    error: Any = called.value
    assert (error.returncode, error.cmd, error.output) == (3, ["ls"], b"out")
    assert str(error) == "Command '['ls']' returned non-zero exit status 3."
    assert type(error.cause) is subprocess.CalledProcessError
    assert type(error.__cause__) is KeyError
    assert error.as_instanceof_cause() is error
    with pytest.raises(AbortError) as aborted:
        wb.get(fails.remote(lambda: AbortError(code=7)))
    assert aborted.value.code == 7
    seen = []
    try:
        wb.get(fails.remote(lambda: ExceptionGroup("two", [ValueError(1), OSError(2, "no")])))
    except* ValueError as group:
        seen += group.exceptions
    except* FileNotFoundError as group:
        seen += group.exceptions
    assert [each.args for each in seen] == [(1,), (2, "no")]


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
    import threading

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

    with pytest.raises(StoreFullError, match="160 MB") as caught:
        wb.get(huge.remote())
    assert isinstance(caught.value, TaskError)
    assert wb.get(wb.remote(lambda: "goes on").remote()) == "goes on"


# -- tasks of tasks -------------------------------------------------------------------------------


def test_tasks_may_wait_for_tasks_deeper_than_there_are_workers(session: Engine) -> None:
    @wb.remote
    def down(n: int) -> int:
        return n if n == 0 else 1 + wb.get(down.remote(n - 1))

    assert wb.get(down.remote(8)) == 8

    @wb.remote
    def fibonacci(n: int) -> int:
        return n if n < 2 else sum(wb.get([fibonacci.remote(n - 1), fibonacci.remote(n - 2)]))

    assert wb.get(fibonacci.remote(6)) == 8


def test_a_task_waits_with_what_was_queued_behind_it(session: Engine) -> None:
    """Short tasks are sent ahead in batches; one that turns out to wait must not hold the rest."""
    one = wb.remote(lambda: 1)

    @wb.remote
    def sometimes(i: int) -> int:
        return wb.get(one.remote()) if i % 50 == 0 else 0

    assert wb.get([sometimes.remote(-1) for _ in range(100)]) == [0] * 100
    assert sum(wb.get([sometimes.remote(i) for i in range(1000)])) == 20


# -- how workers die ------------------------------------------------------------------------------


class Fatal:
    """Ends the process that pickles or unpickles it."""

    def __init__(self, when: str) -> None:
        self.when = when

    def __reduce__(self) -> Any:
        import os

        if self.when == "pickled":
            os._exit(4)
        return os._exit, (5,)


@pytest.mark.parametrize(
    ("death", "message"),
    [
        ("SIGKILL", "was killed by SIGKILL, perhaps by Linux because memory ran out,"),
        ("SIGSEGV", "was killed by SIGSEGV"),
        ("exit", "exited with status 3"),
        ("result", "exited with status 4"),
        ("argument", "exited with status 5"),
    ],
)
def test_a_task_that_ends_its_worker(session: Engine, death: str, message: str) -> None:
    @wb.remote(max_retries=1)
    def dies(how: str, argument: Any = None) -> Any:
        import os
        import signal

        if how == "exit":
            os._exit(3)
        if how == "result":
            return Fatal("pickled")
        os.kill(os.getpid(), getattr(signal, how))
        return None

    fatal = [Fatal("unpickled")] if death == "argument" else []
    with pytest.raises(WorkerCrashedError, match=rf"{message} while it ran `.*dies`"):
        wb.get(dies.remote(death, *fatal))
    assert wb.get(wb.remote(lambda: "goes on").remote()) == "goes on"


# -- definitions ----------------------------------------------------------------------------------


def a_function(number: int) -> None:
    @wb.remote
    def anew(n: int) -> Any:
        return n * number or anew  # it refers to itself

    assert wb.get(anew.remote(2)) == 2 * number


def a_class(number: int) -> None:
    @wb.remote
    def echo(value: Any) -> Any:
        return value

    class Anew:
        n = number

        def ring(self) -> Any:
            return Anew

    assert wb.get(echo.remote(Anew())).n == number


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


@pytest.mark.parametrize(
    ("define", "times"), [(a_function, 300), (a_class, 200), (an_actors_class, 30)]
)
def test_what_is_defined_anew_in_a_loop_leaves_no_copies(
    session: Engine, define: Callable[[int], None], times: int
) -> None:
    for number in range(1, times):
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

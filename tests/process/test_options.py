"""What a task asks for: time limits, other tries, processors; and bad values, told clearly."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from workbench.engines.base import Engine
from workbench.errors import SerializationError, TaskCancelledError, TaskError, TaskTimeoutError

# -- timeout --------------------------------------------------------------------------------------


def sleeps(seconds: float) -> None:
    import select

    select.select([], [], [], seconds)


def spins() -> None:
    while True:
        pass


def deaf() -> None:
    """It hears no interrupt: only its worker's end stops it."""
    while True:
        try:
            spins()
        except KeyboardInterrupt:
            pass


@pytest.mark.parametrize("body", [sleeps, spins, deaf])
def test_what_runs_too_long_is_stopped(session: Engine, body: Callable[..., None]) -> None:
    limited = wb.remote(timeout=0.1)(body)
    ref = limited.remote(100) if body is sleeps else limited.remote()
    with pytest.raises(
        TaskTimeoutError, match=f"`{body.__name__}` ran longer than its timeout, 0.1 s"
    ):
        wb.get(ref, timeout=TIMEOUT)
    assert issubclass(TaskTimeoutError, TaskCancelledError | TimeoutError)
    assert wb.get(wb.remote(lambda: "goes on").remote()) == "goes on"


def test_time_in_the_queue_does_not_count(session: Engine, gate: Gate) -> None:
    busy = [wb.remote(gate.stop).remote() for _ in range(2)]
    visitors = [gate.next(), gate.next()]
    late = [wb.remote(timeout=5)(lambda: 1).remote() for _ in range(20)]
    assert wb.wait(late, timeout=0)[0] == []
    for visitor in visitors:
        visitor.let_on()
    assert wb.get(late, timeout=TIMEOUT) == [1] * 20
    wb.get(busy)


def test_a_call_that_takes_too_long_leaves_its_actor(session: Engine) -> None:
    @wb.remote
    class Slow:
        def __init__(self) -> None:
            self.kept = 0

        def spin(self) -> None:
            while True:
                pass

        def keep(self, value: int) -> int:
            self.kept += value
            return self.kept

    actor = Slow.remote()
    wb.get(actor.keep.remote(3))
    limited = [actor.spin.options(timeout=0.1).remote() for _ in range(3)]
    for ref in limited:
        with pytest.raises(TaskTimeoutError, match=r"`Slow\.spin`"):
            wb.get(ref, timeout=TIMEOUT)
    assert wb.get(actor.keep.remote(4)) == 7


# -- retry_exceptions -----------------------------------------------------------------------------


@pytest.fixture
def tries(tmp_path: Path) -> Callable[[], int]:
    """How often the task has come by: it adds a byte to a file each time."""
    return lambda: os.path.getsize(tmp_path / "tries")


def fails_until(directory: Path, times: int, error: type[Exception]) -> Callable[[], int]:
    path = str(directory / "tries")

    def task() -> int:
        with open(path, "a") as file:
            file.write(".")
        if os.path.getsize(path) <= times:
            raise error("not yet")
        return os.path.getsize(path)

    return task


class OwnError(ValueError):
    pass


@pytest.mark.parametrize(
    ("given", "raised", "count"),
    [
        (True, KeyError, 3),
        (KeyError, KeyError, 3),
        ([OSError, LookupError], KeyError, 3),
        ([ValueError], OwnError, 3),
        ([OSError], KeyError, 1),
        (False, KeyError, 1),
    ],
)
def test_exceptions_are_retried_if_they_are_named(
    session: Engine,
    tmp_path: Path,
    tries: Callable[[], int],
    given: Any,
    raised: type[Exception],
    count: int,
) -> None:
    body = fails_until(tmp_path, 100, raised)
    with pytest.raises(raised, match="not yet"):
        wb.get(wb.remote(max_retries=2, retry_exceptions=given)(body).remote())
    assert tries() == count


def test_a_later_try_may_succeed(session: Engine, tmp_path: Path) -> None:
    body = fails_until(tmp_path, 2, KeyError)
    assert wb.get(wb.remote(retry_exceptions=True)(body).remote()) == 3
    endless = fails_until(tmp_path, 20, KeyError)
    assert wb.get(wb.remote(retry_exceptions=True, max_retries=-1)(endless).remote()) == 21


def test_a_call_is_retried_in_the_same_actor(session: Engine) -> None:
    @wb.remote(max_task_retries=5)
    class Flaky:
        def __init__(self) -> None:
            self.calls = 0

        def call(self) -> int:
            self.calls += 1
            if self.calls < 4:
                raise OSError("not yet")
            return self.calls

    actor = Flaky.remote()
    with pytest.raises(OSError, match="not yet"):
        wb.get(actor.call.remote())
    assert wb.get(actor.call.options(retry_exceptions=[OSError]).remote()) == 4


def test_exceptions_that_the_worker_does_not_know(
    session: Engine, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "known_here_alone.py").write_text("class Odd(Exception): ...")
    monkeypatch.syspath_prepend(tmp_path)
    import known_here_alone  # type: ignore[import-not-found]

    ref = wb.remote(retry_exceptions=known_here_alone.Odd)(lambda: 1).remote()
    with pytest.raises(SerializationError, match="retry_exceptions"):
        wb.get(ref, timeout=TIMEOUT)


def test_a_cancelled_task_is_not_tried_again(session: Engine, gate: Gate) -> None:
    ref = wb.remote(retry_exceptions=True, max_retries=-1)(gate.stop).remote()
    gate.next().close()  # EOFError: it comes again
    gate.next()
    wb.cancel(ref)
    with pytest.raises(TaskCancelledError):
        wb.get(ref, timeout=TIMEOUT)


# -- num_cpus -------------------------------------------------------------------------------------


def test_more_light_tasks_run_than_there_are_processors(session: Engine, gate: Gate) -> None:
    light = wb.remote(num_cpus=0.25)(gate.stop)
    refs = [light.remote() for _ in range(9)]
    visitors = [gate.next() for _ in range(8)]  # two processors
    assert len({visitor.pid for visitor in visitors}) == 8
    assert session.snapshot().queued == 1
    for visitor in visitors:
        visitor.let_on()
    gate.next().let_on()
    assert wb.get(refs) == ["go"] * 9
    assert eventually(lambda: len(session.snapshot().workers) == 2)  # the others went home


def test_tasks_that_need_no_processor_wait_for_nobody(session: Engine, gate: Gate) -> None:
    busy = [wb.remote(gate.stop).remote() for _ in range(2)]
    visitors = [gate.next(), gate.next()]
    assert wb.get(wb.remote(num_cpus=0)(lambda: "at once").remote(), timeout=TIMEOUT) == "at once"
    for visitor in visitors:
        visitor.let_on()
    wb.get(busy)


def test_tasks_that_need_no_processor_keep_nobody_from_one(session: Engine, gate: Gate) -> None:
    idling = [wb.remote(num_cpus=0)(gate.stop).remote() for _ in range(3)]
    visitors = [gate.next() for _ in idling]
    assert wb.get(wb.remote(lambda: "goes on").remote(), timeout=TIMEOUT) == "goes on"
    for visitor in visitors:
        visitor.let_on()
    wb.get(idling)


def test_a_heavy_task_has_its_processors_to_itself(session: Engine, gate: Gate) -> None:
    heavy = wb.remote(num_cpus=2)(gate.stop).remote()
    visitor = gate.next()
    light = wb.remote(gate.stop).remote()
    assert wb.wait([light], timeout=0) == ([], [light])
    assert session.snapshot().queued == 1
    visitor.let_on()
    gate.next().let_on()
    assert wb.get([heavy, light]) == ["go", "go"]


def test_nobody_overtakes_a_heavy_task(session: Engine, gate: Gate) -> None:
    first = wb.remote(gate.stop).remote()
    visitor = gate.next()
    heavy = wb.remote(num_cpus=2)(lambda: 2).remote()
    light = wb.remote(gate.stop).remote()
    assert wb.wait([heavy, light], timeout=0)[0] == []
    visitor.let_on()
    assert wb.get([first, heavy], timeout=TIMEOUT) == ["go", 2]
    gate.next().let_on()
    assert wb.get(light) == "go"


# -- bad values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind", "complaint"),
    [
        ({"num_returns": "many"}, ValueError, "must be a number, 'streaming' or 'dynamic'"),
        ({"num_returns": 1.5}, TypeError, "whole number, 0 or more"),
        ({"num_returns": True}, TypeError, "whole number"),
        ({"num_returns": 100_001}, ValueError, "more than 100,000: yield"),
        ({"max_retries": -2}, ValueError, "-1 or more"),
        ({"max_retries": 0.89}, TypeError, "max_retries=0.89 must be a whole number, -1 or more"),
        ({"max_retries": "3"}, TypeError, "whole number"),
        ({"num_cpus": "1"}, TypeError, "must be a number"),
        ({"memory": "1GB"}, TypeError, "number of bytes, 0 or more"),
        ({"runtime_env": ["A"]}, TypeError, "must be a dict like .*env_vars"),
        ({"runtime_env": {"env_vars": {"A": 1}}}, TypeError, "texts by name"),
        ({"timeout": "soon"}, TypeError, "timeout='soon' must be a number"),
        ({"timeout": float("nan")}, ValueError, "must be a number"),
        ({"timeout": 0}, ValueError, "above 0; leave it out"),
        ({"num_cpus": -1}, ValueError, "num_cpus=-1 must be a number, 0 or more"),
        ({"max_ahead": 0}, ValueError, "max_ahead=0 must be a whole number, 1 or more"),
        ({"name": 3}, TypeError, "must be text"),
        ({"retry_exceptions": "ValueError"}, TypeError, "list of exception types"),
        ({"retry_exceptions": [KeyboardInterrupt]}, ValueError, "list of exception types"),
        ({"restarts": 3}, TypeError, "A task has no option restarts. There are: num_returns"),
    ],
)
def test_bad_options_are_told(given: dict[str, Any], kind: type[Exception], complaint: str) -> None:
    with pytest.raises(kind, match=complaint):
        wb.remote(lambda: 1).options(**given)


def test_a_mistyped_option_is_recognised() -> None:
    with pytest.raises(TypeError, match=r"has no option num_cpu. Did you mean 'num_cpus'"):
        wb.remote(num_cpu=2)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"max_restarts": 1.5}, TypeError),
        ({"max_restarts": -2}, ValueError),
        ({"max_concurrency": "2"}, TypeError),
        ({"max_concurrency": 0}, ValueError),
        ({"lifetime": 1}, TypeError),
        ({"lifetime": "long"}, ValueError),
        ({"namespace": 1}, TypeError),
        ({"namespace": ""}, ValueError),
    ],
)
def test_bad_options_of_actors_are_told(given: dict[str, Any], kind: type[Exception]) -> None:
    """A type that can't be is a TypeError, as Ray's; a value that can't be a ValueError."""
    with pytest.raises(kind, match=next(iter(given))):
        wb.remote(**given)(type("Actor", (), {}))


def test_more_processors_than_there_are_is_an_error_at_once(session: Engine) -> None:
    with pytest.raises(ValueError, match=r"num_cpus=3, and session '.*' has 2.*init\(workers"):
        wb.remote(num_cpus=3)(lambda: 1).remote()


def test_calls_have_no_processors(session: Engine) -> None:
    @wb.remote
    class Actor:
        def f(self) -> int:
            return 1

    actor = Actor.remote()
    with pytest.raises(TypeError, match="no num_cpus"):
        actor.f.options(num_cpus=2)
    with pytest.raises(TypeError, match="A call has no option color"):
        actor.f.options(color=2)


def test_wrong_arguments_are_noticed_at_the_call(session: Engine) -> None:
    """On that line, with what it takes; and nothing is submitted."""

    @wb.remote
    def task(x: int, *, power: int = 2) -> int:
        return int(x**power)

    @wb.remote
    class Counter:
        def __init__(self, start: int) -> None:
            self.count = start

        def add(self, by: int = 1) -> int:
            self.count += by
            return self.count

    for wrong in (
        lambda: task.remote(),
        lambda: task.remote(1, 2),
        lambda: task.options(name="other").remote(1, exponent=3),
        lambda: wb.map(task, [1], [2]),
    ):
        with pytest.raises(TypeError, match=r"It is .*task\(x, \*, power=2\)\.") as caught:
            wrong()
        assert not isinstance(caught.value, TaskError)
    assert wb.get(task.remote(wb.put(3), power=wb.put(3))) == 27
    for wrong in (lambda: Counter.remote(), lambda: Counter.options(max_restarts=1).remote(1, 2)):
        with pytest.raises(TypeError, match=r"It is Counter\(start\)\."):
            wrong()
    counter = Counter.remote(1)
    for handle in (counter, wb.get(wb.put(counter))):
        with pytest.raises(TypeError, match=r"It is Counter\.add\(by=1\)\."):
            handle.add.remote(1, 2)
        with pytest.raises(TypeError, match="unexpected keyword argument 'to'"):
            handle.add.options(name="add").remote(to=2)
    assert wb.get(counter.add.remote(by=2)) == 3


def test_thread_pools_of_libraries_share_the_processors(session: Engine) -> None:
    def pools() -> tuple[int, int]:
        import polars
        from threadpoolctl import threadpool_info

        return polars.thread_pool_size(), max(each["num_threads"] for each in threadpool_info())

    assert len(set(wb.get(wb.remote(pools).remote()))) == 1

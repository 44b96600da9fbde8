"""What a task asks for: time limits, other tries, processors; and bad values, told clearly."""

from __future__ import annotations

import builtins
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.tables import tables
from workbench.engine.base import Engine
from workbench.errors import TaskCancelledError, TaskError, TaskTimeoutError


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


def test_what_runs_too_long_is_stopped(session: Engine) -> None:
    for body in (signal.pause, spins, deaf):
        ref = wb.remote(timeout=0.1)(body).remote()
        text = f"`{body.__name__}` ran longer than its timeout, 0.1 s"
        with pytest.raises(TaskTimeoutError, match=text) as caught:
            wb.get(ref, timeout=TIMEOUT)
        assert isinstance(caught.value, TaskCancelledError)
        assert isinstance(caught.value, TimeoutError)
    assert wb.get(wb.remote(lambda: "goes on").remote()) == "goes on"


def test_a_call_that_takes_too_long_leaves_its_actor(session: Engine) -> None:
    @wb.remote
    class Slow:
        kept = 0

        def spin(self) -> None:
            self.kept += 1
            spins()

        def keep(self) -> int:
            return self.kept

    actor = Slow.remote()
    for ref in [actor.spin.options(timeout=0.1).remote() for _ in range(3)]:
        with pytest.raises(TaskTimeoutError, match=r"`Slow\.spin`"):
            wb.get(ref, timeout=TIMEOUT)
    assert wb.get(actor.keep.remote()) == 3


def fails_until(path: Path, times: int, error: type[Exception]) -> Callable[[], int]:
    """It adds a byte to a file each time it comes by."""

    def task() -> int:
        with open(path, "a") as file:
            file.write(".")
        if os.path.getsize(path) <= times:
            raise error("not yet")
        return os.path.getsize(path)

    return task


class OwnError(ValueError):
    pass


def test_exceptions_are_retried_if_they_are_named(session: Engine, tmp_path: Path) -> None:
    cases: list[tuple[Any, type[Exception], int]] = [
        (True, KeyError, 3),
        (KeyError, KeyError, 3),
        ([OSError, LookupError], KeyError, 3),
        ([ValueError], OwnError, 3),
        ([OSError], KeyError, 1),
        (False, KeyError, 1),
    ]
    for number, (given, raised, count) in enumerate(cases):
        path = tmp_path / str(number)
        body = fails_until(path, 100, raised)
        with pytest.raises(raised, match="not yet"):
            wb.get(wb.remote(max_retries=2, retry_exceptions=given)(body).remote())
        assert path.stat().st_size == count, given
    endless = fails_until(tmp_path / "endless", 20, KeyError)
    assert wb.get(wb.remote(retry_exceptions=True, max_retries=-1)(endless).remote()) == 21


def test_nobody_overtakes_a_heavy_task(session: Engine, gate: Gate) -> None:
    light, heavy = wb.remote(gate.stop), wb.remote(num_cpus=2)(gate.stop)
    refs = [light.remote(), heavy.remote(), light.remote()]
    for word in ("first", "heavy", "last"):  # one at a time
        visitor = gate.next()
        assert session.snapshot().running == 1
        visitor.let_on(word)
    assert wb.get(refs, timeout=TIMEOUT) == ["first", "heavy", "last"]


VAIN: dict[str, Any] = {
    "num_gpus": 0, "resources": {}, "scheduling_strategy": "SPREAD", "accelerator_type": None,
    "runtime_env": {}, "memory": None, "enable_task_events": False,
}  # fmt: skip


async def coroutine() -> None: ...


@pytest.mark.parametrize(("error", "given"), tables(__file__)[""])
def test_bad_options_are_told(error: str, given: str) -> None:
    kind, complaint = error.split(": ", 1)
    with pytest.raises(getattr(builtins, kind), match=complaint):
        wb.remote(**VAIN)(lambda: 1).options(**eval(f"dict({given})"))


def test_bad_options_of_actors_are_told() -> None:
    """A type that can't be is a TypeError, as Ray's; a value that can't be a ValueError."""
    for option, of_no_type, of_no_sense in (
        ("max_restarts", 1.5, -2),
        ("max_concurrency", "2", 0),
        ("lifetime", 1, "long"),
        ("namespace", 1, ""),
    ):
        for error, value in ((TypeError, of_no_type), (ValueError, of_no_sense)):
            with pytest.raises(error, match=option):
                wb.remote(**VAIN, **{option: value})(type("Actor", (), {}))


def test_what_cannot_be_remote() -> None:
    remote, there = wb.remote(len), r"is remote already: `\w+\.options"
    for call, kind, complaint in (
        (lambda: wb.remote(num_cpu=2), TypeError, "no option num_cpu. Did you mean 'num_cpus'"),
        (lambda: wb.remote(max_restarts=1)(len), TypeError, "A task has no option max_restarts"),
        (lambda: wb.remote(coroutine), ValueError, r"coroutine is `async def`.* `asyncio.run"),
        (lambda: wb.remote(remote), TypeError, there),
        (lambda: wb.remote(wb.remote(OwnError)), TypeError, there),
        (lambda: wb.remote(3), TypeError, "takes a function or a class"),
        (lambda: remote("abc"), TypeError, r"len\.remote\("),
    ):
        with pytest.raises(kind, match=complaint):
            call()


def test_more_processors_than_there_are_are_an_error_at_once(session: Engine) -> None:
    with pytest.raises(ValueError, match=r"num_cpus=3, and session '.*' has 2.*init\(workers"):
        wb.remote(num_cpus=3)(lambda: 1).remote()


def test_wrong_arguments_are_noticed_at_the_call(session: Engine) -> None:
    """On that line, with what it takes; `tests/unit/test_signatures.py` shows each kind."""

    @wb.remote
    def task(x: int, *, power: int = 2) -> int:
        return int(x**power)

    @wb.remote
    class Counter:
        def __init__(self, start: int) -> None:
            self.count = start

        def add(self, by: int = 1) -> int:
            return self.count + by

    counter = Counter.remote(1)
    passed_on = wb.get(wb.put(counter))
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: task.options(name="other").remote(1, exponent=3), r"task\(x, \*, power=2\)"),
        (lambda: wb.map(task, [1], [2]), r"task\(x, \*, power=2\)"),
        (lambda: Counter.options(max_restarts=1).remote(1, 2), r"Counter\(start\)"),
        (lambda: counter.add.options(name="add").remote(to=2), r"Counter\.add\(by=1\)"),
        (lambda: passed_on.add.remote(to=2), r"Counter\.add\(by=1\)"),
    ]
    for call, signature in calls:
        with pytest.raises(TypeError, match=rf"It is .*{signature}\.") as caught:
            call()
        assert not isinstance(caught.value, TaskError)
    assert wb.get(task.remote(wb.put(3), power=wb.put(3))) == 27
    with pytest.raises(TypeError, match="A call has no option color"):
        counter.add.options(color=2)


def test_thread_pools_of_libraries_share_the_processors(session: Engine) -> None:
    def pools() -> tuple[int, int]:
        import polars
        from threadpoolctl import threadpool_info

        return polars.thread_pool_size(), max(each["num_threads"] for each in threadpool_info())

    assert len(set(wb.get(wb.remote(pools).remote()))) == 1

"""Tasks that go straight to a worker that is lent: they do what tasks by the server do."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.gates import Gate
from tests.process.scripts import Script
from workbench.client.direct_line import NO_ACTOR
from workbench.errors import TaskCancelledError, TaskError, WorkerCrashedError


def does() -> Any:
    """The function, as a notebook's cell makes it."""

    @wb.remote
    def do(kind: Any = None, stop: Any = None) -> Any:
        if stop is not None:
            return stop()
        if kind == "large":
            return np.arange(100_000)
        if kind == "ref":
            return [wb.put("inside")]
        if kind == "error":
            raise LookupError("no such thing")
        if kind == "print":
            print("shown first")
        if kind == "dies":
            print("shown last")
            os._exit(3)
        if kind == "nested":

            @wb.remote
            def inner() -> int:
                print("shown by a task of a task")
                return 5

            return wb.get(inner.remote())
        if isinstance(kind, str) and kind.startswith("name "):
            return wb.get(kind)
        return kind

    return do


def borrow(session: Any, do: Any) -> None:
    """Have a worker lent for the function."""

    def has_one() -> bool:
        line = session._base.lines._by_actor.get(NO_ACTOR)
        before = 0 if line is None else line.sent
        wb.get(do.remote())
        return line is not None and line.sent > before

    assert eventually(has_one)


@pytest.fixture
def do(session: Any) -> Any:
    """A function whose tasks go straight to a worker from now on."""
    function = does()
    borrow(session, function)
    return function


def go_straight(session: Any, tasks: Callable[[], int]) -> bool:
    """Whether so many tasks, which that submits and gets, all went by one line.

    To be asked until they do: a lease may end in between, as where two runs waited long for a
    processor.
    """
    lines = session._base.lines._by_actor
    line = lines.get(NO_ACTOR)  # none while another one is being made
    before = 0 if line is None else line.sent
    count = tasks()
    return line is not None and lines.get(NO_ACTOR) is line and line.sent == before + count


def test_tasks_one_after_the_other_go_straight(session: Any, do: Any) -> None:
    def tasks() -> int:
        assert [wb.get(do.remote(n)) for n in range(20)] == list(range(20))
        return 20

    assert eventually(lambda: go_straight(session, tasks))


def test_so_do_those_of_functions_that_take_turns(session: Any, do: Any) -> None:
    """A lease is for all of them, once its worker knows them."""

    @wb.remote
    def other() -> None: ...

    def tasks() -> int:
        for function in (do, other) * 5:
            wb.get(function.remote())
        return 10

    assert eventually(lambda: go_straight(session, tasks))


def lend(session: Any, do: Any, ref: Any) -> Any:
    """Have a worker lent for the function with the object; returns the line."""

    def has_one() -> bool:
        nonlocal line
        wb.get(do.remote(ref))
        line = session._base.lines._by_actor.get(NO_ACTOR)
        return line is not None and line.is_granted and ref.id in line.objects

    line: Any = None
    assert eventually(has_one)
    return line


def length() -> Any:
    @wb.remote
    def length(array: Any, stop: Any = None) -> Any:
        return len(array) if stop is None else (stop(), float(array.sum()))

    return length


def test_arguments_by_reference_go_straight(session: Any) -> None:
    size, ref = length(), wb.put(np.ones(1_000_000))

    def tasks() -> int:
        assert [wb.get(size.remote(ref)) for _ in range(20)] == [1_000_000] * 20
        assert wb.get(size.remote(wb.get(ref))) == 1_000_000  # the array stands for its object
        return 21

    assert eventually(lambda: lend(session, size, ref) and go_straight(session, tasks))
    line, other = lend(session, size, ref), wb.put(np.ones(500_000))
    before = line.sent
    assert wb.get(size.remote(other)) == 500_000  # through the server: it wasn't lent
    assert line.sent == before


def test_what_is_lent_stays_until_it_was_read(session: Any, gate: Gate) -> None:
    """Its driver has let go of it, and its room is wanted."""
    size, held = length(), [wb.put(np.ones(1_000_000))]
    began: list[Any] = []

    def goes_straight() -> bool:
        line = lend(session, size, held[0])
        before = line.sent
        began[:] = size.remote(held[0], gate.stop), gate.next()
        if line.sent == before + 1:
            return True
        began[1].let_on("the lease had ended")
        wb.get(began[0])
        return False

    assert eventually(goes_straight)
    result, visitor = began
    held.clear()
    for _ in range(5):
        wb.get(wb.put(np.zeros(1_000_000)))
    visitor.let_on("read")
    assert wb.get(result) == ("read", 1_000_000.0)


def test_what_is_lent_and_dropped_gives_its_room_back(session: Any) -> None:
    size, ref = length(), wb.put(np.ones(1_000_000))
    lend(session, size, ref)
    number = ref.id
    del ref
    assert eventually(lambda: all(o.id != number for o in session.snapshot().objects))


def test_an_array_outlives_the_task_that_it_was_lent_to(session: Any) -> None:
    @wb.remote
    def keep(array: Any) -> int:
        import builtins

        builtins.kept_by_test = array  # type: ignore[attr-defined]
        return len(array)

    @wb.remote
    def kept(array: Any) -> float:
        import builtins

        array = getattr(builtins, "kept_by_test", None)
        return 1_000_000.0 if array is None else float(array.sum())

    ref = wb.put(np.ones(1_000_000))
    lend(session, keep, ref)
    wb.get(keep.remote(ref))
    del ref
    for _ in range(5):
        wb.get(wb.put(np.zeros(1_000_000)))
    others = [wb.put(np.zeros(1_000_000)) for _ in range(3)]
    assert wb.get([kept.remote(0) for _ in range(8)]) == [1_000_000.0] * 8
    del others


def test_results_of_any_kind(do: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        assert (wb.get(do.remote("large")) == np.arange(100_000)).all()
        (ref,) = wb.get(do.remote("ref"))
        assert wb.get(ref) == "inside"
        with pytest.raises(TaskError, match="no such thing"):
            wb.get(do.remote("error"))
        assert wb.get(do.remote("print")) == "print"
        assert "shown first" in capsys.readouterr().out  # before the result is there


def test_a_task_that_waits_for_another(do: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert wb.get(do.remote("nested")) == 5
    assert eventually(lambda: "shown by a task of a task" in capsys.readouterr().out)


def test_only_one_at_a_time_goes_there(session: Any, do: Any, gate: Gate) -> None:
    """The others go where there is room, and whoever waits for a worker has the lent one, too."""
    workers = session._base.workers
    refs = [do.remote(None, gate.stop) for _ in range(workers + 1)]
    visitors = [gate.next() for _ in range(workers)]
    assert len({visitor.pid for visitor in visitors}) == workers
    for visitor in visitors:
        visitor.let_on("done")
    gate.next().let_on("done")
    assert wb.get(refs) == ["done"] * len(refs)


def test_a_lent_worker_is_there_for_who_waits(session: Any, do: Any, gate: Gate) -> None:
    """Also if its lease isn't used just then."""

    @wb.remote
    def other(stop: Any) -> Any:
        return stop()

    workers = range(session._base.workers)
    refs = [other.remote(gate.stop) for _ in workers]
    visitors = [gate.next() for _ in workers]
    for visitor in visitors:
        visitor.let_on("done")
    assert wb.get(refs) == ["done"] * len(refs)
    assert wb.get(do.remote(1)) == 1
    borrow(session, do)


def test_it_is_seen_while_it_runs(session: Any, do: Any, gate: Gate) -> None:
    ref = do.remote(None, gate.stop)
    visitor = gate.next()

    def tasks() -> list[tuple[str, ...]]:
        workers = session.snapshot().workers
        return [worker.tasks for worker in workers if worker.pid == visitor.pid]

    assert eventually(lambda: tasks() == [("does.<locals>.do",)])
    assert not wb.wait([ref], timeout=0)[0]
    visitor.let_on("done")
    assert wb.get(ref) == "done"


def test_a_task_is_cancelled(session: Any, do: Any, gate: Gate) -> None:
    ref = do.remote(None, gate.stop)
    gate.next()
    wb.cancel(ref)
    with pytest.raises(TaskCancelledError):
        wb.get(ref)
    borrow(session, do)


@pytest.mark.parametrize("retries", [0, 1])
def test_the_worker_is_killed(session: Any, do: Any, gate: Gate, retries: int) -> None:
    ref = do.options(max_retries=retries).remote(None, gate.stop)
    os.kill(gate.next().pid, signal.SIGKILL)
    if retries:
        gate.next().let_on("again")
        assert wb.get(ref) == "again"
    else:
        with pytest.raises(WorkerCrashedError, match=r"while it ran `does.*do`"):
            wb.get(ref)
    borrow(session, do)


def test_what_is_shown_right_before_the_end(
    session: Any, do: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(WorkerCrashedError):
        wb.get(do.options(max_retries=0).remote("dies"))
    assert eventually(lambda: "shown last" in capsys.readouterr().out)


def test_what_was_said_before_is_known(session: Any, do: Any) -> None:
    for n in range(10):
        session.name(wb.put(n), f"name {n}")
        assert wb.get(do.remote(f"name {n}")) == n
        session.unname(f"name {n}")


def test_a_result_is_there_for_others(do: Any) -> None:
    @wb.remote
    def more(value: int) -> int:
        return value + 1

    for n in range(20):
        assert wb.get(more.remote(do.remote(n))) == n + 1


def test_a_driver_that_is_killed(session: Any, script: Callable[..., Script], gate: Gate) -> None:
    """What it had sent by its lease is nobody's; the worker is free again."""
    victim = script(
        """
        engine = wb.init(session=sys.argv[1])

        @wb.remote
        def do(stop=None):
            return stop and stop()

        line = None
        while line is None or not engine._base.lines.lease(*line.functions):
            wb.get(do.remote())
            line = engine._base.lines._by_actor.get(0)
        engine._base.connection.defer = lambda message: None  # the server never hears of it
        ref = do.remote(stopper(sys.argv[2]))
        hear()
        """,
        session.session,
        gate.path,
    )
    gate.next()
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    workers = range(session._base.workers)
    others = [wb.remote(lambda stop: stop()).remote(gate.stop) for _ in workers]
    for visitor in [gate.next() for _ in workers]:
        visitor.let_on("done")
    assert wb.get(others) == ["done"] * len(others)

"""gather, as_completed and map: order, the first failure, Ctrl-C, the window, and the bar."""

from __future__ import annotations

import asyncio
import gc
import io
import itertools
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from typing import Any

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.processes import Processes
from workbench import context
from workbench.api import gathering
from workbench.api.gathering import WINDOW
from workbench.client.completion_queue import CompletionQueue
from workbench.engines.base import Engine
from workbench.errors import (
    ForeignRefError,
    GetTimeoutError,
    ObjectFreedError,
    SessionError,
    TaskCancelledError,
    TaskError,
)


@wb.remote
def same(x: Any) -> Any:
    return x


@wb.remote
def fails(x: Any) -> Any:
    raise LookupError(x)


def is_idle(session: Engine) -> bool:
    snapshot = session.snapshot()
    return not snapshot.running and not snapshot.queued


# -- gather ----------------------------------------------------------------------------------------


def test_values_come_in_the_order_of_the_refs(session: Engine, gate: Gate) -> None:
    late = wb.remote(gate.stop).remote()
    visitor = gate.next()
    refs = [late, same.remote(1), wb.put("put"), late]
    threading.Timer(0, lambda: (wb.get(refs[1]), visitor.let_on("late"))).start()
    assert wb.gather(iter(refs)) == ["late", 1, "put", "late"]


def test_the_first_failure_is_raised_while_others_run_and_those_go_on(
    session: Engine, gate: Gate
) -> None:
    runs = wb.remote(gate.stop).remote()
    visitor = gate.next()
    with pytest.raises(LookupError, match="bad") as caught:
        wb.gather([runs, fails.remote("bad")])
    assert isinstance(caught.value, TaskError)
    visitor.let_on("not cancelled")
    assert wb.get(runs, timeout=TIMEOUT) == "not cancelled"


def test_time_runs_out_and_nothing_is_lost(session: Engine, gate: Gate) -> None:
    runs = wb.remote(gate.stop).remote()
    visitor = gate.next()
    with pytest.raises(GetTimeoutError, match=r"1 of 2 objects were not ready after 0\.01 s"):
        wb.gather([wb.put(1), runs], timeout=0.01)
    visitor.let_on("go")
    assert wb.gather([runs], timeout=TIMEOUT) == ["go"]
    assert wb.gather([runs], timeout=0) == ["go"]


def test_what_is_freed_or_cancelled_meanwhile_ends_the_wait(session: Engine, gate: Gate) -> None:
    for end, error in ((wb.free, ObjectFreedError), (wb.cancel, TaskCancelledError)):
        runs = wb.remote(gate.stop).remote()
        gate.next()
        threading.Timer(0, end, [runs]).start()
        with pytest.raises(error):
            wb.gather([runs])
        wb.cancel(runs)


def test_what_cannot_be_gathered_is_said(session: Engine) -> None:
    stream = wb.remote(num_returns="streaming")(lambda: iter([1]))
    ref = wb.put(1)
    wrong: list[tuple[Any, str]] = [
        (ref, r"for one ref write \w+\(\[ref\]\)"),
        (stream.remote(), "Iterate a stream as it is"),
        ([ref, stream.remote()], r"`completed\(\)`"),
        ([ref, 1], "the list has a int"),
    ]
    for call in (wb.gather, wb.as_completed):
        for given, said in wrong:
            with pytest.raises(TypeError, match=said):
                call(given)
    assert wb.gather([]) == list(wb.as_completed([])) == wb.map(len, []) == []


# -- as_completed ----------------------------------------------------------------------------------


def test_refs_come_as_they_become_ready_failed_ones_too(session: Engine, gate: Gate) -> None:
    late = wb.remote(gate.stop).remote()
    visitor = gate.next()
    bad, early = fails.remote("bad"), wb.put("early")
    completed = iter(wb.as_completed([late, bad, early, early]))
    assert {next(completed), next(completed)} == {bad, early}
    visitor.let_on("late")
    assert list(completed) == [late]


def test_leaving_the_loop_early_lets_go_of_the_refs(session: Engine, gate: Gate) -> None:
    ids = [(late := wb.remote(gate.stop).remote()).id, (early := wb.put(1)).id]
    gate.next()
    for ref in wb.as_completed([early, late]):
        assert wb.get(ref) == 1
        break
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, CompletionQueue)]
    wb.cancel(late)
    del ref, late, early
    assert eventually(lambda: not {r.id for r in session.snapshot().objects}.intersection(ids))


def test_each_of_many_is_looked_at_once(session: Engine, monkeypatch: Any) -> None:
    """The work for all is counted: `wait` in a loop looks at 50 million."""
    looks = 0
    known = session.objects.values  # type: ignore[attr-defined]

    class Counting(dict):  # type: ignore[type-arg]
        def __contains__(self, id: object) -> bool:
            nonlocal looks
            looks += 1
            return super().__contains__(id)

    monkeypatch.setattr(session.objects, "values", Counting(known))  # type: ignore[attr-defined]
    refs = [same.remote(n) for n in range(10_000)]
    before, looks = looks, 0
    assert {ref.id for ref in wb.as_completed(refs)} == {ref.id for ref in refs}
    assert looks <= 5 * len(refs), before
    monkeypatch.undo()


def test_in_an_event_loop_which_goes_on_meanwhile(session: Engine, gate: Gate) -> None:
    """The task can only end because another coroutine runs."""
    refs = [wb.remote(gate.stop).remote(), wb.put("early")]

    async def opens() -> None:
        (await asyncio.to_thread(gate.next)).let_on("late")

    async def main() -> None:
        completed = aiter(wb.as_completed(refs))
        assert await (await anext(completed)) == "early"
        opener = asyncio.create_task(opens())
        assert [await ref async for ref in completed] == ["late"]
        await opener
        assert [ref async for ref in wb.as_completed([])] == []

    asyncio.run(asyncio.wait_for(main(), TIMEOUT))


def test_a_session_that_ends_ends_the_wait_and_its_refs_and_handles(
    runtime: str, gate: Gate
) -> None:
    class Idle:
        """An actor's."""

    session = wb.init(workers=1)
    ref, handle = wb.remote(gate.stop).remote(), pickle.dumps(wb.remote(Idle).remote())
    gate.next()

    async def main() -> None:
        completed = aiter(wb.as_completed([wb.put(1), ref]))
        await anext(completed)
        waiting = asyncio.ensure_future(anext(completed))
        await asyncio.to_thread(wb.shutdown)
        with pytest.raises(SessionError):
            await waiting

    asyncio.run(asyncio.wait_for(main(), TIMEOUT))
    with pytest.raises(SessionError):
        session.arrivals([ref])
    wb.init(workers=1)
    for call in (wb.gather, lambda refs: list(wb.as_completed(refs))):
        with pytest.raises(ForeignRefError):
            call([ref])
    with pytest.raises(ValueError, match="belongs to session"):
        pickle.loads(handle)


# -- map -------------------------------------------------------------------------------------------


def test_map_is_the_builtin_on_the_pool(session: Engine) -> None:
    assert wb.map(pow, [2, 3, 4], itertools.count(1)) == [2, 9, 64]
    assert wb.map(same, [wb.put("a ref means its object")]) == ["a ref means its object"]
    assert wb.map(same.options(num_cpus=0, name="named"), "ab") == ["a", "b"]

    @wb.remote
    class Absolute:
        def of(self, n: int) -> int:
            return abs(n)

    assert wb.map(Absolute.remote().of, [1, -2, 3]) == [1, 2, 3]


def test_map_takes_functions_with_one_result(session: Engine) -> None:
    def yields() -> Iterator[int]:
        yield 1

    for fn in (same.options(num_returns=2), same.options(num_returns=0), yields):
        with pytest.raises(TypeError, match="one result"):
            wb.map(fn, [1])
    with pytest.raises(TypeError, match="map a method"):
        wb.map(Processes, [1])


def test_a_failure_ends_map_and_what_it_submitted(session: Engine, gate: Gate) -> None:
    stop = gate.stop

    def work(n: int) -> None:
        if n == 1:
            raise LookupError("bad item")
        stop()

    def items() -> Iterator[int]:
        yield 0
        gate.next()
        raise LookupError("no more items")

    for each in (items(), itertools.count()):  # without end: a list of those there can't be
        with pytest.raises(LookupError, match=r"bad item|no more items"):
            wb.map(work, each)
        assert eventually(lambda: is_idle(session))


@pytest.mark.own_process
def test_ctrl_c_leaves_nothing_running(session: Engine, gate: Gate) -> None:
    stop = gate.stop
    other = same.remote("not map's")
    threading.Thread(
        target=lambda: (gate.next(), gate.next(), os.kill(os.getpid(), signal.SIGINT))
    ).start()
    with pytest.raises(KeyboardInterrupt):
        wb.map(lambda _: stop(), range(100))
    assert eventually(lambda: is_idle(session))
    assert wb.get(other) == "not map's"


def test_a_second_ctrl_c_does_not_stop_the_cancelling(session: Engine, gate: Gate) -> None:
    stop, cancelled = gate.stop, list[object]()

    class Interrupted:
        """The session; its first `cancel` is interrupted."""

        def __getattr__(self, name: str) -> Any:
            return getattr(session, name)

        def cancel(self, *arguments: Any) -> None:
            session.cancel(*arguments)
            cancelled.append(arguments)
            if len(cancelled) == 1:
                raise KeyboardInterrupt

    def items() -> Iterator[int]:
        yield from range(10)
        raise LookupError("no more items")

    engine: Any = Interrupted()
    context.set(engine)
    try:
        with pytest.raises(KeyboardInterrupt):
            wb.map(lambda _: stop(), items())
    finally:
        context.set(session)
    assert len(cancelled) > 1
    assert eventually(lambda: is_idle(session))


def test_ctrl_c_inside_a_submit_takes_that_task_along(
    session: Engine, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when the task is on its way, and nobody has its ref yet."""
    connection = session.connection  # type: ignore[attr-defined]
    stop = gate.stop
    stops = wb.remote(lambda _: stop())
    first = stops.remote(0)  # the function is there already
    gate.next().let_on()
    wb.get(first)
    send = connection.send

    def interrupted(message: Any) -> None:
        send(message)
        raise KeyboardInterrupt

    monkeypatch.setattr(connection, "send", interrupted)
    with pytest.raises(KeyboardInterrupt):
        wb.map(stops, itertools.repeat(1))
    monkeypatch.undo()
    assert eventually(lambda: is_idle(session))


def test_a_generator_is_not_run_far_ahead(session: Engine, gate: Gate) -> None:
    stop, taken = gate.stop, 0

    def items() -> Iterator[int]:
        nonlocal taken
        for n in range(3 * WINDOW):
            taken = n
            yield n

    def watch() -> int:
        """How many were taken while none was done."""
        first, second = gate.next(), gate.next()
        eventually(lambda: taken >= WINDOW - 1)
        session.snapshot()  # what could be submitted, is
        most = taken
        first.let_on()
        second.let_on()
        return most

    with ThreadPoolExecutor(1) as threads:
        most = threads.submit(watch)
        values = wb.map(lambda n: stop() if n < 2 else n, items())
    assert values[2:] == list(range(2, 3 * WINDOW))
    assert WINDOW - 1 <= most.result() <= 2 * WINDOW


# -- the bar ---------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """Somebody watches."""

    def isatty(self) -> bool:
        return True


def test_a_bar_appears_while_somebody_waits(session: Engine, gate: Gate) -> None:
    late = wb.remote(gate.stop).remote()
    visitor, screen = gate.next(), Terminal()

    def lets_on() -> None:
        assert eventually(lambda: "1/2" in screen.getvalue())
        visitor.let_on("late")

    threads = threading.active_count()
    threading.Thread(target=lets_on).start()
    with redirect_stderr(screen):
        assert wb.gather([wb.put(1), late]) == [1, "late"]
    assert "2/2" in screen.getvalue()
    assert eventually(lambda: threading.active_count() <= threads)


def test_no_bar_for_what_is_quick_or_unwatched_or_unwanted(
    session: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file, progress, patience in (
        (Terminal(), None, TIMEOUT),
        (Terminal(), False, 0.0),
        (io.StringIO(), None, 0.0),
    ):
        monkeypatch.setattr(gathering, "PATIENCE", patience)
        with redirect_stderr(file):
            wb.map(len, ["a"], progress=progress)
            list(wb.as_completed([wb.put(1)]))
        assert file.getvalue() == ""


@pytest.mark.parametrize(
    ("shown", "call"),
    [
        ("2/2", lambda: wb.map(pow, [1, 2, 3], [1, 2], progress=True)),
        ("2it", lambda: wb.map(len, (letter for letter in "ab"), progress=True)),
        ("2/2", lambda: list(wb.as_completed([wb.put(1), wb.put(2)], progress=True))),
    ],
)
def test_a_bar_that_is_asked_for(session: Engine, shown: str, call: Callable[[], object]) -> None:
    with redirect_stderr(io.StringIO()) as screen:
        call()
    assert shown in screen.getvalue()

"""gather, as_completed and map: order, the first failure, Ctrl-C, the window, and the bar. And refs
in a running event loop: awaited by all of asyncio's means, and the loop goes on."""

from __future__ import annotations

import asyncio
import gc
import io
import itertools
import os
import signal
import threading
from collections.abc import AsyncIterable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from typing import Any

import numpy as np
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
from workbench.engine.base import Engine
from workbench.errors import ObjectFreedError, TaskCancelledError, TaskError


@wb.remote
def same(x: Any) -> Any:
    return x


@wb.remote
def fails(x: Any) -> Any:
    raise LookupError(x)


def is_idle(session: Engine) -> bool:
    snapshot = session.snapshot()
    return not snapshot.running and not snapshot.queued


def test_the_first_failure_is_raised_and_others_go_on(session: Engine, gate: Gate) -> None:
    runs = wb.remote(gate.stop).remote()
    visitor = gate.next()
    with pytest.raises(LookupError, match="bad"):
        wb.gather([runs, fails.remote("bad")])
    visitor.let_on("not cancelled")
    assert wb.gather(iter([runs, same.remote(1), wb.put("put"), runs]), timeout=TIMEOUT) == [
        "not cancelled", 1, "put", "not cancelled",
    ]  # fmt: skip


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


def test_in_an_event_loop_which_goes_on_meanwhile(session: Engine, gate: Gate) -> None:
    """The task can only end because another coroutine runs."""
    refs = [wb.remote(gate.stop).remote(), wb.put("early")]

    async def main() -> None:
        completed = aiter(wb.as_completed(refs))
        assert await (await anext(completed)) == "early"
        opener = asyncio.create_task(asyncio.to_thread(lambda: gate.next().let_on("late")))
        assert [await ref async for ref in completed] == ["late"]
        await opener

    asyncio.run(asyncio.wait_for(main(), TIMEOUT))


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

    wrong = (same.options(num_returns=2), same.options(num_returns=0), yields)
    for fn, text in (*((fn, "one result") for fn in wrong), (Processes, "map a method")):
        with pytest.raises(TypeError, match=text):
            wb.map(fn, [1])


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


class Interrupted:
    """An engine or a connection, with Ctrl-C right behind the first call of that method."""

    def __init__(self, of: Any, method: str) -> None:
        self.of, self.method, self.calls = of, method, 0
        self.done = getattr(of, method)

    def __getattr__(self, name: str) -> Any:
        return self.call if name == self.method else getattr(self.of, name)

    def call(self, *arguments: Any) -> None:
        self.calls += 1
        self.done(*arguments)
        if self.calls == 1:
            raise KeyboardInterrupt


def test_a_second_ctrl_c_finds_all_cancelled(session: Engine, gate: Gate) -> None:
    stop = gate.stop

    def items() -> Iterator[int]:
        yield from range(10)
        raise LookupError("no more items")

    engine: Any = Interrupted(session, "cancel")
    context.set(engine)
    try:
        with pytest.raises(KeyboardInterrupt):
            wb.map(lambda _: stop(), items())
    finally:
        context.set(session)
    assert eventually(lambda: is_idle(session))


def test_ctrl_c_inside_a_submit(session: Any, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes when the task is on its way, and nobody has its ref yet."""
    stop = gate.stop
    stops = wb.remote(lambda _: stop())
    first = stops.remote(0)  # the function is there already
    gate.next().let_on()
    wb.get(first)
    sends = Interrupted(session.connection, "send")
    monkeypatch.setattr(session.connection, "send", sends.call)
    with pytest.raises(KeyboardInterrupt):
        wb.map(stops, itertools.repeat(1))
    monkeypatch.undo()
    assert eventually(lambda: is_idle(session))


def test_a_generator_is_not_run_far_ahead(session: Engine, gate: Gate) -> None:
    stop, taken = gate.stop, 0

    def items() -> Iterator[int]:
        nonlocal taken
        for n in range(2 * WINDOW + 100):
            taken = n
            yield n

    def watch() -> int:
        """How many were taken while none was done."""
        visitors = [gate.next(), gate.next()]
        eventually(lambda: taken >= WINDOW - 1)
        session.snapshot()  # what could be submitted, is
        most = taken
        for visitor in visitors:
            visitor.let_on()
        return most

    with ThreadPoolExecutor(1) as threads:
        most = threads.submit(watch)
        values = wb.map(lambda n: stop() if n < 2 else n, items())
    assert values[2:] == list(range(2, 2 * WINDOW + 100))
    assert WINDOW - 1 <= most.result() <= 2 * WINDOW


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


def test_no_bar_that_nobody_needs(session: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def _taken(refs: AsyncIterable[Any]) -> list[Any]:
    return [ref async for ref in refs]


@pytest.mark.parametrize(
    ("shown", "call"),
    [
        ("2/2", lambda: wb.map(pow, [1, 2, 3], [1, 2], progress=True)),
        ("2it", lambda: wb.map(len, (letter for letter in "ab"), progress=True)),
        ("2/2", lambda: list(wb.as_completed([wb.put(1), wb.put(2)], progress=True))),
        (
            "2/2",
            lambda: asyncio.run(_taken(wb.as_completed([wb.put(1), wb.put(2)], progress=True))),
        ),
    ],
)
def test_a_bar_that_is_asked_for(session: Engine, shown: str, call: Callable[[], object]) -> None:
    with redirect_stderr(io.StringIO()) as screen:
        call()
    assert shown in screen.getvalue()


def run(main: Coroutine[Any, Any, None]) -> None:
    """In a loop of its own, which is not to hear of errors nobody took."""
    unheard: list[Any] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        await main

    asyncio.run(asyncio.wait_for(watched(), TIMEOUT), debug=False)
    assert not unheard


def test_awaiting_gives_what_get_gives_one_by_one_and_gathered(session: Engine) -> None:
    double = wb.remote(lambda i: 2 * i)

    async def main() -> None:
        array = await wb.put(np.arange(100_000))
        assert (array == np.arange(100_000)).all()
        assert not array.flags.writeable
        failed = fails.remote("not here")
        for _ in range(2):
            with pytest.raises(LookupError, match="not here") as caught:
                await failed
            assert isinstance(caught.value, TaskError)
        with pytest.raises(TaskError, match="StopIteration") as caught:
            await wb.remote(lambda: next(iter(()))).remote()
        assert not isinstance(caught.value, StopIteration), "it would end this coroutine"
        refs = [double.remote(i) for i in range(200)]
        assert await asyncio.gather(*refs, refs[0]) == [*(2 * i for i in range(200)), 0]
        mixed = [double.remote(1), fails.remote("a"), wb.put("b")]
        got = await asyncio.gather(*mixed, return_exceptions=True)
        assert [str(each).partition("\n")[0] for each in got] == ["2", "a", "b"]

    run(main())


def test_a_task_goes_on_when_nobody_waits_and_then_lets_go(session: Engine, gate: Gate) -> None:
    async def main() -> int:
        ref = wb.remote(gate.stop).remote()
        visitor = await asyncio.to_thread(gate.next)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ref, 0.01)
        waits = asyncio.ensure_future(ref)
        await asyncio.to_thread(lambda: None)  # so that it waits
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert wb.wait([ref], timeout=0) == ([], [ref])
        visitor.let_on("went on")
        assert await asyncio.wait_for(ref, TIMEOUT) == "went on"
        return ref.id

    id = asyncio.run(main())
    assert eventually(lambda: id not in {each.id for each in session.snapshot().objects})


def test_a_loop_that_ends_first(session: Engine, gate: Gate) -> None:
    """What comes after a loop's end finds nobody, and breaks nothing."""
    ref = wb.remote(gate.stop).remote()

    async def leaves() -> None:
        asyncio.get_running_loop().create_task(awaits())
        await asyncio.to_thread(lambda: None)

    async def awaits() -> str:
        return await ref  # type: ignore[no-any-return]

    run(leaves())
    gate.next().let_on("later")
    assert wb.get(ref) == "later"
    assert asyncio.run(awaits()) == "later"
    assert ref.future().result(TIMEOUT) == "later"

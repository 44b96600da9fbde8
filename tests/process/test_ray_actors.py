"""Actors where Ray's users look: what ends them, and what doesn't; which call is next."""

from __future__ import annotations

import asyncio
import sys
import threading
from functools import partial
from typing import Any

import pytest

import workbench as wb
from tests.patience import TIMEOUT
from tests.process.gates import Gate, stopper
from workbench.engine.base import Engine
from workbench.errors import ActorDiedError, TaskCancelledError


class Exits:
    def __init__(self) -> None:
        self.calls = 0

    def count(self) -> int:
        self.calls += 1
        return self.calls

    def add(self, value: object) -> object:
        return value

    def wait(self, path: str) -> None:
        try:
            stopper(path)()
        except KeyboardInterrupt:
            self.calls += wb.get_runtime_context().is_canceled()
            raise

    def exit(self, code: object) -> None:
        sys.exit(code)  # type: ignore[arg-type]


class ExitsOnItsLoop(Exits):
    async def exit(self, code: object) -> None:  # type: ignore[override]
        sys.exit(code)  # type: ignore[arg-type]


KINDS = {
    "plain": (Exits, {}),
    "threaded": (Exits, {"max_concurrency": 2}),
    "async": (ExitsOnItsLoop, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_exit_with_a_status_is_a_crash_without_one_an_end(session: Engine, kind: str) -> None:
    cls, options = KINDS[kind]
    actor = wb.remote(cls).options(max_restarts=1, **options).remote()
    assert wb.get(actor.count.remote()) == 1
    with pytest.raises(ActorDiedError, match=r"exited with status 3(, perhaps)? while .* `.*exit`"):
        wb.get(actor.exit.remote(3))
    assert wb.get(actor.count.options(max_task_retries=1).remote()) == 1  # it was made again
    with pytest.raises(ActorDiedError, match="exited with status 1"):
        wb.get(actor.exit.remote("a reason"))
    with pytest.raises(ActorDiedError, match="died"):
        wb.get(actor.count.remote())
    for code in (0, None):
        actor = wb.remote(cls).options(max_restarts=1, **options).remote()
        for call in (partial(actor.exit.remote, code), actor.count.remote):
            # One after the other: of two threads, the second call may end before the first.
            with pytest.raises(ActorDiedError, match="exit_actor"):
                wb.get(call())


def test_a_cancelled_call_can_see_that_it_is(session: Engine, gate: Gate) -> None:
    actor = wb.remote(Exits).remote()
    waits = actor.wait.remote(gate.path)
    gate.next()
    wb.cancel(waits)
    assert wb.get(actor.count.remote()) == 2  # it saw it, once


@pytest.mark.parametrize(
    ("kind", "asked", "overtakes"),
    [
        ("plain", None, False),
        ("plain", True, True),
        ("threaded", None, True),
        ("threaded", False, False),
        ("async", None, True),
    ],
)
def test_a_call_whose_argument_is_missing_holds_up_no_other(
    session: Engine, gate: Gate, kind: str, asked: bool | None, overtakes: bool
) -> None:
    """But where calls go in the order of their submission, as one thread's do."""
    cls, options = KINDS[kind]
    actor = wb.remote(cls).options(allow_out_of_order_execution=asked, **options).remote()
    late = actor.add.remote(wb.remote(stopper(gate.path)).remote())
    early = actor.add.remote("early")
    visitor = gate.next()
    if overtakes:
        assert wb.get(early) == "early"
    assert wb.wait([late], timeout=0)[0] == []
    assert (wb.wait([early], timeout=0)[0] == [early]) is overtakes
    visitor.let_on()
    assert wb.get([late, early]) == ["go", "early"]


def grouped(kind: str) -> Any:
    """A class with concurrency groups, whose methods come to a gate or say in which thread they
    run. ``kind``: in threads, or on loops."""

    class Threads:
        def stop(self, path: str) -> None:
            stopper(path)()

        def thread(self) -> str:
            return threading.current_thread().name

    class Loops:
        async def stop(self, path: str) -> None:
            Threads.stop(self, path)  # type: ignore[arg-type] - its loop is stuck

        async def thread(self) -> str:
            return threading.current_thread().name

    cls: Any = Threads if kind == "threads" else Loops
    wb.method(concurrency_group="io")(cls.stop)
    return wb.remote(concurrency_groups={"io": 1, "compute": 1})(cls)


@pytest.mark.parametrize("kind", ["threads", "loops"])
def test_a_concurrency_group_holds_up_no_other(session: Engine, gate: Gate, kind: str) -> None:
    actor = grouped(kind).remote()
    stuck, behind = actor.stop.remote(gate.path), actor.stop.remote(gate.path)
    visitor = gate.next()
    own, other = actor.thread.remote(), actor.thread.options(concurrency_group="compute").remote()
    names = wb.get([own, other], timeout=TIMEOUT)
    assert len(set(names)) == 2
    assert wb.wait([stuck, behind], timeout=0) == ([], [stuck, behind])
    wb.cancel(behind)
    with pytest.raises(TaskCancelledError):
        wb.get(behind)
    visitor.let_on()
    wb.get(stuck)
    of_default = actor.stop.options(concurrency_group="compute").remote(gate.path)
    visitor = gate.next()
    assert wb.get(actor.thread.remote(), timeout=TIMEOUT) == names[0]
    visitor.let_on()
    wb.get(of_default)


def test_groups_that_there_are_not_are_told(session: Engine) -> None:
    actor = grouped("threads").remote()
    with pytest.raises(ValueError, match=r"no concurrency group 'x'.*It has io, compute"):
        actor.thread.options(concurrency_group="x").remote()
    with pytest.raises(ValueError, match=r"no concurrency group 'io'.*It has compute"):
        grouped("threads").options(concurrency_groups={"compute": 1}).remote()
    for wrong, kind in (({"io": 0}, ValueError), ({"": 1}, ValueError), ("io", TypeError)):
        with pytest.raises(kind, match="concurrency_groups"):
            wb.remote(concurrency_groups=wrong)(type("A", (), {}))
    with pytest.raises(TypeError, match="has no option concurrency_group"):
        wb.remote(concurrency_group="io")(len)


@pytest.mark.parametrize("groups", [{}, {"io": 1}])
def test_an_async_actor_is_made_on_its_loop(session: Engine, groups: dict[str, int]) -> None:
    @wb.remote(concurrency_groups=groups)
    class Ticks:
        async def __init__(self, start: int) -> None:
            if start < 0:
                raise KeyError("no")
            await asyncio.to_thread(int)
            self.loop, self.asked = asyncio.get_running_loop(), asyncio.Event()
            self.ticking = asyncio.create_task(self.tick(start))

        async def tick(self, start: int) -> int:
            await self.asked.wait()
            return start + 1

        async def look(self) -> tuple[bool, int]:
            self.asked.set()
            return asyncio.get_running_loop() is self.loop, await self.ticking

    most = Ticks.options(max_concurrency=sys.maxsize)  # a limit may be as large as one likes
    for ticks in (Ticks, most):
        assert wb.get(ticks.remote(7).look.remote(), timeout=TIMEOUT) == (True, 8)
    with pytest.raises(ActorDiedError, match="no"):
        wb.get(Ticks.remote(-1).__ray_ready__.remote())

"""Actors: state that is kept, calls in order, handles that travel, and what comes of deaths."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.endings import leave_at_once
from tests.process.gates import Gate, stopper
from tests.process.processes import ends
from workbench.engines.base import Engine
from workbench.errors import (
    ActorDiedError,
    ActorUnavailableError,
    SerializationError,
    TaskCancelledError,
)


def counter() -> Any:
    """The class, as a notebook's cell makes it."""

    @wb.remote
    class Counter:
        """Counts."""

        def __init__(self, n: int = 0, *, step: int = 1) -> None:
            self.n, self.step = n, step
            self.lock = threading.Lock()  # can't be pickled, and needn't be

        def add(self, k: int | None = None) -> int:
            with self.lock:
                self.n += self.step if k is None else k
            return self.n

        def pid(self) -> int:
            return os.getpid()

        def fail(self, text: str) -> None:
            raise LookupError(text)

        def two(self) -> tuple[int, int]:
            return self.n, -self.n

        def end(self, how: str) -> None:
            if how == "exit":
                leave_at_once(3)
            elif how == "leave":
                wb.exit_actor()
            else:
                os.kill(os.getpid(), signal.Signals[how])

        def wait_at(self, path: str) -> str:
            return stopper(path)()

    return Counter


# -- calls -----------------------------------------------------------------------------------------


def test_state_is_kept_and_calls_run_in_order(session: Engine) -> None:
    Counter = counter()
    one, other = Counter.remote(10, step=2), Counter.remote()
    assert wb.get([one.add.remote() for _ in range(200)]) == list(range(12, 412, 2))
    assert wb.get(other.add.remote(k=wb.put(7))) == 7  # a ref among the arguments is resolved
    assert wb.get(one.pid.remote()) != wb.get(other.pid.remote()) != os.getpid()
    assert wb.get(one.two.options(num_returns=2).remote()) == [410, -410]
    with pytest.raises(LookupError, match="no such thing") as caught:
        wb.get(one.fail.remote("no such thing"))
    assert caught.value.task == "Counter.fail"
    assert wb.get(one.add.remote()) == 412  # an error ends a call, not the actor


def test_a_call_waits_for_its_arguments_and_those_behind_it_wait_too(
    session: Engine, gate: Gate
) -> None:
    number = wb.remote(lambda stop: int(stop())).remote(gate.stop)
    actor = counter().remote()
    refs = [actor.add.remote(number), actor.add.remote(), actor.add.remote()]
    visitor = gate.next()
    assert wb.wait(refs, timeout=0)[0] == []
    visitor.let_on("40")
    assert wb.get(refs) == [40, 41, 42]


def test_handles_travel(session: Engine) -> None:
    actor = counter().remote(1)
    again = wb.get(wb.put({"deep": [actor]}))["deep"][0]
    assert again == actor
    assert hash(again) == hash(actor)
    order = wb.remote(lambda worker: wb.get(worker.add.remote()))
    assert wb.get(order.remote(again)) == 2

    @wb.remote
    class Boss:
        def __init__(self, worker: Any) -> None:
            self.worker = worker

        def give(self) -> Any:
            wb.get(self.worker.add.remote())
            return self.worker

    given = wb.get(Boss.remote(actor).give.remote())
    del actor, again
    assert wb.get(given.add.remote()) == 4


WRONG: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda C: C(), TypeError, "`Counter.remote"),
    (lambda C: C.remote().add(1), TypeError, r"call `.add.remote"),
    (lambda C: types.new_class("Derived", (C,)), TypeError, "derive from the plain class"),
    (lambda C: C.size, AttributeError, "'Counter' has no attribute 'size'"),
    (lambda C: C.remote().n, AttributeError, "only methods reach it: add, end"),
    (lambda C: wb.get_actor("nobody"), ValueError, "no actor named 'nobody'"),
    (lambda C: wb.kill(wb.put(1)), TypeError, "`cancel`"),
    (lambda C: wb.cancel(C.remote()), TypeError, "ObjectRef, not ActorHandle"),
]


def test_wrong_uses_say_what_is_right(session: Engine) -> None:
    for use, error, text in WRONG:
        with pytest.raises(error, match=text):
            use(counter())


def test_an_actor_class_shows_what_the_class_has() -> None:
    @wb.remote
    class Shape:
        CORNERS = 4

        def __init__(self, **given: int) -> None:
            self.given = given

        @staticmethod
        def corners(pieces: int) -> int:
            return pieces * Shape.CORNERS

        @classmethod
        def name(cls) -> str:
            return cls.__name__

        def _repr_html_(self) -> str:
            return "an instance's, not the class's"

    assert (Shape.CORNERS, Shape.corners(3), Shape.name()) == (4, 12, "Shape")
    assert [cls.__name__ for cls in Shape.__mro__] == ["Shape", "object"]
    assert {"CORNERS", "remote"} <= set(dir(Shape))
    assert not hasattr(Shape, "_repr_html_")
    assert pickle.loads(pickle.dumps(wb.remote(Plain))).CORNERS == 3


class Plain:
    CORNERS = 3


def test_an_attribute_with_a_methods_name_does_not_hide_it(session: Engine) -> None:
    @wb.remote
    class Reporter:
        def __init__(self) -> None:
            self.seen = {"a"}  # type: ignore[assignment, method-assign]
            self.twice = 3  # type: ignore[assignment, method-assign]

        def seen(self) -> Any:
            return vars(self)["seen"]

        @staticmethod
        def twice(n: int) -> int:
            return 2 * n

    reporter = Reporter.remote()
    assert wb.get(reporter.seen.remote()) == {"a"}
    assert wb.get(reporter.twice.remote(4)) == 8


# -- names, and the end ----------------------------------------------------------------------------


def test_an_actor_lives_as_long_as_its_handles_unless_it_is_detached(session: Engine) -> None:
    Counter = counter()
    pid = wb.get(Counter.remote().pid.remote())  # its only handle is gone before it has answered
    assert ends(pid)
    named = Counter.options(name="short").remote()
    pid = wb.get(named.pid.remote())
    assert wb.get_actor("short") == named
    del named
    assert ends(pid)
    with pytest.raises(ValueError, match="no actor named 'short'"):
        wb.get_actor("short")
    Counter.options(name="kept", lifetime="detached").remote(5)
    kept = wb.get_actor("kept")
    assert wb.get(kept.add.remote()) == 6
    with pytest.raises(ValueError, match="named 'kept' already"):
        Counter.options(name="kept").remote()
    assert Counter.options(name="kept", get_if_exists=True).remote() == kept
    assert "kept" not in " ".join(session.names())
    pid = wb.get(kept.pid.remote())
    wb.kill(kept)
    assert ends(pid)
    with pytest.raises(ValueError, match="no actor named 'kept'"):
        wb.get_actor("kept")
    again = Counter.options(name="kept").remote(8)
    assert wb.get(again.add.remote()) == 9


def test_what_is_asked_of_an_actor_keeps_it_until_it_is_answered(
    session: Engine, gate: Gate
) -> None:
    actor = counter().remote()
    ref, after, pid = actor.wait_at.remote(gate.path), actor.add.remote(), actor.pid.remote()
    visitor = gate.next()
    del actor
    visitor.let_on("late")
    assert wb.get([ref, after]) == ["late", 1]
    assert ends(wb.get(pid))


# -- death -----------------------------------------------------------------------------------------

DEATHS = {
    "exit": "exited with status 3",
    "SIGKILL": "was killed by SIGKILL",
    "SIGSEGV": "was killed by SIGSEGV",
    "leave": "left by exit_actor",
}


def test_a_dead_actor_says_how_it_died(session: Engine) -> None:
    for how, text in DEATHS.items():
        actor = counter().remote()
        refs = [actor.end.remote(how), actor.add.remote()]
        for ref in [*refs, actor.add.remote()]:
            with pytest.raises(ActorDiedError, match=text):
                wb.get(ref)
    assert wb.get(wb.remote(len).remote("abc")) == 3


def test_an_actor_is_made_again_as_often_as_it_may(session: Engine) -> None:
    actor = counter().options(max_restarts=2).remote(10)
    for how in ("exit", "SIGKILL"):
        assert wb.get(actor.add.remote()) == 11  # its state began anew
        ref, queued = actor.end.remote(how), actor.add.remote()
        with pytest.raises(ActorUnavailableError, match="is made again"):
            wb.get(ref)
        assert wb.get(queued) == 11  # what had not begun is not lost
        wb.get(actor.add.remote(-1))
    with pytest.raises(ActorDiedError, match="Counter died"):
        wb.get(actor.end.remote("exit"))


def test_kill_with_restart(session: Engine, gate: Gate) -> None:
    actor = counter().options(max_restarts=1).remote()
    ref = actor.wait_at.remote(gate.path)
    gate.next()
    wb.kill(actor, no_restart=False)
    with pytest.raises(ActorDiedError):
        wb.get(ref)
    assert wb.get(actor.add.remote()) == 1
    wb.kill(actor, no_restart=False)
    with pytest.raises(ActorDiedError, match="ended by kill"):
        wb.get(actor.add.remote())


def test_an_actor_that_cannot_be_made(session: Engine) -> None:
    @wb.remote
    class Impossible:
        def __init__(self, how: str) -> None:
            if how == "raise":
                raise RuntimeError("not like this")
            leave_at_once(4)

        def work(self) -> None: ...

    for how, text in (("raise", "could not be made: RuntimeError: not"), ("exit", "status 4")):
        actor = Impossible.remote(how)
        for _ in range(2):
            with pytest.raises(ActorDiedError, match=text):
                wb.get(actor.work.remote())
    lock = threading.Lock()
    with pytest.raises(SerializationError, match="how can't be serialized"):
        Impossible.remote(lock)


# -- several calls at a time -----------------------------------------------------------------------


def test_threads(session: Engine, gate: Gate) -> None:
    actor = counter().options(max_concurrency=3).remote()
    waiting = [actor.wait_at.remote(gate.path) for _ in range(4)]
    visitors = [gate.next() for _ in range(3)]
    assert {v.pid for v in visitors} == {visitors[0].pid}
    for visitor in visitors:
        visitor.let_on("in")
    gate.next().let_on("last")
    assert sorted(wb.get(waiting)) == ["in", "in", "in", "last"]
    assert sorted(wb.get([actor.add.remote() for _ in range(50)])) == list(range(1, 51))


def test_coroutines(session: Engine) -> None:
    @wb.remote
    class Room:
        def __init__(self) -> None:
            import asyncio

            self.open = asyncio.Event()
            self.inside = 0

        async def enter(self) -> int:
            self.inside += 1
            print("entered", self.inside)
            await self.open.wait()
            return self.inside

        def let_out(self) -> int:
            self.open.set()
            return self.inside

    room = Room.remote()
    waiting = [room.enter.remote() for _ in range(100)]
    assert wb.wait(waiting, timeout=0)[0] == []
    assert wb.get(room.let_out.remote()) == 100
    assert wb.get(waiting) == [100] * 100


# -- cancelling ------------------------------------------------------------------------------------


def test_cancelling_what_sleeps_runs_or_has_not_begun(session: Engine, gate: Gate) -> None:
    @wb.remote
    def spin(path: str) -> None:
        stopper(path)()
        while True:
            pass

    sleeping = [wb.remote(gate.stop).remote() for _ in range(2)]  # in a system call
    gate.next()
    gate.next()
    queued = wb.remote(len).remote("abc")
    for ref in (queued, *sleeping):
        wb.cancel(ref)
        with pytest.raises(TaskCancelledError, match="was stopped"):
            wb.get(ref, timeout=TIMEOUT)
    spinning = spin.remote(gate.path)
    gate.next().let_on()
    wb.cancel(spinning)
    with pytest.raises(TaskCancelledError):
        wb.get(spinning, timeout=TIMEOUT)
    done = wb.remote(len).remote("abc")
    assert wb.get(done) == 3
    wb.cancel(done)  # too late: nothing happens
    assert wb.get(done) == 3


def test_cancelling_what_does_not_listen(session: Engine, gate: Gate) -> None:
    @wb.remote
    def deaf(path: str) -> None:
        while True:
            try:
                stopper(path)()
            except KeyboardInterrupt:
                pass

    ref = deaf.remote(gate.path)
    gate.next()
    wb.cancel(ref)
    pid = gate.next().pid  # it goes on
    wb.cancel(ref, force=True)
    with pytest.raises(TaskCancelledError):
        wb.get(ref, timeout=TIMEOUT)
    assert ends(pid)


@pytest.mark.parametrize("recursive", [True, False])
def test_cancelling_what_a_task_has_submitted(session: Engine, gate: Gate, recursive: bool) -> None:
    @wb.remote
    def parent(path: str) -> Any:
        return wb.get([wb.remote(stopper(path)).remote() for _ in range(2)])

    ref = parent.remote(gate.path)
    visitors = [gate.next(), gate.next()]
    wb.cancel(ref, recursive=recursive)
    with pytest.raises(TaskCancelledError):
        wb.get(ref, timeout=TIMEOUT)
    if not recursive:
        assert wb.snapshot().running >= 2
        for visitor in visitors:
            visitor.let_on()
    assert eventually(lambda: not wb.snapshot().running)


def test_cancelling_a_call_leaves_the_actor(session: Engine, gate: Gate) -> None:
    for concurrency in (1, 2):
        actor = counter().options(max_concurrency=concurrency).remote()
        running = actor.wait_at.remote(gate.path)
        visitor = gate.next()
        queued = [actor.add.remote() for _ in range(5)]
        if concurrency == 1:
            wb.cancel(queued[0])
            with pytest.raises(TaskCancelledError):
                wb.get(queued.pop(0))
        wb.cancel(running)
        if concurrency == 2:
            wb.get(actor.add.remote(0))  # by now the worker knows
            with contextlib.suppress(BrokenPipeError):  # it has heard of it before it waited
                visitor.let_on()  # a thread hears of it at its next step
        with pytest.raises(TaskCancelledError):
            wb.get(running)
        wb.get(queued)
        assert wb.get(actor.add.remote(0)) == len(queued)


def test_threads_that_wait_are_cancelled_together(session: Engine, gate: Gate) -> None:
    @wb.remote(max_concurrency=4)
    class Waiter:
        def wait(self, refs: list[wb.ObjectRef]) -> Any:
            return wb.get(refs[0])

    never = wb.remote(gate.stop).remote()
    gate.next()
    actor = Waiter.remote()
    for _ in range(20):  # one of them reads what is said to the others
        waiting = [actor.wait.remote([never]) for _ in range(3)]
        assert wb.get(actor.wait.remote([wb.put("in")])) == "in"
        for ref in waiting:
            wb.cancel(ref)
        for ref in waiting:
            with pytest.raises(TaskCancelledError):
                wb.get(ref, timeout=TIMEOUT)


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_a_call_that_has_no_turn_yet_is_cancelled_at_once(
    session: Engine, gate: Gate, kind: str, concurrency: int
) -> None:
    @wb.remote
    class Room:
        async def enter(self, path: str) -> str:
            import asyncio

            return await asyncio.to_thread(stopper(path))

        async def add(self) -> int:
            return 1

    actor = (Room if kind == "loop" else counter()).options(max_concurrency=concurrency).remote()
    enter = actor.enter if kind == "loop" else actor.wait_at
    running = [enter.remote(gate.path) for _ in range(concurrency)]
    visitors = [gate.next() for _ in running]
    behind = [actor.add.remote() for _ in range(3)]
    session.snapshot()  # by now they were sent
    wb.cancel(behind[1])
    with pytest.raises(TaskCancelledError):
        wb.get(behind.pop(1), timeout=TIMEOUT)
    for visitor in visitors:
        visitor.let_on()
    wb.get([*running, *behind])


def test_a_call_that_came_while_the_loop_was_busy_is_cancelled(session: Engine, gate: Gate) -> None:
    @wb.remote
    class Busy:
        def keep(self, refs: list[wb.ObjectRef]) -> None:
            self.refs = refs

        def block(self, path: str) -> str:
            return stopper(path)()

        async def forever(self) -> None:
            import asyncio

            await asyncio.Event().wait()

    actor, kept = Busy.remote(), wb.put("kept")
    wb.get(actor.keep.remote([kept]))
    blocking = actor.block.remote(gate.path)
    visitor = gate.next()
    ref = actor.forever.remote()
    session.snapshot()  # by now it was sent
    wb.cancel(ref)
    wb.free(kept)  # and when the worker has answered that, it has read all this
    assert eventually(lambda: not any(o.viewers for o in session.snapshot().objects))
    visitor.let_on()
    with pytest.raises(TaskCancelledError):
        wb.get(ref, timeout=TIMEOUT)
    assert wb.get(blocking) == "go"


def test_a_snapshot_shows_actors(session: Engine, gate: Gate) -> None:
    actor = counter().options(name="tally", max_restarts=2).remote()
    wb.get(actor.add.remote(1))
    calls = [actor.wait_at.remote(gate.path), actor.add.remote(1)]
    visitor = gate.next()
    (record,) = session.snapshot().actors
    (worker,) = [w for w in session.snapshot().workers if w.actor]
    assert record.state == "alive"
    assert record.names == ("actor:tally",)
    assert (record.calls, record.restarts) == (2, 2)
    assert (worker.actor, worker.number, worker.pid) == (record.id, record.worker, visitor.pid)
    visitor.let_on()
    wb.get(calls)
    assert session.snapshot().actors[0].calls == 0
    wb.kill(actor)
    assert session.snapshot().actors[0].state == "dead"

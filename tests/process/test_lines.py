"""Calls that go straight from a driver to an actor: what they do is what calls by the server do."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.gates import Gate
from tests.process.scripts import Script
from workbench.engines.base import Engine
from workbench.errors import ActorDiedError, ActorUnavailableError, TaskCancelledError, TaskError
from workbench.wire import packets


def log() -> Any:
    """The class, as a notebook's cell makes it."""

    @wb.remote
    class Log:
        """Keeps what it was called with, in order."""

        def __init__(self) -> None:
            self.seen: list[Any] = []

        def note(self, what: Any, *more: Any) -> int:
            self.seen.append(what)
            return len(self.seen)

        def all(self) -> list[Any]:
            return self.seen

        def pid(self) -> int:
            return os.getpid()

        def result(self, kind: str) -> Any:
            if kind == "large":
                return np.arange(100_000)
            if kind == "ref":
                return [wb.put("inside")]
            if kind == "error":
                raise LookupError("no such thing")
            print("shown first")
            return "small"

        def names(self, name: str) -> None:
            wb.put(name, name=name)

        def finds(self, name: str) -> Any:
            return wb.get(name)

        def runs(self) -> int:
            @wb.remote
            def inner() -> int:
                print("shown by a task of a call")
                return 5

            return wb.get(inner.remote())

        def waits(self, stop: Any, value: int) -> int:
            stop()
            return value

        def dies(self) -> None:
            print("shown last")
            os._exit(3)

        def exits(self) -> None:
            sys.exit(3)

        def leaves(self) -> None:
            wb.exit_actor()

        def sized(self, size: int) -> bytes:
            return bytes(size)

    return Log


def meeting() -> Any:
    """An async actor's class."""

    @wb.remote
    class Meeting:
        """Its calls run beside each other."""

        def __init__(self) -> None:
            self.opened: Any = None
            self.seen: list[Any] = []

        async def note(self, what: Any) -> int:
            self.seen.append(what)
            return len(self.seen)

        async def all(self) -> list[Any]:
            return self.seen

        async def waits(self) -> str:
            import asyncio

            self.opened = self.opened or asyncio.Event()
            self.seen.append("waits")
            try:
                await self.opened.wait()
            finally:
                self.seen.append("goes")
            print("shown by a call that waited")
            return "opened"

        async def opens(self) -> bool:
            self.opened.set()
            return True

        async def large(self) -> Any:
            return np.arange(100_000)

        async def dies(self) -> None:
            os._exit(3)

    return Meeting


@pytest.fixture
def line(session: Engine) -> Callable[..., Any]:
    """Makes an actor, called by a line from now on."""

    def make(**options: Any) -> Any:
        actor = log().options(**options).remote()
        wait_for_line(session, actor)
        return actor

    return make


def wait_for_line(session: Any, actor: Any) -> None:
    lines, id = session._base.lines, actor._ref.id

    def has_one() -> bool:
        wb.get(actor.all.remote())
        return lines.of(id) is not None

    assert eventually(has_one)


def by_line(session: Any) -> int:
    """How many calls have gone by lines, with those that are packed."""
    lines = session._base.lines._by_actor.values()
    return sum(line.sent + line.ahead - line.unanswered for line in lines)


def test_calls_one_after_the_other_go_straight(session: Any, line: Any) -> None:
    actor = line()
    before = by_line(session)
    assert [wb.get(actor.note.remote(n)) for n in range(20)] == list(range(1, 21))
    assert by_line(session) == before + 20


def test_calls_of_an_async_actor_go_straight(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """They run beside each other, and end in any order."""
    actor = meeting().remote()
    wait_for_line(session, actor)
    before = by_line(session)
    assert [wb.get(actor.note.remote(n)) for n in range(20)] == list(range(1, 21))
    waiting = [actor.waits.remote() for _ in range(3)]
    assert (wb.get(actor.large.remote()) == np.arange(100_000)).all()
    assert wb.get(actor.all.remote()) == [*range(20), *["waits"] * 3]
    wb.cancel(waiting[1])
    with pytest.raises(TaskCancelledError):
        wb.get(waiting[1])
    assert wb.get(actor.opens.remote()) is True
    assert wb.get([waiting[0], waiting[2]]) == ["opened"] * 2
    assert capsys.readouterr().out.count("shown by a call that waited") == 2
    assert wb.get(actor.all.remote()) == [*range(20), *["waits"] * 3, *["goes"] * 3]
    assert by_line(session) >= before + 20 + 3


def test_an_async_actor_dies(session: Any) -> None:
    """Each of its calls may have begun."""
    actor = meeting().options(max_restarts=1).remote()
    wait_for_line(session, actor)
    first = wb.get(actor.note.remote(1))
    refs = [actor.waits.remote(), actor.waits.options(max_task_retries=1).remote()]
    wb.get(actor.all.remote())
    refs.append(actor.dies.remote())
    for ref in (refs[0], refs[2]):
        with pytest.raises(ActorUnavailableError):
            wb.get(ref)
    assert first == 1
    assert eventually(lambda: wb.get(actor.all.remote()) == ["waits"])  # that is tried again
    wb.get(actor.opens.remote())
    assert wb.get(refs[1]) == "opened"


def test_both_ways_keep_the_callers_order(session: Any, line: Any) -> None:
    actor, stored = line(), wb.put(1)
    before = by_line(session)
    refs = []
    for n in range(300):
        refs.append(actor.note.remote(n, stored) if n % 7 == 6 else actor.note.remote(n))
        if n % 50 == 0:
            wb.get(refs)
    assert wb.get(refs) == list(range(1, 301))
    assert wb.get(actor.all.remote()) == list(range(300))
    assert by_line(session) > before


def test_a_burst_is_in_order(session: Any, line: Any) -> None:
    """Of more calls than may be on their way at a time, of two kinds."""
    actor = line()
    session._base.lines.of(actor._ref.id).most = 2000
    before = by_line(session)
    refs = [actor.note.remote(n) if n % 3 else actor.note.remote(what=n) for n in range(3000)]
    other = actor.all.remote()
    assert wb.get(refs) == list(range(1, 3001))
    assert wb.get(other) == list(range(3000))
    assert by_line(session) > before + 64
    (direct,) = session._base.lines._by_actor.values()
    assert eventually(lambda: not (direct.unanswered or direct.unanswered_bytes or direct.packed))
    del refs
    session.settle()
    assert not session._base.lines.unsaid


def test_a_short_calls_result_doesnt_wait_for_a_long_one(line: Any, gate: Gate) -> None:
    """It is packed for as long as more are queued."""
    actor = line()
    refs = [actor.note.remote(n) for n in range(40)]
    last = actor.waits.remote(gate.stop, 5)
    visitor = gate.next()
    assert wb.get(refs) == list(range(1, 41))
    visitor.let_on()
    assert wb.get(last) == 5


def test_a_packed_call_goes_though_nobody_waits(session: Any) -> None:
    """The others may wait for it."""
    actor = meeting().remote()
    wait_for_line(session, actor)
    line = session._base.lines.of(actor._ref.id)
    waiting = [actor.waits.remote() for _ in range(5)]
    assert eventually(lambda: not line.packed)
    refs = [actor.opens.remote(), *waiting]
    assert eventually(lambda: not line.packed)
    assert wb.get(refs) == [True, *["opened"] * 5]


def test_results_of_any_kind(line: Any, capsys: pytest.CaptureFixture[str]) -> None:
    actor = line()
    for _ in range(3):
        assert (wb.get(actor.result.remote("large")) == np.arange(100_000)).all()
        (ref,) = wb.get(actor.result.remote("ref"))
        assert wb.get(ref) == "inside"
        with pytest.raises(TaskError, match="no such thing"):
            wb.get(actor.result.remote("error"))
        assert wb.get(actor.result.remote("print")) == "small"
        assert "shown first" in capsys.readouterr().out  # before the result is there
    assert wb.get(actor.runs.remote()) == 5
    assert eventually(lambda: "shown by a task of a call" in capsys.readouterr().out)


def test_a_handle_that_was_gone_meanwhile(session: Any, line: Any) -> None:
    actor = line()
    box = wb.put([actor])
    for n in range(5):
        del actor
        session.settle()
        (actor,) = wb.get(box)
        assert wb.get(actor.note.remote(n)) == n + 1


def test_results_that_nobody_waits_for(session: Any, line: Any) -> None:
    """Large ones, which the server is told of: the line goes on being used."""
    actor = line()
    (direct,) = session._base.lines._by_actor.values()
    for _ in range(100):
        actor.result.remote("large")
    wb.get(actor.all.remote())
    assert eventually(lambda: not direct.unanswered)
    wait_for_line(session, actor)


def test_a_call_with_a_name_too_long_for_a_packet(line: Any) -> None:
    actor = line()
    assert wb.get(actor.note.options(name="n" * 70_000).remote(1)) == 1
    assert wb.get(actor.note.remote(2)) == 2


def test_a_call_with_a_name_that_no_packet_can_have(line: Any) -> None:
    """Such as that of a file that isn't UTF-8."""
    actor = line()
    assert wb.get(actor.note.options(name="\udcff").remote(1)) == 1
    assert wb.get(actor.note.remote(2)) == 2


def test_the_end_of_a_result_is_told_while_nobody_does_anything(session: Any, line: Any) -> None:
    """The process sleeps by then, and nothing but that end wakes it."""
    actor, connection = line(), session._base.connection
    for n in range(2):
        ref = actor.note.remote(n)
        assert wb.get(ref) == n + 1
        assert eventually(lambda: connection._asleep)
        del ref
        assert eventually(lambda: not connection.queue)


def test_a_call_made_by_a_finalizer_inside_a_call(
    session: Any, line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The garbage collector runs wherever something is made, with the line's lock held, too."""
    actor, lines, encode = line(), session._base.lines, packets.encode
    inner: list[Any] = []

    def collects(packet: Any) -> bytes:
        if not inner:
            inner.append(None)
            inner[0] = actor.note.remote("inner")
        return encode(packet)

    with monkeypatch.context() as patch:
        patch.setattr(packets, "encode", collects)
        outer = actor.note.remote("outer")
    assert sorted(wb.get([*inner, outer])) == [1, 2]
    assert sorted(wb.get(actor.all.remote())) == ["inner", "outer"]
    assert not lines._calls


def test_ctrl_c_right_after_a_call_was_sent(
    session: Any, line: Any, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has its handle, so nobody else could stop it."""
    actor, lines = line(), session._base.lines
    call = lines.call

    def interrupted(*args: Any) -> bool:
        assert call(*args)
        gate.next()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(lines, "call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            actor.waits.remote(gate.stop, 1)
    assert wb.get(actor.all.remote()) == []  # the gate wasn't opened


def test_what_was_said_before_is_known(session: Engine, line: Any) -> None:
    """By the call of what its caller said, and by the caller of what the call said."""
    actor = line()
    for n in range(10):
        wb.put(n, name=f"mine {n}")
        session.name(wb.put(-n), f"again {n}")
        assert wb.get(actor.finds.remote(f"again {n}")) == -n
        wb.get(actor.names.remote(f"its {n}"))
        assert wb.get(f"its {n}") == f"its {n}"
    for n in range(10):
        for name in (f"mine {n}", f"again {n}", f"its {n}"):
            session.unname(name)


def test_a_result_is_there_for_others(line: Any) -> None:
    @wb.remote
    def more(value: int) -> int:
        return value + 1

    actor = line()
    for n in range(20):
        assert wb.get(more.remote(actor.note.remote("x"))) == n + 2


@pytest.mark.parametrize("begun", [True, False])
def test_a_call_is_cancelled(line: Any, gate: Gate, begun: bool) -> None:
    actor = line()
    first = actor.waits.remote(gate.stop, 1)
    visitor = gate.next()
    second = actor.note.remote("never")
    wb.cancel(first if begun else second)
    if not begun:
        with pytest.raises(TaskCancelledError):
            wb.get(second)
        visitor.let_on()
        assert wb.get(first) == 1
        assert wb.get(actor.all.remote()) == []
    else:
        with pytest.raises(TaskCancelledError):
            wb.get(first)
        assert wb.get(second) == 1


def test_an_actor_dies(line: Any, capsys: pytest.CaptureFixture[str]) -> None:
    actor = line(max_restarts=1)
    before = [actor.note.remote(n) for n in range(3)]
    ref = actor.dies.remote()
    behind = [actor.note.remote(n) for n in range(3)]
    assert wb.get(before) == [1, 2, 3]
    with pytest.raises(ActorUnavailableError, match=r"while it ran `Log\.dies`"):
        wb.get(ref)
    assert "shown last" in capsys.readouterr().out
    assert wb.get(behind) == [1, 2, 3]  # those had not begun
    pid = wb.get(actor.pid.remote())
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: has_died(actor))


@pytest.mark.parametrize("way", ["exits", "leaves"])
@pytest.mark.parametrize("size", [1, 30_000, 200_000])
def test_what_was_returned_before_an_exit_is_there(
    session: Any, line: Any, way: str, size: int
) -> None:
    """Though calls came behind, which it hadn't read; though the line was full; and though large
    results are only told when the server asks."""
    for _ in range(6):
        actor = line()
        for _ in range(50):
            wb.get(actor.all.remote())
        results = [actor.sized.remote(size) for _ in range(100)]
        getattr(actor, way).remote()
        behind = [actor.note.remote("behind") for _ in range(5)]
        assert {len(wb.get(result)) for result in results} == {size}
        del behind


def test_what_never_began_is_told_so_or_tried_again(session: Any, line: Any, gate: Gate) -> None:
    """Also if the last call that began was another caller's."""
    actor = line(max_restarts=1)
    between = caller().remote(actor)
    wb.get(between.notes.remote(5))
    wait_for_line(session, actor)
    waiting = between.waits.remote(gate.stop)
    gate.next()
    straight = by_line(session)
    behind = [actor.note.remote(n) for n in range(20)]
    assert by_line(session) == straight + 20
    wb.kill(actor, no_restart=False)
    with pytest.raises((ActorUnavailableError, TaskError)):
        wb.get(waiting)
    assert wb.get(behind) == list(range(1, 21))


def test_a_killed_actors_calls_that_never_began_say_so(line: Any, gate: Gate) -> None:
    actor = line()
    began, *behind = actor.waits.remote(gate.stop, 1), *(actor.note.remote(n) for n in range(3))
    gate.next()
    wb.kill(actor)
    with pytest.raises(ActorDiedError, match=r"ended by kill\(\)\.$"):
        wb.get(began)
    for ref in behind:
        with pytest.raises(ActorDiedError, match=r"kill\(\)\. `Log\.note` had not begun\.$"):
            wb.get(ref)


def has_died(actor: Any) -> bool:
    try:
        wb.get(actor.pid.remote())
    except ActorDiedError:
        return True
    return False


def test_a_stopped_caller_holds_up_nobody(
    session: Engine, script: Callable[..., Script], gate: Gate
) -> None:
    """Nor does one that is killed: who waits for the result of its call gets it."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        driver = script(
            """
            import sys
            from tests.process.gates import stopper
            from tests.process.test_lines import log, wait_for_line
            session = wb.init(session=sys.argv[1])
            actor = log().options(name="the log", lifetime="detached").remote()
            wait_for_line(session, actor)
            ref = actor.waits.remote(stopper(sys.argv[2]), 7)
            session.name(ref, "the result")
            session.settle()
            say("called")
            hear()
            """,
            session.session,
            gate.path,
        )
        assert driver.line() == "called"
        visitor = gate.next()
        driver.signal(number)
        visitor.let_on()
        assert wb.get("the result") == 7
        if number == signal.SIGSTOP:
            driver.signal(signal.SIGCONT)
        session.unname("the result")
        wb.kill(wb.get_actor("the log"))
        driver.close()


def test_a_fork_of_either_end(session: Any, line: Any) -> None:
    actor = line()
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)
    before = by_line(session)
    assert wb.get(actor.note.remote(1)) == 1
    assert by_line(session) == before + 1


# -- workers call ----------------------------------------------------------------------------------


def caller() -> Any:
    """The class of an actor that calls another one."""

    @wb.remote
    class Caller:
        def __init__(self, actor: Any) -> None:
            self.actor = actor
            self.kept: Any = None

        def notes(self, times: int) -> tuple[list[int], int]:
            """What so many calls return, and how many of them went by lines."""
            before = calls_by_lines()
            seen = [wb.get(self.actor.note.remote(n)) for n in range(times)]
            return seen, calls_by_lines() - before

        def shows(self) -> str:
            return str(wb.get(self.actor.result.remote("print")))

        def runs(self) -> int:
            return int(wb.get(self.actor.runs.remote()))

        def ref(self) -> list[Any]:
            return [self.actor.note.remote("returned")]

        def keeps(self) -> None:
            self.kept = self.actor.note.remote("kept")

        def kept_result(self) -> Any:
            return wb.get(self.kept)

        def waits(self, stop: Any) -> int:
            return int(wb.get(self.actor.waits.remote(stop, 1)))

        def calls_and_dies(self, stop: Any) -> None:
            self.actor.waits.remote(stop, 2)
            os._exit(3)

        def pid(self) -> int:
            return os.getpid()

    return Caller


def calls_by_lines() -> int:
    """In the process that runs this."""
    from workbench import context

    engine: Any = context.get()
    lines = engine._base.lines
    return sum(line.sent + line.ahead - line.unanswered for line in lines._by_actor.values())


def test_a_task_that_is_given_an_actor_calls_it_straight_from_the_start(line: Any) -> None:
    """If one before it in the same process was given it, too: the handle is another."""

    @wb.remote
    def notes(actor: Any) -> int:
        before = calls_by_lines()
        wb.get([actor.note.remote(n) for n in range(20)])
        return calls_by_lines() - before

    actor = line()
    assert eventually(lambda: wb.get(notes.remote(actor)) == 20)


def test_an_actor_calls_an_actor(line: Any, capsys: pytest.CaptureFixture[str]) -> None:
    actor = line()
    between = caller().remote(actor)

    def all_but_few_by_line() -> bool:
        seen, direct = wb.get(between.notes.remote(20))
        assert seen == list(range(seen[0], seen[0] + 20))
        return bool(direct == 20)

    assert eventually(all_but_few_by_line)
    for _ in range(3):
        assert wb.get(between.shows.remote()) == "small"
        assert "shown first" in capsys.readouterr().out  # before that is known
        assert wb.get(between.runs.remote()) == 5
    assert eventually(lambda: "shown by a task of a call" in capsys.readouterr().out)
    (ref,) = wb.get(between.ref.remote())
    assert wb.get(ref) == len(wb.get(actor.all.remote()))
    wb.get(between.keeps.remote())
    assert wb.get(between.kept_result.remote()) == wb.get(ref) + 1


def test_a_task_calls_an_actor(line: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, in order, by a line as soon as its process has one."""

    @wb.remote
    def notes(actor: Any, times: int) -> tuple[list[int], int, list[Any]]:
        before = calls_by_lines()
        seen = [wb.get(actor.note.remote(n)) for n in range(times)]
        unasked = [actor.note.remote(n) for n in range(3)]
        wb.get(actor.result.remote("print"))
        return seen, calls_by_lines() - before, unasked

    actor = line()
    direct = 0
    for _ in range(4):
        first = len(wb.get(actor.all.remote())) + 1
        seen, by_lines, unasked = wb.get(notes.remote(actor, 20))
        assert seen == list(range(first, first + 20))
        assert wb.get(unasked) == [first + 20, first + 21, first + 22]
        assert "shown first" in capsys.readouterr().out
        direct += by_lines
    assert direct


def test_a_task_is_cancelled_while_its_call_is_under_way(line: Any, gate: Gate) -> None:
    """The call, too: also if the server didn't know of it yet."""

    @wb.remote
    def waits(actor: Any, stop: Any) -> Any:
        for n in range(5):
            wb.get(actor.note.remote(n))
        return wb.get(actor.waits.remote(stop, 1))

    actor = line()
    for _ in range(3):
        task = waits.remote(actor, gate.stop)
        visitor = gate.next()
        wb.cancel(task)
        with pytest.raises(TaskCancelledError):
            wb.get(task)
        assert len(wb.get(actor.all.remote())) % 5 == 0  # it doesn't wait for the gate
        del visitor


def test_a_caller_dies_while_its_call_is_under_way(line: Any, gate: Gate) -> None:
    """What it called goes on to its end; the next ones are served."""
    actor = line()
    between = caller().options(max_restarts=1).remote(actor)
    wb.get(between.notes.remote(5))
    dying = between.calls_and_dies.remote(gate.stop)
    visitor = gate.next()
    with pytest.raises((ActorDiedError, ActorUnavailableError)):
        wb.get(dying)
    visitor.let_on()
    assert len(wb.get(actor.all.remote())) == 5
    assert eventually(lambda: wb.get(between.notes.remote(5))[1] == 5)


def test_an_actor_that_a_worker_calls_dies(line: Any, gate: Gate) -> None:
    actor = line(max_restarts=1)
    between = caller().remote(actor)
    wb.get(between.notes.remote(5))
    waiting = between.waits.remote(gate.stop)
    os.kill(gate.next().pid, signal.SIGKILL)
    with pytest.raises((ActorUnavailableError, TaskError), match="was killed by SIGKILL"):
        wb.get(waiting)
    assert eventually(lambda: wb.get(between.notes.remote(5))[1] == 5)

"""Calls that go straight to an actor, and tasks to a worker that is lent, also with objects as
arguments: they do what those by the server do.

Which messages are sent when is a matter of `tests/unit/core/test_line_machine.py` and
`test_lease_machine.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.endings import leave_at_once
from tests.process.gates import Gate
from tests.process.processes import stopped
from workbench.engine.base import Engine
from workbench.errors import ActorUnavailableError, TaskCancelledError, TaskError

SOON = 0.2
"""Seconds in which what needs no server is there, mostly. If it isn't, it is tried again."""


class Log:
    """Keeps what it was called with, in order."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def note(self, what: Any, *more: Any) -> int:
        self.seen.append(what)
        return len(self.seen)

    def all(self) -> list[Any]:
        return self.seen

    def result(self, kind: str) -> Any:
        return made(kind)

    def names(self, name: str) -> None:
        wb.put(name, name=name)

    def finds(self, name: str) -> Any:
        return wb.get(name)

    def waits(self, stop: Any, value: int) -> int:
        stop()
        return value

    def touches(self, path: Path) -> None:
        path.touch()

    def dies(self) -> None:
        print("shown last")
        leave_at_once(3)

    def exits(self) -> None:
        sys.exit(3)

    def leaves(self) -> None:
        wb.exit_actor()

    def sized(self, size: int) -> bytes:
        return bytes(size)


def made(kind: str) -> Any:
    """A result of that kind."""
    if kind == "error":
        raise LookupError("no such thing")
    if kind == "nested":
        return wb.get(wb.remote(shows).remote())
    if kind == "small":
        print("shown first")
        return "small"
    return np.arange(100_000) if kind == "large" else [wb.put("inside")]


def check_results(call: Callable[[str], wb.ObjectRef], capsys: pytest.CaptureFixture[str]) -> None:
    """Of calls of `made`: they come as they are, behind what was shown."""
    for _ in range(3):
        assert (wb.get(call("large")) == np.arange(100_000)).all()
        (ref,) = wb.get(call("ref"))
        assert wb.get(ref) == "inside"
        with pytest.raises(TaskError, match="no such thing"):
            wb.get(call("error"))
        assert wb.get(call("small")) == "small"
        assert "shown first" in capsys.readouterr().out
    assert wb.get(call("nested")) == 5
    assert eventually(lambda: "shown by a task of a call" in capsys.readouterr().out)


def shows() -> int:
    print("shown by a task of a call")
    return 5


class Caller:
    """An actor that calls another one."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    def notes(self, times: int) -> list[int]:
        return [wb.get(self.actor.note.remote(n)) for n in range(times)]

    def gets(self, method: str, *args: Any) -> Any:
        return wb.get(getattr(self.actor, method).remote(*args))

    def ref(self) -> list[Any]:
        return [self.actor.note.remote("returned")]


def needs_no_server(server: psutil.Process, act: Callable[[], object]) -> bool:
    """Whether that, which waits no longer than `SOON` for anything, is done while it is stopped."""
    with stopped(server):
        try:
            act()
        except TimeoutError:
            return False
    return True


def soon(ref: Any) -> Any:
    return wb.get(ref, timeout=SOON)


def wait_for_line(server: psutil.Process, actor: Any) -> None:
    def has_one() -> bool:
        for _ in range(5):
            wb.get(actor.all.remote())
        return needs_no_server(server, lambda: soon(actor.all.remote()))

    assert eventually(has_one)


@pytest.fixture
def line(server: psutil.Process) -> Callable[..., Any]:
    """Makes an actor, called by a line from now on."""

    def make(**options: Any) -> Any:
        actor = wb.remote(Log).options(**options).remote()
        wait_for_line(server, actor)
        return actor

    return make


def test_a_short_calls_result_doesnt_wait_for_a_long_one(line: Any, gate: Gate) -> None:
    """It is packed for as long as more are queued."""
    actor = line()
    refs = [actor.note.remote(n) for n in range(40)]
    last = actor.waits.remote(gate.stop, 5)
    visitor = gate.next()
    assert wb.get(refs) == list(range(1, 41))
    visitor.let_on()
    assert wb.get(last) == 5


def test_a_packed_call_goes_though_nobody_waits(line: Any, gate: Gate, tmp_path: Path) -> None:
    actor = line()
    refs = [actor.waits.remote(gate.stop, 1), *(actor.note.remote(n) for n in range(5))]
    refs.append(actor.touches.remote(tmp_path / "touched"))
    gate.next().let_on()
    assert eventually((tmp_path / "touched").exists)


def test_early_ctrl_c(session: Any, line: Any, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_was_said_before_is_known(server: psutil.Process, session: Engine, line: Any) -> None:
    """By the call of what its caller said, and by the caller of what the call said."""
    actor, freed = line(), wb.put("freed")
    with stopped(server):
        wb.free(freed)
        call = actor.all.remote()
        assert not wb.wait([call], timeout=SOON)[0], "it has overtaken what was said before it"
    assert wb.get(call) == []
    for n in range(10):
        session.name(wb.put(n), "mine")
        assert wb.get(actor.finds.remote("mine")) == n
        wb.get(actor.names.remote(f"its {n}"))
        assert wb.get(f"its {n}") == f"its {n}"
        wb.free(["mine", f"its {n}"])


def test_a_call_is_cancelled(line: Any, gate: Gate) -> None:
    actor = line()
    first = actor.waits.remote(gate.stop, 1)
    gate.next()
    second, third = actor.note.remote("never"), actor.note.remote("third")
    for ref in (second, first):
        wb.cancel(ref)
        with pytest.raises(TaskCancelledError):
            wb.get(ref)
    assert wb.get(third) == 1
    assert wb.get(actor.all.remote()) == ["third"]


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


@pytest.mark.parametrize(("way", "size"), [("exits", 30_000), ("leaves", 1), ("leaves", 200_000)])
def test_what_was_returned_before_an_exit_is_there(line: Any, way: str, size: int) -> None:
    """Though calls came behind, which it hadn't read; though the line was full; and though large
    results are only told when the server asks."""
    actor = line()
    results = [actor.sized.remote(size) for _ in range(100)]
    getattr(actor, way).remote()
    behind = [actor.note.remote("behind") for _ in range(5)]
    assert {len(wb.get(result)) for result in results} == {size}
    del behind


def test_by_an_actor(server: psutil.Process, line: Any, capsys: pytest.CaptureFixture[str]) -> None:
    actor = line()
    between = wb.remote(Caller).remote(actor)

    def chain() -> None:
        seen = soon(between.notes.remote(20))
        assert seen == list(range(seen[0], seen[0] + 20))

    assert eventually(lambda: wb.get(between.notes.remote(5)) and needs_no_server(server, chain))
    check_results(partial(between.gets.remote, "result"), capsys)
    (ref,) = wb.get(between.ref.remote())
    assert wb.get(ref) == len(wb.get(actor.all.remote()))


def does(kind: Any = None, stop: Any = None) -> Any:
    if stop is not None:
        return stop()
    return kind and made(kind)


def go_straight(server: psutil.Process, submit: Callable[[], Any], times: int = 5) -> bool:
    """Whether tasks one after the other end without the server. To be asked until they do: a lease
    may end in between."""
    for _ in range(20):
        wb.get(submit())
    return needs_no_server(server, lambda: [soon(submit()) for _ in range(times)])


@pytest.fixture
def do(server: psutil.Process) -> Any:
    """A function whose tasks go straight to a worker from now on."""
    function = wb.remote(does)
    assert eventually(lambda: go_straight(server, function.remote))
    return function


def test_tasks_of_functions_that_take_turns_go_straight(server: psutil.Process, do: Any) -> None:
    """A lease is for all of them, once its worker knows them."""
    other = wb.remote(lambda: None)

    def turns() -> Any:
        soon(do.remote())
        return other.remote()

    assert eventually(lambda: go_straight(server, turns))


def test_arguments_by_reference_go_straight(server: psutil.Process, session: Engine) -> None:
    size, ref = wb.remote(len), wb.put(np.ones(1_000_000))
    array = wb.get(ref)  # stands for its object
    for given in (ref, array):
        assert eventually(lambda: go_straight(server, lambda: size.remote(given)))  # noqa: B023
    assert wb.get(size.remote(wb.put(np.ones(500_000)))) == 500_000  # which wasn't lent


def test_results_of_any_kind(line: Any, do: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for remote in (line().result.remote, do.remote):
        check_results(remote, capsys)


def test_only_one_at_a_time_goes_there(session: Engine, do: Any, gate: Gate) -> None:
    """The others go where there is room; who waits for a worker has the lent one, too."""
    for function in (do, wb.remote(lambda _, stop: stop())):
        refs = [function.remote(None, gate.stop) for _ in range(session.workers + 1)]
        visitors = [gate.next() for _ in range(session.workers)]
        assert len({visitor.pid for visitor in visitors}) == session.workers
        for visitor in visitors:
            visitor.let_on("done")
        gate.next().let_on("done")
        assert wb.get(refs) == ["done"] * len(refs)


def test_it_can_be_stopped(server: psutil.Process, session: Engine, do: Any, gate: Gate) -> None:
    ref = do.remote(None, gate.stop)
    visitor = gate.next()

    def tasks() -> list[tuple[str, ...]]:
        workers = session.snapshot().workers
        return [worker.tasks for worker in workers if worker.pid == visitor.pid]

    assert eventually(lambda: tasks() == [("does",)])
    assert not wb.wait([ref], timeout=0)[0]
    wb.cancel(ref)
    with pytest.raises(TaskCancelledError):
        wb.get(ref)
    assert eventually(lambda: go_straight(server, do.remote))


N = 1_000_000


class Reader:
    kept: Any = None

    def size(self, *arrays: Any) -> int:
        return sum(map(len, arrays))

    def keep(self, array: Any) -> int:
        self.kept = array
        return len(array)

    def total(self) -> float:
        return float(self.kept.sum())

    def forget(self) -> None:
        self.kept = None

    def waits(self, array: Any, stop: Any) -> Any:
        return stop(), float(array.sum())


class AsyncReader(Reader):
    async def size(self, *arrays: Any) -> int:  # type: ignore[override]
        return super().size(*arrays)

    async def waits(self, array: Any, stop: Any) -> Any:
        return super().waits(array, stop)


every = pytest.mark.parametrize("cls", [Reader, AsyncReader])


def lend(session: Any, actor: Any, ref: Any) -> Any:
    """Have the object lent to the actor's line, which it returns."""
    lines, id = session._base.lines, actor._ref.id

    def has_it() -> bool:
        wb.get(actor.size.remote(ref))
        return lines.line_to(id, (ref.id,)) is not None

    assert eventually(has_it)
    return lines.line_to(id)


def is_gone(session: Any, id: int) -> bool:
    """With its room: no other object of that size is there."""

    def gone() -> bool:
        now = session.snapshot()
        return now.live < N and all(record.id != id for record in now.objects)

    return eventually(gone)


@every
def test_they_go_straight_alone_and_in_a_burst(session: Any, cls: type) -> None:
    actor = wb.remote(cls).remote()
    ref, other = wb.put(np.ones(N)), wb.put(np.ones(N // 2))
    line = lend(session, actor, ref)
    before = line.sent
    assert [wb.get(actor.size.remote(ref)) for _ in range(20)] == [N] * 20
    assert wb.get(actor.size.remote(wb.get(ref), ref)) == 2 * N  # the array stands for its object
    assert line.sent == before + 21
    assert wb.get(actor.size.remote(ref, other)) == N + N // 2  # through the server
    assert line.sent == before + 21
    lend(session, actor, other)
    calls = [(ref,), (ref,), (other,), (), (ref, other), (other, ref)] * 50  # packed apart
    sizes = wb.get([actor.size.remote(*refs) for refs in calls])
    assert sizes == [N, N, N // 2, 0, N + N // 2, N + N // 2] * 50


@every
def test_what_is_lent_stays_while_it_is_needed(session: Any, cls: type, gate: Gate) -> None:
    """Its driver has let go of it, and its room is wanted."""
    actor = wb.remote(cls).remote()
    ref = wb.put(np.ones(N))
    line = lend(session, actor, ref)
    before = line.sent
    result = actor.waits.remote(ref, gate.stop)
    kept = actor.keep.remote(ref)
    assert line.sent == before + 2
    visitor, id = gate.next(), ref.id
    del ref
    for _ in range(5):
        wb.get(wb.put(np.zeros(N)))
    visitor.let_on("read")
    assert wb.get(result) == ("read", float(N))
    assert wb.get(kept) == N
    others = [wb.put(np.zeros(N)) for _ in range(5)]
    assert wb.get(actor.total.remote()) == float(N)
    del others
    assert wb.get(actor.forget.remote()) is None
    assert is_gone(session, id)

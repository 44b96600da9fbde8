"""Calls of actors that go straight with objects as arguments, and what becomes of those."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.endings import leave_at_once
from tests.process.gates import Gate
from tests.process.scripts import Script
from workbench.errors import ActorUnavailableError

N = 1_000_000


def reader(is_async: bool) -> Any:
    """The class, as a notebook's cell makes it."""

    @wb.remote
    class Reader:
        def __init__(self) -> None:
            self.kept: Any = None
            self.found: Any = None

        def size(self, *arrays: Any) -> int:
            return sum(map(len, arrays))

        def keep(self, array: Any) -> int:
            self.kept = array
            return len(array)

        def total(self) -> float:
            return float(self.kept.sum())

        def waits(self, array: Any, stop: Any) -> Any:
            word = stop()
            self.found = word, float(array.sum())
            return self.found

        def last(self) -> Any:
            return self.found

        def dies(self, array: Any) -> None:
            leave_at_once(3)

    @wb.remote
    class AsyncReader:
        def __init__(self) -> None:
            self.kept: Any = None

        async def size(self, *arrays: Any) -> int:
            return sum(map(len, arrays))

        async def keep(self, array: Any) -> int:
            self.kept = array
            return len(array)

        async def total(self) -> float:
            return float(self.kept.sum())

        async def waits(self, array: Any, stop: Any) -> Any:
            return stop(), float(array.sum())

    return AsyncReader if is_async else Reader


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Any:
    return reader(request.param).remote


def lend(session: Any, actor: Any, ref: Any) -> Any:
    """Have the object lent to the actor's line, which it returns."""
    lines, id = session._base.lines, actor._ref.id

    def has_it() -> bool:
        wb.get(actor.size.remote(ref))
        return lines.of(id, (ref.id,)) is not None

    assert eventually(has_it)
    return lines.of(id)


def is_gone(session: Any, id: int) -> bool:
    """With its room: no other object of that size is there."""

    def gone() -> bool:
        now = session.snapshot()
        return now.live < N and all(record.id != id for record in now.objects)

    return eventually(gone)


def test_they_go_straight_alone_and_in_a_burst(session: Any, make: Any) -> None:
    actor = make()
    ref, other = wb.put(np.ones(N)), wb.put(np.ones(N // 2))
    line = lend(session, actor, ref)
    before = line.sent
    assert [wb.get(actor.size.remote(ref)) for _ in range(20)] == [N] * 20
    assert wb.get(actor.size.remote(wb.get(ref), ref)) == 2 * N  # the array stands for its object
    assert wb.get([actor.size.remote(ref) for _ in range(300)]) == [N] * 300
    assert line.sent == before + 321
    assert wb.get(actor.size.remote(ref, other)) == N + N // 2  # through the server
    assert line.sent == before + 321
    lend(session, actor, other)
    calls = [(ref,), (ref,), (other,), (), (ref, other), (other, ref)] * 50  # packed apart
    sizes = wb.get([actor.size.remote(*refs) for refs in calls])
    assert sizes == [N, N, N // 2, 0, N + N // 2, N + N // 2] * 50


def test_what_is_lent_stays_until_it_was_read(session: Any, make: Any, gate: Gate) -> None:
    """Its driver has let go of it, and its room is wanted."""
    actor = make()
    ref = wb.put(np.ones(N))
    line = lend(session, actor, ref)
    before = line.sent
    result = actor.waits.remote(ref, gate.stop)
    assert line.sent == before + 1
    visitor, id = gate.next(), ref.id
    del ref
    for _ in range(5):
        wb.get(wb.put(np.zeros(N)))
    visitor.let_on("read")
    assert wb.get(result) == ("read", float(N))
    assert is_gone(session, id)


def test_what_is_dropped_gives_its_room_back_and_lines_go_on(session: Any, make: Any) -> None:
    actor = make()
    for _ in range(3):
        ref = wb.put(np.ones(N))
        lend(session, actor, ref)
        id = ref.id
        del ref
        assert is_gone(session, id)
    assert not session._base.lines.ahead


def test_an_array_that_the_actor_keeps(session: Any, make: Any) -> None:
    actor = make()
    ref = wb.put(np.ones(N))
    line = lend(session, actor, ref)
    before = line.sent
    assert wb.get(actor.keep.remote(ref)) == N
    assert line.sent == before + 1
    del ref
    others = [wb.put(np.zeros(N)) for _ in range(5)]
    assert wb.get(actor.total.remote()) == float(N)
    del others


def test_its_worker_dies(session: Any) -> None:
    """The next one reads it, too."""
    actor = reader(False).options(max_restarts=1).remote()
    ref = wb.put(np.ones(N))
    lend(session, actor, ref)
    with pytest.raises(ActorUnavailableError):
        wb.get(actor.dies.remote(ref))
    assert wb.get(actor.size.remote(ref)) == N
    lend(session, actor, ref)
    id = ref.id
    del ref
    assert is_gone(session, id)


@pytest.mark.parametrize("is_shared", [False, True])
def test_its_caller_is_killed(
    session: Any, script: Callable[..., Script], gate: Gate, is_shared: bool
) -> None:
    """The call goes on, and what it reads stays till it is over, whoever has the object besides."""
    name = f"reader {is_shared}"
    actor = reader(False).options(name=name).remote()
    shared = wb.put(np.ones(N), name="shared") if is_shared else None
    victim = script(
        """
        import numpy as np

        engine = wb.init(session=sys.argv[1])
        actor = wb.get_actor(sys.argv[3])
        ref = engine.find("shared")
        if ref is None:
            ref = wb.put(np.ones(1_000_000))
        while engine._base.lines.of(actor._ref.id, (ref.id,)) is None:
            wb.get(actor.size.remote(ref))
        engine._base.connection.defer = lambda message: None  # the server never hears of it
        call = actor.waits.remote(ref, stopper(sys.argv[2]))
        say(ref.id)
        hear()
        """,
        session.session,
        gate.path,
        name,
    )
    visitor, id = gate.next(), int(victim.line())
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    if is_shared:
        wb.free("shared")
    del shared
    for _ in range(5):
        wb.get(wb.put(np.zeros(N)))
    visitor.let_on("read")
    assert wb.get(actor.last.remote()) == ("read", float(N))
    assert is_gone(session, id)

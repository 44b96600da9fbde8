"""Calls of actors that go straight with objects as arguments, and what becomes of those."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.gates import Gate

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

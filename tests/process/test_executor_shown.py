"""What a person sees of executors and pools: their tracebacks, and how they show themselves."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import workbench as wb
from tests.process.endings import leave_at_once
from tests.process.gates import Gate
from workbench.engines.base import Engine


def double(x: Any) -> Any:
    return 2 * x


def fails(x: Any) -> Any:
    raise LookupError(x)


def locked(_: Any) -> Any:
    return threading.Lock()


def dies(_: Any) -> None:
    leave_at_once(3)


def shown(call: Callable[[], object]) -> list[str]:
    """The lines of what it raises, as a script's end prints them."""
    with pytest.raises(Exception) as found:  # noqa: PT011 - whatever it is
        call()
    return "".join(traceback.format_exception(found.value)).splitlines()


@pytest.mark.parametrize(
    "call",
    [
        lambda: wb.Executor().submit(locked, 1).result(),
        lambda: [*wb.Executor().map(locked, [1])],
        lambda: wb.Pool().map(locked, [1]),
        lambda: wb.Pool().apply(locked, (1,)),
        lambda: [*wb.Pool().imap(dies, [1])],
    ],
)
def test_a_traceback_shows_a_person_s_lines_and_one_of_ours(
    session: Engine, call: Callable[[], object]
) -> None:
    lines = shown(call)
    ours = [line for line in lines if line.startswith('  File "') and "workbench/" in line]
    mine = [line for line in lines if line.startswith('  File "') and __file__ in line]
    assert len(mine) == 2, lines  # `shown`, and the call
    assert len(ours) <= 1, lines
    assert len(lines) < 25


def test_a_person_s_frames_stay_in_a_traceback(session: Engine) -> None:
    """Where what comes back can't be built: its own code failed, here."""

    class Fragile:
        def __reduce__(self) -> Any:
            return fails, (7,)

    lines = shown(wb.Executor().submit(Fragile).result)
    assert any("in fails" in line for line in lines)


def test_how_they_show_themselves(session: Engine, gate: Gate) -> None:
    with wb.Executor(2) as executor:
        assert repr(executor) == "<workbench.Executor state=open max_workers=2 pending=0>"
        call = executor.submit(gate.stop)
        visitor = gate.next()
        assert repr(executor) == "<workbench.Executor state=open max_workers=2 pending=1>"
        visitor.let_on()
        call.result()
    assert repr(executor) == "<workbench.Executor state=shut down max_workers=2 pending=0>"
    every = wb.Executor()
    assert "max_workers=all workers" in repr(every)  # and no session is begun for it
    every.submit(double, 1).result()
    assert f"max_workers={session.workers} " in repr(every)
    with wb.Pool(2) as pool:
        assert repr(pool) == "<workbench.Pool state=RUN pool_size=2 pending=0>"
    assert repr(pool) == "<workbench.Pool state=TERMINATE pool_size=2 pending=0>"

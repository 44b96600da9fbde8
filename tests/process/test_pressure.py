"""Memory that runs short: a task that takes too much ends before the kernel ends the notebook.

What counts as short is set to a little below what the machine has left, so that a task of two
gigabytes is too much.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from workbench.engines.base import Engine
from workbench.errors import ActorDiedError, OutOfMemoryError
from workbench.system.machine import MemoryGauge

pytestmark = pytest.mark.extended

SPARE = 1_500_000_000
"""More than the other tests, which run beside this one, take or give back in between."""


@pytest.fixture
def tight(runtime: str, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """A session of two workers on a machine that has 1.5 GB to spare."""
    available, _ = MemoryGauge().read()
    monkeypatch.setenv("WORKBENCH_HEADROOM", str(available - SPARE))
    return wb.init(workers=2, memory="64MB")


def greedy(runtime: str) -> Callable[[], int]:
    """A task that takes more and more, up to 6 GB. It notes each try."""
    path = os.path.join(runtime, "tries")

    def takes() -> int:
        with open(path, "a") as file:
            file.write(".")
        kept = []
        for _ in range(360):
            kept.append(bytearray(b"x") * (1 << 24))
        return len(kept)

    return takes


def test_a_task_that_takes_too_much_ends_and_says_so(tight: Engine, runtime: str) -> None:
    ref = wb.remote(greedy(runtime)).remote()
    with pytest.raises(OutOfMemoryError) as caught:
        wb.get(ref, timeout=TIMEOUT)
    text = str(caught.value)
    assert isinstance(caught.value, MemoryError)
    assert "ran short" in text
    assert "`greedy.<locals>.takes` " in text.split("in use: ")[1]
    assert "num_cpus" in text
    assert os.path.getsize(os.path.join(runtime, "tries")) == 1  # alone, it would end so again
    assert wb.get(wb.remote(lambda: "goes on").remote()) == "goes on"
    assert eventually(lambda: len(tight.snapshot().workers) == 2)


def test_an_actor_that_takes_too_much_says_so(tight: Engine, runtime: str) -> None:
    takes = greedy(runtime)

    @wb.remote
    class Greedy:
        def take(self) -> int:
            return takes()

    actor = Greedy.remote()
    with pytest.raises(ActorDiedError, match=r"ran short .*; in use: Greedy "):
        wb.get(actor.take.remote(), timeout=TIMEOUT)


def test_beside_others_it_is_tried_again_and_they_stay(
    tight: Engine, runtime: str, gate: Gate
) -> None:
    other = wb.remote(gate.stop).remote()
    visitor = gate.next()
    with pytest.raises(OutOfMemoryError):
        wb.get(wb.remote(max_retries=1)(greedy(runtime)).remote(), timeout=TIMEOUT)
    assert os.path.getsize(os.path.join(runtime, "tries")) == 2
    visitor.let_on("untouched")
    assert wb.get(other) == "untouched"

"""The store's memory: a full store says what fills it, and what is let go comes back."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.processes import Processes, most_granted, seen_memory
from workbench.engine.base import Engine
from workbench.engine.queries import Capacity, HugePages
from workbench.errors import StoreFullError
from workbench.report.text import put_line

pytestmark = pytest.mark.fresh_session


MB = 1_000_000


def array(megabytes: float, value: int = 1) -> np.ndarray[Any, Any]:
    return np.full(int(megabytes * MB), value, np.uint8)


def test_a_put_tells_whether_it_was_the_first_use_of_its_memory(session: Engine) -> None:
    first, about = session.put(np.ones(1 << 18))
    assert about.cold
    assert " in new memory; " in put_line("x", about)
    del first
    assert eventually(lambda: not wb.snapshot().objects)
    _, about = session.put(np.ones(1 << 18))
    assert not about.cold
    assert "new memory" not in put_line("x", about)
    assert "/s" not in put_line("x", replace(about, outband=1000))


def test_bytes_stay_while_anything_shows_them(session: Engine) -> None:
    """A view of a view of freed memory: nothing else is written there before it dies."""
    ref = wb.put({"a": array(20, 7)})
    view = wb.get(ref)["a"][5:].reshape(-1, 5)[::2]
    where = wb.get(ref)["a"].__array_interface__["data"][0]
    wb.free(ref)
    others = [wb.put(array(20, i)) for i in (1, 2)]
    with pytest.raises(StoreFullError, match="arrays in this process"):
        wb.put(array(20))
    assert (view == 7).all()
    del view
    again = wb.put(array(20, 3))
    assert wb.get(again).__array_interface__["data"][0] == where  # reused, once it was free
    assert [wb.get(other)[0] for other in others] == [1, 2]


def test_a_full_store_lists_what_fills_it(session: Engine) -> None:
    with pytest.raises(StoreFullError, match=r"needs 70 MB.* holds 64 MB.*--memory") as caught:
        wb.put(array(70))
    assert isinstance(caught.value, MemoryError)
    with pytest.raises(StoreFullError, match="needs 70 MB"):
        wb.remote(len).remote(array(70))
    assert wb.get(wb.put(array(60)))[-1] == 1  # what was refused takes no room
    wb.put(array(20), name="named")
    held = wb.put({"x": array(16)})
    result = wb.remote(lambda: np.ones(10 * MB, np.uint8)).remote()
    shown = wb.get(result)
    wb.free(result)
    with pytest.raises(StoreFullError) as caught:
        wb.put(array(30))
    text = str(caught.value)
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "No room for 30 MB" in rows[0]
    assert "20 MB named (ndarray uint8 (20000000,)): named `named`" in rows
    here = "test_a_full_store_lists_what_fills_it(), which runs"
    assert any(row.startswith(f"16 MB held in {here} (dict (1)): ref in this pro") for row in rows)
    assert any(row.startswith("10 MB ") and "freed, still shown; " in row for row in rows)
    assert "del" in rows[-1]
    assert "--memory" in rows[-1]
    del held, shown
    session.name(None, "named")


def test_what_is_let_go_makes_room_for_who_needs_it(session: Engine, processes: Processes) -> None:
    # Room is granted in large pieces. One array here and one there must not use it up.
    makes = wb.remote(array)
    held = [wb.put(array(1)), makes.remote(1), makes.remote(1)]
    wb.wait(held, num_returns=3)
    assert wb.get(makes.remote(50)).size == 50 * MB
    held.clear()

    def passes() -> int:
        """Five times the store passes through it, and no put comes too early."""
        return sum(int(wb.get(wb.put(array(40, i)))[-1]) for i in range(8))

    assert passes() == wb.get(wb.remote(passes).remote()) == sum(range(8))
    assert processes.touched() <= session.ask(Capacity())
    del makes
    assert eventually(lambda: not session.snapshot().objects)
    snapshot = session.snapshot()
    assert snapshot.live == 0
    assert snapshot.granted <= most_granted(snapshot.capacity)
    assert processes.touched() <= snapshot.granted  # warm, and counted
    assert session.ask(HugePages()) == "", "nobody asked"
    wb.put(array(63.9))


def test_a_dead_workers_memory_comes_back(session: Engine, processes: Processes) -> None:
    @wb.remote
    def makes() -> Any:
        return array(30, os.getpid() % 251), os.getpid()

    shown, pid = wb.get(makes.remote())
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: pid not in [worker.pid for worker in session.snapshot().workers])
    assert (shown == pid % 251).all()  # the segment outlives its writer ...
    assert seen_memory() >= 30 * MB
    del shown
    assert session.snapshot().live < MB
    assert eventually(lambda: seen_memory() < MB)  # ... as long as something lies in it
    assert processes.touched() < MB
    assert wb.get(wb.put(array(60))).size == 60 * MB


def test_threads_that_get_the_same_object_count_as_they_should(session: Engine) -> None:
    barrier = threading.Barrier(4)
    shared = [wb.put(array(0.1, 0))]

    def run(_: int) -> None:
        for i in range(150):
            barrier.wait(TIMEOUT)
            assert wb.get(shared[0])[0] == i
            if barrier.wait(TIMEOUT) == 0:
                shared[0] = wb.put(array(0.1, i + 1))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # they take turns as often as Python lets them
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(run, range(4)))
    finally:
        sys.setswitchinterval(interval)
    shared.clear()
    assert session.snapshot().live == 0


SMALL, MANY = 10_000, 1_000
"""Bytes, and how many of them: more than `little` holds, each too small for a segment."""


def test_small_objects_and_arguments_are_refused_as_others_are(runtime: str, gate: Gate) -> None:
    little = wb.init(workers=1, memory="8MB", spill_dir="none")
    kept: list[wb.ObjectRef] = []
    with pytest.raises(StoreFullError, match=r"No room for 12.3 kB.* are in use"):
        kept += (wb.put(bytes(SMALL)) for _ in range(MANY))
    assert len(kept) * SMALL > 6 * MB
    assert little.snapshot().granted <= most_granted(little.snapshot().capacity)
    assert wb.get(wb.put(None)) is None  # what takes nothing has room
    assert {len(value) for value in wb.get(kept)} == {SMALL}
    kept.clear()
    waits = wb.remote(lambda _, stop: stop())
    waiting: list[wb.ObjectRef] = []
    with pytest.raises(StoreFullError, match=r"(?s)No room for.*Arguments of tasks take [34]"):
        waiting += (waits.remote(bytes(SMALL), gate.stop) for _ in range(MANY))
    for ref in waiting:
        wb.cancel(ref, force=True)

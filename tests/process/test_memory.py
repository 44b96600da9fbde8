"""The store's memory: a full store says what fills it, and what is let go comes back."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.processes import Processes, most_granted, seen_memory
from tests.process.scripts import Script
from workbench.engines.base import Engine
from workbench.errors import StoreFullError
from workbench.report.text import put_line
from workbench.system import machine

pytestmark = pytest.mark.fresh_session


MB = 1_000_000


def array(megabytes: float, value: int = 1) -> np.ndarray[Any, Any]:
    return np.full(int(megabytes * MB), value, np.uint8)


def test_a_put_tells_whether_it_was_the_first_use_of_its_memory(session: Engine) -> None:
    first, about = session.put(np.ones(1 << 18))
    assert about.cold
    assert " in new memory; " in put_line("x", about)
    (record,) = wb.snapshot().objects
    assert record.about is not None
    assert record.about.cold
    del first
    assert eventually(lambda: not wb.snapshot().objects)
    again, about = session.put(np.ones(1 << 18))
    assert not about.cold
    assert "new memory" not in put_line("x", about)
    assert again.id


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
    assert session.snapshot().live == 0
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
    assert "46 MB of 64 MB are in use" in rows[0] or "46.1 MB of 64 MB are in use" in rows[0]
    assert "20 MB named (ndarray uint8 (20000000,)): named `named`" in rows
    here = "test_a_full_store_lists_what_fills_it(), which runs"
    assert any(row.startswith(f"16 MB held in {here} (dict (1)): ref in this pro") for row in rows)
    freed = next(row for row in rows if row.startswith("10 MB "))
    assert "freed, still shown; " in freed
    assert "arrays in this process: " in freed
    assert "del" in rows[-1]
    assert "--memory" in rows[-1]
    del held, shown
    session.unname("named")
    assert wb.get(wb.put(array(60))).size == 60 * MB


def test_what_is_let_go_makes_room_for_whoever_needs_it(
    session: Engine, processes: Processes
) -> None:
    @wb.remote
    def makes(megabytes: int) -> Any:
        return array(megabytes)

    # Room is granted in large pieces. One array here and one there must not use it up.
    held = [wb.put(array(1)), makes.remote(1), makes.remote(1)]
    wb.wait(held, num_returns=3)
    large = makes.remote(50)
    assert wb.get(large).size == 50 * MB
    del large
    held.append(wb.put(array(50)))
    held.clear()

    def passes() -> int:
        """Ten times the store passes through it, and no put comes too early."""
        total = 0
        for i in range(20):
            ref = wb.put(array(40, i))
            total += int(wb.get(ref)[-1])
            del ref
        return total

    assert passes() == wb.get(wb.remote(passes).remote()) == sum(range(20))
    for _ in range(3):  # memory kept warm by one process goes to another
        ref = wb.put(array(50))
        del ref
        assert wb.get(makes.remote(50)).size == 50 * MB
    assert processes.touched() <= session.capacity


def test_all_of_it_comes_back(session: Engine, processes: Processes) -> None:
    def everything() -> None:
        @wb.remote(num_returns=2)
        def works(a: Any, b: Any) -> Any:
            kept = wb.put([a[:1000], array(0.5)])
            return a + b, [kept, array(1)]

        for i in range(20):
            first, second = works.remote(array(1, i), wb.put(array(1, 1)))
            assert wb.get(first)[0] == i + 1
            [kept, one] = wb.get(second)
            assert wb.get(kept)[0][0] == i
            assert one.size == MB

    everything()
    assert eventually(lambda: not session.snapshot().objects)
    snapshot = session.snapshot()
    assert snapshot.live == 0
    assert snapshot.granted <= most_granted(snapshot.capacity)
    assert processes.touched() <= snapshot.granted  # warm, and counted
    assert session.huge_pages() == "", "nobody asked"
    wb.put(array(63.9))
    assert processes.touched() <= session.capacity


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
    problems: list[BaseException] = []

    def run() -> None:
        try:
            for i in range(150):
                barrier.wait(TIMEOUT)
                assert wb.get(shared[0])[0] == i
                if barrier.wait(TIMEOUT) == 0:
                    shared[0] = wb.put(array(0.1, i + 1))
        except BaseException as error:
            problems.append(error)
            barrier.abort()

    shared = [wb.put(array(0.1, 0))]
    threads = [threading.Thread(target=run) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # they take turns as often as Python lets them
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not problems
    shared.clear()
    assert session.snapshot().live == 0


SMALL, MANY = 10_000, 1_000
"""Bytes, and how many of them: more than `little` holds, each too small for a segment."""


@pytest.fixture
def little(runtime: str) -> Iterator[Engine]:
    yield wb.init(workers=1, memory="8MB", spill_dir="none")
    wb.shutdown()


def test_small_objects_results_and_arguments_are_refused_as_others_are(
    little: Engine, gate: Gate
) -> None:
    kept: list[wb.ObjectRef] = []
    with pytest.raises(StoreFullError, match=r"No room for 12.3 kB.* are in use"):
        kept += (wb.put(bytes(SMALL)) for _ in range(MANY))
    assert len(kept) * SMALL > 6 * MB
    assert little.snapshot().granted <= most_granted(little.snapshot().capacity)
    kept.append(wb.put(None))  # what takes nothing has room
    assert wb.get(kept.pop()) is None
    assert {len(value) for value in wb.get(kept)} == {SMALL}
    kept.clear()
    kept += [wb.put(bytes(SMALL)) for _ in range(100)]
    assert eventually(lambda: little.snapshot().live < 100 * 4096 * 3 + 1)
    kept.clear()
    stop = gate.stop

    @wb.remote
    def waits(argument: bytes) -> bytes:
        stop()
        return argument

    @wb.remote(num_returns=MANY)
    def many() -> list[bytes]:
        return [bytes(SMALL)] * MANY

    results = many.remote()
    failed = 0
    for ref in results:
        try:
            assert len(wb.get(ref)) == SMALL
        except StoreFullError:
            failed += 1
    assert 100 < failed < MANY - 600
    assert little.snapshot().granted < little.snapshot().capacity + MB // 4  # these errors
    results.clear()
    waiting: list[wb.ObjectRef] = []
    with pytest.raises(StoreFullError, match=r"(?s)No room for.*Arguments of tasks take [34]"):
        waiting += (waits.remote(bytes(SMALL)) for _ in range(MANY))
    for ref in waiting:
        wb.cancel(ref, force=True)


def test_a_generator_waits_when_small_items_fill_the_store(little: Engine) -> None:
    @wb.remote(max_ahead=MANY)
    def items() -> Iterator[bytes]:
        for n in range(MANY):
            yield n.to_bytes(2, "big") * (SMALL // 2)

    stream = items.remote()
    assert eventually(lambda: any(w.state == "blocked" for w in little.snapshot().workers))
    most = 0
    for n, ref in enumerate(stream):
        if n % 50 == 0:
            most = max(most, little.snapshot().granted)
        assert wb.get(ref) == n.to_bytes(2, "big") * (SMALL // 2)
    assert n == MANY - 1
    assert 5 * MB < most <= most_granted(little.snapshot().capacity)


@pytest.mark.extended
@pytest.mark.parametrize("then", ["it goes on", "it is killed"])
def test_a_stream_ahead_of_a_stopped_reader_counts_and_waits(
    runtime: str, script: Callable[..., Script], processes: Processes, then: str
) -> None:
    """What nobody reads from the socket either: it is in the store, and the server keeps no more
    than that."""
    session = wb.init(session="stopped", workers=1, memory="8MB", spill_dir="none")
    reader = script(
        """
        wb.init(session="stopped")

        @wb.remote(max_ahead=1000)
        def items():
            for n in range(1000):
                yield n.to_bytes(2, "big") * 5000

        stream = items.remote()
        first = next(stream)
        say("reads")
        hear()
        for n, ref in enumerate(stream, 1):
            assert wb.get(ref) == n.to_bytes(2, "big") * 5000
        say(n)
        """
    )
    assert reader.line() == "reads"
    reader.signal(signal.SIGSTOP)
    server = processes.server()
    before = server.memory_info().rss
    assert eventually(lambda: any(w.state == "blocked" for w in session.snapshot().workers))
    assert 5 * MB < session.snapshot().granted <= most_granted(session.snapshot().capacity)
    assert server.memory_info().rss - before < 2 * session.snapshot().capacity
    with pytest.raises(StoreFullError, match=r"of 8 MB are in use"):
        wb.put(array(4))
    if then == "it goes on":
        reader.signal(signal.SIGCONT)
        reader.tell()
        assert reader.line() == "999"
    else:
        reader.signal(signal.SIGKILL)
    assert eventually(lambda: not session.snapshot().live)
    assert wb.get(wb.put(array(7))).size == 7 * MB
    wb.shutdown()


@pytest.mark.extended
def test_huge_pages_are_asked_for_and_the_answer_is_told() -> None:
    """Whatever this kernel says: the bytes are right, and the status says what became of it."""
    engine = wb.init(workers=1, memory="64MB", huge_pages=True)
    refs = [wb.put(array(10, n)) for n in range(3)]
    refs.append(wb.remote(array).remote(10, 3))
    assert [int(wb.get(ref).sum()) for ref in refs] == [n * 10 * MB for n in range(4)]
    if machine.huge_pages() in ("advise", "always", "force"):
        assert re.fullmatch(r"granted, [0-9.]+ MB here", engine.huge_pages())
    else:
        assert "asked for, and not granted" in engine.huge_pages()
        assert machine.SHMEM_ENABLED in engine.huge_pages()
    wb.shutdown()


@pytest.mark.extended
def test_a_first_put_with_hardly_a_descriptor_leaves_none() -> None:
    """Enough for none, for the memory's first one, or its second."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    for spare in (0, 1, 2):
        wb.init(workers=0, memory="64MB")
        filled = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        try:
            with contextlib.suppress(OSError):
                while True:
                    filled.append(os.dup(0))
            for _ in range(spare):
                os.close(filled.pop())
            again: list[int] = []
            try:  # with those that are kept for such a moment it may find enough
                assert (wb.get(wb.put(np.ones(1 << 16))) == 1).all()
            except OSError:
                again = [os.dup(0) for _ in range(spare)]  # they are free
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in (*filled, *again):
            os.close(fd)
        assert (wb.get(wb.put(np.ones(1 << 16))) == 1).all()
        wb.shutdown()

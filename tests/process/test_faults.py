"""Processes die, one kind after the other: the rest goes on, or ends, and says so."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.processes import Processes
from tests.process.scripts import Script
from workbench.engines.base import Engine
from workbench.errors import SessionError, StoreFullError, WorkerCrashedError

# -- a worker -------------------------------------------------------------------------------------


def test_a_task_is_tried_again_when_its_worker_dies(session: Engine, gate: Gate) -> None:
    ref = wb.remote(gate.stop).remote()
    pids = set()
    for _ in range(3):
        visitor = gate.next()
        pids.add(visitor.pid)
        os.kill(visitor.pid, signal.SIGKILL)
    gate.next().let_on("fourth time")
    assert wb.get(ref) == "fourth time"
    assert len(pids) == 3


def test_what_a_dead_worker_put_stays(session: Engine, gate: Gate) -> None:
    stop = gate.stop

    @wb.remote
    def puts() -> Any:
        return [wb.put(np.full(100_000, 5)), wb.put("small")], np.full(100_000, 6)

    @wb.remote(max_retries=0)
    def puts_and_dies() -> None:
        wb.put(np.full(100_000, 7), name="left")
        wb.put(np.full(100_000, 8))
        stop()

    (large, small), array = wb.get(puts.remote())
    died = puts_and_dies.remote()
    os.kill(gate.next().pid, signal.SIGKILL)
    with pytest.raises(WorkerCrashedError):
        wb.get(died)
    for worker in session.snapshot().workers:
        if worker.pid:  # 0 before it is forked, and that would be ourselves
            os.kill(worker.pid, signal.SIGKILL)
    assert wb.get(wb.remote(lambda: "goes on").remote()) == "goes on"
    assert (wb.get(large) == 5).all()
    assert wb.get(small) == "small"
    assert (array == 6).all()
    assert (wb.get(session.find("left")) == 7).all()
    assert (wb.get(wb.remote(lambda x: x + 1).remote(large)) == 6).all()

    def extents() -> int:
        return sum(record.where == "memory" for record in session.snapshot().objects)

    assert eventually(lambda: extents() == 3)  # 5, 6 and 7; nothing kept the 8


# -- the server -----------------------------------------------------------------------------------


def test_everything_ends_with_the_server(session: Engine, gate: Gate, processes: Processes) -> None:
    value = wb.put(np.arange(100_000))
    shown = wb.get(value)
    pending = wb.remote(gate.stop).remote()
    future = pending.future()
    gate.next()
    caught: list[BaseException] = []

    def waits() -> None:
        try:
            wb.get(pending)
        except SessionError as error:
            caught.append(error)

    waiting = threading.Thread(target=waits)
    waiting.start()
    processes.server().kill()
    waiting.join(TIMEOUT)
    assert "server hung up" in str(caught[0])
    assert isinstance(future.exception(TIMEOUT), SessionError)
    assert not wb.is_initialized()
    uses: list[Callable[[], object]] = [
        lambda: wb.put(1),
        lambda: wb.get(pending),
        lambda: wb.wait([pending]),
        lambda: wb.free(value),
        lambda: wb.remote(len).remote([]),
        wb.snapshot,
        pending.future,
    ]
    for use in uses:
        with pytest.raises(SessionError, match=r"`init\(\)`"):
            use()
    assert "session over" in repr(pending)
    assert (shown == np.arange(100_000)).all()
    assert processes.gone()
    again = wb.init(workers=1)  # which sweeps what the first one left behind
    assert again is not session
    assert wb.get(wb.remote(lambda: "a new one").remote()) == "a new one"


# -- the forkserver --------------------------------------------------------------------------------


def test_a_forkserver_that_cannot_start_is_given_up(
    runtime: str, monkeypatch: pytest.MonkeyPatch, processes: Processes
) -> None:
    starts = os.path.join(runtime, "starts")
    with open(os.path.join(runtime, "sitecustomize.py"), "w") as file:
        file.write(
            "import os, sys\n"
            "if 'workbench.worker.forkserver' in sys.orig_argv:\n"
            f"    open({starts!r}, 'a').write('.')\n"
            "    os._exit(1)\n"
        )
    monkeypatch.setenv("PYTHONPATH", runtime)
    session = wb.init(workers=2)
    with pytest.raises(WorkerCrashedError, match="No worker can be started"):
        wb.get(wb.remote(lambda: 1).remote())
    tried = os.path.getsize(starts)
    for i in range(100):
        wb.put(i, name="the store works")
        session.snapshot()
    assert tried <= 4
    assert os.path.getsize(starts) <= tried + 5  # now and then one more is tried
    wb.shutdown()


def test_the_pool_is_whole_again_after_its_newborn_processes_were_ended(
    runtime: str, processes: Processes
) -> None:
    """A forkserver at its start, then workers at theirs, with signals that ask them to end."""
    wb.init(workers=2)
    assert eventually(lambda: len(processes.all()) == 2)
    processes.forkserver().kill()
    assert wb.get(wb.remote(os.getpid).remote())
    for _ in range(3):
        for worker in processes.workers():
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.terminate()
        assert wb.get(wb.remote(os.getpid).remote())
    assert eventually(lambda: len(processes.workers()) == 2)
    wb.shutdown()


def test_a_fork_that_fails_costs_nobody_else(session: Engine, processes: Processes) -> None:
    @wb.remote
    class Counter:
        n = 0

        def add(self) -> int:
            self.n += 1
            return self.n

    first = Counter.remote()
    assert wb.get(first.add.remote()) == 1
    forkserver = processes.forkserver().pid
    limits = resource.prlimit(forkserver, resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir(f"/proc/{forkserver}/fd"))) + 1
    resource.prlimit(forkserver, resource.RLIMIT_NOFILE, (used, limits[1]))
    second = Counter.remote()
    added = second.add.remote()
    assert wb.wait([added], timeout=0.1)[1]  # it tries, and tries again
    assert wb.get(first.add.remote()) == 2
    resource.prlimit(forkserver, resource.RLIMIT_NOFILE, limits)
    assert wb.get(added) == 1
    assert wb.get(first.add.remote()) == 3


# -- a driver --------------------------------------------------------------------------------------


def test_one_driver_dies_and_the_other_goes_on(script: Callable[..., Script], gate: Gate) -> None:
    session = wb.init(session="two", workers=1)
    other = script(
        """
        import numpy as np
        engine = wb.init(session="two")
        wb.put(np.ones(100_000), name="left")
        held = wb.put(np.ones(100_000))
        running = wb.remote(stopper(sys.argv[1])).remote()
        queued = wb.remote(stopper(sys.argv[1])).remote()
        shown = wb.get(engine.find("ours"))
        hear()
        """,
        gate.path,
    )
    ours = wb.put(np.zeros(100_000), name="ours")
    running = gate.next()
    assert eventually(lambda: "left" in session.names())
    other.signal(signal.SIGKILL)
    other.wait()
    assert eventually(lambda: len(session.snapshot().clients) == 2)
    assert session.snapshot().queued == 0  # nobody wants its results any more
    running.let_on()
    assert wb.get(wb.remote(lambda: 5).remote()) == 5
    assert (wb.get(session.find("left")) == 1).all()
    assert len([r for r in session.snapshot().objects if r.where == "memory"]) == 2
    del ours
    wb.shutdown()


@pytest.mark.extended
def test_a_stopped_driver_that_keeps_warm_memory_is_worked_around(
    script: Callable[..., Script], tmp_path: Path
) -> None:
    session = wb.init(session="two", workers=1, memory=64 << 20, spill_dir=tmp_path)
    other = script(
        """
        import numpy as np
        engine = wb.init(session="two")
        wb.put(np.ones(40 << 20, np.uint8))
        while engine.snapshot().live > 1 << 20:
            pass
        say("warm")
        hear()
        say(int(wb.get(engine.find("ours"))[0]))
        """
    )
    assert other.line() == "warm"
    other.signal(signal.SIGSTOP)
    refs = [wb.put(np.full(10 << 20, i, np.uint8), name="ours" * (i == 9)) for i in range(10)]
    assert session.snapshot().spilled > 60 << 20
    with pytest.raises(StoreFullError, match=f"Process {other.pid} has 4.*stopped"):
        wb.put(np.ones(40 << 20, np.uint8))
    other.signal(signal.SIGCONT)
    other.tell()
    assert other.line() == "9"
    assert all((wb.get(ref) == i).all() for i, ref in enumerate(refs))
    del refs
    wb.put(np.ones(40 << 20, np.uint8))
    wb.shutdown()

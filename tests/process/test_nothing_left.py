"""Whoever of a session is killed, in any order: its processes end, and nothing of it stays.

A session here is busy: a task and an actor's call run, large objects are in memory and shown.
"""

from __future__ import annotations

import itertools
import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import workbench as wb
from tests.process.gates import Gate
from tests.process.processes import Processes, ends
from tests.process.scripts import Scripts

VICTIMS = ("driver", "server", "forkserver", "workers")

DRIVER = """
    import numpy as np
    from tests.leaks import eventually
    from tests.process.gates import stopper

    wb.init(session="lab", workers=2, memory="64MB", linger=0)
    wb.put(np.ones(1 << 20), name="large")
    view = wb.get(wb.put(np.arange(1 << 20)))

    @wb.remote(name="keeper", max_restarts=-1)
    class Keeper:
        def keep(self, ref):
            self.view = ref
            stop()

    stop = stopper(sys.argv[1])
    keeper = Keeper.remote()
    call = keeper.keep.remote(wb.put(np.zeros(1 << 20)))
    task = wb.remote(stop).remote()
    say("ready")
    if hear() == "go on":
        wb.cancel(task, force=True)
        assert wb.get(wb.remote(lambda: "works").remote()) == "works"
        say("works")
        hear()
    else:
        assert eventually(lambda: not wb.is_initialized())
        del view, keeper, call, task
        found = wb.init(session="lab", workers=1).ask(wb.engine.queries.Names())
        assert found == []
        wb.shutdown()
        with open("/proc/self/maps") as lines:
            assert "memfd:workbench" not in lines.read()
        say("all gone")
"""


class Busy:
    """A session at work. ``who`` in `kill` is one of `VICTIMS`."""

    def __init__(self, script: Scripts, gate: Gate, processes: Processes) -> None:
        self.driver = script(DRIVER, gate.path)
        self._processes = processes
        assert self.driver.line() == "ready"
        gate.next()
        gate.next()  # the task and the actor's call run
        for process in processes.all():
            for mapping in process.memory_maps(grouped=False):
                assert not mapping.path.startswith("/dev/shm")

    def kill(self, who: str) -> None:
        """SIGKILL it, as far as it is there by now, and see it end."""
        for process in self._found(who):
            with suppress(psutil.NoSuchProcess):
                process.kill()
                assert ends(process.pid)

    def _found(self, who: str) -> list[psutil.Process]:
        if who == "driver":
            return [psutil.Process(self.driver.pid)]
        with suppress(IndexError, StopIteration, psutil.NoSuchProcess):  # gone with another one
            found = getattr(self._processes, who)()
            return found if who == "workers" else [found]
        return []


def begins_in_a_clean_directory(runtime: str) -> None:
    """The next session finds, or makes, order."""
    wb.init(session="next", workers=1)
    own = {"next.workbench", "next.workbench.log"}
    assert set(os.listdir(runtime)) == {"gate", "workbench.lock"} | own
    wb.shutdown()
    assert set(os.listdir(runtime)) == {"gate", "workbench.lock"}


@pytest.mark.parametrize(
    "killed",
    [
        *((who,) for who in VICTIMS),
        ("driver", "workers", "forkserver", "server"),
        *(
            pytest.param(who, marks=pytest.mark.extended)
            for n in (2, 3)
            for who in itertools.combinations(VICTIMS, n)
        ),
    ],
    ids="+".join,
)
def test_any_of_them_are_killed(
    script: Scripts, gate: Gate, processes: Processes, runtime: str, killed: tuple[str, ...]
) -> None:
    session = Busy(script, gate, processes)
    for who in killed:
        session.kill(who)
    if "driver" not in killed and "server" not in killed:
        session.driver.tell("go on")  # with a new forkserver, or new workers
        assert session.driver.line() == "works"
        session.kill("driver")
    assert processes.gone()
    if "driver" not in killed and "server" in killed:
        session.driver.tell()
        assert session.driver.line() == "all gone"
        assert session.driver.wait() == 0
    if "server" in killed:
        begins_in_a_clean_directory(runtime)
    assert set(os.listdir(runtime)) == {"gate", "workbench.lock"}


@pytest.mark.parametrize("place", ["Popen", "_driver"])
def test_a_driver_that_is_killed_while_it_starts_a_session(
    script: Scripts, processes: Processes, gate: Gate, runtime: str, place: str
) -> None:
    """When the socket is there and no server yet; and between the server's start and the Hello."""
    driver = script(
        """
        from workbench.engines import local

        def killed(*_, **__):
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(local.subprocess if sys.argv[1] == "Popen" else local, sys.argv[1], killed)
        wb.init(session="lab", workers=1, linger="1h")
        """,
        place,
    )
    assert driver.wait() == -signal.SIGKILL
    assert processes.gone()
    (Path(runtime) / "other.workbench.log").touch()  # of one that was killed between two steps
    begins_in_a_clean_directory(runtime)

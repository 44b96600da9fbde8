"""Workers and actors end in order: what they had open is written, what they started goes too. And
whoever of a session is killed, in any order: its processes end, and nothing of it stays."""

from __future__ import annotations

import atexit
import builtins
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.gates import Gate
from tests.process.processes import Processes, ends
from tests.process.scripts import Scripts
from workbench.engine.base import Engine
from workbench.errors import ActorDiedError


class Writer:
    """Leaves a file open, and says when it goes."""

    def __init__(self, directory: Path) -> None:
        self.file = (directory / "log").open("w")
        self.end = directory / "end"
        atexit.register((directory / "atexit").touch)

    def write(self, text: str) -> None:
        self.file.write(text)

    def leave(self) -> None:
        wb.exit_actor()

    def __del__(self) -> None:
        self.end.touch()


class AsyncWriter(Writer):
    async def write(self, text: str) -> None:  # type: ignore[override]
        self.file.write(text)


KINDS: list[tuple[Any, dict[str, Any]]] = [
    (Writer, {}), (Writer, {"max_concurrency": 2}), (AsyncWriter, {}),
]  # fmt: skip


def writers(directory: Path) -> list[Any]:
    """An actor of each kind, with a directory of its own."""
    made = []
    for number, (cls, options) in enumerate(KINDS):
        (directory / str(number)).mkdir()
        made.append(wb.remote(cls).options(**options).remote(directory / str(number)))
    wb.get([writer.write.remote("all of it") for writer in made])
    return made


def all_is_written(directory: Path) -> bool:
    return eventually((directory / "atexit").exists) and eventually(
        lambda: (directory / "log").read_text().startswith("all of it")
    )


@pytest.mark.parametrize("by", ["its last handle", "leave", "__ray_terminate__"])
def test_an_actor_that_ends_in_order(session: Engine, tmp_path: Path, by: str) -> None:
    made = writers(tmp_path)
    if by != "its last handle":
        for writer, (_, options) in zip(made, KINDS, strict=True):
            ref, behind = getattr(writer, by).remote(), writer.write.remote("and more")
            for over in (ref, behind)[: 1 if options else 2]:  # the other thread may have had it
                with pytest.raises(ActorDiedError, match="left by"):
                    wb.get(over)
        del writer
    made.clear()
    for directory in tmp_path.iterdir():
        assert eventually((directory / "end").exists)
        assert all_is_written(directory)


def test_what_ends_with_the_session(runtime: str, tmp_path: Path) -> None:
    """Workers' files and exit functions, actors', and what tasks have started."""

    def leaves() -> None:
        vars(builtins)["left_open"] = file = (tmp_path / "log").open("w")
        file.write("all of it")
        atexit.register((tmp_path / "atexit").touch)

    wb.init(workers=2)
    wb.get(wb.remote(leaves).remote())
    pids = wb.get([wb.remote(sleeper).remote(detached) for detached in (False, True)])
    assert all(map(psutil.pid_exists, pids))
    (tmp_path / "actors").mkdir()
    made = writers(tmp_path / "actors")
    wb.shutdown()
    assert len(made) == len(KINDS)
    for directory in (tmp_path, *(tmp_path / "actors").iterdir()):
        assert all_is_written(directory)
    assert all(eventually((each / "end").exists) for each in (tmp_path / "actors").iterdir())
    assert all(ends(pid) for pid in pids)


def sleeper(detached: bool, holds: Sequence[int] = ()) -> int:
    """The pid of a process that a task started and forgot; it has these descriptors."""
    code = "import signal; signal.pause()"
    if detached:  # a daemon: its parent has ended, and it has a session of its own
        code = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {code!r}], "
        code += "stdout=subprocess.DEVNULL, start_new_session=True); print(p.pid)"
        return int(subprocess.check_output([sys.executable, "-c", code]))
    process = subprocess.Popen([sys.executable, "-c", code], pass_fds=holds)
    process.returncode = 0  # no warning that it runs on
    return process.pid


def cleaner(path: Path) -> int:
    """The pid of a process that removes a file when all others have ended, as loky's does."""
    ear, mouth = os.pipe()
    sleeper(False, [mouth])
    code = f"import os, signal; signal.signal({signal.SIGTERM}, signal.SIG_IGN); "
    code += f"path = {str(path)!r}; open(path, 'w'); os.read({ear}, 1); os.remove(path)"
    process = subprocess.Popen([sys.executable, "-Sc", code], pass_fds=[ear])
    process.returncode = 0
    return process.pid


def test_what_a_task_started_ends_with_its_worker(session: Engine, tmp_path: Path) -> None:
    path = tmp_path / "kept"
    start = wb.remote(lambda: [os.getpid(), sleeper(False), sleeper(True), cleaner(path)])
    worker, *pids = wb.get(start.remote())
    assert eventually(path.exists)
    assert all(map(psutil.pid_exists, pids))
    psutil.Process(worker).kill()
    assert all(ends(pid) for pid in pids)
    assert not path.exists()


def test_who_does_not_end_in_order_is_killed(session: Engine) -> None:
    class Stubborn:
        def pid(self) -> int:
            return os.getpid()

        def __del__(self) -> None:
            signal.pause()

    stubborn = wb.remote(Stubborn).remote()
    pid = wb.get(stubborn.pid.remote())
    del stubborn
    assert ends(pid)


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

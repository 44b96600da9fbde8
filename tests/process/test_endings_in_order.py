"""Workers and actors end in order: what they had open is written, what they started goes too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.processes import ends
from workbench.engines.base import Engine
from workbench.errors import ActorDiedError


class Writer:
    """Leaves a file open, and says when it goes."""

    def __init__(self, directory: Path, concurrency: str = "") -> None:
        import atexit

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


@pytest.mark.parametrize(
    ("cls", "options"), [(Writer, {}), (Writer, {"max_concurrency": 2}), (AsyncWriter, {})]
)
@pytest.mark.parametrize("by", ["its last handle", "the session", "leave", "__ray_terminate__"])
def test_an_actor_that_ends_in_order(
    runtime: str, tmp_path: Path, cls: Any, options: dict[str, Any], by: str
) -> None:
    wb.init(workers=1)
    writer = wb.remote(cls).options(**options).remote(tmp_path)
    wb.get(writer.write.remote("all of it"))
    if by == "its last handle":
        del writer
    elif by == "the session":
        wb.shutdown()
    else:
        ref, behind = getattr(writer, by).remote(), writer.write.remote("and more")
        for over in (ref, behind)[: 1 if options else 2]:  # the other thread may have had it
            with pytest.raises(ActorDiedError, match="left by"):
                wb.get(over)
    assert eventually((tmp_path / "end").exists)
    assert eventually((tmp_path / "atexit").exists)
    assert eventually(lambda: (tmp_path / "log").read_text().startswith("all of it"))
    if wb.is_initialized():
        wb.shutdown()


def test_a_worker_s_files_and_exit_functions(runtime: str, tmp_path: Path) -> None:
    def leaves() -> None:
        import atexit
        import builtins

        vars(builtins)["left_open"] = file = (tmp_path / "log").open("w")
        file.write("all of it")
        atexit.register((tmp_path / "atexit").touch)

    wb.init(workers=1)
    wb.get(wb.remote(leaves).remote())
    wb.shutdown()
    assert eventually((tmp_path / "atexit").exists)
    assert eventually(lambda: (tmp_path / "log").read_text() == "all of it")


def sleeper(detached: bool) -> int:
    """The pid of a process that a task started and forgot."""
    code = "import signal; signal.pause()"
    if detached:  # a daemon: its parent has ended, and it has a session of its own
        code = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {code!r}], "
        code += "stdout=subprocess.DEVNULL, start_new_session=True); print(p.pid)"
        return int(subprocess.check_output([sys.executable, "-c", code]))
    process = subprocess.Popen([sys.executable, "-c", code])
    process.returncode = 0  # no warning that it runs on
    return process.pid


@pytest.mark.parametrize("detached", [False, True])
def test_what_a_task_started_ends_with_its_worker(session: Engine, detached: bool) -> None:
    class Starter:
        def start(self) -> tuple[int, int]:
            return os.getpid(), sleeper(detached)

    starter = wb.remote(Starter).remote()
    worker, pid = wb.get(starter.start.remote())
    assert psutil.pid_exists(pid)
    psutil.Process(worker).kill()
    assert ends(pid)


def test_what_tasks_started_ends_with_the_session(runtime: str) -> None:
    wb.init(workers=2)
    pids = wb.get([wb.remote(sleeper).remote(detached) for detached in (False, True)])
    assert all(map(psutil.pid_exists, pids))
    wb.shutdown()
    assert all(ends(pid) for pid in pids)


def test_who_does_not_end_in_order_is_killed(runtime: str) -> None:
    class Stubborn:
        def pid(self) -> int:
            return os.getpid()

        def __del__(self) -> None:
            import signal

            signal.pause()

    wb.init(workers=1)
    stubborn = wb.remote(Stubborn).remote()
    pid = wb.get(stubborn.pid.remote())
    del stubborn
    assert ends(pid)
    wb.shutdown()

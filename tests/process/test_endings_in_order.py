"""Workers and actors end in order: what they had open is written, what they started goes too."""

from __future__ import annotations

import atexit
import builtins
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.processes import ends
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

"""A session is its user's alone: the directory, the socket, the network, the shell command.

That a directory others could enter is refused by `init` is in test_sessions, and that a bare
client of another user is hung up on in test_strangers.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import workbench as wb
from tests.process.gates import Gate
from tests.process.processes import Processes
from tests.process.scripts import Script
from workbench.cli import admin
from workbench.engines.base import Engine
from workbench.errors import SessionError

Shell = Callable[..., subprocess.CompletedProcess[str]]

NOBODY = "65534"

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")


def test_what_lies_in_the_file_system_is_ours_alone(session: Engine, runtime: str) -> None:
    session.snapshot()
    directory = os.stat(runtime)
    assert stat.S_IMODE(directory.st_mode) == 0o700
    assert directory.st_uid == os.getuid()
    kinds = {path.suffix: path.lstat() for path in Path(runtime).iterdir()}
    assert kinds.keys() == {".lock", ".log", ".workbench"}
    assert all(status.st_uid == os.getuid() for status in kinds.values())
    assert stat.S_ISSOCK(kinds[".workbench"].st_mode)


def test_other_people_s_files_stay_whatever_directory_is_named(
    runtime: str, tmp_path: Path
) -> None:
    """Logs, a dead server's socket, and links with names like ours that lead elsewhere."""
    there = Path(runtime)
    for name in ("app.log", "server.log", "notes.workbench", "gone.workbench.log.old"):
        (there / name).write_text("theirs")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(there / "postgres.sock"))
    (tmp_path / "diary").write_text("theirs")
    (there / "link.workbench.log").symlink_to(tmp_path / "diary")
    before = set(os.listdir(runtime))
    wb.init(workers=1)
    wb.shutdown()
    assert set(os.listdir(runtime)) - {"workbench.lock"} == before
    for name in before - {"gate"}:
        (there / name).unlink()
    assert (tmp_path / "diary").read_text() == "theirs"


def test_a_link_in_place_of_the_default_directory_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("WORKBENCH_RUNTIME_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "workbench").symlink_to(tmp_path / "private")
    with pytest.raises(SessionError, match="be no link"):
        wb.init(workers=1)
    assert not os.listdir(tmp_path / "private")


def test_no_process_of_a_session_is_on_the_network(
    session: Engine, processes: Processes, gate: Gate, runtime: str
) -> None:
    @wb.remote
    class Actor:
        def ready(self) -> bool:
            return True

    actor = Actor.remote()
    assert wb.get(actor.ready.remote())
    running = wb.remote(gate.stop).remote()
    visitor = gate.next()
    found = processes.all()
    assert len(found) >= 4
    for process in (*found, psutil.Process()):
        assert process.net_connections(kind="inet") == []
    (address,) = Path(runtime).glob("*.workbench")
    ours = {c.laddr for c in processes.server().net_connections(kind="unix")}
    assert str(address) in ours  # so this way of looking does see what there is
    visitor.let_on()
    wb.get(running)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o711])
@pytest.mark.parametrize(
    "command", [("ps",), ("objects", "lab"), ("why", "lab", "x"), ("stop", "--all")]
)
def test_the_shell_command_uses_no_directory_that_others_can_enter(
    shell: Shell, runtime: str, command: tuple[str, ...], mode: int
) -> None:
    os.chmod(runtime, mode)
    done = shell(*command)
    os.chmod(runtime, 0o700)
    assert (done.returncode, done.stdout) == (1, "")
    assert "must belong to you alone (mode 0700)" in done.stderr


AS_SOMEBODY = """
    import contextlib, difflib, io, json
    from workbench.cli import main

    def run(command):
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = main(command)
        return json.dumps([status, output.getvalue(), errors.getvalue()])

    say(run(["ps"]))  # so that all is imported: they may not be able to read our files
    os.setuid(int(sys.argv[2]))
    os.environ["WORKBENCH_RUNTIME_DIR"] = sys.argv[1]
    for command in json.loads(sys.argv[3]):
        say(run(command))
"""


@as_root
def test_another_user_neither_sees_nor_joins_nor_stops_a_session(
    session: Engine, runtime: str, script: Callable[..., Script]
) -> None:
    name = session.session.rpartition("~")[0]
    wb.put([1], name="secret")
    commands = [["ps"], ["objects", name], ["why", name, "secret"], ["stop", name]]
    asked = script(AS_SOMEBODY, runtime, NOBODY, json.dumps(commands))
    assert name in json.loads(asked.line())[1]  # seen by us
    for _ in commands:  # with the same directory set
        status, output, errors = json.loads(asked.line())
        assert (status, output) == (1, "")
        assert "must belong to you alone" in errors

    theirs = Path("/tmp") / f"wb-nobody-{os.getpid()}"  # with one of their own, as is usual
    theirs.mkdir(mode=0o700)
    os.chown(theirs, int(NOBODY), -1)
    try:
        asked = script(AS_SOMEBODY, str(theirs), NOBODY, json.dumps([["ps"], ["stop", name]]))
        asked.line()
        none = f"No session is running on this machine (in {theirs}). {admin.ELSEWHERE}\n"
        assert json.loads(asked.line()) == [0, none, ""]
        status, output, errors = json.loads(asked.line())
        assert (status, output) == (1, "")
        assert "There are: none" in errors
    finally:
        for path in theirs.iterdir():
            path.unlink()
        theirs.rmdir()
    assert wb.get(wb.put("goes on")) == "goes on"


@as_root
@pytest.mark.fresh_session
def test_the_uid_check_holds_where_the_directory_does_not(
    session: Engine, runtime: str, script: Callable[..., Script]
) -> None:
    """With a socket that anybody may reach, and our own code, past its own checks."""
    words = """
        from pathlib import Path
        from workbench.cli import admin
        from workbench.errors import SessionError

        os.setuid(int(sys.argv[2]))
        directory = Path(sys.argv[1])
        admin.runtime_directory = lambda: directory
        admin._found = lambda: [sys.argv[3]]
        try:
            with admin.AdminConnection(sys.argv[3]) as connection:
                try:
                    say(len(connection.summary().objects))
                finally:
                    connection.end("by somebody else")
        except SessionError as error:
            say(type(error).__name__)
    """
    name = session.session.rpartition("~")[0]
    wb.put([1], name="secret")
    session.snapshot()
    os.chmod(runtime, 0o711)
    os.chmod(os.path.join(runtime, f"{name}.workbench"), 0o666)
    try:
        assert script(words, runtime, NOBODY, name).line() == "SessionError"
    finally:
        os.chmod(runtime, 0o700)
    assert session.names() == ["secret"]
    assert script(words, runtime, "0", name).line() == "1"  # ours: the same words do work

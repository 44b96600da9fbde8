"""A session is its user's alone. That `init` refuses a directory that others could enter is in
test_sessions, that no process is on the network in test_cli (doctor)."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

import workbench as wb
from tests.process.scripts import Scripts
from workbench.engine.base import Engine
from workbench.engine.queries import Names
from workbench.errors import SessionError

NOBODY = "65534"


def test_other_peoples_files_stay_whatever_directory_is_named(runtime: str, tmp_path: Path) -> None:
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


def test_a_link_to_a_directory_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WORKBENCH_RUNTIME_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "workbench").symlink_to(tmp_path / "private")
    with pytest.raises(SessionError, match="be no link"):
        wb.init(workers=1)
    assert not os.listdir(tmp_path / "private")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.fresh_session
def test_the_uid_is_checked_in_any_case(session: Engine, runtime: str, script: Scripts) -> None:
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
    assert session.ask(Names()) == ["secret"]
    assert script(words, runtime, "0", name).line() == "1"  # ours: the same words do work

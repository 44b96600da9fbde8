"""Sessions begin, are joined, end, leave nothing: the runtime directory, forks, many at once. Each
is its user's alone; that no process is on the network is in test_cli (doctor)."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.processes import Processes
from tests.process.scripts import Scripts
from workbench.cli import admin
from workbench.engine.base import Engine
from workbench.engine.queries import Names, Summary
from workbench.engines.local import address_of
from workbench.errors import SessionError
from workbench.format import human_count
from workbench.report.text import MOST_ROWS
from workbench.wire import framing


def test_again_and_again(runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are files beside the notebook: one is called like a module of the standard
    library, another one is to be imported."""
    directory = os.path.join(runtime, "new")
    monkeypatch.setenv("WORKBENCH_RUNTIME_DIR", directory)
    (tmp_path / "select.py").write_text("raise ImportError('not this one')")
    (tmp_path / "helpers_of_mine.py").write_text("answer = 42")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    answer = wb.remote(lambda: import_module("helpers_of_mine").answer)
    for name in (None, "again", "again"):
        assert not wb.is_initialized()
        session = wb.init(workers=1, session=name, linger="1h")
        assert not session.facts.joined
        assert os.stat(directory).st_mode & 0o777 == 0o700
        if name:
            assert wb.get(answer.remote()) == 42
        wb.shutdown()
    wb.shutdown()  # as often as you like
    assert os.listdir(directory) == ["workbench.lock"]


def test_one_session_at_a_time_and_no_other_if_something_would_be_lost(runtime: str) -> None:
    wb.init(workers=1)
    assert wb.init(workers=2).workers == 2
    makers: list[tuple[Callable[[], Any], str]] = [
        (lambda: wb.put([1]), r"lose 1 object \(.*\)\. `shutdown"),
        (lambda: wb.remote(lambda: [2]).remote(), "lose 1 object"),
        (lambda: wb.remote(type("Kept", (), {})).remote(), "lose 1 actor: Kept "),
    ]
    for make, loss in makers:
        made = make()
        with pytest.raises(SessionError, match=loss):
            wb.init(workers=1)
        if "actor" in loss:
            wb.kill(made)
        del made
    session = wb.init(workers=1, session="lab")
    assert session.workers == 1
    with pytest.raises(SessionError, match=r"already.*shutdown"):
        wb.init()
    assert wb.init(ignore_reinit_error=True) is session
    kept = wb.put([1], name="kept")
    assert wb.init(session="lab") is session
    assert wb.init(session=session.session) is session
    with pytest.raises(SessionError, match="lose 1 object"):
        wb.init(session="other")
    assert wb.get(kept) == [1]


def test_of_a_shared_session_only_ours_would_be_lost(runtime: str, script: Scripts) -> None:
    other = script("""
        wb.init(session="lab", workers=1)
        wb.put([1], name="there")
        say("ready")
        hear()
    """)
    assert other.line() == "ready"
    kept = r"'lab' was there .* workers stays 1, not 2.* runtime_env=.* changes nothing"
    with pytest.warns(UserWarning, match=kept):
        wb.init(session="lab", workers=2, runtime_env={"env_vars": {"LATE": "1"}})
    ours = wb.put([2])
    with pytest.raises(SessionError, match=r"lose 1 object \("):
        wb.init(workers=1)
    del ours
    assert wb.init(workers=1).session != "lab"
    wb.shutdown()
    other.tell()


def test_a_unique_name_joins_that_session_alone(script: Scripts, processes: Processes) -> None:
    other = script("""
        engine = wb.init(session="lab", workers=1)
        wb.put("there", name="x")
        say(engine.session)
        hear()
        wb.shutdown()
        say("over")
        hear()
    """)
    unique = other.line()
    engine = wb.init(session=unique, workers=1)
    assert engine.facts.joined
    assert engine.ask(Names()) == ["x"]
    other.tell()
    assert other.line() == "over"
    roles = lambda: [client.role for client in engine.snapshot().clients]
    assert eventually(lambda: roles().count("driver") == 1)  # else it ends after we have left
    wb.shutdown()
    assert processes.gone()  # who joined doesn't wait for that
    is_over = rf"{unique}' is over. `init\(session='lab'\)`"
    with pytest.raises(SessionError, match=is_over):
        wb.init(session=unique)
    assert wb.init(session="lab", workers=1).session != unique
    wb.shutdown()
    with pytest.raises(SessionError, match=is_over):
        wb.init(session=unique)


def test_a_block_leaves_its_session(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by an error; but not another one, which the first use starts."""
    with pytest.raises(KeyError), wb.init(workers=1) as engine:
        raise KeyError
    assert not wb.is_initialized()
    assert engine.end_reason is not None
    monkeypatch.setenv("WORKBENCH_WORKERS", "1")
    with wb.init(workers=1):
        wb.shutdown()
        assert wb.get(wb.remote(lambda: 2).remote()) == 2
    assert wb.is_initialized()


def test_a_server_that_is_told_to_end(runtime: str, processes: Processes) -> None:
    wb.init(workers=1)
    wb.snapshot()  # it runs
    processes.server().terminate()
    assert eventually(lambda: not wb.is_initialized())
    assert processes.gone()
    assert os.listdir(runtime) == ["workbench.lock"]  # it cleared up, unlike one that was killed


def test_whoever_waits_when_the_session_is_left_is_told(runtime: str, gate: Gate) -> None:
    session = wb.init(workers=1)
    ref, items = wb.remote(gate.stop).remote(), wb.remote(lambda: (yield 1)).remote()
    gate.next()

    async def main() -> None:
        with ThreadPoolExecutor(1) as thread:
            waiting: list[asyncio.Future[Any]] = [
                asyncio.ensure_future(anext(aiter(wb.as_completed([ref])))),
                asyncio.ensure_future(anext(items)),
                asyncio.wrap_future(thread.submit(wb.get, ref)),
                asyncio.wrap_future(ref.future()),
            ]
            await asyncio.to_thread(bool)  # so that they wait
            await asyncio.to_thread(wb.shutdown)
            for each in waiting:
                with pytest.raises(SessionError, match="shut down"):
                    await asyncio.wait_for(each, TIMEOUT)

    asyncio.run(main())
    for late in (lambda: next(items), lambda: session.arrivals([ref])):
        with pytest.raises(SessionError):
            late()


def test_joining_a_session_that_is_just_ending(runtime: str) -> None:
    """Its server hangs up, and its file goes: who comes then gets a new session."""
    joined: list[Engine] = []
    joins = threading.Thread(target=lambda: joined.append(wb.init(session="name", workers=1)))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address := str(address_of("name")))
        server.listen()
        joins.start()
        visitor, _ = server.accept()
        os.unlink(address)
        visitor.close()
    joins.join(TIMEOUT)
    assert [engine.session.partition("~")[0] for engine in joined] == ["name"]
    assert wb.get(wb.remote(lambda: "works").remote()) == "works"


def test_a_fork_that_ends_as_scripts_do_leaves_the_session_alone(script: Scripts) -> None:
    """What is registered `atexit` runs in it."""
    driver = script("""
        wb.init(workers=1)
        ref = wb.put("kept")
        child = os.fork()
        if not child:
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        say(wb.get(wb.remote(len).remote(ref)))
    """)
    assert driver.line() == "4"
    assert driver.wait() == 0


def test_a_directory_that_others_can_enter_is_refused(runtime: str) -> None:
    for mode in (0o750, 0o701):
        os.chmod(runtime, mode)
        for use in (wb.init, admin.sessions):
            with pytest.raises(SessionError, match=r"0700.*chmod.*WORKBENCH_RUNTIME_DIR"):
                use()
    os.chmod(runtime, 0o700)
    if os.getuid() == 0:  # only root can give a directory away
        os.chown(runtime, 65534, -1)
        with pytest.raises(SessionError, match="belong to you alone"):
            wb.init()
        os.chown(runtime, 0, -1)


@pytest.mark.parametrize("name", ["file", "file/below", "d" * 50, "ü" * 20])
def test_a_directory_that_cant_be(runtime: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A file, one below a file, and paths too long for a socket: in letters, and in bytes."""
    (Path(runtime) / "file").touch()
    monkeypatch.setenv("WORKBENCH_RUNTIME_DIR", str(Path(runtime) / name))
    with pytest.raises(SessionError, match="WORKBENCH_RUNTIME_DIR"):
        wb.init()


def test_what_killed_servers_leave_is_swept(runtime: str, processes: Processes) -> None:
    first = wb.init(session="killed", workers=1)
    wb.put("first", name="x")
    processes.server().kill()
    assert eventually(lambda: not wb.is_initialized())
    left = ["killed.workbench", "killed.workbench.log", "workbench.lock"]
    assert sorted(os.listdir(runtime)) == left
    assert admin.sessions() == []
    alive = Path(runtime) / "alive.workbench"  # another session's
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listens:
        listens.bind(str(alive))
        listens.listen()
        second = wb.init(session="killed", workers=1)  # the name can be used again
    alive.unlink()  # it was left alone
    assert not second.facts.joined
    assert second.session != first.session
    assert second.ask(Names()) == []


MANY = 3_000

FRAME = 150_000
"""Bytes: less than a third of what a message with all of them would have."""


def test_all_answers_come_in_small_frames(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = wb.init(session="crowd", workers=1, memory="64MB")
    kept = [wb.put(n, name=f"n{n}" if n % 2 else "") for n in range(MANY)]
    monkeypatch.setattr(framing, "LARGEST", FRAME)
    count = len(kept)
    summary = engine.ask(Summary())  # %workbench, %workbench jobs, Tab behind them
    assert (summary.count, len(summary.objects)) == (count, 20)
    table = wb.objects(limit=MOST_ROWS)  # %objects
    assert (len(table), table.others) == (MOST_ROWS, count - MOST_ROWS)
    assert str(table).splitlines()[-1].startswith(f"and {human_count(table.others)} more, ")
    found = wb.objects("n1", sort="name", limit=MOST_ROWS)
    assert [record.names for record in found] == [("n1",)]
    assert "'n1'" in str(wb.why("n1"))
    assert len(engine.ask(Names())) == count // 2
    assert engine.ask(Names("n199"))[0] == "n199"
    whole = wb.snapshot()
    assert len(whole.objects) == len({record.id for record in whole.objects}) == count
    with admin.AdminConnection(engine.session.rpartition("~")[0]) as connection:
        assert connection.summary().count == count
        assert sum(1 for _ in connection.objects()) == count


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

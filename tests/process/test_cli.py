"""The shell command, as a person or a program runs it: ps, objects, why, stop, doctor."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.processes import Processes
from tests.process.scripts import Script
from workbench.cli import admin, doctor
from workbench.core.referrers import DEEP_PATIENCE, PATIENCE
from workbench.engines.base import Engine
from workbench.engines.local import BACKLOG
from workbench.errors import NotAnsweringError, SessionError

Shell = Callable[..., subprocess.CompletedProcess[str]]


def printed(done: subprocess.CompletedProcess[str]) -> Any:
    """The JSON document of a command that went well."""
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return json.loads(done.stdout)


def name_of(session: Engine) -> str:
    return session.session.rpartition("~")[0]


# -- ps -------------------------------------------------------------------------------------------


def test_ps_shows_who_uses_a_session_and_what_it_takes(
    session: Engine, shell: Shell, gate: Gate, runtime: str
) -> None:
    @wb.remote(name="keeper")
    class Keeper:
        def ready(self) -> bool:
            return True

    kept = wb.put(np.ones(1 << 17), name="ones")
    keeper = Keeper.remote()
    assert wb.get(keeper.ready.remote())
    running = wb.remote(gate.stop).remote()
    visitor = gate.next()
    wb.get(wb.remote(lambda: 1).remote())  # the other worker is there too

    document = printed(shell("ps", "--json"))
    assert document["runtime_directory"] == runtime
    (seen,) = document["sessions"]
    assert (seen["name"], seen["state"]) == (name_of(session), "ok")
    assert [driver["pid"] for driver in seen["drivers"]] == [os.getpid()]
    assert seen["workers"] == {"busy": 1, "idle": 1}
    (actor,) = seen["actors"]
    assert (actor["class"], actor["names"], actor["state"]) == ("Keeper", ["keeper"], "alive")
    assert seen["tasks"] == {"running": 1, "queued": 0}
    assert seen["store"]["capacity"] == 64_000_000
    assert kept.id
    assert 1 << 20 <= seen["store"]["used"] <= seen["store"]["granted"]
    assert len(seen["processes"]) == 5  # server, forkserver, two workers, the actor's
    assert seen["memory"] > 1 << 20
    assert seen["age"] > 0

    head, row = shell("ps").stdout.splitlines()
    assert head.split() == [
        "session", "state", "open", "in", "workers", "actors", "store", "memory", "age",
    ]  # fmt: skip
    for text in (name_of(session), f"({os.getpid()})", "1 busy", "1 idle", "Keeper 'keeper'"):
        assert text in row
    visitor.let_on()
    assert wb.get(running) == "go"


def test_ps_without_a_session(shell: Shell, runtime: str) -> None:
    assert printed(shell("ps", "--json"))["sessions"] == []
    said = shell("ps").stdout
    assert said.startswith(f"No session is running on this machine (in {runtime}). ")
    assert "Ray or Dask" in said
    assert "%workbench start --engine" in said


def test_a_killed_session_is_not_one(shell: Shell, processes: Processes) -> None:
    wb.init(workers=1)
    wb.snapshot()
    processes.server().kill()
    assert eventually(lambda: not wb.is_initialized())
    assert printed(shell("ps", "--json"))["sessions"] == []
    assert admin.sessions() == []
    wb.init(workers=1)  # which sweeps
    wb.shutdown()


LINGERS = """
    wb.init(session="lab", workers=1, linger=sys.argv[1])
    wb.put([1], name="kept")
    wb.snapshot()
    say("ready")
    hear()
"""


def test_looking_does_not_end_a_session_that_lingers(
    script: Callable[..., Script], shell: Shell
) -> None:
    driver = script(LINGERS, "1h")
    assert driver.line() == "ready"
    driver.signal(signal.SIGKILL)
    driver.wait()
    for _ in range(2):
        (seen,) = printed(shell("ps", "--json"))["sessions"]
        assert seen["drivers"] == []
    assert "kept" in shell("objects", "lab").stdout
    engine = wb.init(session="lab", workers=1)
    assert engine.joined
    assert engine.names() == ["kept"]
    assert [client.role for client in engine.snapshot().clients].count("driver") == 1
    wb.shutdown()


def test_looking_does_not_prolong_it_either(
    script: Callable[..., Script], processes: Processes
) -> None:
    driver = script(LINGERS, "1")
    assert driver.line() == "ready"
    with admin.AdminConnection(
        "lab"
    ) as early:  # from before the driver's end until after the session's
        driver.signal(signal.SIGKILL)
        driver.wait()
        with admin.AdminConnection("lab") as late:
            assert eventually(lambda: _is_over(late))  # though somebody looks all the time
        assert _is_over(early)
        assert processes.gone()


def _is_over(connection: admin.AdminConnection) -> bool:
    try:
        connection.summary()
    except SessionError as error:
        return "No session 'lab' is running" in str(error)
    return False


@pytest.mark.fresh_session
def test_a_session_that_hangs_keeps_no_other_waiting_and_can_be_stopped(
    session: Engine, script: Callable[..., Script], shell: Shell, processes: Processes
) -> None:
    wb.snapshot()
    hung = processes.server()
    driver = script(LINGERS, "1h")
    assert driver.line() == "ready"
    hung.suspend()
    by_name = {seen["name"]: seen for seen in printed(shell("ps", "--json"))["sessions"]}
    assert by_name["lab"]["state"] == "ok"
    seen = by_name[name_of(session)]
    assert seen["state"] == "not answering"
    assert seen["processes"][0] == hung.pid
    assert seen["memory"] > 0
    rows = shell("ps").stdout.splitlines()[1:]
    assert ["not answering" in row for row in rows] == [name_of(session) in row for row in rows]
    asked = shell("objects", name_of(session))
    assert asked.returncode == 1
    assert f"server (pid {hung.pid}) is stopped or hangs. `workbench stop " in asked.stderr

    stopped = shell("stop", name_of(session))
    assert "had to be killed" in stopped.stdout
    assert eventually(lambda: not wb.is_initialized())
    assert [seen["name"] for seen in printed(shell("ps", "--json"))["sessions"]] == ["lab"]
    driver.tell("go")  # an orderly end, after which it lingers
    driver.wait()
    assert shell("stop", "lab").returncode == 0


def test_what_is_on_disk_is_told(shell: Shell, tmp_path: Path) -> None:
    wb.init(workers=1, memory="64MB", spill_dir=tmp_path)
    ref = wb.put(np.zeros(1 << 20, np.uint8))
    wb.spill(ref)
    (seen,) = printed(shell("ps", "--json"))["sessions"]
    assert (seen["store"]["on_disk"], seen["store"]["trouble"]) == (1 << 20, "")
    assert "1.05 MB on disk" in " ".join(shell("ps").stdout.split())


def test_a_server_with_too_many_callers_is_there_and_does_not_answer(
    session: Engine, processes: Processes
) -> None:
    wb.snapshot()
    server = processes.server()
    server.suspend()
    with ExitStack() as waiting:
        waiting.callback(server.resume)

        def one_more() -> None:
            waiting.enter_context(admin.AdminConnection(name_of(session)))

        for _ in range(BACKLOG + 1):
            one_more()
        with pytest.raises(NotAnsweringError, match=f"pid {server.pid}"):
            one_more()
        assert admin.sessions() == [name_of(session)]


# -- objects and why ------------------------------------------------------------------------------


def test_objects_are_listed_as_in_the_notebook(session: Engine, shell: Shell) -> None:
    large, small = wb.put(np.ones(1 << 17), name="[red]large"), wb.put({"a": 1})
    lines = shell("objects", name_of(session)).stdout.splitlines()
    assert " ".join(lines[0].split()) == "name type size where why it is here age id"
    assert [line.split()[0] for line in lines[1:]] == ["[red]large", "from"]
    assert [line.split()[-1] for line in lines[1:]] == [large.hex(), small.hex()]
    assert "1.05 MB" in lines[1]
    document = printed(shell("objects", name_of(session), "dict*", "--json"))
    (only,) = document["objects"]
    assert (only["id"], only["names"], only["where"]) == (small.hex(), [], "inline")
    assert {reason for reason, n in only["pins"].items() if n} == {"ref"}
    ages = printed(shell("objects", name_of(session), "--sort", "age", "--json"))["objects"]
    assert [each["id"] for each in ages] == [large.hex(), small.hex()]
    assert ages[0]["size"] == max(record.size for record in session.snapshot().objects)
    assert shell("objects", name_of(session), "none*").stdout == "No object matches 'none*'.\n"


def test_why_says_which_variable_of_which_process_it_is(
    script: Callable[..., Script], shell: Shell
) -> None:
    driver = script("""
        import numpy as np
        wb.init(session="lab", workers=1)
        frames = {"of": [wb.get(wb.put(np.arange(1 << 17), name="data"))]}
        unnamed = wb.put([1])
        say(wb.why("data", deep=True))
        say(unnamed.hex())
        hear()
    """)
    theirs = [driver.line() for _ in range(5)]
    unnamed = driver.line()
    ours = shell("why", "--deep", "lab", "data").stdout.splitlines()
    assert ours[:3] == theirs[:3] == [
        "ndarray int64 (131072,) 'data', 1.05 MB. Why it is here:",
        "  named `data`",
        "    to let go: `%free data`",
    ]  # fmt: skip
    assert ours[3] == "  arrays in -c: `frames['of'][0]`"
    assert ours[3].partition(": ")[2] == theirs[3].partition(": ")[2]
    document = printed(shell("why", "lab", unnamed, "--json"))
    assert document["what"].startswith("list")
    (reason,) = document["reasons"]
    assert reason["text"] == "ref in -c: `unnamed`"
    assert "`free(ref)`" in reason["action"]
    unknown = shell("why", "lab", "date")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "no object 'date'. Did you mean 'data'? Names it has: data;" in unknown.stderr
    driver.tell("go")
    driver.wait()


def test_why_looks_at_all_if_it_is_asked_to(script: Callable[..., Script], shell: Shell) -> None:
    """Its own answer says which command does."""
    driver = script("""
        from workbench.client import referrer_search
        wb.init(session="lab", workers=1)
        data = wb.put([1], name="data")
        referrer_search.SECONDS = -1.0  # no time at all
        say(data.hex())
        hear()
    """)
    for what in ("data", driver.line()):
        short = shell("why", "lab", what).stdout
        assert "not found among the first" in short
        assert f"`workbench why lab {what} --deep` looks at all" in short
        whole = shell("why", "lab", what, "--deep").stdout
        assert "ref in -c: `data`" in whole
        assert "not found" not in whole
    driver.tell("go")
    driver.wait()
    assert admin.DEEP_INQUIRY > DEEP_PATIENCE
    assert admin.INQUIRY > PATIENCE


# -- stop -----------------------------------------------------------------------------------------


def test_stop_ends_a_session_for_everybody_and_they_are_told(
    script: Callable[..., Script], shell: Shell, processes: Processes, runtime: str
) -> None:
    text = """
        from workbench.errors import SessionError
        wb.init(session="lab", workers=1, linger="1h")
        wb.snapshot()
        say("ready")
        try:
            wb.get(wb.remote(signal.pause).remote())
        except SessionError as error:
            say(error)
        hear()
        wb.init(session="lab", workers=1)
        say(wb.get(wb.put("anew")))
    """
    first, second = script(text), script(text)
    assert [first.line(), second.line()] == ["ready", "ready"]
    (ended,) = printed(shell("stop", "lab", "--json"))["stopped"]
    assert (ended["name"], ended["killed"], ended["lost"]) == ("lab", 0, "")
    assert not processes.all()
    assert os.listdir(runtime) == ["workbench.lock"]
    for driver in (first, second):
        assert driver.line().startswith("The session was stopped from a shell: `workbench stop")
    for driver in (first, second):
        driver.tell("go")
        assert driver.line() == "anew"
        driver.wait()
    assert processes.gone()


def test_stop_says_what_is_lost(shell: Shell, processes: Processes) -> None:
    wb.init(session="lab", workers=1)
    actor = wb.remote(Quiet).options(name="hits").remote()
    kept = wb.put([1], name="df"), wb.put(b"x" * 93)
    wb.get(actor.say_nothing.remote())
    said = shell("stop", "lab").stdout
    lost = "1 named object: df; 1 actor: Quiet 'hits'"
    assert re.fullmatch(rf"Session lab has ended: it took .*s\. Lost with it: {lost}\.\n", said)
    del kept
    wb.shutdown()


class Quiet:
    """An actor that does nothing."""

    def say_nothing(self) -> None: ...


def test_stop_all(script: Callable[..., Script], shell: Shell, processes: Processes) -> None:
    assert shell("stop", "--all").stdout.startswith("No session is running")
    wb.init(workers=1)
    wb.snapshot()
    driver = script(LINGERS, "1h")
    assert driver.line() == "ready"
    lines = shell("stop", "--all").stdout.splitlines()
    assert len(lines) == 2
    assert all("has ended: it took" in line for line in lines)
    assert not processes.all()
    with pytest.raises(SessionError, match="stopped from a shell"):
        wb.snapshot()


# -- what can't be --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nowhere", "", "a path"])
@pytest.mark.parametrize("command", [("objects",), ("why", "x"), ("stop",)], ids=lambda c: c[0])
def test_an_unknown_session(
    session: Engine, shell: Shell, runtime: str, command: tuple[str, ...], name: str
) -> None:
    session.snapshot()
    if name == "a path":  # which leads to a socket
        name = f"../{os.path.basename(runtime)}/{name_of(session)}"
    verb, *rest = command
    done = shell(verb, name, *rest)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"workbench: No session {name!r} is running on this machine. ")
    assert name_of(session) in done.stderr


WRONG = {
    "no command": (),
    "an unknown command": ("top",),
    "no session": ("objects",),
    "no name": ("why", "lab"),
    "an unknown order": ("objects", "lab", "--sort", "colour"),
    "neither a session nor all": ("stop",),
    "both": ("stop", "lab", "--all"),
    "one too many": ("ps", "lab"),
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_usage(shell: Shell, arguments: tuple[str, ...]) -> None:
    done = shell(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: workbench")


MISTYPED = [
    (("pss",), "'ps'"),
    (("ps", "--jsno"), "'--json'"),
    (("objects", "lab", "--srot", "age"), "'--sort'"),
    (("objects", "lab", "--sort", "siez"), "'size'"),
    (("--verison",), "'--version'"),
]


@pytest.mark.parametrize(("arguments", "meant"), MISTYPED)
def test_a_mistyped_word(shell: Shell, arguments: tuple[str, ...], meant: str) -> None:
    done = shell(*arguments)
    assert done.returncode == 2
    assert done.stderr.endswith(f". Did you mean {meant}?\n")


def test_mistyped_names(session: Engine, shell: Shell) -> None:
    kept = wb.put(1, name="weights")
    name = name_of(session)
    done = shell("why", name, "wieghts")
    assert "Did you mean 'weights'?" in done.stderr
    done = shell("stop", name[:-1])
    assert f"Did you mean {name!r}?" in done.stderr
    assert kept.id


def test_a_reader_who_has_seen_enough(shell: Shell) -> None:
    ear, mouth = os.pipe()
    os.close(ear)
    command = [sys.executable, "-m", "workbench", "ps"]
    done = subprocess.run(command, stdout=mouth, stderr=subprocess.PIPE)
    os.close(mouth)
    assert (done.returncode, done.stderr) == (1, b"")


def test_the_installed_command_is_this_one() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["workbench"].partition(":")
    assert callable(getattr(import_module(module), function))


@pytest.mark.parametrize("width", [60, 80])
def test_a_terminal_gets_a_table_of_its_width(session: Engine, width: int) -> None:
    kept = wb.put(np.ones(10_000), name="ones")
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as screen:
        command = [sys.executable, "-m", "workbench", "ps"]
        environ = {**os.environ, "COLUMNS": str(width), "TERM": "xterm-256color"}
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, env=environ) as process:
            os.close(theirs)
            shown = b""
            try:
                while more := screen.read(1 << 16):
                    shown += more
            except OSError:  # how a terminal says that nobody is left at the other end
                pass
            assert process.wait(TIMEOUT) == 0
    text = shown.decode()
    assert "\x1b[32mok" in text  # green
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= width
    if width == 80:  # there every word is in one piece
        words = set(plain.split())
        assert {name_of(session), f"({os.getpid()})", "workers", "store", "memory"} <= words
        assert "actors" not in words  # there are none
    assert kept.id


# -- doctor ---------------------------------------------------------------------------------------

CHECKS = [
    "versions", "settings", "memory", "processors", "shared memory", "/dev/shm", "huge pages",
    "spill space", "runtime directory", "access", "self-test", "nothing left",
]  # fmt: skip


def test_doctor_in_a_healthy_place(shell: Shell, tmp_path: Path) -> None:
    settings = {"MEM_LIMIT": "1GB", "WORKBENCH_SPILL_DIR": str(tmp_path)}
    document = printed(shell("doctor", "--json", **settings))
    checks = {check["check"]: check for check in document["checks"]}
    assert list(checks) == CHECKS
    assert document["healthy"]
    assert {check["state"] for check in checks.values()} <= {"ok", "note"}
    assert not [c for c in checks.values() if (c["state"] == "note") != bool(c["do"])]
    data = {name: check["data"] for name, check in checks.items()}
    assert data["memory"]["limits"]["MEM_LIMIT"] == 1_000_000_000
    assert data["memory"]["least"] == "MEM_LIMIT"
    assert data["memory"]["store"] == 300_000_000
    assert data["shared memory"]["readonly_refuses_writing"] is True
    assert data["spill space"]["directory"] == str(tmp_path)
    assert data["spill space"]["free"] > 0
    assert data["runtime directory"]["mode"] == "0700"
    assert data["access"] == {"tcp_ports": {}, "processes": 5}
    assert {"put 10 MB", "get 10 MB", "task", "actor call"} <= data["self-test"].keys()
    assert all(seconds > 0 for seconds in data["self-test"].values())
    assert data["nothing left"] == {"processes": [], "files": []}


def test_doctor_joins_nobodys_session(session: Engine, shell: Shell) -> None:
    """A notebook's shell escape inherits the notebook's variables."""
    before = session.snapshot().objects
    done = shell("doctor", WORKBENCH_SESSION=name_of(session), JPY_SESSION_NAME="a.ipynb")
    assert done.returncode == 0
    assert done.stdout.endswith("Workbench works on this machine.\n")
    assert "none of the self-test's 5 processes listened" in " ".join(
        done.stdout.split()
    )  # its own
    begun = [line.split("  ")[0] for line in done.stdout.splitlines()[1:-1]]
    assert [check for check in begun if check] == CHECKS
    assert max(map(len, done.stdout.splitlines())) <= 100  # in a pipe, too
    assert session.snapshot().objects == before
    assert len([c for c in session.snapshot().clients if c.role == "driver"]) == 1


def test_doctor_where_no_session_can_be(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = shell("doctor", "--json", WORKBENCH_RUNTIME_DIR=str(tmp_path / "file"))
    assert done.returncode == 1
    document = json.loads(done.stdout)
    states = {check["check"]: check["state"] for check in document["checks"]}
    assert not document["healthy"]
    assert states.keys() == set(CHECKS)
    bad = {"runtime directory", "access", "self-test", "nothing left"}
    assert {name for name, state in states.items() if state == "problem"} == bad
    text = shell("doctor", WORKBENCH_RUNTIME_DIR=str(tmp_path / "file")).stdout
    assert "WORKBENCH_RUNTIME_DIR" in text
    assert text.endswith("4 problems: see above.\n")


def test_doctor_and_a_setting_that_cannot_be_used(shell: Shell) -> None:
    done = shell("doctor", "--json", WORKBENCH_HEADROOM="much")
    assert done.returncode == 1
    found = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    for name in ("settings", "self-test"):
        assert found[name]["state"] == "problem"
        assert "headroom='much'" in found[name]["found"]
    assert found["nothing left"]["state"] == "ok"


@pytest.mark.parametrize("seconds", [0.3, 0.4, 0.5])  # with a socket, a server, a fork server
def test_a_self_test_that_does_not_end_is_given_up(
    runtime: str, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(doctor, "LONGEST", seconds)
    *_, failed, left = findings = list(doctor.try_out())
    assert [finding.check for finding in findings] == CHECKS[-4:]
    assert (failed.check, failed.state) == ("self-test", "problem")
    assert f"hadn't ended after {1000 * seconds:.0f} ms" in failed.found
    assert (left.check, left.state) == ("nothing left", "ok")

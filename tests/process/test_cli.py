"""The shell command, as a person or a program runs it: ps, objects, why, stop, doctor."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
import tomllib
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.processes import Processes
from tests.process.scripts import Scripts
from workbench import cli
from workbench.cli import admin, doctor
from workbench.engine.base import Engine
from workbench.errors import NotAnsweringError, SessionError

PATIENT = admin.Patience(TIMEOUT, TIMEOUT)


class Done(NamedTuple):
    """A command that has ended."""

    status: int
    output: str
    errors: str

    @property
    def document(self) -> Any:
        """What it printed, if it went well."""
        assert (self.status, self.errors) == (0, "")
        return json.loads(self.output)


def run(*arguments: str, patience: admin.Patience = PATIENT) -> Done:
    """A command, in this process."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            status = cli.main(arguments, patience)
        except SystemExit as left:  # argparse's way
            status = int(left.code or 0)
    return Done(status, output.getvalue(), errors.getvalue())


def name_of(session: Engine) -> str:
    return session.session.rpartition("~")[0]


class Quiet:
    """An actor that does nothing."""

    def say_nothing(self) -> None: ...


@pytest.mark.fresh_session
def test_ps_shows_a_sessions_users_and_its_costs(session: Engine, gate: Gate, runtime: str) -> None:
    kept = wb.put(np.ones(1 << 17), name="ones")
    quiet = wb.remote(Quiet).options(name="quiet").remote()
    assert wb.get(quiet.say_nothing.remote()) is None
    running = wb.remote(gate.stop).remote()
    visitor = gate.next()
    wb.get(wb.remote(lambda: 1).remote())  # the other worker is there too

    document = run("ps", "--json").document
    assert document["runtime_directory"] == runtime
    (seen,) = document["sessions"]
    assert (seen["name"], seen["state"]) == (name_of(session), "ok")
    assert [driver["pid"] for driver in seen["drivers"]] == [os.getpid()]
    assert seen["workers"] == {"busy": 1, "idle": 1}
    (actor,) = seen["actors"]
    assert (actor["class"], actor["names"], actor["state"]) == ("Quiet", ["quiet"], "alive")
    assert seen["tasks"] == {"running": 1, "queued": 0}
    assert seen["store"]["capacity"] == 64_000_000
    assert 1 << 20 <= seen["store"]["used"] <= seen["store"]["granted"]
    assert len(seen["processes"]) == 5  # server, forkserver, two workers, the actor's
    assert seen["memory"] > 1 << 20
    assert seen["age"] > 0

    _, row = run("ps").output.splitlines()
    for text in (name_of(session), f"({os.getpid()})", "1 busy", "1 idle", "Quiet 'quiet'"):
        assert text in row
    visitor.let_on()
    wb.get(running)
    del kept


def crowd(name: str, waiting: ExitStack) -> None:
    """Connect until there are more than the system keeps for a server that hangs."""
    while True:
        waiting.enter_context(admin.AdminConnection(name))


@pytest.mark.fresh_session
def test_a_session_that_hangs_is_seen_and_stopped(session: Engine, processes: Processes) -> None:
    wb.snapshot()
    hung, name = processes.server(), name_of(session)
    hung.suspend()
    soon = admin.Patience(0.1, 0.1)
    (seen,) = run("ps", "--json", patience=soon).document["sessions"]
    assert (seen["name"], seen["state"]) == (name, "not answering")
    assert seen["processes"][0] == hung.pid
    assert seen["memory"] > 0
    assert "not answering" in run("ps", patience=soon).output
    asked = run("objects", name, patience=soon)
    assert (asked.status, asked.output) == (1, "")
    assert f"server (pid {hung.pid}) is stopped or hangs. `workbench stop " in asked.errors

    with ExitStack() as waiting, pytest.raises(NotAnsweringError, match=f"pid {hung.pid}"):
        crowd(name, waiting)
    assert admin.sessions() == [name]

    assert "had to be killed" in run("stop", name, patience=soon).output
    assert eventually(lambda: not wb.is_initialized())
    assert admin.sessions() == []


@pytest.mark.fresh_session
def test_objects_are_listed_as_in_the_notebook(session: Engine) -> None:
    large, small = wb.put(np.ones(1 << 17), name="[red]large"), wb.put({"a": 1})
    name = name_of(session)
    _, *rows = run("objects", name).output.splitlines()
    assert [row.split()[0] for row in rows] == ["[red]large", "from"]
    assert [row.split()[-1] for row in rows] == [large.hex(), small.hex()]
    (only,) = run("objects", name, "dict*", "--json").document["objects"]
    assert (only["id"], only["names"], only["where"]) == (small.hex(), [], "inline")
    assert {reason for reason, n in only["pins"].items() if n} == {"ref"}
    ages = run("objects", name, "--sort", "age", "--json").document["objects"]
    assert [each["id"] for each in ages] == [large.hex(), small.hex()]
    assert run("objects", name, "none*").output == "No object matches 'none*'.\n"


def test_why_says_which_variable_of_which_process_it_is(script: Scripts) -> None:
    driver = script("""
        import numpy as np
        wb.init(session="lab", workers=1)
        frames = {"of": [wb.get(wb.put(np.arange(1 << 17), name="data"))]}
        unnamed = wb.put([1])
        say(unnamed.hex())
        hear()
    """)
    unnamed = driver.line()
    assert run("why", "--deep", "lab", "data").output.splitlines()[:4] == [
        "ndarray int64 (131072,) 'data', 1.05 MB. Why it is here:",
        "  named `data`",
        "    to let go: `%free data`",
        "  arrays in -c: `frames['of'][0]`",
    ]
    (answer,) = run("why", "lab", unnamed, "--json").document["answers"]
    assert answer["what"].startswith("list")
    (reason,) = answer["reasons"]
    assert (reason["reason"], reason["text"]) == ("ref", "ref in -c: `unnamed`")
    assert (reason["remedy"], reason["run_in"]) == ("del unnamed", "-c")
    unknown = run("why", "lab", "date")
    assert (unknown.status, unknown.output) == (1, "")
    assert "no object 'date'. Did you mean 'data'? Names it has: data;" in unknown.errors


def test_stop_ends_sessions_tells_all(script: Scripts, processes: Processes, runtime: str) -> None:
    wb.init(session="desk", workers=1)
    actor = wb.remote(Quiet).options(name="hits").remote()
    kept = wb.put([1], name="df"), wb.put(b"x" * 93)
    wb.get(actor.say_nothing.remote())
    driver = script("""
        from workbench.errors import SessionError
        wb.init(session="lab", workers=1, linger="1h")
        say("ready")
        try:
            wb.get(wb.remote(signal.pause).remote())
        except SessionError as error:
            say(error)
        hear()
        wb.init(session="lab", workers=1)
        say(wb.get(wb.put("anew")))
        hear()
    """)
    assert driver.line() == "ready"
    desk, lab = run("stop", "--all").output.splitlines()
    lost = "1 named object: df; 1 actor: Quiet 'hits'"
    assert re.fullmatch(rf"Session desk has ended: it took .*s\. Lost with it: {lost}\.", desk)
    assert "lab has ended: it took" in lab
    assert not processes.all()
    assert os.listdir(runtime) == ["workbench.lock"]
    assert run("stop", "--all").output == run("ps").output
    assert run("ps").output == f"No session is running on this machine (in {runtime}).\n"
    assert driver.line().startswith("The session was stopped from a shell: `workbench stop")
    with pytest.raises(SessionError, match="stopped from a shell"):
        wb.snapshot()
    driver.tell("go")
    assert driver.line() == "anew"
    (ended,) = run("stop", "lab", "--json").document["stopped"]
    assert (ended["name"], ended["killed"], ended["lost"]) == ("lab", 0, "")
    del kept


def test_an_unknown_session(session: Engine, runtime: str) -> None:
    session.snapshot()
    path = f"../{os.path.basename(runtime)}/{name_of(session)}"  # leads to a socket
    for command, *rest in (["objects"], ["why", "x"], ["stop"]):
        for name in ("nowhere", "", path):
            done = run(command, name, *rest)
            assert (done.status, done.output) == (1, "")
            missing = f"workbench: No session {name!r} is running on this machine."
            assert done.errors.startswith(missing)
            assert name_of(session) in done.errors


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("", ""),
        ("why lab", ""),
        ("stop", ""),
        ("stop lab --all", ""),
        ("pss", "'ps'"),
        ("ps --jsno", "'--json'"),
        ("objects lab --sort siez", "'size'"),
    ],
)
def test_usage(arguments: str, meant: str) -> None:
    done = run(*arguments.split())
    assert (done.status, done.output) == (2, "")
    assert done.errors.startswith("usage: workbench")
    assert not meant or done.errors.endswith(f". Did you mean {meant}?\n")
    assert "`%workbench`, `%objects`" in " ".join(run("--help").output.split())


def test_a_reader_who_has_seen_enough(runtime: str) -> None:
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


def test_a_terminal_gets_a_table_of_its_width(session: Engine) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "workbench", "ps"]
    environ = {**os.environ, "COLUMNS": "60", "TERM": "xterm-256color"}
    subprocess.run(command, stdin=theirs, stdout=theirs, env=environ, check=True)
    os.close(theirs)
    text = os.read(ours, 1 << 16).decode()  # all of it is there: it takes less room than there is
    os.close(ours)
    assert "\x1b[3" in text  # a color
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= 60
    assert "actors" not in plain  # there are none


CHECKS = [
    "versions", "settings", "memory", "processors", "shared memory", "/dev/shm", "huge pages",
    "spill space", "runtime directory", "kernels", "access", "self-test", "nothing left",
]  # fmt: skip


def test_doctor_in_health(session: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It joins nobody's session: a notebook's shell escape inherits the notebook's variables."""
    before = session.snapshot()
    for variable, value in {
        "WORKBENCH_SESSION": name_of(session), "JPY_SESSION_NAME": "a.ipynb",
        "MEM_LIMIT": "1GB", "WORKBENCH_SPILL_DIR": str(tmp_path),
    }.items():  # fmt: skip
        monkeypatch.setenv(variable, value)
    document = run("doctor", "--json").document
    checks = {check["check"]: check for check in document["checks"]}
    assert list(checks) == CHECKS
    assert document["healthy"]
    assert {check["state"] for check in checks.values()} <= {"ok", "note"}
    assert not [c for c in checks.values() if (c["state"] == "note") != bool(c["do"])]
    data = {name: check["data"] for name, check in checks.items()}
    assert (data["memory"]["least"], data["memory"]["store"]) == ("MEM_LIMIT", 300_000_000)
    assert data["shared memory"]["readonly_refuses_writing"] is True
    assert data["spill space"]["directory"] == str(tmp_path)
    assert data["runtime directory"]["mode"] == "0700"
    assert data["access"] == {"tcp_ports": {}, "processes": 5}
    assert {"put 10 MB", "get 10 MB", "task", "actor call"} <= data["self-test"].keys()
    assert data["nothing left"] == {"processes": [], "files": []}
    after = session.snapshot()
    assert after.objects == before.objects
    assert len([c for c in after.clients if c.role == "driver"]) == 1


def test_doctor_without_any(runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HEADROOM", "much")
    done = run("doctor", "--json")
    assert done.status == 1
    found = {check["check"]: check for check in json.loads(done.output)["checks"]}
    for name in ("settings", "self-test"):
        assert found[name]["state"] == "problem"
        assert "headroom='much'" in found[name]["found"]
    assert found["nothing left"]["state"] == "ok"

    monkeypatch.delenv("WORKBENCH_HEADROOM")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WORKBENCH_RUNTIME_DIR", str(tmp_path / "file"))
    done = run("doctor")
    assert done.status == 1
    assert "WORKBENCH_RUNTIME_DIR" in done.output
    assert done.output.endswith("4 problems: see above.\n")
    assert max(map(len, done.output.splitlines())) <= 100  # in a pipe, too


def test_a_self_test_that_does_not_end_is_given_up(runtime: str) -> None:
    *_, failed, left = findings = list(doctor.try_out(longest=0.2))
    assert [finding.check for finding in findings] == CHECKS[-5:]
    assert (failed.check, failed.state) == ("self-test", "problem")
    assert "hadn't ended after 200 ms" in failed.found
    assert (left.check, left.state) == ("nothing left", "ok")

"""doctor: checks what Workbench needs from this machine, one by one, and tries a session out.

A check reads and tries; the result is ok, a note (it works, but could be better) or a problem.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from workbench import __version__
from workbench import config as config_module
from workbench.cli import admin, show
from workbench.config import Config
from workbench.engines.choice import NAMES
from workbench.engines.local import runtime_directory
from workbench.errors import SessionError, WorkbenchError
from workbench.format import human_bytes, human_seconds
from workbench.memory import segment
from workbench.report.json import as_text, document
from workbench.report.markup import Table
from workbench.report.processes import client_name
from workbench.report.sessions import death_text
from workbench.system import machine, spin_poll
from workbench.system.sizes import PAGE

PACKAGES = ("numpy", "cloudpickle", "msgspec", "ipython", "ipykernel", "jupyterlab")

NOTEBOOKS = "ipykernel"
"""The package that only notebooks need."""

LONGEST = 20.0
"""Timeout of the self-test in seconds; it takes one or two."""

OK, NOTE, PROBLEM = "ok", "note", "problem"

REPORT = "Report it, with the output of `workbench doctor --json`."


@dataclass(frozen=True)
class Finding:
    """Result of one check: for people, and as numbers (bytes, seconds) in ``data``."""

    check: str
    state: str
    found: str
    advice: str = ""
    data: dict[str, Any] = field(default_factory=dict)


def run(as_json: bool) -> int:
    """Run all checks; return 1 if there is a problem."""
    findings = list(examine())
    problems = sum(f.state == PROBLEM for f in findings)
    if as_json:
        checks = [
            {"check": f.check, "state": f.state, "found": f.found, "do": f.advice, "data": f.data}
            for f in findings
        ]
        print(as_text(document("doctor", healthy=not problems, checks=checks)))
    else:
        rows: list[tuple[str, str, str]] = []
        for f in findings:
            rows.append((f.check, f.state, f.found))
            if f.advice:
                rows.append(("", "", f.advice))
        show.table(Table(("check", "state", "found, and what to do"), tuple(rows)), is_prose=True)
        many = f"{problems} problems" if problems > 1 else "One problem"
        print(f"{many}: see above." if problems else "Workbench works on this machine.")
    return int(bool(problems))


def examine() -> Iterator[Finding]:
    yield versions()
    try:
        config = config_module.load()
    except WorkbenchError as error:
        yield Finding("settings", PROBLEM, str(error), "Correct it, or take it away.")
        config = Config()
    else:
        yield settings(config)
    for name, check in CHECKS.items():
        try:
            yield check(config)
        except OSError as error:  # a check may fail on a machine that it wasn't written for
            yield Finding(name, PROBLEM, f"{type(error).__name__}: {error}", REPORT)
    yield from try_out()


# -- what the machine has -------------------------------------------------------------------------


def versions() -> Finding:
    found = {"workbench": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "none"
    found["kernel"] = f"{platform.system()} {platform.release()}"
    text = ", ".join(f"{what} {version}" for what, version in found.items())
    if found[NOTEBOOKS] == "none":
        return Finding("versions", NOTE, text, f"For notebooks: `pip install {NOTEBOOKS}`.", found)
    return Finding("versions", OK, text, data=found)


def settings(config: Config) -> Finding:
    if config.engine == "local":
        return Finding("settings", OK, "they can be used")
    name = NAMES[config.engine]
    return Finding(
        "settings",
        NOTE,
        f"they can be used; sessions run on {name}, which isn't checked here",
        f"What follows is about this machine alone. `%workbench start` in a notebook tries {name}.",
    )


def memory(config: Config) -> Finding:
    limits = machine.memory_limits()
    available, _ = machine.MemoryGauge().read()
    least = min(limits, key=limits.__getitem__, default="")
    limit = limits.get(least, 0)
    data = {
        "limits": limits,
        "least": least,
        "available": available,
        "store": config.memory,
        "headroom": config.headroom,
    }
    seen = ", ".join(f"{what} {human_bytes(n)}" for what, n in limits.items()) or "no limit seen"
    text = (
        f"{seen}{f'; {least} counts' if len(limits) > 1 else ''}; {human_bytes(available)} "
        f"available; the store may take {human_bytes(config.memory)}"
    )
    if limit and config.memory > limit:
        return Finding("memory", PROBLEM, text, "Set WORKBENCH_MEMORY below the limit.", data)
    if available < min(config.memory, config.headroom):
        return Finding("memory", NOTE, text, "End what takes the memory: none is left.", data)
    return Finding("memory", OK, text, data=data)


def processors(config: Config) -> Finding:
    affinity, quota = machine.cpu_limits()
    data = {"affinity": affinity, "quota": quota, "cpus": config.cpus, "workers": config.workers}
    limit = "no quota" if quota is None else f"a quota of {quota:.3g}"
    waits, data["spins"], data["yield_seconds"] = _waits()
    text = f"{affinity} by affinity, {limit}: {config.cpus}; workers: {config.workers}; {waits}"
    if config.workers > 4 * config.cpus:
        advice = "More workers than processors wait for each other; set WORKBENCH_WORKERS lower."
        return Finding("processors", NOTE, text, advice, data)
    return Finding("processors", OK, text, data=data)


def _waits() -> tuple[str, bool, float]:
    """Return how processes wait for each other's messages here: in words, whether they spin, and
    how long a yield takes."""
    took = spin_poll.longest_yield()
    if not spin_poll.can_spin():
        return (
            "a process that waits for a message sleeps at once, since there is one processor",
            False,
            took,
        )
    if took > spin_poll.CONTESTED:
        why = f"other programs keep the processors busy ({human_seconds(took)} to get one back)"
        return f"a process that waits for a message sleeps at once while {why}", False, took
    look = human_seconds(spin_poll.SPIN)
    return f"a process that waits for a message looks for {look} before it sleeps", True, took


def shared_memory(config: Config) -> Finding:
    kind = "memfd" if hasattr(os, "memfd_create") else "unlinked files"
    made = segment.create(PAGE)
    try:
        with segment.map_writable(made.writable, made.size) as mapping:
            mapping[:1] = b"x"
        try:
            segment.map_writable(made.readonly, made.size).close()
        except PermissionError:
            refused = True
        else:
            refused = False
    finally:
        made.close()
    data = {"kind": kind, "readonly_refuses_writing": refused}
    if not refused:
        text = f"{kind}, which readers can map writable"
        advice = (
            "A reader's error could change an object here; report it, with the version of Linux."
        )
        return Finding("shared memory", PROBLEM, text, advice, data)
    text = f"{kind}; what readers get can't be mapped writable"
    return Finding("shared memory", OK, text, data=data)


def dev_shm(config: Config) -> Finding:
    path = "/dev/shm"
    if not os.path.isdir(path):
        return Finding(path, OK, "there is none; nothing of Workbench would lie there")
    size = _space(path)[1]
    text = f"{human_bytes(size)}, which doesn't matter: nothing of Workbench lies there"
    return Finding(path, OK, text, data={"size": size})


def huge_pages(config: Config) -> Finding:
    mode = machine.huge_pages()
    data = {"shmem_enabled": mode}
    if mode in ("always", "within_size", "advise", "force"):
        return Finding("huge pages", OK, f"for shared memory: {mode}", data=data)
    advice = (
        "Large arrays would be read somewhat faster with them; as root: `echo advise > "
        "/sys/kernel/mm/transparent_hugepage/shmem_enabled`."
    )
    return Finding("huge pages", NOTE, f"for shared memory: {mode or 'unknown'}", advice, data)


def spill(config: Config) -> Finding:
    """Check where objects go when memory is full: how much room, and whether that is a disk."""
    path = config.spill_dir
    if not path:
        text, advice = "nowhere: a full store is an error", "WORKBENCH_SPILL_DIR names a directory."
        return Finding("spill space", NOTE, text, advice, {"directory": ""})
    if not os.access(path, os.W_OK | os.X_OK):
        text, advice = f"{path} can't be written to", "Choose another: WORKBENCH_SPILL_DIR."
        return Finding("spill space", PROBLEM, text, advice, {"directory": path})
    kind = machine.file_system(path)
    free, _ = _space(path)
    data = {"directory": path, "file_system": kind, "free": free}
    text = f"{path}, {kind or 'unknown file system'}, {human_bytes(free)} free"
    if machine.in_memory(path):
        advice = "That is memory, not a disk: set WORKBENCH_SPILL_DIR to a directory on one."
        return Finding("spill space", NOTE, text, advice, data)
    if free < config.memory:
        advice = "Less than the store's size: make room, or set WORKBENCH_SPILL_DIR."
        return Finding("spill space", NOTE, text, advice, data)
    return Finding("spill space", OK, text, data=data)


def _space(path: str) -> tuple[int, int]:
    """Return (free for this user, total), in bytes."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize


CHECKS: dict[str, Callable[[Config], Finding]] = {
    "memory": memory,
    "processors": processors,
    "shared memory": shared_memory,
    "/dev/shm": dev_shm,
    "huge pages": huge_pages,
    "spill space": spill,
}


# -- what a session does --------------------------------------------------------------------------


def try_out(longest: float = LONGEST) -> Iterator[Finding]:
    """Check the runtime directory, and a session in it: who could reach it, what it leaves."""
    untried = ("access", "self-test", "nothing left")
    try:
        directory = runtime_directory()
    except SessionError as error:
        advice = "As it says; without it no session can start."
        yield Finding("runtime directory", PROBLEM, str(error), advice)
        yield from (Finding(name, PROBLEM, "not tried", "See above.") for name in untried)
        return
    mode = directory.stat().st_mode & 0o777
    data = {"path": str(directory), "mode": f"{mode:04o}", "uid": os.getuid()}
    yield Finding("runtime directory", OK, f"{directory}, mode {mode:04o}, yours alone", data=data)

    yield kernels()
    name = f"self-test-{os.getpid()}"
    try:
        tried = _self_test(name, longest)
    except SessionError as error:
        yield Finding("access", PROBLEM, "not tried", "See below.")
        yield Finding("self-test", PROBLEM, str(error), REPORT)
    else:
        yield access(tried)
        times = ", ".join(f"{step} {human_seconds(s)}" for step, s in tried["seconds"].items())
        yield Finding("self-test", OK, times, data=tried["seconds"])
    yield nothing_left(name)


def access(tried: dict[str, Any]) -> Finding:
    ports = tried["ports"]
    data = {"tcp_ports": ports, "processes": len(tried["processes"])}
    if ports:
        advice = "Find out what opens it: Workbench listens on no port."
        return Finding("access", PROBLEM, f"processes listen on TCP: {ports}", advice, data)
    text = (
        "other users can neither see nor join your sessions: only you can enter the directory, "
        "servers close the connections of other users, and none of the self-test's "
        f"{len(tried['processes'])} processes listened on TCP"
    )
    return Finding("access", OK, text, data=data)


def kernels() -> Finding:
    """Look for notebooks and scripts that died in sessions that still run."""
    died = []
    for name in admin.sessions():
        with suppress(SessionError), admin.AdminConnection(name) as connection:
            deaths = connection.summary().deaths
            died += [f"{death_text(d, client_name(d.driver))} (Session {name}.)" for d in deaths]
    if not died:
        return Finding("kernels", OK, "none has died whose session still runs")
    advice = "Restart the notebook's kernel; `%load_ext workbench` joins its session again."
    return Finding("kernels", NOTE, " ".join(died), advice)


def nothing_left(name: str) -> Finding:
    pids = admin.processes(name)
    files = [str(path) for path in runtime_directory().glob(f"{name}.*")]
    data = {"processes": pids, "files": files}
    if pids or files:
        text = f"processes {pids}, files {files}"
        return Finding("nothing left", PROBLEM, text, f"`workbench stop {name}`", data)
    return Finding("nothing left", OK, "no process, no file of the self-test", data=data)


def _self_test(name: str, longest: float) -> dict[str, Any]:
    """Run the self-test; raise SessionError, after clearing up, if it fails or takes too long."""
    command = [sys.executable, "-P", "-m", "workbench.cli.selftest", name]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=longest
        )
        if done.returncode == 0:
            tried: dict[str, Any] = json.loads(done.stdout)
            return tried
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    except subprocess.TimeoutExpired:
        last = f"it hadn't ended after {human_seconds(longest)}"
    admin.clear(name)  # without its driver it ends, even if it was still starting
    raise SessionError(f"A session could not be used: {last}")

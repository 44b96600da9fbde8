"""Fixtures: a runtime directory of one's own, checked for leaks; a session; gates and scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

import pytest

import workbench as wb
from tests.leaks import nothing_left
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.processes import Processes
from tests.process.scripts import Script
from workbench.engines.base import Engine


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The test's runtime directory, short enough for sockets. Nothing may outlive the test."""
    directory = tempfile.mkdtemp(prefix="wb-")
    for variable in [name for name in os.environ if name.startswith(("WORKBENCH_", "JPY_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("WORKBENCH_RUNTIME_DIR", directory)
    monkeypatch.setenv("WORKBENCH_SPILL_DIR", "none")  # unless a test gives one
    monkeypatch.setenv("XDG_CONFIG_HOME", directory)  # nobody's own config file
    try:
        with nothing_left(directory):
            yield directory
            wb.shutdown()  # of a test that failed before its own
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def session(runtime: str) -> Iterator[Engine]:
    """A session of two workers and 64 MB."""
    yield wb.init(workers=2, memory="64MB")
    wb.shutdown()


@pytest.fixture
def processes(runtime: str) -> Processes:
    """The session's processes, from outside."""
    return Processes(runtime)


@pytest.fixture
def shell(runtime: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the shell command; ``environ`` goes over this process's own."""

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "workbench", *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            env={**os.environ, **environ},
        )

    return run


@pytest.fixture
def gate(runtime: str) -> Iterator[Gate]:
    """Where tasks stop until the test lets them on."""
    with Gate(os.path.join(runtime, "gate")) as gate:
        yield gate


@pytest.fixture
def script(runtime: str) -> Iterator[Callable[..., Script]]:
    """Starts drivers in processes of their own; what still runs at the end is killed."""
    scripts: list[Script] = []

    def start(text: str, *arguments: str) -> Script:
        scripts.append(Script(text, *arguments))
        return scripts[-1]

    yield start
    for each in scripts:
        each.close()

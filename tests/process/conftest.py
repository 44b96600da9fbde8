"""Fixtures: a runtime directory of one's own, checked for leaks; a session; gates and scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import psutil
import pytest

import workbench as wb
from tests.leaks import eventually, gone_or_collected, nothing_left, processes_of
from tests.patience import TEST_TIMEOUT, TIMEOUT
from tests.process.gates import Gate
from tests.process.processes import Processes
from tests.process.scripts import Script, Scripts
from workbench import context
from workbench.core.snapshot import ObjectRecord
from workbench.engine.base import Engine

USUAL: dict[str, Any] = {"workers": 2, "memory": "64MB"}


class Sessions:
    """The session of a test process: who leaves it as it was leaves it to the next one.

    Starting one takes longer than most tests. Objects that nobody needs must be gone after each;
    what only the end of a session shows (threads, descriptors, …) is looked at in the end.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._engine: Engine | None = None
        self._attributes: dict[str, Any] = {}

    def lend(self) -> Engine:
        """The one there is, or a new one."""
        if self._engine is None:
            self._engine = wb.init(session="shared", linger=TEST_TIMEOUT, **USUAL)
            self._attributes = dict(vars(self._engine))
        return self._engine

    def take_back(self, passed: bool) -> None:
        """End it, unless it is as it was. A test that passed must have left no object behind."""
        engine = self._engine
        if not passed or engine is None or engine is not context.get():
            return self.end()
        if left := gone_or_collected(lambda: _left(engine)):
            self.end()
            raise AssertionError(f"left behind: {left}")
        if vars(engine) != self._attributes or not eventually(lambda: _is_idle(engine), 1.0):
            self.end()
        return None

    def leave(self) -> None:
        """For a test that needs another, or none. It is joined again by the next that shares it."""
        if self._engine is not None:
            context.set(None)
            self._engine.close(goodbye=False)
            self._engine = None

    def end(self) -> None:
        """End it for all."""
        self._engine = None
        wb.shutdown()
        # Nobody waits for a server whose driver has left it, nor long for one that is slow to end.
        assert eventually(self._is_gone)

    def _is_gone(self) -> bool:
        if processes_of(self.directory):
            return False
        subprocess.run(["true"], check=True)  # Popen reaps what has ended when it starts another
        return all(each.status() != psutil.STATUS_ZOMBIE for each in psutil.Process().children())


def _left(engine: Engine) -> list[ObjectRecord]:
    """Objects that this process keeps, or nobody: without name, pin or task, in no worker."""
    now = engine.snapshot()
    ours = {client.client for client in now.clients if client.pid == os.getpid()}
    return [
        record
        for record in now.objects
        if ours.issuperset((*record.holders, *(record.viewers or ()))) and not _is_function(record)
        if not (record.names or record.pinned or record.tasks or record.parents or record.job)
    ]


def _is_idle(engine: Engine) -> bool:
    now = engine.snapshot()
    there = any(not _is_function(record) for record in now.objects)
    busy = there or now.actors or now.jobs or now.queued or now.running
    if busy or any(worker.state not in ("idle", "starting") for worker in now.workers):
        return False
    return len(now.workers) in (0, USUAL["workers"])  # none, before the first task


def _is_function(record: ObjectRecord) -> bool:
    """It is there as long as the function or class: a module's stay."""
    return record.about is not None and record.about.type.startswith(("function ", "class "))


@pytest.fixture(scope="session")
def shared_sessions() -> Iterator[Sessions]:
    """The shared session, which ends with the test process."""
    directory = tempfile.mkdtemp(prefix="wb-")
    try:
        sessions = Sessions(directory)
        yield sessions
        with pytest.MonkeyPatch.context() as patch:
            _surroundings(patch, directory)
            sessions.lend()
            sessions.end()
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="module")
def sessions(shared_sessions: Sessions) -> Iterator[Sessions]:
    """The shared session, left before the module ends: nothing of it may stay in this process."""
    elsewhere = tempfile.mkdtemp(prefix="wb-")
    try:
        with nothing_left(elsewhere, apart_from=shared_sessions.directory):
            yield shared_sessions
            shared_sessions.leave()
    finally:
        shutil.rmtree(elsewhere)


def _shares(request: pytest.FixtureRequest) -> bool:
    """Whether the test is content with the shared session."""
    is_fresh = request.node.get_closest_marker("fresh_session")
    return "session" in request.fixturenames and not is_fresh


def _surroundings(patch: pytest.MonkeyPatch, directory: str) -> None:
    """Nothing of the machine's or the user's own settings."""
    for variable in [name for name in os.environ if name.startswith(("WORKBENCH_", "JPY_"))]:
        patch.delenv(variable)
    patch.setenv("WORKBENCH_RUNTIME_DIR", directory)
    patch.setenv("WORKBENCH_SPILL_DIR", "none")  # unless a test gives one
    patch.setenv("WORKBENCH_HEADROOM", "0")  # whatever else the machine is doing
    patch.setenv("WORKBENCH_GLANCE", str(TIMEOUT))
    patch.setenv("XDG_CONFIG_HOME", directory)  # nobody's own config file


@pytest.fixture(autouse=True)
def runtime(
    request: pytest.FixtureRequest, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The runtime directory, short enough for sockets. Nothing may outlive a test of its own."""
    if _shares(request):
        _surroundings(monkeypatch, sessions.directory)
        yield sessions.directory
        return
    sessions.leave()
    directory = tempfile.mkdtemp(prefix="wb-")
    _surroundings(monkeypatch, directory)
    try:
        with nothing_left(directory, apart_from=sessions.directory):
            yield directory
            wb.shutdown()  # of what the test began
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def session(request: pytest.FixtureRequest, runtime: str, sessions: Sessions) -> Iterator[Engine]:
    """A session of two workers and 64 MB: the shared, or, where a test is marked, its own."""
    if not _shares(request):
        yield wb.init(**USUAL)
        return
    failures = request.session.testsfailed
    yield sessions.lend()
    sessions.take_back(passed=request.session.testsfailed == failures)


@pytest.fixture
def page(feed: Any) -> Iterator[Any]:
    """A `Page` that shows a view, fed by the module's own fixture."""
    from tests.process.pages import Page  # brings anywidget, which most tests don't need

    page = Page(feed)
    feed.set_shown(page, True)
    yield page
    feed.set_shown(page, False)


@pytest.fixture
def processes(runtime: str) -> Processes:
    """The session's processes, from outside."""
    return Processes(runtime)


@pytest.fixture
def server(session: Engine, processes: Processes) -> psutil.Process:
    """The shared session's server."""
    session.snapshot()
    return processes.server()


@pytest.fixture
def gate(runtime: str) -> Iterator[Gate]:
    """Where tasks stop until the test lets them on."""
    with Gate(os.path.join(runtime, "gate")) as gate:
        yield gate


@pytest.fixture
def script(runtime: str) -> Iterator[Scripts]:
    """Starts drivers in processes of their own; what still runs at the end is killed."""
    with ExitStack() as started:
        yield lambda *text: started.enter_context(closing(Script(*text)))

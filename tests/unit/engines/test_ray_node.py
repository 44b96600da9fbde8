"""Which task runs in which process of a node, and what is left of sessions that were killed.

Of `engines.ray.node` alone: no Ray.
"""

from __future__ import annotations

import asyncio
import os
import queue
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import TIMEOUT
from workbench.engines.ray import node
from workbench.engines.ray.node import NodeAgent, RunningTasks


@pytest.fixture
def session(tmp_path: Path) -> Iterator[str]:
    name = f"test-{os.getpid()}-{tmp_path.name}"
    yield name
    asyncio.run(NodeAgent(name).close())


@pytest.fixture
def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def test_an_agent_finds_and_stops_what_runs(session: str) -> None:
    stopped = queue.SimpleQueue[int]()
    tasks, agent = RunningTasks(session, stopped.put), NodeAgent(session)
    for task in (5, 6):
        tasks.begin(task)
    assert asyncio.run(agent.running()) == {5: os.getpid(), 6: os.getpid()}
    assert asyncio.run(agent.processes()) == {os.getpid(): 2}
    tasks.end(5)
    assert asyncio.run(agent.stop([5, 6, 7], False)) == [6]
    assert stopped.get(timeout=TIMEOUT) == 6
    tasks.end(6)
    assert asyncio.run(agent.running()) == {}
    asyncio.run(agent.close())
    assert not node.directory_of(session).exists()


def test_a_dead_process_runs_nothing(session: str, dead: int) -> None:
    directory = node.directory_of(session)
    directory.mkdir()
    (directory / str(dead)).write_bytes(struct.pack("=q", 9))
    assert asyncio.run(NodeAgent(session).running()) == {}
    assert not list(directory.iterdir())


def test_what_a_killed_session_left_is_removed(tmp_path: Path, dead: int) -> None:
    name = f"{node.PREFIX}{os.getuid()}"
    left, alive, new = (tmp_path / f"{name}-{what}" for what in ("left", "alive", "new"))
    for directory, pid in ((left, dead), (alive, os.getpid()), (new, dead)):
        directory.mkdir()
        (directory / str(pid)).touch()
    for directory in (left, alive):
        os.utime(directory, (0, 0))
    node.sweep(tmp_path)
    assert [directory.exists() for directory in (left, alive, new)] == [False, True, True]

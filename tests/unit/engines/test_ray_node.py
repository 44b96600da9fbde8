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
    for place in (name, *(node.place_of(name, each) for each in ("here", "there"))):
        asyncio.run(NodeAgent(place).close())


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


def test_of_two_nodes_on_one_machine_one_agent_stops_a_task(session: str) -> None:
    stopped = queue.SimpleQueue[int]()
    here, there = (NodeAgent(node.place_of(session, name)) for name in ("here", "there"))
    RunningTasks(node.place_of(session, "here"), stopped.put).begin(5)
    assert asyncio.run(there.stop([5], False)) == []
    assert asyncio.run(here.stop([5], False)) == [5]
    assert stopped.get(timeout=TIMEOUT) == 5


def test_an_agent_says_what_was_freed(session: str) -> None:
    heard = queue.SimpleQueue[list[int]]()
    RunningTasks(session, bool, let_go=heard.put)
    freed = [*range(1, node.MOST_FREED + 1)]
    asyncio.run(NodeAgent(session).let_go(freed))
    assert [heard.get(timeout=TIMEOUT), heard.get(timeout=TIMEOUT)] == [freed[:-1], freed[-1:]]


def test_more_calls_than_are_noted_are_no_error(session: str) -> None:
    tasks = RunningTasks(session, bool)
    for task in range(1, node.SLOTS + 3):
        tasks.begin(task)
    assert len(asyncio.run(NodeAgent(session).running())) == node.SLOTS
    for task in range(1, node.SLOTS + 3):
        tasks.end(task)
    assert asyncio.run(NodeAgent(session).running()) == {}


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

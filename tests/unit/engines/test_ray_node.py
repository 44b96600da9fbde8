"""Which task runs in which process of a node, and what is left of sessions that were killed.

Of `engines.ray.node` alone: no Ray.
"""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from workbench.engines.ray import node
from workbench.engines.ray.node import NodeAgent, RunningTasks


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    def directory_of(place: str) -> Path:
        return tmp_path / f"{node.PREFIX}{os.getuid()}-{place}"

    monkeypatch.setattr(node, "directory_of", directory_of)
    return f"test-{os.getpid()}-{tmp_path.name}"


def test_an_agent_finds_and_stops_what_runs(session: str) -> None:
    stopped = list[int]()
    heard = threading.Event()

    def stop(task: int) -> None:
        stopped.append(task)
        heard.set()

    tasks, agent = RunningTasks(session, stop), NodeAgent(session)
    for task in (5, 6):
        tasks.begin(task)
    assert asyncio.run(agent.running()) == {5: os.getpid(), 6: os.getpid()}
    assert asyncio.run(agent.processes()) == {os.getpid(): 2}
    tasks.end(5)
    assert asyncio.run(agent.stop([5, 6, 7], False)) == [6]
    assert heard.wait(60)
    assert stopped == [6]
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
    assert stopped.get(timeout=60) == 5


def test_an_agent_says_what_was_freed(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "MOST_FREED", 3)
    heard = queue.SimpleQueue[list[int]]()
    RunningTasks(session, bool, let_go=heard.put)
    agent = NodeAgent(session)
    asyncio.run(agent.let_go([1, 2, 3]))
    assert [heard.get(timeout=60), heard.get(timeout=60)] == [[1, 2], [3]]
    asyncio.run(agent.close())


def test_more_calls_than_are_noted_are_no_error(session: str) -> None:
    tasks = RunningTasks(session, bool)
    for task in range(1, node.SLOTS + 3):
        tasks.begin(task)
    assert len(asyncio.run(NodeAgent(session).running())) == node.SLOTS
    for task in range(1, node.SLOTS + 3):
        tasks.end(task)
    assert asyncio.run(NodeAgent(session).running()) == {}


def test_a_dead_process_runs_nothing(session: str) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    directory = node.directory_of(session)
    directory.mkdir()
    (directory / str(dead.pid)).write_bytes(node._ID.pack(9))
    assert asyncio.run(NodeAgent(session).running()) == {}
    assert not list(directory.iterdir())


def test_what_a_killed_session_left_is_removed(session: str) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    mine = node.directory_of(session)
    left, alive, new = (mine.with_name(f"{mine.name}-{what}") for what in ("left", "alive", "new"))
    for directory, pid in ((left, dead.pid), (alive, os.getpid()), (new, dead.pid)):
        directory.mkdir()
        (directory / str(pid)).touch()
    for directory in (left, alive):
        os.utime(directory, (0, 0))
    NodeAgent(session)
    assert [directory.exists() for directory in (left, alive, new)] == [False, True, True]

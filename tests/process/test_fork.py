"""Forks of a driver, and of a task: they have no part in the session, and harm nobody's."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import descriptors, eventually
from tests.patience import TIMEOUT
from tests.process.endings import leave_at_once
from tests.process.gates import Gate
from tests.process.processes import ends
from workbench.engine.base import Engine

# From Python 3.12 on it advises against what these tests are about: all of us have threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

REFUSED = r"SessionError: This process was forked from one with a session.*`init\(\)`"


def in_child(act: Callable[[], object]) -> str:
    """What it returns or raises in a forked child, as text."""
    ear, mouth = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = str(act())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(mouth, said.encode())
        leave_at_once()
    os.close(mouth)
    with open(ear) as hears:
        said = hears.read()
    assert os.waitpid(child, 0)[1] == 0
    return said


class Actor:
    def call(self) -> str:
        return "called"


def test_every_call_in_a_fork_is_refused_and_says_what_to_do(session: Engine, gate: Gate) -> None:
    ref = wb.put(np.arange(100_000))
    pending = wb.remote(gate.stop).remote()
    actor = wb.remote(Actor).remote()
    shown = wb.get(ref)
    visitor = gate.next()

    async def awaits() -> None:
        await ref

    uses: list[Callable[[], object]] = [
        lambda: wb.put(1),
        lambda: wb.get(ref),
        lambda: wb.get(pending),
        lambda: wb.wait([ref, pending]),
        lambda: wb.free(ref),
        lambda: wb.remote(len).remote([]),
        lambda: actor.call.remote(),
        lambda: wb.remote(Actor).remote(),
        lambda: wb.get_actor("nobody"),
        lambda: wb.cancel(pending),
        lambda: wb.kill(actor),
        ref.future,
        lambda: asyncio.run(awaits()),
        wb.snapshot,
        lambda: wb.register_serializer(Actor, serializer=id, deserializer=str),
    ]
    for number, use in enumerate(uses):
        assert re.match(REFUSED, in_child(use)), number
    assert re.match(REFUSED, in_child(lambda: in_child(uses[0]))), "in a fork of it"
    assert in_child(lambda: [wb.is_initialized(), int(shown[-1])]) == "[False, 99999]"
    assert "session over" in in_child(lambda: repr(pending))
    visitor.let_on("not cancelled")
    assert wb.get([pending, actor.call.remote()]) == ["not cancelled", "called"]
    assert (wb.get(ref) == shown).all()
    (driver,) = [c for c in session.snapshot().clients if c.role == "driver"]
    assert driver.pid == os.getpid()


def links() -> set[str]:
    """What this process's descriptors refer to."""
    return set(descriptors().values())


def test_a_fork_has_no_way_to_the_server(runtime: str) -> None:
    before = links()
    wb.init(workers=1).snapshot()
    ours = {link for link in links() - before if link.startswith(("socket:", "pipe:"))}
    assert ours
    assert in_child(lambda: links() & ours) == "set()"
    assert wb.get(wb.remote(len).remote("abc")) == 3


def test_handles_and_views_that_die_in_a_fork_live_on_in_its_parent(session: Engine) -> None:
    refs = [wb.put(np.full(100_000, i)) for i in range(10)]
    arrays = wb.get(refs)
    assert in_child(lambda: (refs.clear(), arrays.clear())) == "(None, None)"
    assert len(session.snapshot().objects) == 10
    assert [array[-1] for array in wb.get(refs)] == list(range(10))
    del refs[5:], arrays[5:]
    assert eventually(lambda: len(session.snapshot().objects) == 5)  # ours count, theirs don't


def test_a_program_that_is_started_inherits_nothing(session: Engine) -> None:
    wb.put(np.arange(100_000))
    listing = ["ls", "-l", "/proc/self/fd"]
    for before in (None, lambda: wb.is_initialized()):
        found = subprocess.check_output(listing, text=True, close_fds=False, preexec_fn=before)
        assert "pipe:" in found  # the one it writes to
        assert not re.search("socket:|memfd:|eventpoll|eventfd", found)
    with pytest.raises(subprocess.SubprocessError):
        subprocess.run(["true"], preexec_fn=wb.snapshot, check=True)
    assert wb.get(wb.remote(len).remote("abc")) == 3


def test_every_call_in_a_tasks_fork_is_refused(session: Engine) -> None:
    def own_session() -> Any:
        with wb.init(workers=1):
            return wb.get(wb.put("own"))

    @wb.remote
    def forks(refs: list[wb.ObjectRef]) -> list[str]:
        array = wb.get(refs[0])
        uses: list[Callable[[], object]] = [lambda: wb.get(refs[0]), refs[0].future]
        uses += [lambda: wb.remote(len).remote([]), lambda: array[-1], own_session]
        return [*map(in_child, uses), str(wb.get(refs[0])[-1])]

    *refused, in_fork, own, in_task = wb.get(forks.remote([wb.put(np.arange(100_000))]))
    assert all(re.match(REFUSED, said) for said in refused), refused
    assert (in_fork, own, in_task) == ("99999", "own", "99999")
    assert [w.state for w in session.snapshot().workers] == ["idle", "idle"]


def forks() -> tuple[bool, int]:
    """In a task: whether a child that comes back from it ends by itself, and how."""
    child = os.fork()
    if not child:
        return True, 0
    ended = ends(child)
    if not ended:
        os.kill(child, signal.SIGKILL)
    return ended, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_that_comes_back_from_a_task_ends(session: Engine) -> None:
    """Else it would write its result where its parent's next object lies."""
    assert wb.get(wb.remote(max_retries=0)(forks).remote()) == (True, 1)


class Forks:
    def call(self, act: Callable[[], Any] = int) -> Any:
        return act()


class ForksOnALoop:
    async def call(self, act: Callable[[], Any] = int) -> Any:
        return act()


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (Forks, {}),
        (ForksOnALoop, {}),
        pytest.param(Forks, {"max_concurrency": 2}, marks=pytest.mark.extended),
        pytest.param(ForksOnALoop, {"concurrency_groups": {"a": 1}}, marks=pytest.mark.extended),
    ],
)
def test_a_fork_that_returns_ends(session: Engine, cls: type, options: dict[str, Any]) -> None:
    """It makes no other call of the actor's, and keeps nobody waiting."""
    actor = wb.remote(cls).options(**options).remote()
    for _ in range(3):  # by the server, and by a line
        wb.get([actor.call.remote() for _ in range(100)])
        assert wb.get(actor.call.remote(forks)) == (True, 1)
    assert wb.get(actor.call.remote()) == 0


def test_refs_of_the_parent_work_in_a_child_that_joins(session: Engine) -> None:
    """As in the workers of a torch DataLoader: `docs/howto/train-with-torch.md`."""
    ref = wb.put(np.arange(100_000.0))

    def use() -> str:
        wb.init(session=session.session)
        ready, _ = wb.wait([ref], timeout=TIMEOUT)
        (first,) = wb.as_completed([ref])
        total = wb.get(ref, timeout=TIMEOUT).sum()
        wb.shutdown()
        return f"{ready == [ref]} {first == ref} {total}"

    assert in_child(use) == f"True True {wb.get(ref).sum()}"

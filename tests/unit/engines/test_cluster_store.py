"""A cluster session's objects over a system of a few lines: who waits in which thread."""

from __future__ import annotations

import inspect
import queue
import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.patience import TIMEOUT
from workbench.engine.queries import Query
from workbench.engines.cluster.backend import Backend, StoredValue
from workbench.engines.cluster.engine import ClusterEngine
from workbench.engines.cluster.entries import FAILED, PENDING, READY
from workbench.engines.cluster.store import ClusterStore
from workbench.errors import GetTimeoutError, ObjectLostError, SessionError
from workbench.ref import ObjectRef


class System:
    """A `Backend` in which natives are values. What is asked for comes once ``may_read``."""

    can = None
    session = "session~1"
    blocks = False
    end_reason = None

    def __init__(self) -> None:
        self.may_read = threading.Event()

    def get(self, natives: Sequence[Any], timeout: float | None) -> list[StoredValue]:
        assert self.may_read.wait(TIMEOUT)
        return list(natives)


class World:
    """An engine of one process, as far as its objects go."""

    def __init__(self) -> None:
        self.system = System()
        self.store = ClusterStore(cast(Backend, self.system))
        self.entries = self.store.entries

    def object(self, id: int, value: Any, state: str = PENDING) -> ObjectRef:
        return self.entries.new(id, self.store.packer.pack(value, None), state)[0]


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.system.may_read.set()
    world.store.opening.close()


def test_who_tells_that_a_future_s_object_is_there_does_not_wait_for_it(world: World) -> None:
    ref = world.object(7, [1, 2])
    future = world.store.future(ref)
    world.entries.settle(7, READY)  # in the thread that would bring it
    assert not future.done()
    world.system.may_read.set()
    assert future.result(TIMEOUT) == [1, 2]
    world.store.opening.finish()
    del ref
    assert world.entries.get(7) is None  # it was known as long as its handle lived


def test_futures_of_a_session_that_is_over_say_so(world: World) -> None:
    ref = world.object(7, 1)
    future = world.store.future(ref)
    world.entries.end("It is over.")
    world.store.opening.close()
    for each in (future, world.store.future(ref)):
        with pytest.raises(SessionError, match="It is over"):
            each.result(TIMEOUT)


def test_a_future_s_callback_may_wait_for_another_future(world: World) -> None:
    world.system.may_read.set()
    first, second = world.object(7, "one"), world.object(8, "two", READY)
    found = queue.SimpleQueue[str]()
    world.store.future(first).add_done_callback(
        lambda _: found.put(world.store.future(second).result(TIMEOUT))
    )
    world.entries.settle(7, READY)
    assert found.get(timeout=TIMEOUT) == "two"


def test_who_waits_for_many_hears_of_a_failure_at_once(world: World) -> None:
    refs = [world.object(id, id) for id in range(3)]
    world.entries.settle(0, READY)
    with pytest.raises(GetTimeoutError, match="2 of 3"):
        world.store.get(refs, 0.0, False)
    lost = 2, FAILED, None, ObjectLostError("gone")
    threading.Timer(0.01, world.entries.settle, lost).start()
    with pytest.raises(ObjectLostError, match="gone"):
        world.store.get(refs, TIMEOUT, False)
    assert world.store.wait(refs, 3, 0.0) == ([refs[0], refs[2]], [refs[1]])


def test_each_question_is_answered_by_what_takes_all_that_it_says() -> None:
    backend: Any = SimpleNamespace(
        session="", engine="", can=None, joined=True, blocks=False, ask=lambda *of: None
    )
    answers = ClusterEngine(backend).answers
    assert set(answers) == set(Query.__subclasses__())
    for query, answer in answers.items():
        inspect.signature(answer).bind(*query.__struct_fields__)

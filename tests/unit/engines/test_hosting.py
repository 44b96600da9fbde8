"""Heads run as our own workers run tasks: no cluster, no store; what they end with, and show."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.patience import TIMEOUT
from workbench.client.refusals import failure_of
from workbench.core.events import Output, TaskSpec
from workbench.engines.cluster.backend import (
    BEGAN,
    ENDED,
    Head,
    Message,
    StoredValue,
    TaskEnd,
    decode_head,
    encode,
)
from workbench.engines.cluster.hosting import ChannelLink, Hosting
from workbench.engines.cluster.keeper import batch_of
from workbench.engines.cluster.parcels import Packer
from workbench.errors import TaskCancelledError, TaskTimeoutError

TASK, FUNCTION = 50, 7


class World:
    """A process that serves. Functions of this module are its own: they share events with us."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.packer = Packer("session~1", 3, lambda ref: None, "here")
        self.link = ChannelLink(4, lambda batch: self.sent.extend(batch_of(batch)))
        # This process is the tests': what tasks change in it isn't put back.
        self.host = Hosting(
            self.packer, lambda ids, natives: [], self.link, lambda task: None, 4,
            state=lambda: None,
        )  # fmt: skip
        self.functions = 0

    def head(self, function: Callable[..., Any], *args: Any, **fields: Any) -> Head:
        self.functions += 1
        pack = self.packer.pack
        code = pack(function, None).header
        given = pack((args, {}), None).header if args else b""
        made = Head(
            TASK, "named", "session~1", 9, 2, FUNCTION + self.functions, code, given, **fields
        )
        return decode_head(encode(made))

    def run(self, head: Head, *deps: StoredValue) -> tuple[TaskEnd, list[Any]]:
        end, values = self.host.run(head, deps, ())
        return end, [failure_of(v.header) if v.failed else self.packer.open(1, v) for v in values]


@pytest.fixture
def world() -> World:
    return World()


def test_several_results_or_an_error_for_each(world: World) -> None:
    end, values = world.run(world.head(lambda a, b: (a + b, 2), 2, 3, returns=2))
    assert values == [5, 2]
    assert (end.task, end.how, end.worker, end.failed) == (TASK, "done", 4, (False, False))
    end, errors = world.run(world.head(lambda: (1, 2), returns=3))
    assert end.failed == (True, True, True)
    assert "num_returns=3" in str(errors[0])


def test_a_failed_argument_is_the_result(world: World) -> None:
    end, (value,) = world.host.run(world.head(lambda: 1 / 0), (), ())
    assert end.how == "failed"
    assert isinstance(failure_of(value.header), ZeroDivisionError)
    head = world.head(lambda x: x, deps=(1,))
    end, values = world.host.run(head, (value,), ())
    assert (end.how, values) == ("failed", (value,))


def test_it_is_tried_again_after_what_its_spec_names(world: World) -> None:
    inline = world.packer.inline
    spec = TaskSpec(retry_on=inline((IndexError,)))

    def fails_twice(tries: list[int] = []) -> int:  # noqa: B006 - what it keeps is the point
        tries.append(1)
        if len(tries) < 3:
            raise IndexError
        return len(tries)

    assert world.run(world.head(fails_twice, spec=spec, retries=2))[1] == [3]
    end, _ = world.run(world.head(fails_twice, spec=spec, retries=1))
    assert end.how == "failed"


LINKS: list[ChannelLink] = []
RUNNING = threading.Event()


def shows() -> None:
    (link,) = LINKS
    link.put(Output(TASK, "stdout", b"one\n"))
    link.put(Output(TASK, "stdout", b"two\n"))


def test_what_a_task_shows_is_counted_in_its_end(world: World) -> None:
    LINKS[:] = [world.link]
    end, _ = world.run(world.head(shows))
    assert end.shown == 2
    assert [(m.data, m.audience, m.origin, m.worker) for m in world.sent] == [
        (b"one\n", 9, 2, 4), (b"two\n", 9, 2, 4),
    ]  # fmt: skip


def test_a_jobs_task_says_when_it_begins_and_ends(world: World) -> None:
    end, _ = world.run(world.head(lambda: 1, spec=TaskSpec(job="cell 1"), job=TASK))
    assert [message.kind for message in world.sent] == [BEGAN, ENDED]
    assert end.shown == 0  # neither is output


def spins() -> None:
    RUNNING.set()
    while True:
        pass


def in_thread(world: World, head: Head, meanwhile: Callable[[], object]) -> Any:
    """What comes of it in a thread of its own, as an actor's calls have."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(world.run(head)))
    thread.start()
    meanwhile()
    thread.join(TIMEOUT)
    return found[0]


def test_a_person_stops_it_or_its_time_is_up(world: World) -> None:
    RUNNING.clear()

    def stop() -> None:
        assert RUNNING.wait(TIMEOUT)
        assert world.host.stop(TASK)
        assert not world.host.stop(TASK + 1)

    end, (error,) = in_thread(world, world.head(spins), stop)
    assert end.how == "stopped"
    assert isinstance(error, TaskCancelledError)
    end, (error,) = in_thread(world, world.head(spins, spec=TaskSpec(timeout=0.05)), bool)
    assert end.how == "failed"
    assert isinstance(error, TaskTimeoutError)

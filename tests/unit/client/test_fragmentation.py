"""Memory in pieces: what a store refuses for is what it holds, not what lies between."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from typing import Any

import numpy as np
import pytest

from tests.patience import THOROUGH, TIMEOUT
from tests.unit.core.peers import ABOUT
from workbench.client.arena_writer import INLINE, ArenaWriter, Claims
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import ID_BITS
from workbench.core.loop_events import Tick
from workbench.core.session import Session
from workbench.errors import StoreFullError
from workbench.memory.views import Views
from workbench.serialization import codec
from workbench.system.sizes import round_up
from workbench.system.spare_descriptors import SpareDescriptors
from workbench.wire.buffers import Parcel

CAPACITY = 4 << 20
SMALLEST, LARGEST = 17 << 10, 700 << 10
STEPS = 100_000 if THOROUGH else 2_000
STRANDED = 0.01
"""Share of the capacity that may be out of reach when an object is refused: as good as nothing."""


class Server:
    """A session's core, and stores that talk to it without a socket."""

    def __init__(self) -> None:
        self.session = Session("test", 1, CAPACITY)
        self._stores: dict[int, ArenaWriter] = {}
        self._answers: dict[int, Any] = {}
        self._requests = count(1)
        self.segments: list[int] = []  # descriptors
        self.tell(0, Tick())

    def tell(self, number: int, *events: ev.Event) -> None:
        for instruction in self.session.handle([(number, event) for event in events], 0.0):
            if isinstance(instruction, do.Send):
                self._hear(self._stores[instruction.to], instruction.message)

    def _hear(self, store: ArenaWriter, message: do.Message) -> None:
        match message:
            case do.Grown() as answer:
                store.granted(answer)
                self._answers[answer.request] = answer
            case do.Answer() as answer:
                self._answers[answer.request] = answer
            case do.Release():
                store.released(message)
            case do.Trim():
                store.trim(message)

    @contextmanager
    def store(
        self, number: int, opened: Callable[[], object] = lambda: None
    ) -> Iterator[ArenaWriter]:
        """One client's. ``opened`` is called while it sends a segment."""

        def post(message: Any) -> None:
            if isinstance(message, Parcel):
                self.segments.append(os.dup(message.fds[0]))
                message = message.message
                opened()
            self.tell(number, message)

        def ask(question: Callable[[int], ev.Event]) -> Any:
            request = next(self._requests)
            self.tell(number, question(request))
            return self._answers.pop(request)

        ids = count((number << ID_BITS) + 1)
        store = ArenaWriter(post, ask, Views(lambda _: None), ids.__next__, SpareDescriptors(0), 1)
        self._stores[number] = store
        self.tell(number, ev.Hello(1, number))
        with closing(store):
            yield store


def test_memory_is_given_back_while_the_first_is_announced() -> None:
    """Sending may have to wait for a thread that does just that."""

    def give_back() -> None:
        other = threading.Thread(target=store.withdraw, args=([(INLINE, 0)],))
        other.start()
        other.join(TIMEOUT)
        waits.append(other.is_alive())

    server, waits = Server(), list[bool]()
    with server.store(1, give_back) as store:
        store.write(codec.serialize(np.zeros(LARGEST, np.uint8), {}), (), CAPACITY, [])
    assert waits == [False]
    os.close(*server.segments)


@pytest.mark.thorough
def test_what_is_refused_has_no_room() -> None:
    """Mixed sizes come and go at random, in three processes, always at the edge of the capacity."""
    chance = random.Random(7)
    server = Server()
    budget = server.session.state.budget
    ids = count(1000)
    live: list[tuple[int, int]] = []  # (object, client)
    data = np.zeros(LARGEST, np.uint8)
    refused = 0
    with ExitStack() as stack:
        stores = {number: stack.enter_context(server.store(number)) for number in (1, 2, 3)}
        for _ in range(STEPS):
            number = chance.choice(list(stores))
            size = int(SMALLEST * (LARGEST / SMALLEST) ** chance.random())
            claims: Claims = []
            try:
                taken_apart = codec.serialize(data[:size], {})
                value, *_ = stores[number].write(taken_apart, (), CAPACITY, claims)
            except StoreFullError:
                refused += 1
                free = CAPACITY - budget.live
                assert free < round_up(size) + STRANDED * CAPACITY, "there was room"
                for _ in range(chance.randint(1, 8)):
                    id, holder = live.pop(chance.randrange(len(live)))
                    server.tell(holder, ev.Drop((id,)))
            else:
                id = (number << ID_BITS) + next(ids)
                server.tell(number, ev.Sealed(id, value, ABOUT))
                live.append((id, number))
            assert budget.granted <= CAPACITY
        assert len(server.segments) == len(stores)
        held = sum(os.fstat(fd).st_blocks * 512 for fd in server.segments)
        assert held <= budget.granted
        assert refused > STEPS / 20, "never under pressure"
    for fd in server.segments:
        os.close(fd)

"""The order of what a process says to a session's supervisor. Pure but for its loop's clock.

Ray may begin an async actor's calls in another order than they were made in (of 4 000 pairs made
right after each other, 29 changed places), and of a call that can't be delivered it says nothing.
"""

from __future__ import annotations

import asyncio
import random
import threading
from typing import NamedTuple

LOST = 1.0
"""Seconds after which what hasn't come is taken for lost: a call that is only overtaken by others
comes within milliseconds. Half of what an end waits for its output (`outputs.PATIENCE`), so that
one lost message doesn't keep the others from their cell."""


class SequenceNumber(NamedTuple):
    """Of what a process says; of what it asks, that of the last thing it has said."""

    sender: int
    number: int


class Sender:
    """One process: counts what it says. Any thread; of one thread's calls the order is kept."""

    def __init__(self) -> None:
        self._sender = random.getrandbits(63)
        self._count = 0
        self._lock = threading.RLock()  # a finalizer may say something at any moment

    def next(self) -> SequenceNumber:
        """Goes with a call that says something."""
        with self._lock:
            self._count += 1
            return SequenceNumber(self._sender, self._count)

    def last(self) -> SequenceNumber:
        """Goes with a call that asks: what was said before it counts in its answer."""
        return SequenceNumber(self._sender, self._count)


class Turns:
    """The supervisor's side. All on one loop."""

    def __init__(self) -> None:
        self._heard: dict[int, int] = {}  # by sender
        self._waiting: dict[int, list[tuple[int, asyncio.Future[None]]]] = {}

    async def turn(self, said: SequenceNumber) -> None:
        """Wait for what its sender said before. `heard` is called once it has been dealt with."""
        await self.after(said._replace(number=said.number - 1))

    async def after(self, said: SequenceNumber) -> None:
        """Wait until all of this is heard, or taken for lost."""
        if self._heard.get(said.sender, 0) >= said.number:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(said.sender, []).append((said.number, future))
        try:
            async with asyncio.timeout(LOST):
                await future
        except TimeoutError:
            self.heard(said)

    def heard(self, said: SequenceNumber) -> None:
        """This was dealt with."""
        count = self._heard[said.sender] = max(self._heard.get(said.sender, 0), said.number)
        waiting = self._waiting.pop(said.sender, [])
        if later := [each for each in waiting if each[0] > count]:
            self._waiting[said.sender] = later
        for number, future in waiting:
            if number <= count and not future.done():
                future.set_result(None)

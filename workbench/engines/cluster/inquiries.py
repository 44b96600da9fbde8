"""Inquiries: what one process of a session on a cluster asks the others, and their answers.

Part of the `keeper`. Pure: questions and answers are opaque.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from workbench.engines.cluster.backend import Message

ASKED = "asked"
"""Kind of `Message` of a question: its data, nothing to ask which tasks run; ``task`` is the
question's number."""

MOST = 100
"""Questions that are remembered: who asks takes the answers soon, or has gone."""


class Inquiries:
    """See the module. ``send`` takes a driver, and what is for it."""

    def __init__(self, send: Callable[[int, Message], object]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._answers: dict[int, dict[int, bytes]] = {}

    def inquire(self, question: bytes, drivers: list[int]) -> int:
        """Ask these; returns by which number the answers are known."""
        number = next(self._numbers)
        self._answers[number] = {}
        while len(self._answers) > MOST:
            del self._answers[next(iter(self._answers))]
        for driver in drivers:
            self._send(driver, Message(number, ASKED, question, 0, driver))
        return number

    def answered(self, number: int, driver: int, answer: bytes) -> None:
        """What that one says."""
        if number in self._answers:
            self._answers[number][driver] = answer

    def answers(self, number: int, last: bool = False) -> dict[int, bytes]:
        """Those that have come, by driver. ``last``: no more are wanted."""
        return self._answers.pop(number, {}) if last else dict(self._answers.get(number, {}))

"""Who only wants to see what a thing is waits for a moment, and who acts on it until it's known."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from workbench.client.connection import Connection
from workbench.client.requests import Requests
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.descriptions import ObjectDescription

FOUND = cast(ObjectDescription, "what it is")


class Busy:
    """A connection whose server answers to those alone who have that much time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked: list[ev.Ask] = []
        self.requests: Requests | None = None

    def check_open(self) -> None:
        """It is."""

    def post(self, message: ev.Ask) -> None:
        self._asked.append(message)

    def wait_for(self, done: Callable[[], object], timeout: float | None = None) -> bool:
        if timeout is not None and timeout < self._seconds:
            return False
        assert self.requests is not None
        for each in self._asked:
            self.requests.answer(each.request, do.Answer(each.request, description=FOUND))
        return bool(done())


@pytest.mark.parametrize(
    ("glance", "patient", "seen"),
    [(0.0, False, None), (59.0, False, None), (60.0, False, FOUND), (0.0, True, FOUND)],
)
def test_a_glance_ends_without_an_answer_unless_who_asks_is_patient(
    glance: float, patient: bool, seen: ObjectDescription | None
) -> None:
    connection = Busy(60.0)
    connection.requests = Requests(cast(Connection, connection), glance=glance)
    assert connection.requests.describe(7, patient=patient) == seen

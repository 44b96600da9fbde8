"""Who only wants to see what a thing is waits for a moment, and who acts on it until it's known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

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


def requests(seconds: float, **glance: Any) -> Requests:
    connection = Busy(seconds)
    connection.requests = Requests(cast(Connection, connection), **glance)
    return connection.requests


@pytest.mark.parametrize("glance", [0.0, 59.0])
def test_a_glance_ends_without_an_answer(glance: float) -> None:
    assert requests(60.0, glance=glance).describe(7) is None


def test_a_longer_glance_sees_it() -> None:
    assert requests(60.0, glance=60.0).describe(7) == FOUND


def test_who_acts_on_it_waits_until_it_is_known() -> None:
    assert requests(60.0, glance=0.0).describe(7, patient=True) == FOUND

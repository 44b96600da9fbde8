"""The line that tells how far a long put or get is: it never outlives its block."""

from __future__ import annotations

import threading
from typing import cast

from tests.patience import TIMEOUT
from workbench.ipython.output import Router
from workbench.ipython.progress import progress


class Page:
    """As much of a router as the line needs."""

    is_terminal = False

    def __init__(self) -> None:
        self.texts: list[str] = []

    def origin(self) -> int:
        return 1

    def display_id(self, what: str) -> str:
        return what

    def display(self, origin: int, name: str, bundle: dict[str, str], is_new: bool) -> None:
        self.texts.append(bundle["text/plain"])


def test_a_look_that_is_late_shows_nothing() -> None:
    """It is asking the session when the block ends."""
    asks, may_answer = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def text_at(seconds: float) -> str:
        threads.append(threading.current_thread())
        asks.set()
        may_answer.wait(TIMEOUT)
        return "busy"

    page = Page()
    with progress(cast(Router, page), text_at, after=0.0):
        assert asks.wait(TIMEOUT)
    may_answer.set()
    threads[0].join(TIMEOUT)
    assert page.texts == []

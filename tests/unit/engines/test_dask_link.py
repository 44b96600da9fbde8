"""Messages to Dask's scheduler stand in order with what is submitted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from workbench.engines.dask.link import SchedulerLink


class Client:
    """As Dask's hands its messages to its event loop."""

    def __init__(self) -> None:
        self.loop = self
        self.due: deque[tuple[Callable[..., Any], Any]] = deque()
        self.sent: list[str] = []

    def add_callback(self, call: Callable[..., Any], message: Any) -> None:
        self.due.append((call, message))

    def _send_to_scheduler(self, message: dict[str, Any]) -> None:
        self.add_callback(lambda message: self.sent.append(message["op"]), message)

    def submit(self) -> None:
        self._send_to_scheduler({"op": "update-graph"})


def test_what_is_said_before_a_task_is_submitted_comes_before_it() -> None:
    """A background cell is announced so: of one that nobody knows, no output is kept."""
    client = Client()
    link = SchedulerLink(client, "s", lambda: None)
    link.tell("job", 1)
    client.submit()
    link.send("contains", key="k", inside=[])
    while client.due:
        call, message = client.due.popleft()
        call(message)
    assert client.sent == ["workbench_tell", "update-graph", "workbench_contains"]


def test_nothing_is_raised_when_nobody_hears() -> None:
    client: Any = Client()
    client._send_to_scheduler = None
    SchedulerLink(client, "s", lambda: None).tell("job", 1)

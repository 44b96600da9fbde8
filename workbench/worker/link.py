"""The `Link` of a local worker: its client's connection."""

from __future__ import annotations

from workbench.client.connection import Connection
from workbench.core import instructions as do
from workbench.task_context import TaskContext


class WorkerLink:
    def __init__(self, connection: Connection, work: TaskContext[do.Run]) -> None:
        self.work = work
        self.put = connection.put
        self._connection = connection

    def flush(self) -> None:
        if not self._connection.flush():
            self._connection.wake()  # its thread sends the rest

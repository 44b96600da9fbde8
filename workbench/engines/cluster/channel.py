"""The channel: how what tasks show leaves a cluster's process. A `host.link.Link`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from workbench.core.events import Output
from workbench.engines.cluster.backend import Head, Message, encode
from workbench.host.task_context import TaskContext


class ChannelLink:
    """A `host.link.Link` over a cluster's channel: ``send`` takes a batch, and never waits;
    ``settle`` returns when all that was sent is before whatever this process says next."""

    def __init__(
        self, worker: int, send: Callable[[bytes], object], settle: Callable[[], object] = bool
    ) -> None:
        self.settle = settle
        self.work = TaskContext[Head]()
        self._worker = worker
        self._send = send
        self._queue: deque[Message] = deque()
        self._shown: dict[int, int] = {}
        self._lock = threading.RLock()

    def put(self, output: Output, /) -> None:
        head = self.work.find(output.task)
        if head is not None:
            self._shown[output.task] = self._shown.get(output.task, 0) + 1
            self.say(head, output.kind, output.data)

    def say(self, head: Head, kind: str, data: bytes) -> None:
        self._queue.append(
            Message(head.task, kind, data, head.origin, head.audience, head.job, self._worker)
        )

    def shown(self, task: int) -> int:
        """How many messages it has made, now that it is over."""
        return self._shown.pop(task, 0)

    def flush(self) -> None:
        if not self._queue:
            return
        with self._lock:  # or what one thread takes out first could be sent last
            batch = [self._queue.popleft() for _ in range(len(self._queue))]
            if batch:
                self._send(encode(batch))

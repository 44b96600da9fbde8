"""Threads that copy objects between segments, to disk and back. They decide nothing.

One thread copies, and another computes the digest meanwhile. The loop's thread queues copies, with
duplicated descriptors, so that a segment may be discarded meanwhile; when `fileno` is readable, it
reads which copies are done.
"""

from __future__ import annotations

import os
import queue
import threading
from concurrent.futures import Future

from workbench.core.instructions import Copy
from workbench.core.loop_events import Copied
from workbench.memory import spill

WORTH_A_THREAD = 4 << 20
"""Bytes above which a second thread computes the digest during the copy."""


class Mover:
    """See the module. The first thread starts with the first copy."""

    def __init__(self) -> None:
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # (copy, descriptor to read, descriptor to write); None: end.
        self._copies: queue.SimpleQueue[tuple[Copy, int, int] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Copied] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = False

    def fileno(self) -> int:
        """Readable when copies are done."""
        return self._wake

    def copy(self, instruction: Copy, source: int, target: int) -> None:
        """Queue a copy; the descriptors remain the caller's."""
        source = os.dup(source)
        try:
            target = os.dup(target)
        except OSError:
            os.close(source)
            raise
        self._copies.put((instruction, source, target))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="workbench-mover", daemon=True)
            self._thread.start()

    def read(self) -> list[Copied]:
        os.eventfd_read(self._wake)
        events = []
        while not self._done.empty():
            events.append(self._done.get())
        return events

    def _run(self) -> None:
        while (queued := self._copies.get()) is not None:
            copy, source, target = queued
            if not self._closing:
                self._done.put(_copied(copy, source, target))
                os.eventfd_write(self._wake, 1)
            os.close(source)
            os.close(target)

    def close(self) -> None:
        """End the thread after its current copy."""
        self._closing = True
        if self._thread is not None:
            self._copies.put(None)
            self._thread.join(1)  # a hanging disk must not keep the session


def _copied(copy: Copy, source: int, target: int) -> Copied:
    (_, start), (_, offset) = copy.source, copy.target
    digest = Future[int]()

    def compute() -> None:
        try:
            digest.set_result(spill.digest(source, start, copy.length))
        except Exception as error:
            digest.set_exception(error)

    helper = None
    if copy.length >= WORTH_A_THREAD:  # a daemon: a hanging disk must not keep the process
        helper = threading.Thread(target=compute, name="workbench-digest", daemon=True)
        helper.start()
    try:
        if copy.disk:
            spill.check_space(target, copy.length)
        spill.copy(source, start, target, offset, copy.length)
        if helper is None:
            compute()
        return Copied(copy.object, digest.result())
    except OSError as error:
        return Copied(copy.object, error=error.strerror or str(error))
    except Exception as error:  # a bug of ours: the move must still end
        return Copied(copy.object, error=f"{type(error).__name__}: {error}")
    finally:
        if helper is not None:
            helper.join()  # then it no longer uses the descriptor

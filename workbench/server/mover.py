"""The threads that copy objects between segments, to disk and back. They decide nothing.

One copies, and another takes the digest meanwhile. The loop's thread hands over jobs with
descriptors of their own, so that a segment may be discarded meanwhile; what has become of them it
reads when `fileno` is readable.
"""

from __future__ import annotations

import os
import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.core.events import Copied
from workbench.core.instructions import Copy
from workbench.memory import spill

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

WORTH_A_THREAD = 4 << 20
"""Bytes from which on the digest is taken beside the copy, not after it."""


@dataclass(frozen=True, slots=True)
class _Job:
    copy: Copy
    source: int
    target: int


class Mover:
    """See the module. Its threads start with the first job."""

    def __init__(self) -> None:
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Copied] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._digests: ThreadPoolExecutor | None = None
        self._closing = False

    def fileno(self) -> int:
        """Readable when copies are done."""
        return self._wake

    def copy(self, instruction: Copy, source: int, target: int) -> None:
        """Have it done; the descriptors stay the caller's."""
        self._jobs.put(_Job(instruction, os.dup(source), os.dup(target)))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="workbench-mover", daemon=True)
            self._thread.start()

    def read(self) -> list[Copied]:
        """What has been done since."""
        os.eventfd_read(self._wake)
        events = []
        while not self._done.empty():
            events.append(self._done.get())
        return events

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self._closing:
                self._done.put(self._copied(job))
                os.eventfd_write(self._wake, 1)
            os.close(job.source)
            os.close(job.target)

    def _copied(self, job: _Job) -> Copied:
        copy = job.copy
        (_, start), (_, offset) = copy.source, copy.target
        meanwhile = None
        if copy.length >= WORTH_A_THREAD:
            meanwhile = self._helper().submit(spill.digest, job.source, start, copy.length)
        try:
            if copy.disk:
                spill.check_space(job.target, copy.length)
            spill.copy(job.source, start, job.target, offset, copy.length)
            if meanwhile is None:
                return Copied(copy.object, spill.digest(job.source, start, copy.length))
            return Copied(copy.object, meanwhile.result())
        except OSError as error:
            return Copied(copy.object, error=error.strerror or str(error))
        finally:
            if meanwhile is not None:
                meanwhile.exception()  # it is done with the descriptor

    def _helper(self) -> ThreadPoolExecutor:
        """Started, and imported, by who needs it: most sessions never do."""
        from concurrent.futures import ThreadPoolExecutor

        if self._digests is None:
            self._digests = ThreadPoolExecutor(1, "workbench-digest")
        return self._digests

    def close(self) -> None:
        """End the thread, after the copy it makes."""
        self._closing = True
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(1)  # a disk that hangs must not keep the session
        if self._digests is not None:
            self._digests.shutdown(wait=False)

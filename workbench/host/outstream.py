"""Where all that a worker's tasks show comes together, and leaves: prints, displays, C code's text.

Whoever shows something appends it to a queue: one step, which an interrupt can't tear. A thread
of its own sends it, at most `1 / PAUSE` times a second; it sleeps while nothing is shown. The end
of a task sends what the task has left.
"""

from __future__ import annotations

import ctypes
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from workbench.client.ki_protection import ki_protection
from workbench.core import events as ev
from workbench.host.fd_capture import FdCapture
from workbench.host.room import WorkerRoom
from workbench.host.throttle import TEXT, Shown, Throttle

if TYPE_CHECKING:
    from workbench.client.connection import Connection
    from workbench.client.task_context import TaskContext

PAUSE = 0.05
"""Seconds from one sending to the next. What comes after a pause is sent at once."""

MOST_QUEUED = 256_000
"""Characters in the queue. Who shows more takes them out of it himself."""

_SEPARATORS = (" ", "\n")
"""What `print` writes beside its arguments: it isn't asked each time what C code has written."""

_IN_MODIFY = 2
_IOLBF = 1

_clock = time.perf_counter


class OutStream:
    """See the module. Any thread may call its methods.

    Parameters
    ----------
    connection : Connection
        Takes it to the server.
    work : TaskContext
        The worker's tasks.
    spools : tuple of Spool
        Where descriptors 1 and 2 lead.
    mark : callable(position)
        Told where in the second one a task ended: what comes after it is of the next.
    """

    def __init__(
        self,
        connection: Connection,
        work: TaskContext,
        spools: tuple[FdCapture, FdCapture],
        mark: Callable[[int], None],
    ) -> None:
        self._connection = connection
        self._work = work
        self._spools = spools
        self._mark = mark
        self._queue: deque[tuple[int, str, str | bytes, str]] = deque()
        self._queued = 0  # characters, about
        self._line_over = True  # what was shown last ends a line
        self._flows: dict[int, Throttle] = {}  # of tasks that have shown something
        self._room = WorkerRoom(_clock())
        self._lock = threading.RLock()  # a signal's handler may come, and print, once we have it
        self._busy = False
        self._sent_at = 0.0
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._watch = _watch(spools)
        if self._watch >= 0:
            self._poll.register(self._watch, select.POLLIN)
        self._flush_c = _line_buffered()
        self._awake = False
        self._abandoned = False
        self._thread = threading.Thread(target=self._serve, name="workbench-output", daemon=True)
        self._thread.start()

    def put(self, task: int, kind: str, data: str | bytes, key: str = "") -> None:
        """A running task shows something. See `Throttle.add`."""
        if data not in _SEPARATORS and self._is_spooled():
            self._pass_on()  # C code, or a program, wrote before this
        self._queue.append((task, kind, data, key))
        self._queued += len(data)
        self._line_over = kind not in TEXT or data[-1:] == "\n"
        if self._queued > MOST_QUEUED:
            self._pass_on()
        elif self._line_over and _clock() - self._sent_at > PAUSE:
            self._pass_on(send=True)  # here and now: the next line may be the one that crashes
        if not self._awake and (self._queue or self._is_held()):
            with ki_protection():  # with only one of the two done, it would sleep on
                self._awake = True
                os.eventfd_write(self._wake, 1)

    def finish(self, task: int) -> None:
        """Send all that a task has left to be sent. To be called before its Done is queued."""
        self._flush_c()
        # In this order: what the thread has just taken is not yet in a flow while it is busy.
        if self._queue or self._is_spooled() or self._busy or self._flows:
            with self._alone() as mine:
                if mine:
                    self._fill(final=True)
                    flow = self._flows.pop(task, None)
                    if flow is not None:
                        self._put(task, flow.end(_clock()))
                    self._mark(self._spools[1].position)

    def abandon(self) -> None:
        """In a forked child, which has no part in this: let go of it all. Idempotent."""
        if self._abandoned:
            return
        self._abandoned = True
        for spool in self._spools:
            spool.close()
        os.close(self._wake)
        if self._watch >= 0:
            os.close(self._watch)

    # -- one thread at a time ---------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """With the lock, and no interrupt; False in a finalizer that came while we are at it."""
        with ki_protection(), self._lock:
            if self._busy:
                yield False
                return
            self._busy = True
            try:
                yield True
            finally:
                self._busy = False

    def _pass_on(self, send: bool = False) -> None:
        """Empty the queue into the flows; send what may be sent, if asked to."""
        with self._alone() as mine:
            if mine:
                self._fill()
                if send:
                    for task, flow in list(self._flows.items()):
                        self._put(task, flow.take(_clock()))
                        if not self._work.is_active(task):  # a thread of it was late: see `_add`
                            del self._flows[task]
                    if self._line_over:  # else it is to be sent as soon as it is
                        self._sent_at = _clock()
                    if not self._connection.flush():
                        self._connection.wake()

    def _fill(self, final: bool = False) -> None:
        """Empty the queue, and then the spools, into the flows."""
        queue, texts = self._queue, list[str]()
        sizes = [spool.size() for spool in self._spools]  # first: what is in the queue is older
        self._queued = 0
        while queue:
            task, kind, data, key = queue.popleft()
            if isinstance(data, bytes):
                self._add(task, kind, data, key)
                continue
            texts.append(data)
            if not queue or queue[0][:2] != (task, kind) or len(texts) > 1000:
                self._add(task, kind, "".join(texts).encode("utf-8", "backslashreplace"))
                texts.clear()
        for kind, spool, size in zip(TEXT, self._spools, sizes, strict=True):
            if size != spool.position:
                skipped, data = spool.read(size, final)
                run = self._work.latest
                if run is None:
                    self._mark(self._spools[1].position)  # of no task: nobody would look for it
                elif data or skipped:
                    self._add(run.task, kind, data, skipped=skipped)

    def _add(self, task: int, kind: str, data: bytes, key: str = "", skipped: int = 0) -> None:
        flow = self._flows.get(task)
        if flow is None:
            if not self._work.is_active(task):
                return  # a thread of it was late: its Done is out
            flow = self._flows[task] = Throttle(self._room, _clock())
        if skipped:
            flow.skip(kind, skipped)
        flow.add(kind, data, key)
        if flow.is_full:
            self._put(task, flow.take(_clock()))

    def _put(self, task: int, shown: list[Shown]) -> None:
        for kind, data in shown:
            self._connection.put(ev.Output(task, kind, data))
            self._sent_at = _clock()

    # -- the thread -------------------------------------------------------------------------------

    def _serve(self) -> None:
        took = 0.0  # when it last looked: a line that isn't over then has so long to be
        while True:
            self._awake = False
            if not self._queue:  # who adds to it from here on wakes us
                self._poll.poll(PAUSE * 1000 if self._is_held() else None)
            self._awake = True
            # Tasks' threads send too.
            while (left := max(self._sent_at, took) + PAUSE - _clock()) > 0:
                time.sleep(left)
            self._quiet()
            self._pass_on(send=True)
            took = _clock()

    def _quiet(self) -> None:
        """Read what woke us: nothing of it tells more than that there is something."""
        for fd in (self._wake, self._watch):
            try:
                os.read(fd, 4096)
            except OSError:  # it wasn't that one
                pass

    def _is_held(self) -> bool:
        """Whether a flow waits for time to pass."""
        return any(list(self._flows.values()))

    def _is_spooled(self) -> bool:
        one, two = self._spools
        return one.has_news() or two.has_news()


def _watch(spools: tuple[FdCapture, FdCapture]) -> int:
    """A descriptor that can be read when somebody has written to a spool; else -1.

    Without inotify, or with none left, what C code writes is shown when its task ends.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "inotify_init1"):
        return -1
    fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd >= 0:
        for spool in spools:
            libc.inotify_add_watch(fd, spool.path.encode(), _IN_MODIFY)
    return fd


def _line_buffered() -> Callable[[], object]:
    """Have C's `stdout` written at the end of each line. Returns what writes the rest.

    That one stream alone: flushing all waits for whoever is reading from one of them.
    """
    libc = ctypes.CDLL(None)
    try:
        stdout = ctypes.c_void_p.in_dll(libc, "stdout")
    except ValueError:  # a C library that calls it something else
        return lambda: None
    libc.setvbuf(stdout, None, _IOLBF, ctypes.c_size_t(0))
    flush = libc.fflush
    return lambda: flush(stdout)

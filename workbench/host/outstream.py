"""All that tasks show, on its way out: prints, displays, what C code and programs write.

Whoever shows something appends it to a queue: one step, which an interrupt can't tear. A thread
sends what is queued, at most `1 / PAUSE` times a second; it sleeps while nothing is shown. At the
end of a task, what is left of its output is sent.
"""

from __future__ import annotations

import ctypes
import io
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workbench.core.events import Output
from workbench.core.logs import TEXT
from workbench.format import human_bytes
from workbench.host.fd_capture import FdCapture
from workbench.host.link import Link
from workbench.host.throttle import Shown, Throttle, process_room
from workbench.host.unsent import Mark, Unsent
from workbench.system.ki_protection import ki_protection

PAUSE = 0.05  # seconds from one sending to the next. What comes after a pause is sent at once
MOST_QUEUED = 256_000  # characters in the queue. Who shows more takes them out of it himself
MOST_SHOWN = 32 << 20  # bytes a task may show at once: a message has to take it
MOST_PIECES = 1000  # of a line that isn't over
PIECE = 1 << 17  # characters of one write that are queued together

_SEPARATORS = (" ", "\n")
"""What `print` writes beside its arguments: no look at the captures before these."""

_IN_MODIFY = 2
_IOLBF = 1

_clock = time.perf_counter


class OutStream(io.TextIOBase):
    """A worker's `sys.stdout` or `sys.stderr`: shows what is written as the running task's output.

    Any thread may write: see `TaskContext` for whose that is. What belongs to no task goes nowhere
    a person would look for it, so it is dropped. ``fd`` is for those who want one: what they write
    is shown too.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, kind: str, fd: int, queue: OutputQueue) -> None:
        self.kind = kind
        self._work = queue.work
        self._put = queue.put
        self._keep = queue.keep
        self._sendings = queue.sendings
        self.lock = queue.lock
        queue.streams.append(self)
        # Pieces of the line that isn't over, each with how many sendings there had been.
        self._line: list[tuple[int, str]] = []
        self._forked: io.TextIOWrapper | None = None
        self.buffer = io.FileIO(fd, "w", closefd=False)
        """For those who write bytes."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self.buffer.fileno()

    def write(self, text: str) -> int:
        """Show it, together with what comes in the next few milliseconds."""
        if not isinstance(text, str):
            raise TypeError(f"write() takes a str, not {type(text).__name__}")
        if self._forked is not None:
            return self._forked.write(text)
        run = self._work.current
        if run is not None and text:
            with self.lock:  # who sends finds a piece in its line and in the queue, or in neither
                self._queue_piece(run.task, text)
        return len(text)

    def _queue_piece(self, task: int, text: str) -> None:
        # Before it is queued: then it may be sent, and forgotten, at once.
        self._line.append((self._sendings(), text))
        if text[-1:] == "\n" or len(self._line) > MOST_PIECES:
            line, self._line = self._line, []
            sent = self._sendings()  # what came before the last of them is out
            rest = "".join([piece for number, piece in line if number == sent])
            self._keep(task, self.kind, rest)
        for start in range(0, len(text), PIECE):
            self._put(task, self.kind, text[start : start + PIECE])

    def begun(self, sendings: int) -> str:
        """Of the line that isn't over, what was written after so many sendings."""
        return "".join([piece for number, piece in list(self._line) if number == sendings])

    def flush(self) -> None:
        if self._forked is not None:
            self._forked.flush()

    def forked(self) -> None:
        """In a forked child: its parent's task isn't its own, but what it writes is shown there."""
        if self._forked is None:
            self._forked = open(  # noqa: SIM115 - for as long as the process lives
                self.fileno(), "w", 1, self.encoding, self.errors, closefd=False
            )


class OutputQueue:
    """See the module. Any thread may call its methods.

    Descriptors 1 and 2 lead to the ``captures``. ``mark`` is told the position in the second one
    at which a task ended: what comes after it is of the next. ``unsent`` keeps what was shown and
    isn't sent, for who sees this process die.
    """

    def __init__(
        self,
        link: Link,
        captures: tuple[FdCapture, FdCapture],
        mark: Callable[[int], None],
        unsent: Unsent | None,
    ) -> None:
        self.work = link.work
        self.streams: list[OutStream] = []
        self._link = link
        self._captures = captures
        self._mark = mark
        self._unsent = unsent
        if unsent is not None:
            unsent.open()
        self._queue: deque[tuple[int, str, str | bytes, str]] = deque()
        self._queued = 0  # characters, about
        self._line_over = True  # what was shown last ends a line
        self._begun: dict[str, bytes] = {}  # lines that C code, or a program, hasn't ended yet
        self._throttles: dict[int, Throttle] = {}  # of tasks that have shown something
        self._room = process_room(_clock())
        self.lock = threading.RLock()
        """Of who shows or sends. A signal's handler may come, and print, once we have it."""
        self._busy = False
        self._sent_at = 0.0
        self._sendings = 0
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._watch = _watch(captures)
        if self._watch >= 0:
            self._poll.register(self._watch, select.POLLIN)
        self._flush_c = _line_buffered()
        self._awake = False
        self._abandoned = False
        self._thread = threading.Thread(target=self._serve, name="workbench-output", daemon=True)
        self._thread.start()

    def show(self, kind: str, data: bytes, key: str = "") -> None:
        """The running task displays something; between tasks it is dropped.

        What is too large for a message is replaced by a note. Of updates with the same ``key``, a
        later one replaces one that waits.
        """
        run = self.work.current
        if run is None:
            return
        if len(data) > MOST_SHOWN:
            size, most = human_bytes(len(data)), human_bytes(MOST_SHOWN)
            kind, data = "stderr", f"A {kind} of {size} was left out: {most} at most.\n".encode()
        with self.lock:
            if self._unsent is not None:
                self._unsent.add(run.task, kind, data)
            self.put(run.task, kind, data, key)

    def keep(self, task: int, kind: str, text: str) -> None:
        """A line is about to be put: have it told even if this process ends before it is sent."""
        if self._unsent is not None:
            self._unsent.add(task, kind, text.encode("utf-8", "backslashreplace"))

    def sendings(self) -> int:
        """How often what was queued has been taken to be sent."""
        return self._sendings

    def put(self, task: int, kind: str, data: str | bytes, key: str = "") -> None:
        """A running task shows something. See `Throttle.add`."""
        if data not in _SEPARATORS and (self._begun or self._is_captured()):
            self._pass_on(whole=True)  # C code, or a program, wrote before this
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
        """Send all that a task has left to be sent. To be called before its Done is queued.

        A forked child that comes back from the task ends here: what follows is its parent's."""
        if self._abandoned:
            os._exit(1)
        self._flush_c()
        # In this order: what the thread has just taken is not yet in a throttle while it is busy.
        if self._queue or self._is_captured() or self._begun or self._busy or self._throttles:
            with self._alone() as mine:
                if mine:
                    mark = self._begin_sending()
                    self._fill(final=True)
                    throttle = self._throttles.pop(task, None)
                    if throttle is not None:
                        self._put(task, throttle.end(_clock()))
                    self._sends(mark)
                    self._mark(self._captures[1].position)

    def abandon(self) -> None:
        """In a forked child, which has no part in this: let go of it all. Idempotent."""
        if self._abandoned:
            return
        self._abandoned = True
        self.lock = threading.RLock()  # another thread may have had it
        for capture in self._captures:
            capture.close()
        os.close(self._wake)
        if self._watch >= 0:
            os.close(self._watch)
        if self._unsent is not None:
            self._unsent.close()
            self._unsent = None

    # -- one thread at a time ---------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """With the lock, and no interrupt; False in a finalizer that came while we are at it."""
        with ki_protection(), self.lock:
            if self._busy:
                yield False
                return
            self._busy = True
            try:
                yield True
            finally:
                self._busy = False

    def _pass_on(self, send: bool = False, whole: bool = False) -> None:
        """Empty the queue into the throttles; send what may be sent, if asked to."""
        with self._alone() as mine:
            if mine:
                mark = self._begin_sending() if send else None
                self._fill(whole=whole)
                if send:
                    for task, throttle in list(self._throttles.items()):
                        self._put(task, throttle.take(_clock()))
                        if not self.work.is_active(task):  # a thread of it was late: see `_add`
                            del self._throttles[task]
                    if self._line_over:  # else it is to be sent as soon as it is
                        self._sent_at = _clock()
                    self._sends(mark)  # first: who sees it may kill us at once
                    self._link.flush()
                    if self._unsent is not None:
                        self._unsent.tidy()

    def _begin_sending(self) -> Mark | None:
        """To be called before the queue is emptied: what is shown from here on isn't in it."""
        self._sendings += 1
        if self._unsent is None:
            return None
        run = self.work.latest
        if run is not None:
            for stream in self.streams:
                # When its line ends it passes for sent, and we may end before it is.
                if begun := stream.begun(self._sendings - 1):
                    self.keep(run.task, stream.kind, begun)
        return self._unsent.mark()

    def _sends(self, mark: Mark | None) -> None:
        """What was kept until then goes out; what a throttle holds back, and lines begun, don't."""
        if self._unsent is not None and mark is not None:
            held = [
                (task, kind, data)
                for task, throttle in list(self._throttles.items())
                for kind, data in throttle.waiting()
            ]
            run = self.work.latest
            if run is not None:
                held += ((run.task, kind, data) for kind, data in self._begun.items())
            self._unsent.sends(mark, held)

    def _fill(self, final: bool = False, whole: bool = False) -> None:
        """Empty the queue, and then the captures, into the throttles.

        A line that C code or a program has begun stays until the next look, unless the ``whole`` is
        asked for: nobody knows which of the two was written first, so neither shall come amid a
        line of the other.
        """
        queue, texts = self._queue, list[str]()
        # First: what is in the queue is older.
        sizes = [capture.size() for capture in self._captures]
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
        late: list[tuple[int, str, bytes]] = []
        for kind, capture, size in zip(TEXT, self._captures, sizes, strict=True):
            first, skipped, data = b"", 0, b""
            if size != capture.position:
                first, skipped, data = capture.read(size, final)
            run, begun = self.work.latest, self._begun.pop(kind, b"")
            if run is None:
                if data:
                    self._mark(self._captures[1].position)  # of no task: nobody would look for it
            elif data or skipped or begun:
                if skipped:
                    self._add(run.task, kind, begun + first)
                    begun = b""
                data = begun + data
                end = data.rfind(b"\n") + 1
                shown = len(data) if final or whole else max(end, len(begun))
                self._add(run.task, kind, data[:end], skipped=skipped)
                late.append((run.task, kind, data[end:shown]))
                if shown < len(data):
                    self._begun[kind] = data[shown:]
        for task, kind, data in reversed(late):
            if data:
                self._add(task, kind, data)

    def _add(self, task: int, kind: str, data: bytes, key: str = "", skipped: int = 0) -> None:
        throttle = self._throttles.get(task)
        if throttle is None:
            if not self.work.is_active(task):
                return  # a thread of it was late: its Done is out
            throttle = self._throttles[task] = Throttle(self._room, _clock())
        if skipped:
            self._put(task, throttle.take(_clock()))  # what still waits would go with it
            throttle.skip(kind, skipped)
        throttle.add(kind, data, key)
        if throttle.is_full:
            self._put(task, throttle.take(_clock()))

    def _put(self, task: int, shown: list[Shown]) -> None:
        for kind, data in shown:
            self._link.put(Output(task, kind, data))
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
        """True if a throttle, or a line, waits for time to pass."""
        return bool(self._begun) or any(list(self._throttles.values()))

    def _is_captured(self) -> bool:
        one, two = self._captures
        return one.has_news() or two.has_news()


def _watch(captures: tuple[FdCapture, FdCapture]) -> int:
    """A descriptor that can be read when somebody has written to a capture; else -1.

    Without inotify, or with none left, what C code writes is shown when its task ends.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "inotify_init1"):
        return -1
    fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd >= 0:
        for capture in captures:
            libc.inotify_add_watch(fd, capture.path.encode(), _IN_MODIFY)
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
    try:
        # Without giving up the GIL, which another thread might then have for a while.
        pending = ctypes.PyDLL(None).__fpending
    except AttributeError:  # another C library
        return lambda: flush(stdout)
    pending.restype = ctypes.c_size_t
    return lambda: pending(stdout) and flush(stdout)

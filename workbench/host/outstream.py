"""Output of tasks on its way out: prints, displays, what C code and programs write.

Code that shows something appends it to a queue in one step, which an interrupt can't tear. A thread
sends what is queued, at most `1 / PAUSE` times a second; it sleeps while nothing is shown. The end
of a task sends what is left of its output.
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
from dataclasses import dataclass

from workbench.core.events import Output
from workbench.core.logs import TEXT
from workbench.format import human_bytes
from workbench.host.fd_capture import FdCapture
from workbench.host.link import Link
from workbench.host.throttle import Shown, Throttle, process_room
from workbench.host.unsent import Mark, Unsent
from workbench.system.ki_protection import ki_protection

PAUSE = 0.05  # seconds from one sending to the next. After a pause, output is sent at once
MOST_QUEUED = 256_000  # characters in the queue. The thread that shows more empties it itself
MOST_SHOWN = 32 << 20  # bytes of one display: it has to fit into a message
MOST_RECORDED = 4_000_000  # bytes of what a task shows that `recorded` collects
MOST_PIECES = 1000  # pieces of an unfinished line
PIECE = 1 << 17  # characters of one write that are queued together

_SEPARATORS = (" ", "\n")
"""What `print` writes between and after its arguments: the captures aren't read before these."""

_IN_MODIFY = 2
_IOLBF = 1

_clock = time.perf_counter


class OutStream(io.TextIOBase):
    """A worker's `sys.stdout` or `sys.stderr`: shows what is written as the running task's output.

    Any thread may write: see `TaskContext` for which task that belongs to. Text of no task is
    dropped, as no person would look for it. ``fd`` is for code that needs a descriptor: what it
    writes is shown, too.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, kind: str, fd: int, queue: OutputQueue) -> None:
        self.kind = kind
        self._work = queue.work
        self._put = queue.put
        self._keep = queue.keep
        self._queue = queue
        self.lock = queue.lock
        queue.streams.append(self)
        # Pieces of the unfinished line, each with the number of sendings before it.
        self._line: list[tuple[int, str]] = []
        self._forked: io.TextIOWrapper | None = None
        self.buffer = io.FileIO(fd, "w", closefd=False)
        """Binary stream for code that writes bytes."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self.buffer.fileno()

    def write(self, text: str) -> int:
        """Show text, together with what is written in the next few milliseconds."""
        if not isinstance(text, str):
            raise TypeError(f"write() takes a str, not {type(text).__name__}")
        if self._forked is not None:
            return self._forked.write(text)
        run = self._work.current
        if run is not None and text:
            with self.lock:  # the sender sees a piece in both the line and the queue, or in neither
                self._queue_piece(run.task, text)
        return len(text)

    def _queue_piece(self, task: int, text: str) -> None:
        # Before it is queued: from then on it may be sent and forgotten at any time.
        self._line.append((self._queue.sendings, text))
        if text[-1:] == "\n" or len(self._line) > MOST_PIECES:
            line, self._line = self._line, []
            sent = self._queue.sendings  # older pieces are sent already
            rest = "".join([piece for number, piece in line if number == sent])
            self._keep(task, self.kind, rest)
        for start in range(0, len(text), PIECE):
            self._put(task, self.kind, text[start : start + PIECE])

    def begun(self, sendings: int) -> str:
        """Return the part of the unfinished line that was written after so many sendings."""
        return "".join([piece for number, piece in list(self._line) if number == sendings])

    def flush(self) -> None:
        if self._forked is not None:
            self._forked.flush()

    def forked(self) -> None:
        """Write to the descriptor in a forked child: it has no task, but the parent's shows it."""
        if self._forked is None:
            self._forked = open(  # noqa: SIM115 - for as long as the process lives
                self.fileno(), "w", 1, self.encoding, self.errors, closefd=False
            )


@dataclass(eq=False)
class OutputQueue:
    """Queue of output. Any thread may call its methods.

    Descriptors 1 and 2 lead to the ``_captures``. ``_mark`` is called with the position in the
    second one at which a task ended: what comes after it is the next task's. ``_unsent`` keeps what
    was shown and isn't sent, for the process that sees this one die.
    """

    _link: Link
    _captures: tuple[FdCapture, FdCapture]
    _mark: Callable[[int], None]
    _unsent: Unsent | None

    def __post_init__(self) -> None:
        self.work = self._link.work
        self.streams: list[OutStream] = []
        if self._unsent is not None:
            self._unsent.open()
        self._queue: deque[tuple[int, str, str | bytes, str]] = deque()
        self._queued = 0  # characters, roughly
        self._line_over = True  # the last text ends a line
        self._begun: dict[str, bytes] = {}  # unfinished lines of C code or a program
        self._throttles: dict[int, Throttle] = {}  # of tasks that have shown something
        self._room = process_room(_clock())
        self.lock = threading.RLock()
        """Held while showing or sending. A signal handler may print while its thread holds it."""
        self._busy = False
        self._sent_at = 0.0
        self.sendings = 0  # how often the queue has been emptied to be sent
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._watch = _watch(self._captures)
        if self._watch >= 0:
            self._poll.register(self._watch, select.POLLIN)
        self._flush_c = _line_buffered()
        self._awake = False
        self._abandoned = False
        self._record: tuple[int, list[tuple[str, bytes, str]]] | None = None
        self._room_to_record = 0
        self._thread = threading.Thread(target=self._serve, name="workbench-output", daemon=True)
        self._thread.start()

    def show(self, kind: str, data: bytes, key: str = "") -> None:
        """Show a display of the running task; between tasks it is dropped.

        A display that is too large for a message is replaced by a note. An update replaces a
        waiting one with the same ``key``.
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
        """Keep a line that is about to be put, so that it is shown even if this process dies."""
        if self._unsent is not None:
            self._unsent.add(task, kind, text.encode("utf-8", "backslashreplace"))

    def put(self, task: int, kind: str, data: str | bytes, key: str = "") -> None:
        """Queue something that a running task shows. See `Throttle.add`."""
        if data not in _SEPARATORS and (self._begun or self._is_captured()):
            self._pass_on(whole=True)  # C code or a program wrote before this
        self._queue.append((task, kind, data, key))
        self._queued += len(data)
        self._line_over = kind not in TEXT or data[-1:] == "\n"
        if self._queued > MOST_QUEUED:
            self._pass_on()
        elif self._line_over and _clock() - self._sent_at > PAUSE:
            self._pass_on(send=True)  # at once: the next line of code may crash
        if not self._awake and (self._queue or self._is_held()):
            with ki_protection():  # with only one of the two done, the thread would sleep on
                self._awake = True
                os.eventfd_write(self._wake, 1)

    @contextmanager
    def recorded(self) -> Iterator[list[tuple[str, bytes, str]]]:
        """Context that collects what the running task shows: kind, content, key; if that is more
        than `MOST_RECORDED`, only the beginning, which is more, too."""
        run, found = self.work.current, list[tuple[str, bytes, str]]()
        self._pass_on(whole=True)  # what came before
        self._record = None if run is None else (run.task, found)
        self._room_to_record = MOST_RECORDED
        try:
            yield found
        finally:
            self._flush_c()
            self._pass_on(whole=True)
            self._record = None

    def finish(self, task: int) -> None:
        """Send the rest of a task's output. To be called before its Done is queued.

        A forked child that returns from the task ends here: only its parent goes on."""
        if self._abandoned:
            os._exit(1)
        self._flush_c()
        # In this order: what the thread has just taken is in no throttle yet while `_busy`.
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
        """Close everything in a forked child, which doesn't send output. Idempotent."""
        if self._abandoned:
            return
        self._abandoned = True
        self.lock = threading.RLock()  # another thread may have held it
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
        """Hold the lock, without interrupts; yield False in a finalizer that runs inside."""
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
        """Empty the queue into the throttles; with ``send`` send what may be sent."""
        with self._alone() as mine:
            if mine:
                mark = self._begin_sending() if send else None
                self._fill(whole=whole)
                if send:
                    for task, throttle in list(self._throttles.items()):
                        self._put(task, throttle.take(_clock()))
                        if not self.work.is_active(task):  # one of its threads was late: see `_add`
                            del self._throttles[task]
                    if self._line_over:  # else its end is sent as soon as it comes
                        self._sent_at = _clock()
                    self._sends(mark)  # first: a person who sees it may kill us at once
                    self._link.flush()
                    if self._unsent is not None:
                        self._unsent.tidy()

    def _begin_sending(self) -> Mark | None:
        """Begin a sending, before the queue is emptied. Return the place up to which it sends."""
        self.sendings += 1
        if self._unsent is None:
            return None
        run = self.work.latest
        if run is not None:
            for stream in self.streams:
                # When the line ends, this part counts as sent, but we may die before that.
                if begun := stream.begun(self.sendings - 1):
                    self.keep(run.task, stream.kind, begun)
        return self._unsent.mark()

    def _sends(self, mark: Mark | None) -> None:
        """Note what is about to be sent: all kept up to ``mark`` but held and unfinished text."""
        if self._unsent is not None and mark is not None:
            held = [
                (task, kind, data)
                for task, throttle in list(self._throttles.items())
                for kind, data in throttle.waiting()
            ]
            run = self.work.latest
            if run is not None:
                held += ((run.task, kind, data) for kind, data in self._begun.items())
            self._unsent.mark_sent(mark, held)

    def _fill(self, final: bool = False, whole: bool = False) -> None:
        """Empty the queue, and then the captures, into the throttles.

        An unfinished line of C code or a program stays until the next call, unless ``whole``: the
        order of Python's and C's output isn't known, so neither should interrupt a line of the
        other.
        """
        queue, texts = self._queue, list[str]()
        # Before the queue is emptied: it is older than what is captured later.
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
                    self._mark(self._captures[1].position)  # of no task: dropped
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
        if self._record is not None and self._record[0] == task and self._room_to_record > 0:
            self._record[1].append((kind, data, key))
            self._room_to_record -= len(data)
        throttle = self._throttles.get(task)
        if throttle is None:
            if not self.work.is_active(task):
                return  # one of its threads was late: its Done is sent
            throttle = self._throttles[task] = Throttle(self._room, _clock())
        if skipped:
            self._put(task, throttle.take(_clock()))  # else `skip` would drop it, too
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
        took = 0.0  # time of the last look: an unfinished line gets `PAUSE` more
        while True:
            self._awake = False
            if not self._queue:  # adding to it from here on wakes us
                self._poll.poll(PAUSE * 1000 if self._is_held() else None)
            self._awake = True
            # Tasks' own threads send, too.
            while (left := max(self._sent_at, took) + PAUSE - _clock()) > 0:
                time.sleep(left)
            self._quiet()
            self._pass_on(send=True)
            took = _clock()

    def _quiet(self) -> None:
        """Empty the descriptors that woke us; their content says nothing more."""
        for fd in (self._wake, self._watch):
            try:
                os.read(fd, 4096)
            except OSError:  # it wasn't that one
                pass

    def _is_held(self) -> bool:
        """True if a throttle or an unfinished line waits for time to pass."""
        return bool(self._begun) or any(list(self._throttles.values()))

    def _is_captured(self) -> bool:
        one, two = self._captures
        return one.has_news() or two.has_news()


def _watch(captures: tuple[FdCapture, FdCapture]) -> int:
    """Return a descriptor that is readable after a write to a capture; -1 if none is left.

    Then what C code writes is shown when its task ends.
    """
    libc = ctypes.CDLL(None)
    fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd >= 0:
        for capture in captures:
            libc.inotify_add_watch(fd, capture.path.encode(), _IN_MODIFY)
    return fd


def _line_buffered() -> Callable[[], object]:
    """Make C's `stdout` line buffered. Return a function that writes the rest.

    Only this stream: flushing all would wait for a thread that reads from one of them.
    """
    libc = ctypes.CDLL(None)
    stdout = ctypes.c_void_p.in_dll(libc, "stdout")
    libc.setvbuf(stdout, None, _IOLBF, ctypes.c_size_t(0))
    # Without releasing the GIL, which another thread might then hold for a while.
    pending = ctypes.PyDLL(None).__fpending
    pending.restype = ctypes.c_size_t
    flush = libc.fflush
    return lambda: pending(stdout) and flush(stdout)

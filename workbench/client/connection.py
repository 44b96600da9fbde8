"""The socket to the server: which thread reads it, which writes, and when. No objects, no tasks.

A thread that waits for an answer reads the socket itself (the *leader*): waking it through another
thread would cost more than the answer took. While nobody waits, the connection's own thread
reads. Messages that can wait are sent with the next send, or by that thread within `TICK`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench.client.gate import Gate, is_free
from workbench.client.reporting_delay import (
    PATIENCE,
    PROMPT,
    TICK,
    TOGETHER,
    UNCOUNTED,
    ReportingDelay,
)
from workbench.core.events import MUST_NOT_OVERTAKE
from workbench.core.instructions import Ended
from workbench.errors import ProtocolError, SessionError
from workbench.memory.segment import owner_of
from workbench.system.ki_protection import ki_protection
from workbench.wire.buffers import Inbox, Outbox
from workbench.wire.codec import decode_from_server
from workbench.wire.framing import LARGEST_OF_SERVER

_write = ctypes.PyDLL(None).eventfd_write
_write.argtypes = (ctypes.c_int, ctypes.py_object)  # any number but 0 wakes: an object's address


@dataclass(eq=False)
class Connection:
    """Both directions of one connected unix socket.

    ``_handle`` takes the first or several of the received messages, with Ctrl-C held back: called
    by the leader or the connection's thread, never by both at once. ``_translate`` turns queued
    items into messages: see `Outbox`; finalizers queue weak references. ``_on_end`` is called once.
    """

    _sock: socket.socket
    _handle: Callable[[deque[Any]], None]
    _translate: Callable[[list[Any]], list[Any]]
    _on_end: Callable[[str], None]

    def __post_init__(self) -> None:
        self._sock.setblocking(False)
        self.send_by(bool, ReportingDelay())
        self.is_crowded = False  # many answers are coming: the thread reads only at ticks
        self._outbox = Outbox(self._translate)
        self._inbox = Inbox(decode_from_server, largest=LARGEST_OF_SERVER)
        self._writer = threading.Lock()
        self._reader = threading.RLock()  # a handler may itself wait for something
        self._leading = False
        self._leads = 0  # counts the times that a thread stopped leading
        self._progress = threading.Condition()
        self._followers = 0
        self._sent_at = 0.0
        self._urgent = self._posted = False  # next tick sends all; or what is due
        self.order_epoch = 0  # messages that may change what others do, see `MUST_NOT_OVERTAKE`
        self.ordered_sent = 0  # all but those in `UNCOUNTED`
        self.runs_answered = self.runs_reported = 0  # runs of calls by lines
        self.end_reason: str | None = None  # why it ended; None while it is open
        self._farewell = ""  # why the server is about to hang up
        self._closing = False
        # `_asleep`: the thread waits without a timeout; who queues work for it must wake it.
        self._asleep = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._gate = Gate(self._sock.fileno(), self._wake)
        self.watch, self.unwatch = self._gate.watch, self._gate.unwatch
        # For finalizers, which may run anywhere: C functions, in which no signal's handler runs.
        # After `put` comes `wake_from_finalizer`, which writes to -1 unless the thread is asleep.
        self.put = self._outbox.put
        self.queue = self._outbox.queue  # what will be sent after what is being sent
        self._bell = ctypes.c_int(-1)
        self.wake_from_finalizer = partial(_write, self._bell)
        self._thread = threading.Thread(
            target=self._serve, name="workbench-connection", daemon=True
        )

    def send_by(self, send_packed: Callable[[], object], reporting_delay: ReportingDelay) -> None:
        """Call ``send_packed`` before waits and ticks; ``reporting_delay`` says what these send."""
        self._send_packed, self.reporting_delay = send_packed, reporting_delay

    def start(self) -> None:
        """Start the thread: from now on messages are handled and the end is reported."""
        self._thread.start()

    def check_open(self) -> None:
        if self.end_reason is not None:
            raise SessionError(
                f"{self.end_reason} Its objects are out of reach; `init()` or `%workbench start` "
                "begins a new one."
            )

    # -- sending: any thread ---------------------------------------------------------------------

    def post(self, message: Any) -> None:
        """Queue a message that can wait."""
        self._note(message)
        self.put(message)
        if self._asleep:
            self.wake()

    def defer(self, message: Any) -> None:
        """Queue a message that can wait even while this process waits for an answer."""
        if not self._outbox:
            self.reporting_delay.reset(time.perf_counter())
        self.put(message)
        if self._asleep:
            self.wake()

    def _note(self, message: Any) -> None:
        self._posted = True
        if (kind := type(message)) not in UNCOUNTED:
            self.ordered_sent += 1
            if kind in MUST_NOT_OVERTAKE:
                self.order_epoch += 1

    def send(self, message: Any) -> None:
        """Queue a message that somebody waits for; send it now if nothing was sent just before.

        In a burst the next flush sends it, so that many messages share a frame.
        """
        self._note(message)
        self.put(message)
        self.nudge()

    def nudge(self) -> None:
        """Send what is queued, unless something was sent just before: then a tick sends it."""
        if time.perf_counter() - self._sent_at > PROMPT:
            self.flush()
        elif self._asleep:
            self.wake()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Context for several sends: they are sent as one at its end, or after `TOGETHER`."""
        self._sent_at = time.perf_counter() + TOGETHER
        try:
            yield
        finally:
            self._sent_at = 0.0
            self.push()

    def wake(self) -> None:
        if self._asleep:
            self._asleep = False
            with contextlib.suppress(OSError):
                os.eventfd_write(self._wake, 1)

    def _tick(self) -> None:
        self._send_packed()
        now, answered = time.perf_counter(), self.runs_answered
        if self._urgent or self._outbox.has_begun:
            self.flush()
        elif self._posted or now - max(self._sent_at, self.reporting_delay.since) > TICK:
            count = self.reporting_delay.count(self._outbox.queue, now)
            self._posted &= count > 0
            if count and self.flush(count):
                self.runs_reported = self.reporting_delay.reported(answered)

    def flush(self, most: int | None = None) -> bool:
        """Send what is queued, or the first ``most``; False if some of it is still unsent.

        Doesn't block: the thread's next tick sends what the socket can't take now.
        """
        locked: list[bool] = []
        try:
            # One C call, as in `wire.buffers`: Ctrl-C can't come between the lock and the note.
            locked.extend(map(self._writer.acquire, (False,)))
            if not locked[0]:
                return False  # the lock's holder sends ours too, or the thread's tick does
            self._urgent, self._posted, answered = False, False, self.runs_answered
            done = self._outbox.send(self._sock.sendmsg, most)
            self._sent_at = time.perf_counter()
            self.reporting_delay.reset(self._sent_at)
            if done and most is None:
                self.runs_reported = answered
            elif not done:
                self._urgent = True
            return done
        except BlockingIOError:  # also: a run in the queue is just being sent by its line
            self._urgent = True
            return False
        except OSError:
            return True  # the reading side will notice, and say so
        finally:
            if True in locked:
                self._writer.release()

    def push(self) -> None:
        if not self.flush():
            self.wake()

    def hurry(self) -> None:
        """Send what is queued without waiting for a tick. A handler may call."""
        self._urgent = True
        self.push()

    # -- waiting: any thread but the connection's -------------------------------------------------

    def wait_for(self, done: Callable[[], object], timeout: float | None = None) -> bool:
        """Read until ``done()``; False after ``timeout`` seconds. SessionError if it ends first."""
        if done():
            return True
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            if self.end_reason is not None:
                raise SessionError(self.end_reason)
            locked: list[bool] = []
            try:
                locked.extend(map(self._reader.acquire, (False,)))  # one C call: see `flush`
                if locked[0]:
                    self._lead(done, deadline)
            finally:
                if True in locked:
                    self._reader.release()
                    self._notify()
            if not locked[0]:
                self._send_packed()
                self._follow(done, left)
            if done():
                return True

    def _lead(self, done: Callable[[], object], deadline: float | None) -> None:
        """Read until done or the deadline, with the thread kept out. Holds ``_reader``."""
        nested, self._leading = self._leading, True
        try:
            self._gate.disarm()
            while True:
                if self.end_reason is not None or done():
                    return
                timeout = None if deadline is None else max(deadline - time.monotonic(), 0) * 1000
                if self._outbox:
                    self._tick()
                    if self._outbox:
                        timeout = min(timeout or TICK * 1000, TICK * 1000)
                ready = self._gate.poll(timeout)
                if not ready and deadline is not None and time.monotonic() >= deadline:
                    return
                self._take(ready)
        finally:
            self._leading = nested
            # The thread takes over when nobody has led since its last tick, so that it doesn't
            # interrupt a loop of short waits between two of them.
            self._leads += 1
            if self._asleep:
                os.eventfd_write(self._wake, 1)  # as `wake`, where Ctrl-C can't come before it

    def _take(self, ready: Iterable[tuple[int, int]]) -> None:
        """Read from the descriptors that are ready. Holds ``_reader``."""
        for fd, _ in ready:
            reader = self._gate.reader(fd)
            if reader is None:
                self._read()
                continue
            try:
                with ki_protection():
                    reader()
            finally:
                if self._followers:
                    self._notify()

    def _follow(self, done: Callable[[], object], timeout: float | None) -> None:
        """Wait while another thread reads: it notifies us after each read and when it stops."""
        # A Condition is Python code: Ctrl-C could leave it locked.
        with ki_protection(), self._progress:
            self._followers += 1
            try:
                # Asked again under the lock, so that we miss nothing that was read since. The
                # reader notifies us when it stops; a busy loop would only slow it down.
                if not done() and self.end_reason is None and not is_free(self._reader):
                    self._progress.wait(0.05 if timeout is None else min(timeout, 0.05))
            finally:
                self._followers -= 1

    def _notify(self) -> None:
        if self._followers:
            with ki_protection(), self._progress:
                self._progress.notify_all()

    def _read(self) -> None:
        """Read once and handle the complete messages. Holds ``_reader``."""
        try:
            with ki_protection():
                more = self._inbox.receive(self._sock.recvmsg)
                while messages := self._inbox.messages():  # asked anew: a handler may read too
                    self._handle(messages)
        except BlockingIOError:
            return
        except (ConnectionResetError, ProtocolError) as error:
            why = getattr(error, "strerror", None) or str(error)
            self._end(f"The connection to the session broke: {why.rstrip('.')}.")
            return
        finally:
            self._notify()
        if not more:
            self._end("The session has ended: its server hung up.")

    def told_to_end(self, message: Ended) -> None:
        self._farewell = message.reason

    def _end(self, reason: str) -> None:
        if self.end_reason is None:
            self.end_reason = reason = self._farewell or reason
            self._gate.unwatch(self._sock.fileno())
            self._on_end(reason)

    # -- a loop that reads ------------------------------------------------------------------------

    def fileno(self) -> int:
        """Return a descriptor for an event loop that watches it and calls `readable`."""
        return self._gate.fileno()

    def readable(self) -> None:
        """Read, if no other thread does. Repeated calls keep the connection's thread from reading;
        while the event loop is busy and doesn't call, that thread takes over."""
        try:
            self._read_unless_read(self._gate.ready)
        finally:
            self._leads += 1
            self.wake()

    # -- the connection's thread ------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            self._loop()
        except BaseException as error:  # a bug of ours: better a clear end than a silent hang
            traceback.print_exc(file=sys.__stderr__)
            self._end(f"The connection's thread failed: {type(error).__name__}: {error}")

    def _loop(self) -> None:
        leads, ticks = -1, 0
        while not self._closing:
            crowded, self.is_crowded = self.is_crowded, False
            calm = self._leads == leads and not crowded
            if calm and not self._leading and self.end_reason is None:
                self._gate.arm()  # nobody has led since the last tick
            ticks = ticks + 1 if calm and not self._outbox else 0
            quiet = ticks > (PATIENCE if self._leading else 0)
            if quiet:
                self._asleep = True  # from here on, who queues work wakes us ...
                self._bell.value = self._wake
                quiet = not self._outbox and self._leads == leads  # ... unless it came before
            leads = self._leads
            ready = self._gate.wait(None if quiet else TICK)
            self._asleep = False
            self._bell.value = -1
            woken = False
            for fd, _ in ready:
                if fd == self._wake:
                    os.eventfd_read(self._wake)
                    woken = True
                elif self.is_crowded or not self._read_unless_read(partial(iter, ((fd, 0),))):
                    self._gate.disarm()  # somebody leads
            if not ready and self._leads == leads and not self._leading and self.end_reason is None:
                self._read_unless_read(self._gate.now)  # else the leader reads again
            if not woken and self._outbox and self.end_reason is None:
                try:
                    self._tick()
                except Exception:  # a message that can't be sent: the others go on
                    traceback.print_exc(file=sys.__stderr__)

    def _read_unless_read(self, ready: Callable[[], Iterable[tuple[int, int]]]) -> bool:
        """Read from the descriptors that are ready; False if another thread reads."""
        if not self._reader.acquire(blocking=False):
            return False
        try:
            self._take(ready())
        finally:
            self._reader.release()
            self._notify()
        return True

    # -- the end ----------------------------------------------------------------------------------

    def close(self, timeout: float = 5.0, keep: bool = False) -> object:
        """Send what is queued, hang up, end the thread. Idempotent.

        With ``keep`` the socket stays open as long as the returned object lives; nothing is sent
        or read there any more.
        """
        if self._closing:
            return None
        end = time.monotonic() + timeout
        room = select.poll()
        room.register(self._sock, select.POLLOUT)
        while self.end_reason is None and not self.flush() and time.monotonic() < end:
            room.poll(TICK * 1000)
        self._closing = True
        self.end_reason = self.end_reason or "The session was shut down."
        with contextlib.suppress(OSError):
            # Threads that wait see the end.
            self._sock.shutdown(socket.SHUT_RD if keep else socket.SHUT_RDWR)
        self._asleep = True
        self.wake()
        if threading.current_thread() is not self._thread and self._thread.ident is not None:
            self._thread.join(timeout)
        self._notify()
        if self._reader.acquire(timeout=timeout):  # nobody reads any more
            try:
                # Not a copy of it: this process may be out of descriptors.
                line = owner_of(self._sock.detach()) if keep else None
                self._release()
            finally:
                self._reader.release()
            return line
        return owner_of(os.dup(self._sock.fileno())) if keep else None

    def abandon(self) -> None:
        """Close the parent's socket in a forked child, sending nothing."""
        self._closing = True
        reason = "This process was forked from one with a session, which stays the parent's."
        self.end_reason = reason
        self._release()

    def _release(self) -> None:
        self._asleep = False  # else `wake` would write to a descriptor that is no longer ours
        self._bell.value = -1
        self._gate.close()
        self._inbox.close()
        self._sock.close()
        os.close(self._wake)

"""What there is to read: which descriptors wake a connection's thread, which a leader polls."""

from __future__ import annotations

import contextlib
import errno
import select
import threading
from collections.abc import Callable

from workbench.memory.segment import owner_of
from workbench.system.spin_poll import SpinThenPoll, yield_with_gil


class OpenSocket:
    """A socket's descriptor, kept open as long as this lives."""

    def __init__(self, fd: int) -> None:
        self._owner = owner_of(fd)


def is_free(lock: threading.RLock) -> bool:
    """Whether nobody else has it."""
    free = lock.acquire(blocking=False)
    if free:
        lock.release()
    return free


class Gate:
    """``sock`` and what is watched beside it, each with what reads there.

    They wake the thread that polls the gate, together with ``wake``; while it is disarmed, only
    that does, and whoever leads calls `poll`. Used by whoever reads, one at a time.
    """

    def __init__(self, sock: int, wake: int) -> None:
        self._readers: dict[int, Callable[[], object] | None] = {sock: None}
        self.reader = self._readers.get  # what reads a descriptor; None for the socket itself
        self._is_armed = True
        self._epoll = select.epoll()
        self._epoll.register(wake, select.EPOLLIN)
        self._epoll.register(sock, select.EPOLLIN)
        self._polled = select.poll()
        self._polled.register(sock, select.POLLIN)
        self.poll = SpinThenPoll(self._polled.poll, yield_with_gil())
        self.wait = self._epoll.poll
        self._for_loop: select.epoll | None = None

    def close(self) -> None:
        self._epoll.close()
        if self._for_loop is not None:
            self._for_loop.close()

    def fileno(self) -> int:
        """A descriptor for an event loop, readable while there is something to read here."""
        if self._for_loop is None:
            self._for_loop = select.epoll()
            for fd in self._readers:
                self._for_loop.register(fd, select.EPOLLIN)
        return self._for_loop.fileno()

    def ready(self) -> list[tuple[int, int]]:
        """What there is, for whoever watches `fileno`: the thread sleeps on."""
        self.disarm()
        return [] if self._for_loop is None else self._for_loop.poll(0)

    def now(self) -> list[tuple[int, int]]:
        """What there is, while the gate is disarmed."""
        return [] if self._is_armed else self._polled.poll(0)

    def watch(self, fd: int, reader: Callable[[], object]) -> None:
        """Call ``reader()``, in whichever thread reads, when there is something at ``fd``."""
        self._readers[fd] = reader
        self._polled.register(fd, select.POLLIN)
        if self._for_loop is not None:
            self._for_loop.register(fd, select.EPOLLIN)
        self._epoll.register(fd, 0)
        if self._is_armed:  # after it is there for `arm`, which another thread may be in
            self._epoll.modify(fd, select.EPOLLIN)

    def unwatch(self, fd: int) -> None:
        """Before it is closed."""
        if fd in self._readers:
            del self._readers[fd]
            with contextlib.suppress(KeyError, OSError):
                self._polled.unregister(fd)
                self._epoll.unregister(fd)
                if self._for_loop is not None:
                    self._for_loop.unregister(fd)

    def arm(self) -> None:
        """From now on the thread is woken by what comes."""
        if not self._is_armed:
            self._is_armed = True
            self._set(select.EPOLLIN)

    def disarm(self) -> None:
        """From now on somebody else reads what comes: the thread sleeps on."""
        if self._is_armed:
            self._is_armed = False
            self._set(0)

    def _set(self, events: int) -> None:
        for fd in list(self._readers):
            try:
                self._epoll.modify(fd, events)
            except OSError as error:  # whoever reads has just seen its end, and closed it
                if error.errno not in (errno.ENOENT, errno.EBADF):
                    raise

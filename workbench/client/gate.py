"""Descriptors to read: which of them wake a connection's thread, which a leader polls."""

from __future__ import annotations

import contextlib
import errno
import select
import threading
from collections.abc import Callable

from workbench.system.spin_poll import SpinThenPoll, yield_with_gil


def is_free(lock: threading.RLock) -> bool:
    free = lock.acquire(blocking=False)
    if free:
        lock.release()
    return free


class Gate:
    """The descriptor ``sock`` and others that are watched, each with the function that reads it.

    While armed, they and ``wake`` wake the connection's thread; while disarmed, only ``wake`` does,
    and the leader calls `poll`. Used by the thread that reads, one at a time.
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
        """Return a descriptor for an event loop, readable while any watched one is."""
        if self._for_loop is None:
            self._for_loop = select.epoll()
            for fd in self._readers:
                self._for_loop.register(fd, select.EPOLLIN)
        return self._for_loop.fileno()

    def ready(self) -> list[tuple[int, int]]:
        """Return what is ready, for an event loop that watches `fileno`; disarm the gate."""
        self.disarm()
        return [] if self._for_loop is None else self._for_loop.poll(0)

    def now(self) -> list[tuple[int, int]]:
        """Return what is ready while the gate is disarmed; nothing while it is armed."""
        return [] if self._is_armed else self._polled.poll(0)

    def watch(self, fd: int, reader: Callable[[], object]) -> None:
        """Call ``reader()``, in the thread that reads, when ``fd`` is readable."""
        self._readers[fd] = reader
        self._polled.register(fd, select.POLLIN)
        if self._for_loop is not None:
            self._for_loop.register(fd, select.EPOLLIN)
        self._epoll.register(fd, 0)
        if self._is_armed:  # after registering, as another thread may be in `arm`
            self._epoll.modify(fd, select.EPOLLIN)

    def unwatch(self, fd: int) -> None:
        """Stop watching ``fd``. Called before it is closed."""
        if fd in self._readers:
            del self._readers[fd]
            with contextlib.suppress(KeyError, OSError):
                self._polled.unregister(fd)
                self._epoll.unregister(fd)
                if self._for_loop is not None:
                    self._for_loop.unregister(fd)

    def arm(self) -> None:
        """Let what arrives wake the connection's thread from now on."""
        if not self._is_armed:
            self._is_armed = True
            self._set(select.EPOLLIN)

    def disarm(self) -> None:
        """Let the connection's thread sleep: another thread reads from now on."""
        if self._is_armed:
            self._is_armed = False
            self._set(0)

    def _set(self, events: int) -> None:
        for fd in list(self._readers):
            try:
                self._epoll.modify(fd, events)
            except OSError as error:  # the reading thread has just seen its end and closed it
                if error.errno not in (errno.ENOENT, errno.EBADF):
                    raise

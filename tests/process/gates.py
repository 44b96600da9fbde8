"""A place where tasks stop until the test lets them on. The test sees who is there, and waits."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable

from tests.patience import TIMEOUT

_PID = struct.Struct("i")


def stopper(path: str) -> Callable[[], str]:
    """A function for tasks, which travels by value: wait at the gate, return the word given there.

    It raises EOFError if the test has ended meanwhile.
    """

    def stop() -> str:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(path)
            sock.sendall(struct.pack("i", os.getpid()))
            word = sock.recv(1000)
        if not word:
            raise EOFError("the gate is gone")
        return word.decode()

    return stop


class Visitor:
    """A task that stands at the gate. ``pid`` is its process's."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.pid: int = _PID.unpack(sock.recv(_PID.size, socket.MSG_WAITALL))[0]

    def let_on(self, word: str = "go") -> None:
        """It goes on, with that word."""
        self._sock.sendall(word.encode())
        self._sock.close()

    def close(self) -> None:
        self._sock.close()


class Gate:
    """The test's side. Tasks call ``stop``, or what `stopper` makes of ``path``."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.stop = stopper(path)
        self._visitors: list[Visitor] = []
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.bind(path)
        self._sock.listen(64)
        self._sock.settimeout(TIMEOUT)

    def next(self) -> Visitor:
        sock, _ = self._sock.accept()
        sock.settimeout(TIMEOUT)
        self._visitors.append(Visitor(sock))
        return self._visitors[-1]

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *exception: object) -> None:
        for visitor in self._visitors:
            visitor.close()
        self._sock.close()
        os.unlink(self.path)

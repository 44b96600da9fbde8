"""How a piece of user code ends badly, and at which step of a task. For workers: imports little."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

import workbench as wb


def leave_at_once(status: int = 0) -> NoReturn:
    """This process ends, without anything that usually comes before that."""
    os._exit(status)


class LockedError(Exception):
    """Can't be pickled."""

    def __init__(self, text: str) -> None:
        super().__init__(text, threading.Lock())

    def __str__(self) -> str:
        return str(self.args[0])


def _raise(error: BaseException) -> None:
    raise error


WAYS: dict[str, Callable[[], object]] = {
    "exception": lambda: _raise(LookupError("not here")),
    "sys.exit": lambda: sys.exit(6),
    "os._exit": lambda: leave_at_once(7),
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGSEGV": lambda: ctypes.string_at(0),
    "unpicklable exception": lambda: _raise(LockedError("locked")),
}

LARGE = 100_000
"""Bytes that don't fit into a message."""


class Ending:
    """Puts an array, and ends in one of the ways."""

    def __init__(self, way: str) -> None:
        self.way = way

    def __call__(self) -> Any:
        wb.put(np.arange(LARGE), name="left")
        wb.snapshot()  # the server has heard of it when it answers
        return WAYS[self.way]()


class OnUnpickling:
    """An argument that ends so when it is read."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending

    def __reduce__(self) -> Any:
        return self.ending, ()


class OnPickling:
    """A result that ends so when it is sent."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending

    def __reduce__(self) -> Any:
        return self.ending()


class OnSealing:
    """A result that ends so when its bytes are in shared memory and nobody knows of them yet.

    It is there that a worker looks at an object's dtype and shape, to say what it is.
    """

    def __init__(self, ending: Ending) -> None:
        self.ending = ending
        self.bytes = np.arange(LARGE)

    @property
    def dtype(self) -> Any:
        return self.ending()

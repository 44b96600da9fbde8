"""Holds an interrupt back for the few microseconds in which state must change as a whole."""

from __future__ import annotations

# The C functions: the wrappers in `signal` turn handlers into enums, which costs 25 µs a pair.
import _signal  # type: ignore[import-not-found]
import ctypes
import os
import threading
from threading import get_ident
from types import FrameType
from typing import Any

_main = threading.main_thread().ident


def _note_main() -> None:
    global _main
    _main = get_ident()


os.register_at_fork(after_in_child=_note_main)  # the forking thread is the child's main thread

_ERROR = ctypes.py_object(KeyboardInterrupt)

_shielded: dict[int, bool] = {}
"""Thread inside a `ki_protection`, except the main one → True if an interrupt waits for its end."""


def interrupt(thread: int) -> None:
    """Raise KeyboardInterrupt in a thread that isn't the main one, at its next bytecode.

    The exception is raised as soon as that thread has the GIL again. It doesn't get the GIL between
    our check and the call, so it is still outside of any `ki_protection` then.
    """
    raise_in, error = ctypes.pythonapi.PyThreadState_SetAsyncExc, _ERROR
    number = ctypes.c_ulong(thread)
    if thread in _shielded:
        _shielded[thread] = True
    else:
        raise_in(number, error)


class ki_protection:  # noqa: N801 - used as a statement, `with ki_protection():`
    """Delays SIGINT, or in another thread an `interrupt`, until the block ends.

    It costs two C calls (1 µs). Don't use it around anything that can wait.
    """

    __slots__ = ("_noted", "_old", "_thread")

    def __init__(self) -> None:
        self._noted = False  # not the frame: it refers to us, and such a cycle lives long
        self._old: Any = None
        self._thread = 0

    def __enter__(self) -> None:
        thread = get_ident()
        if thread == _main:
            # Ctrl-C before this store passes through; after it, it is noted.
            self._old = _signal.getsignal(_signal.SIGINT)
            if callable(self._old):
                _signal.signal(_signal.SIGINT, self._note)
        elif thread not in _shielded:  # else an outer block holds it back
            _shielded[thread] = False
            self._thread = thread

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self._noted = True

    def __exit__(self, kind: object, error: object, tb: object) -> None:
        if callable(self._old):
            _signal.signal(_signal.SIGINT, self._old)
            if self._noted:
                self._old(_signal.SIGINT, None)
        elif self._thread and _shielded.pop(self._thread):
            raise KeyboardInterrupt

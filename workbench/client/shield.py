"""Holding Ctrl-C back for the few microseconds in which state must change whole."""

from __future__ import annotations

# The C functions: the wrappers in `signal` turn handlers into enums, and cost 25 µs more a pair.
import _signal  # type: ignore[import-not-found]
import threading
from types import FrameType, TracebackType
from typing import Any

_main = threading.main_thread()


class shield:  # noqa: N801 - used as a statement, `with shield():`
    """SIGINT that comes inside the block is delivered when it ends.

    Only the main thread runs signal handlers, so elsewhere this does nothing. It costs two
    C calls (1 µs), which is why it isn't used around anything that can wait.
    """

    __slots__ = ("_noted", "_old")

    def __init__(self) -> None:
        self._noted = False  # not the frame: it refers to us, and such a cycle stays for long
        self._old: Any = None

    def __enter__(self) -> None:
        if threading.current_thread() is _main:
            # Ctrl-C up to this store changes nothing; from it on, it is noted.
            self._old = _signal.getsignal(_signal.SIGINT)
            if callable(self._old):
                _signal.signal(_signal.SIGINT, self._note)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self._noted = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if callable(self._old):
            _signal.signal(_signal.SIGINT, self._old)
            if self._noted:
                self._old(_signal.SIGINT, None)

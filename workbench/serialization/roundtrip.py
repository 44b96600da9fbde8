"""Tries, in another process, whether a value can be built from its pickle; for `inspection`.

It is a new process, which ends at once. In this one, building could change what is in use: a
widget's copy closes the widget, a class gets its old state back.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
from typing import Any, NamedTuple

from workbench.errors import SerializationError
from workbench.expressions import error_line
from workbench.serialization.arrays import REDUCERS, Array, Reducers, out_of_band
from workbench.serialization.paths import path_text
from workbench.serialization.pickler import ByteCounter, Pickler
from workbench.serialization.rebuilding import stopped_unpickler
from workbench.serialization.registry import Custom
from workbench.serialization.tracing import TracingPickler

MOST_BYTES = 64 << 20
"""Size limit, buffers included, of a value that is built to try it."""

MOST_SECONDS = 20.0
"""Timeout; imports may take some of it."""

_SOUND = frozenset({"builtins", "numpy", "pandas", "pyarrow", "polars", "datetime", "decimal"})
"""Packages whose objects can be rebuilt: a value of only these isn't tried."""


class NotTriedError(Exception):
    """It isn't known whether the value can be rebuilt; the text says why."""


class Broken(NamedTuple):
    """A part that can be pickled but not rebuilt; the class of the error, and its text.

    It is the whole value if the part isn't known (``is_found``).
    """

    path: str
    part: Any
    is_found: bool
    error: type[Exception]
    text: str


class _Outcome(NamedTuple):
    error: type[Exception]
    text: str
    position: int | None
    """Bytes of the pickle that were read, without frames; None: unknown."""


def first_broken(value: Any, reducers: Reducers, root: str) -> Broken | None:
    """Return the first part of a value, called ``root``, that can't be built from its pickle.
    NotTriedError if it is too large, or takes too long."""
    stream = _Stream()
    pickler = Pickler(stream, reducers, stream.keep)
    pickler.dump(value)
    kinds = pickler._reducers.keys() - REDUCERS.keys() - reducers.keys()
    is_custom = any(isinstance(reducer, Custom) for reducer in reducers.values())
    if not is_custom and {k.__module__.partition(".")[0] for k in kinds} <= _SOUND:
        return None
    if stream.room < 0:
        raise NotTriedError("it is too large for that")
    outcome = _tried(stream)
    if outcome is None:
        return None
    if outcome.position is not None:
        file = _EndsAt(outcome.position)
        tracing = TracingPickler(file, reducers, file.add_buffer, root)
        tracing.write = file.write  # without frames: each object is written at once
        try:
            tracing.trace(value)
        except _FoundError:
            path, part = path_text(tracing.path), tracing.path[-1].object
            return Broken(path, part, True, outcome.error, outcome.text)
    return Broken(root, value, False, outcome.error, outcome.text)


class _Stream(io.BytesIO):
    """The pickle and its buffers, as far as there is ``room`` for them."""

    room = MOST_BYTES

    def __init__(self) -> None:
        super().__init__()
        self.buffers: list[Array] = []

    def write(self, data: Any, /) -> int:
        self.room -= len(data)
        return super().write(data) if self.room >= 0 else 0

    def keep(self, buffer: pickle.PickleBuffer) -> None:
        array = out_of_band(buffer)
        self.room -= array.nbytes
        if self.room >= 0:
            self.buffers.append(array)


class _FoundError(Exception):
    """The search is over."""


class _EndsAt(ByteCounter):
    """File that raises at a position: the object being saved then is the one read there."""

    def __init__(self, position: int) -> None:
        super().__init__()
        self._position = position

    def write(self, data: Any, /) -> None:
        super().write(data)
        if self.inband >= self._position:
            raise _FoundError


# -- the other process ----------------------------------------------------------------------------


def _tried(stream: _Stream) -> _Outcome | None:
    """Build it in a new process; return the error's outcome, None if it works."""
    given = pickle.dumps((stream.getvalue(), [buffer.tobytes() for buffer in stream.buffers]), 5)
    command = [sys.executable, "-W", "ignore", "-c", _CODE, json.dumps(sys.path)]
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=MOST_SECONDS)
        return pickle.loads(done.stdout)  # type: ignore[no-any-return]
    except subprocess.TimeoutExpired:
        raise NotTriedError(f"it takes longer than {MOST_SECONDS:.0f} s") from None
    except (OSError, EOFError, pickle.UnpicklingError):
        raise NotTriedError("the process in which it was tried has ended") from None


_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from workbench.serialization.roundtrip import _answer
_answer()
"""


def _answer() -> None:
    """Build what arrives on standard input, and report the outcome. Runs in the new process."""
    out, nowhere = os.dup(1), os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)  # the built objects may print
    stream, buffers = pickle.load(sys.stdin.buffer)
    outcome = None
    try:
        pickle.loads(stream, buffers=buffers)
    except Exception as error:
        kind = next(known for known in _KINDS if isinstance(error, known))
        stopped = stopped_unpickler(stream, buffers)
        outcome = _Outcome(kind, error_line(error), stopped.position if stopped else None)
    os.write(out, pickle.dumps(outcome))
    os._exit(0)  # don't wait for anything it started


_KINDS = (SerializationError, ImportError, AttributeError, Exception)
"""Reported class of an error: the other process may lack its own class."""

"""Whether a value can be built from its pickle in another process: tried in one; for `inspection`.

That process is a new one, which ends at once. Here, what is built could change what is in use: a
widget's copy closes the widget, a class is set back to what it was.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.errors import SerializationError
from workbench.serialization.arrays import REDUCERS, Array, Reducers, out_of_band
from workbench.serialization.paths import path_text
from workbench.serialization.pickler import ByteCounter, Pickler
from workbench.serialization.registry import Custom
from workbench.serialization.tracing import TracingPickler

MOST_BYTES = 64 << 20
"""Of a value that is built again, buffers and all."""

MOST_SEARCHED = 4 << 20
"""Of a pickle in which the part that can't be built is looked for."""

MOST_SECONDS = 20.0
"""Until it is given up; importing what it needs may take some."""

_SOUND = frozenset({"builtins", "numpy", "pandas", "pyarrow", "polars", "datetime", "decimal"})
"""Packages whose objects are known to come back: of these alone nothing is tried."""


class NotTriedError(Exception):
    """It isn't known whether it can be built again; the text says why."""


class Broken(NamedTuple):
    """A part that can be pickled and not built again; what was raised, and what that said."""

    path: str
    part: Any
    error: type[Exception]
    text: str


class _Outcome(NamedTuple):
    position: int
    """Bytes of the pickle that were read."""

    kind: str
    text: str


def first_broken(value: Any, reducers: Reducers, root: str) -> Broken | None:
    """The first part of a value, called ``root``, that can't be built from its pickle.

    Raises
    ------
    NotTriedError
        If it is too large, or takes too long.
    """
    stream = _Stream()
    pickler = Pickler(stream, reducers, stream.keep)
    pickler.dump(value)
    kinds = pickler._reducers.keys() - REDUCERS.keys() - reducers.keys()
    is_custom = any(isinstance(reducer, Custom) for reducer in reducers.values())
    if not is_custom and {k.__module__.partition(".")[0] for k in kinds} <= _SOUND:
        return None
    if stream.is_too_large:
        raise NotTriedError("it is too large for that")
    answer = _tried(stream.getvalue(), stream.buffers)
    if answer is None:
        return None
    path, part = root, value
    if stream.tell() <= MOST_SEARCHED:
        unframed = io.BytesIO()
        _Unframed(reducers, root, unframed, lambda _: None).trace(value)
        again = _tried(unframed.getvalue(), stream.buffers)
        if again is not None:
            finder = _Finder(reducers, root, again.position)
            try:
                finder.trace(value)
            except _FoundError:
                path, part = finder.found
    return Broken(path, part, _KINDS.get(answer.kind, Exception), answer.text)


class _Stream(io.BytesIO):
    """The pickle and its buffers; if they are too large for that, nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.buffers: list[Array] = []
        self._left = MOST_BYTES

    @property
    def is_too_large(self) -> bool:
        return self._left < 0

    def write(self, data: Any, /) -> int:
        self._left -= len(data)
        return 0 if self.is_too_large else super().write(data)

    def keep(self, buffer: pickle.PickleBuffer) -> None:
        array = out_of_band(buffer)
        self._left -= array.nbytes
        if not self.is_too_large:
            self.buffers.append(array)


class _Unframed(TracingPickler):
    """Without frames, what is read is read opcode by opcode."""

    def dump(self, obj: Any) -> None:
        self.write(pickle.PROTO + bytes([5]))
        self.save(obj)
        self.write(pickle.STOP)


class _FoundError(Exception):
    """The search is over."""


class _Finder(_Unframed):
    """Ends at the innermost part that is written up to a position or further."""

    def __init__(self, reducers: Reducers, root: str, position: int) -> None:
        self._counter = counter = ByteCounter()
        super().__init__(reducers, root, counter, counter.add_buffer)
        self._position = position
        self.found: tuple[str, Any] = (root, None)

    def save_here(self, obj: Any) -> None:
        super().save_here(obj)
        if self._counter.inband >= self._position:
            self.found = path_text(self.path), obj
            raise _FoundError


# -- the other process ----------------------------------------------------------------------------


def _tried(stream: bytes, buffers: Sequence[Array]) -> _Outcome | None:
    """What became of building it in a new process; None: it is all right."""
    given = pickle.dumps((stream, [buffer.tobytes() for buffer in buffers]), 5)
    command = [sys.executable, "-W", "ignore", "-c", _CODE, json.dumps(sys.path)]
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=MOST_SECONDS)
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise NotTriedError(f"it takes longer than {MOST_SECONDS:.0f} s") from None
    except (OSError, ValueError):
        raise NotTriedError("the process in which it was tried has ended") from None
    return _Outcome(*answer) if answer else None


_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from workbench.serialization.roundtrip import _answer
_answer()
"""


def _answer() -> None:
    """Build what comes from standard input, and say how that went. Runs in the new process."""
    out, nowhere = os.dup(1), os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)  # what is built may print
    stream, buffers = pickle.load(sys.stdin.buffer)
    file = _Unbuffered(stream)
    answer = None
    try:
        pickle.Unpickler(file, buffers=buffers).load()
    except Exception as error:
        kind = next(name for name, known in _KINDS.items() if isinstance(error, known))
        answer = _Outcome(file.tell(), kind, _said(error))
    os.write(out, json.dumps(answer).encode())
    os._exit(0)  # whatever it has started


class _Unbuffered:
    """Of which an unpickler takes just what it needs, so that one sees how far it came."""

    def __init__(self, data: bytes) -> None:
        file = io.BytesIO(data)
        self.read, self.readline, self.tell = file.read, file.readline, file.tell


def _said(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    except Exception:
        return type(error).__name__


_KINDS: dict[str, type[Exception]] = {
    "ours": SerializationError,
    "import": ImportError,
    "attribute": AttributeError,
    "other": Exception,
}

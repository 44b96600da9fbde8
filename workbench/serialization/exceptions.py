"""Pickles an exception with its causes. Leaves out, piece by piece, what can't be pickled.

It travels as its state (`exception_state`), not by its ``__reduce__``, which loses attributes and
notes of most exceptions, and fails for many.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from workbench.errors import TaskError
from workbench.errors.exception_state import (
    ExceptionState,
    bare,
    exception_state_of,
    fill,
    notes_of,
)
from workbench.errors.remote_frames import Frame
from workbench.serialization.arrays import Reducer, Reducers
from workbench.serialization.pickler import Pickler
from workbench.serialization.scratch import Scratch, Sink

MOST_BYTES = 1 << 20
"""Size limit of an exception with its causes: failed tasks' lie in the server's memory."""

MOST_LINKED = 100
"""Exceptions linked to one (causes, members of a group) that are searched for failing parts."""

FramesOf = Callable[[Any], Sequence[Frame]]


def pack(error: BaseException, frames_of: FramesOf, reducers: Reducers) -> tuple[bytes, list[str]]:
    """Pickle an exception for ``pickle.loads``; ``frames_of`` chooses a traceback's frames.

    The bytes are empty if nothing could be pickled; the texts name what was left out.
    """
    packing = _Packing(frames_of, reducers)
    try:
        return packing.checked(error, MOST_BYTES), []
    except Exception:
        return packing.by_parts(error)


class _Packing:
    def __init__(self, frames_of: FramesOf, reducers: Reducers) -> None:
        self._frames_of = frames_of
        self._reducers = reducers
        self._changed: dict[int, tuple[type[BaseException], ExceptionState]] = {}  # by exception id
        self._kept: list[BaseException] = []  # keeps them alive, so that their ids stay valid
        self._left_out: list[str] = []
        self._room = MOST_BYTES // 2

    def checked(self, value: Any, most: int) -> bytes:
        """Return its pickle; raise if it can't be pickled in ``most`` bytes and unpickled."""
        sink = Sink(most, Scratch())
        _ExceptionPickler(sink, self._reducers, self.reduced).dump(value)
        data = b"".join(sink.pieces())
        pickle.loads(data)
        return data

    def reduced(self, error: BaseException) -> tuple[Any, ...]:
        """Reduce it so that it is made before its parts: its causes may refer to it."""
        kind, state = self._changed.get(id(error)) or (type(error), self._state(error))
        return bare, (kind, state.group), state._replace(group=None), None, None, fill

    def _state(self, error: BaseException) -> ExceptionState:
        return exception_state_of(error, self._frames_of(error.__traceback__))

    def by_parts(self, error: BaseException) -> tuple[bytes, list[str]]:
        for each, path in _linked(error):
            self._kept.append(each)
            kind, state = type(each), self._state(each)
            bases = (base for base in kind.__mro__ if issubclass(base, BaseException))
            base = next(base for base in bases if self._fits(base))
            if base is not kind:
                self._left_out.append(f"{path}'s class, {kind.__qualname__}")
            args: list[Any] = []
            for n, value in enumerate(state.args):
                if state.group is not None and n == 1:
                    args.append((*state.group[1],))  # the members are checked one by one
                else:
                    fits = self._fits(value, f"{path}.args[{n}]")
                    args.append(value if fits else _as_text(value))
            no_word = {"obj"} if isinstance(each, AttributeError) else set()  # set by Python
            attributes, slots = (
                {
                    name: value
                    for name, value in parts.items()
                    if isinstance(value, BaseException)
                    or self._fits(value, "" if name in no_word else f"{path}.{name}")
                }
                for parts in (state.attributes, state.slots)
            )
            state = state._replace(args=tuple(args), attributes=attributes, slots=slots)
            self._changed[id(each)] = base, state
        if self._left_out:
            kind, state = self._changed[id(error)]
            notes = [*notes_of(error), left_out_note(self._left_out)]
            state = state._replace(attributes={**state.attributes, "__notes__": notes})
            self._changed[id(error)] = kind, state
        try:
            return self.checked(error, MOST_BYTES), self._left_out
        except Exception:
            return b"", self._left_out

    def _fits(self, value: Any, path: str = "") -> bool:
        """True if it can be pickled and rebuilt, and has room; else note its ``path``."""
        try:
            self._room -= len(self.checked(value, self._room))
        except Exception:
            if path:
                kind = f"{type(value).__module__}.{type(value).__qualname__}"
                self._left_out.append(f"`{path}` ({kind.replace('builtins.', '')})")
            return False
        return True


def left_out_note(left_out: list[str]) -> str:
    named = "; ".join(left_out[:10]) + ("; …" if len(left_out) > 10 else "")
    return f"The error came without what can't be pickled, or is larger than 1 MB: {named}."


def _as_text(value: Any) -> str:
    try:
        return repr(value)[:1000]
    except Exception:
        return f"<{type(value).__qualname__}>"


def _linked(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """Yield the exception, its causes and its members, once each, with the path to each."""
    seen: set[int] = set()
    left: list[tuple[BaseException | None, str]] = [(error, "e")]
    for each, path in left:
        if each is None or id(each) in seen or len(seen) > MOST_LINKED:
            continue
        if isinstance(each, TaskError):  # it has travelled before, so it can again
            continue
        seen.add(id(each))
        yield each, path
        left.append((each.__cause__, f"{path}.__cause__"))
        left.append((each.__context__, f"{path}.__context__"))
        if isinstance(each, BaseExceptionGroup):
            left += [(e, f"{path}.exceptions[{n}]") for n, e in enumerate(each.exceptions)]


class _ExceptionPickler(Pickler):
    """Pickles in one piece, without buffers; exceptions by their state wherever they are."""

    def __init__(
        self,
        file: Sink,
        reducers: Reducers,
        reduced: Reducer,
    ) -> None:
        super().__init__(file, reducers, lambda buffer: True)
        self._reducers = {**reducers}  # without the base's, which make buffers
        self._reduced = reduced

    def _find(self, kind: type) -> Reducer | None:
        if issubclass(kind, BaseException) and not issubclass(kind, TaskError):
            return self._reduced
        return super()._find(kind)

"""Finds the part of a pickle that can't be loaded, and its path. For messages; slow.

The pickle is loaded once more to learn which opcode raises. Then its opcodes are read without
running user code, to learn what that opcode builds, and where it stands in the whole: a
list gets its items only after they are built.
"""

from __future__ import annotations

import contextlib
import io
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from workbench.errors import SerializationError
from workbench.expressions import error_line, short
from workbench.serialization.safe_load import NotBuilt, stand_in

MOST_BYTES = 32 << 20
"""Longer pickles are not read again."""

MOST_STEPS = 1_000_000
"""Pickles of more opcodes are not read again: this many take a second or two."""

LONGEST_PATH = 300
"""Characters of a path; the middle is left out."""

Name = str | Callable[[], str]
"""Name of an object for people, or a function that returns it: it is rarely needed."""

Part = tuple[str | None, Any]
"""Text of a part behind that of its whole, and the part. None: the path ends at the whole."""


def cannot_rebuild(
    error: Exception, stream: Any, buffers: Sequence[Any], name: Name, side: str
) -> SerializationError:
    """Return the error for a stored value that can't be built in this process.

    Unpickles again, slowly, to find the place. ``side`` says in which process the value should have
    been built.
    """
    path = where(stream, buffers, name if isinstance(name, str) else name())
    if len(path) > LONGEST_PATH:
        path = f"{path[: LONGEST_PATH // 2]} … {path[-LONGEST_PATH // 2 :]}"
    why = str(error) if isinstance(error, SerializationError) else f"{error_line(error)}."
    advice = ""
    if isinstance(error, ModuleNotFoundError):
        advice = (
            f" The module {error.name!r} can't be imported there: install it, or put its directory "
            "on PYTHONPATH before the session starts, or have it travel by value "
            "(`cloudpickle.register_pickle_by_value(module)`)."
        )
    elif isinstance(error, AttributeError | ImportError):
        advice = " The module there is another version than the one it was stored with."
    return SerializationError(f"{path} can't be rebuilt {side}: {why}{advice}")


def where(stream: Any, buffers: Sequence[Any], name: str = "the object") -> str:
    """Return the path of the part that can't be loaded in this process.

    Code that the pickle runs up to there (imports, ``__setstate__``) runs again. The path is like
    ``x['jobs'][2].model``; only `name` if it is the whole object, or can't be found out.
    """
    stopped = stopped_unpickler(stream, buffers)
    if stopped is not None:
        reader = _Reader(stream, stopped.steps)
        with contextlib.suppress(Exception):  # an error is being reported: no second one
            return name + _path(reader.load(), reader.failed)
    return name


def stopped_unpickler(stream: Any, buffers: Sequence[Any]) -> _CountingUnpickler | None:
    """Return an unpickler that stopped where loading fails; None: it doesn't, or is too long."""
    if memoryview(stream).nbytes > MOST_BYTES:
        return None
    loader = _CountingUnpickler(io.BytesIO(stream), buffers=buffers)
    try:
        loader.load()
    except Exception:
        return loader if loader.steps < MOST_STEPS else None
    return None


class _CountingUnpickler(pickle._Unpickler):
    """Unpickler that counts the opcodes it reads, and their bytes without frames."""

    read: Callable[[int], bytes]
    stack: list[Any]
    append: Callable[[Any], None]
    steps = 0

    def __init__(self, file: io.BytesIO, buffers: Iterable[Any]) -> None:
        super().__init__(file, buffers=buffers)
        self._file = file
        self._of_frames = 0

    @property
    def position(self) -> int:
        return self._file.tell() - self._of_frames

    @property
    def dispatch(self) -> _CountingUnpickler:  # type: ignore[override]
        """Table in which ``load`` looks up opcodes: this class's methods, by their usual names."""
        return self

    def __getitem__(self, opcode: int) -> Callable[[Any], None]:
        if self.steps == MOST_STEPS:
            raise OverflowError("a pickle of too many opcodes")
        self.steps += 1
        name: str = pickle._Unpickler.dispatch[opcode].__name__
        return getattr(type(self), name)  # type: ignore[no-any-return]

    def load_frame(self) -> None:
        """Skip the frame's header, without reading ahead: the file's position is the opcode's."""
        self._of_frames += 1 + len(self.read(8))


class _Reader(_CountingUnpickler):
    """Unpickler that runs no user code: what is imported or built becomes a stand-in.

    ``failed`` is what the opcode at step ``failing`` builds or changes: the top of the stack.
    """

    failed: Any = None

    def __init__(self, stream: Any, failing: int) -> None:
        # Each buffer is a separate object: it may be the one that fails.
        super().__init__(io.BytesIO(stream), buffers=iter(lambda: memoryview(b""), None))
        self._failing = failing

    def __getitem__(self, opcode: int) -> Callable[[Any], None]:
        if self.steps == self._failing:
            self.failed = self.stack[-1]
        return super().__getitem__(opcode)

    def find_class(self, module: str, name: str) -> Any:
        return _set_state if name in _SETTERS else stand_in(name, _Part)

    def get_extension(self, code: int) -> None:  # the inherited one fills a shared cache
        self.append(stand_in(f"extension {code}", _Part))

    def load_newobj(self) -> None:
        arguments = self.stack.pop()
        self.append(self.stack.pop()(*arguments))

    def load_newobj_ex(self) -> None:
        keywords, arguments = self.stack.pop(), self.stack.pop()
        self.append(self.stack.pop()(*arguments, **keywords))


_SETTERS = frozenset({"_function_setstate", "_class_setstate", "set_class_state"})
"""cloudpickle's functions and ours ``setter(object, state)``, called for their effect."""


class _Part(NotBuilt):
    """Stand-in that knows what would have made it and set its state."""

    maker: type[_Part] | _Part
    named: dict[str, Any]
    setter: _Part | None = None

    def __new__(cls, /, *arguments: Any, **named: Any) -> Self:
        made = super().__new__(cls, *arguments)
        made.maker, made.named = cls, named
        return made

    def __call__(self, /, *arguments: Any, **named: Any) -> _Part:
        made: _Part = stand_in("_", _Part)(*arguments, **named)
        made.maker = self
        return made

    def __repr__(self) -> str:
        return "…"

    def parts(self) -> Iterator[Part]:
        """Yield the parts in the order in which they are pickled."""
        name = type(self).__qualname__
        yield ("" if isinstance(self.maker, type) else ".__class__"), self.maker
        inner = name.startswith("_")  # a library's private function, unknown to users
        for n, argument in [*enumerate(self.arguments, 1), *self.named.items()]:
            yield None if inner else f" argument {n!r} of {name}", argument
        yield from _parts(dict(self.items) if self.has_keys else self.items)
        for attribute, value in self.attributes.items():
            if attribute:
                yield f".{attribute}", value
            elif name == "_reconstruct" and type(value[-1]) is list:  # an array of objects
                for index, item in zip(np.ndindex(value[1]), value[-1], strict=True):
                    yield f"[{', '.join(map(str, index)) or '()'}]", item
            else:
                yield ".__getstate__()", value
        yield "", self.setter


def _set_state(made: _Part, state: Any) -> _Part:
    made.__setstate__(state)
    made.setter = stand_in("_", _Part)()
    return made.setter


_WHOLES = (list, tuple, dict, set, frozenset, _Part)


def _parts(whole: Any) -> Iterator[Part]:
    match whole:
        case list() | tuple():
            return ((f"[{i}]", item) for i, item in enumerate(whole))
        case dict():
            return (
                part
                for key, value in whole.items()
                for part in ((f" key {short(key)}", key), (f"[{short(key)}]", value))
            )
        case set() | frozenset():
            return ((f"{{{short(item)}}}", item) for item in whole)
    return whole.parts()  # type: ignore[no-any-return]


def _path(whole: Any, part: Any) -> str:
    """Return the path from the whole to a part in pickling order: depth first, each object once."""
    path: list[str | None] = []
    seen: set[int] = set()
    open_parts: list[Iterator[Part]] = [iter([("", whole)])]
    while open_parts:
        for label, child in open_parts[-1]:
            if child is part:
                path.append(label)
                ends = path.index(None) if None in path else len(path)
                return "".join(filter(None, path[:ends]))
            if isinstance(child, _WHOLES) and id(child) not in seen:
                seen.add(id(child))
                path.append(label)
                open_parts.append(_parts(child))
                break
        else:
            open_parts.pop()
            del path[-1:]
    return ""

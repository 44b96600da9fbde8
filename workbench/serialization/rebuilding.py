"""Where in an object its rebuilding breaks: the path of the part that raises. Slow, for messages.

The stream is read twice. For real, to learn which opcode raises. Then with stand-ins for all
that would run somebody's code, to learn what that opcode builds, and what this is to the whole:
a list gets its items only after they are built.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, ClassVar

import numpy as np

from workbench.serialization.tables import short

MOST_BYTES = 32 << 20
"""Longer streams are not read again."""

MOST_STEPS = 1_000_000
"""Nor streams of more opcodes: this many take a second or two."""

Label = tuple[str, Any]
"""How a part is written behind its whole: a form, and what goes into it (if that is needed)."""

Part = tuple[Label, Any]

_ATTRIBUTE = ".{}"
_ELEMENT = "[array element]"  # goes into it: its number in C order, the array's shape

_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "BlockManager": (".blocks", ".axes"),  # of a data frame: its `._mgr`
    "MethodType": (".__func__", ".__self__"),
    "_make_cell": (".cell_contents",),
    "_make_function": (".__code__",),
    "_make_skeleton_class": ("", "", ".__bases__"),
    "_unpickle_block": (".values",),
    "getattr": (".__self__",),  # a method of a builtin
    "partial": (".func",),
}
"""What the arguments of a builder are to what it builds, where that has a name."""

_NAMED_BY = {"_make_skeleton_class": 1, "_make_skeleton_enum": 1, "_builtin_type": 0}
"""Functions of cloudpickle that give a class: which argument is its name."""


def where(stream: Any, buffers: Sequence[Any], name: str = "the object") -> str:
    """The path of the part that can't be rebuilt in this process.

    The rebuilding is tried once more, so what it runs (imports, ``__setstate__``) runs again.

    Parameters
    ----------
    stream : bytes-like
        A pickle that raises when it is loaded.
    buffers : sequence
        Its out-of-band buffers.
    name : str, optional
        What the path begins with.

    Returns
    -------
    path : str
        ``x['jobs'][2].model``; only `name` if it is the whole object, or can't be found out.
    """
    try:
        if memoryview(stream).nbytes > MOST_BYTES:
            return name
        failing = _failing_step(stream, buffers)
        if not failing:
            return name
        rehearsal = _Rehearsal(stream, failing)
        return name + "".join(map(_written, _way(rehearsal.load(), rehearsal.failed)))
    except Exception:  # this is told with an error: it must not become another one
        return name


def _failing_step(stream: Any, buffers: Sequence[Any]) -> int:
    """How many opcodes are read until one raises; 0 if none does."""
    reader = _Steps(io.BytesIO(stream), buffers=buffers)
    try:
        reader.load()
    except Exception:
        return reader.steps
    return 0


class _Steps(pickle._Unpickler):
    """An unpickler that counts the opcodes it reads."""

    stack: list[Any]
    append: Callable[[Any], None]
    read: Callable[[int], bytes]
    steps = 0

    @property
    def dispatch(self) -> _Steps:  # type: ignore[override]
        """What ``load`` looks each opcode up in."""
        return self

    def __getitem__(self, opcode: int) -> Callable[[Any], None]:
        if self.steps == MOST_STEPS:
            raise OverflowError("a stream of too many opcodes")
        self.steps += 1
        return self.handlers[opcode]

    def load_bytearray8(self) -> None:
        """The inherited one takes the memory before it knows that there are so many bytes."""
        self.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))

    handlers: ClassVar[Mapping[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,
        pickle.BYTEARRAY8[0]: load_bytearray8,
    }


class _Rehearsal(_Steps):
    """An unpickler that runs nobody's code: what is imported or built becomes a stand-in.

    Attributes
    ----------
    failed : object
        What the opcode at step ``failing`` builds or changes: the top of the stack after it.
    """

    failed: Any = None

    def __init__(self, stream: Any, failing: int) -> None:
        # Each buffer is an object of its own: it may be what fails.
        super().__init__(io.BytesIO(stream), buffers=iter(lambda: memoryview(b""), None))
        self._failing = failing

    def __getitem__(self, opcode: int) -> Callable[[Any], None]:
        if self.steps == self._failing:
            self.failed = self.stack[-1]
        return super().__getitem__(opcode)

    def find_class(self, module: str, name: str) -> Any:
        return _StandIn(name)

    def get_extension(self, code: int) -> None:  # the inherited one fills a cache of all picklers
        self.append(_StandIn(f"extension {code}"))

    def load_newobj(self) -> None:
        arguments = self.stack.pop()
        self.append(self.stack.pop()(*arguments))

    def load_newobj_ex(self) -> None:
        keywords, arguments = self.stack.pop(), self.stack.pop()
        self.append(self.stack.pop()(*arguments, **keywords))

    def load_pop(self) -> None:
        """Thrown away: perhaps a call ``setter(object, state)``, made for what it does."""
        call = self.stack[-1] if self.stack else None
        super().load_pop()  # type: ignore[misc]
        if type(call) is _StandIn and self.stack and type(self.stack[-1]) is _StandIn:
            self.stack[-1].set_by(call)

    handlers: ClassVar[Mapping[int, Callable[[Any], None]]] = {
        **_Steps.handlers,
        pickle.NEWOBJ[0]: load_newobj,
        pickle.NEWOBJ_EX[0]: load_newobj_ex,
        pickle.POP[0]: load_pop,
    }


class _StandIn:
    """In place of a class, a function, or what one of them builds: it notes what is done to it.

    Attributes
    ----------
    name : str
        Of the class or function; what it builds has the same name.
    maker : stand-in or None
        What was called to build this; None if it was imported.
    """

    __slots__ = ("_added", "_arguments", "_keywords", "_state", "maker", "name")

    def __init__(
        self, name: str, maker: _StandIn | None = None, /, *arguments: Any, **keywords: Any
    ) -> None:
        self.name = name
        self.maker = maker
        self._arguments = arguments
        self._keywords = keywords
        self._added: list[Part] = []
        self._state: Any = None

    def __repr__(self) -> str:
        return "…"

    def __call__(self, /, *arguments: Any, **keywords: Any) -> _StandIn:
        named = _NAMED_BY.get(self.name)
        name = self.name if named is None else arguments[named]
        return _StandIn(name, self, *arguments, **keywords)

    def append(self, item: Any) -> None:
        self._added.append((("[{}]", len(self._added)), item))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._added.extend(_entries({key: value}, "[{}]"))

    def __setstate__(self, state: Any) -> None:
        self._state = state

    def set_by(self, call: _StandIn) -> None:
        """If that was a call ``setter(self, state)``, it is a part of this."""
        if len(call._arguments) == 2 and call._arguments[0] is self:
            call._state, call._arguments = call._arguments[1], ()
            self._added.append((("", None), call))

    def parts(self) -> Iterator[Part]:
        """In the order they are pickled in."""
        if self.maker is not None:
            yield (self.maker.label(), None), self.maker
            labels = _ARGUMENTS.get(self.maker.name, ())
            for i, argument in enumerate(self._arguments):
                label = labels[i] if i < len(labels) else f" argument {i + 1} of {self.maker.name}"
                yield (label, None), argument
            for key, value in self._keywords.items():
                yield (f" argument {{}} of {self.maker.name}", key), value
        yield from self._added
        yield from self._parts_of_state(self._state)

    def label(self) -> str:
        """What a class or function is to what it builds: no part of it if it was imported."""
        if self.maker is None:
            return ""
        return ".__class__" if self.maker.name in _NAMED_BY else ".__reduce__()[0]"

    def _parts_of_state(self, state: Any) -> Iterator[Part]:
        if type(state) is not tuple:
            state = (state,)
        elif self.name == "_reconstruct" and type(state[-1]) is list:  # an array of objects
            yield from (((_ELEMENT, (i, state[1])), item) for i, item in enumerate(state[-1]))
            return
        elif self.name == "partial" and len(state) == 4:
            state = dict(zip(("func", "args", "keywords"), state, strict=False)), state[3]
        if len(state) <= 2 and {*map(type, state)} <= {dict, NoneType}:
            for attributes in filter(None, state):  # in __dict__, in __slots__
                yield from _entries(attributes, _ATTRIBUTE)
        else:
            yield (".__getstate__()", None), self._state


_WHOLES = frozenset({list, tuple, dict, set, frozenset, _StandIn})


def _parts(whole: Any) -> Iterator[Part]:
    match whole:
        case list() | tuple():
            return ((("[{}]", i), item) for i, item in enumerate(whole))
        case dict():
            return _entries(whole, "[{}]")
        case set() | frozenset():
            return ((("{{{}}}", item), item) for item in whole)
    return whole.parts()  # type: ignore[no-any-return]


def _entries(entries: Mapping[Any, Any], form: str) -> Iterator[Part]:
    for key, value in entries.items():
        yield (" key {}", key), key
        yield (form, key), value


def _way(whole: Any, part: Any) -> list[Label]:
    """The labels from one to the other, as pickle went: depth first, each object once."""
    way: list[Label] = []
    seen: set[int] = set()
    open_parts = [iter([(("", None), whole)])]
    while open_parts:
        for label, child in open_parts[-1]:
            if child is part:
                return [*way, label]
            if type(child) in _WHOLES and id(child) not in seen:
                seen.add(id(child))
                way.append(label)
                open_parts.append(_parts(child))
                break
        else:
            open_parts.pop()
            del way[-1:]
    return []


def _written(label: Label) -> str:
    form, value = label
    if form is _ELEMENT:
        return f"[{', '.join(map(str, np.unravel_index(*value))) or '()'}]"
    return form.format(value if form is _ATTRIBUTE else short(value))

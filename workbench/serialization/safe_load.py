"""Builds a value only to show it: runs no user code, imports nothing. Builds only data.

Instances of harmless types (numbers, times, arrays, tables) are built; everything else
becomes a `NotBuilt`, which has its name and what it would have been given.
"""

from __future__ import annotations

import io
import pickle
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Self

_PANDAS = (
    r"DataFrame|Series|NA|Interval|Period|Categorical|BlockManager|SingleBlockManager|"
    r"\w*(Index|Dtype|Array|Offset|Block)|_new_\w+|(__pyx)?\w*unpickle\w*"
)
_ARROW = (
    r"_reconstruct_table|_restore_array|type_for_alias|py_buffer|scalar|chunked_array|schema|field|"
    r"dictionary|struct|(large_)?(list|binary|string)(_view)?_?|map_|timestamp|time32|time64|"
    r"duration|decimal\d+|run_end_encoded|(sparse_|dense_)?union"
)
_NUMPY = (
    r"ndarray|dtype|matrix|recarray|record|scalar|_reconstruct|_frombuffer|"
    r"_convert_to_stringdtype_kwargs"
)

_HARMLESS = [
    (re.compile(module), re.compile(names))
    for module, names in (
        ("builtins", "complex|range|slice|Ellipsis|NotImplemented"),
        ("builtins", r"\w*(Error|Exception|Group|Warning|Exit|Interrupt|Iteration)"),
        ("_operator", "getitem"),  # of an array
        ("collections", "OrderedDict|Counter|deque|defaultdict"),
        ("array", "array|_array_reconstructor"),
        ("datetime", "date|time|datetime|timedelta|timezone"),
        ("decimal|fractions|uuid|zoneinfo", "Decimal|Fraction|UUID|ZoneInfo"),
        (r"pathlib(\._local)?", r"(Pure)?(Posix|Windows)?Path"),
        (r"numpy(\.rec|\._?core\.\w+)?", _NUMPY),
        (r"numpy\.ma\.core|numpy\.ma", "MaskedArray|_mareconstruct"),
        (
            r"pandas(\.arrays|\._libs\..+|\.core\.(frame|series|(internals|indexes|arrays|dtypes)\b.*))?",
            _PANDAS,
        ),
        (r"pandas\._libs\.(sparse|tslibs\.offsets)", "[A-Z][A-Za-z0-9]+"),
        (r"pyarrow\.lib", _ARROW),
        (r"scipy\.sparse\._\w+", r"[a-z]{3}_(array|matrix)"),
        ("torch", r"Tensor|(u?int|b?float|complex)\d+|bool"),
        (r"torch\.nn\.parameter", "Parameter"),
        (
            r"workbench\.serialization\.arrays",
            "_as_memoryview|_part_of|_as_subclass|_as_masked|_set_attributes",
        ),
        (
            r"workbench\.serialization\.libraries",
            "_read_arrow|_read_polars|_arrow_tensor|_arrow_backed|_tensor|_copied",
        ),
    )
]
"""Modules, and names in each. Calling one with any pickled arguments only makes a value."""


class _Named(type):
    def __repr__(cls) -> str:
        return str(cls.__qualname__)


class NotBuilt(metaclass=_Named):
    """Stands for an object that isn't built: has its name and parts.

    Attributes
    ----------
    of : str
        The class's or function's name.
    arguments : tuple
        Arguments it would have been made with.
    attributes : dict
        Its attributes by name; under "" a state of unknown structure.
    items : list
        Its items, or (``has_keys``) pairs of a key and a value.
    """

    of = "…"
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]
    items: list[Any]
    has_keys = False

    def __new__(cls, /, *arguments: Any, **named: Any) -> Self:
        made = super().__new__(cls)
        made.arguments, made.attributes, made.items = arguments, named, []
        return made

    def __init__(self, /, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, /, *arguments: Any, **named: Any) -> NotBuilt:
        return stand_in("_")(*arguments, **named)  # type: ignore[no-any-return]

    def __setstate__(self, state: Any) -> None:
        parts = state if type(state) is tuple and len(state) == 2 else (state,)
        if all(part is None or type(part) is dict for part in parts):
            for part in filter(None, parts):
                self.attributes.update((str(name), value) for name, value in part.items())
        else:
            self.attributes[""] = state

    def append(self, item: Any) -> None:
        self.items.append(item)

    add = append

    def extend(self, items: Iterable[Any]) -> None:
        self.items.extend(items)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append((key, value))
        self.has_keys = True

    def __repr__(self) -> str:
        return f"{self.of}(…)"


def load(stream: memoryview, buffers: Sequence[Any] = (), where: object = None) -> Any:
    """Build the harmless parts of a pickled value; has the signature of `codec.load`. LookupError
    if a module is needed that isn't imported; the text says which."""
    return _DataUnpickler(io.BytesIO(stream), buffers=buffers).load()


class _DataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if any(where.fullmatch(module) and what.fullmatch(name) for where, what in _HARMLESS):
            if module not in sys.modules:
                raise LookupError(f"{module} isn't imported here")
            return super().find_class(module, name)
        return _OTHERS.get((module, name)) or stand_in(name)


def stand_in(name: str, base: type[NotBuilt] = NotBuilt) -> Any:
    """Make a class that stands for a class or function of this name."""
    of = name.rpartition(".")[2]
    made = _Named("not_built", (base,), {"of": "…" if of.startswith("_") else of})
    made.__qualname__ = of  # `expressions.describe` shows it as the value's type
    return made


def _get_attribute(owner: Any, name: str) -> Any:
    if name == "_unpickle" and getattr(owner, "__module__", "") == "zoneinfo":
        return owner._unpickle
    return stand_in(name)


_OTHERS: dict[tuple[str, str], Any] = {
    ("builtins", "getattr"): _get_attribute,
    ("workbench.serialization.class_states", "_known_or_made"): lambda *how: stand_in(how[2]),
    ("cloudpickle.cloudpickle", "_make_skeleton_class"): lambda kind, name, *_: stand_in(name),
    ("cloudpickle.cloudpickle", "_make_skeleton_enum"): lambda bases, name, *_: stand_in(name),
    ("cloudpickle.cloudpickle", "_make_function"): lambda *_: stand_in("function")(),
    ("workbench.context", "restore"): lambda ref, _: stand_in("ObjectRef")(stand_in(f"{ref:016x}")),
}

"""How tables keep their columns, so that what lies in them can be named. Imports none of them.

pandas pickles a table as blocks of columns of one dtype. Their arrays are found here before they
are saved, by identity. What is kept in another way than we know gets no name from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

MOST_NAMED = 2
"""Columns that the label of a block of many names."""


class Cells(NamedTuple):
    """What the objects of an array are called, by their number in C order.

    ``span`` is how many in a row belong to one group: a column, or all.
    """

    label: Callable[[int], str]
    group: Callable[[int], str]
    span: int


class Part(NamedTuple):
    """Something that a table is made of; ``cells`` if it is an array of objects."""

    object: Any
    label: str
    cells: Cells | None = None


Table = dict[int, Part]
"""Parts by ``id``; they live as long as this does."""


def short(value: Any, most: int = 30) -> str:
    """A repr that fits into a path; never raises, whatever the object does."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= most else text[: most - 1] + "…"


def cells_of(array: Any) -> Cells:
    """Objects of an array that belongs to no table: by index."""
    shape = array.shape

    def label(n: int) -> str:
        return f"[{', '.join(map(str, map(int, np.unravel_index(n, shape))))}]"

    return Cells(label, lambda n: "[…]", max(array.size, 1))


def table_of(value: Any, args: Any) -> Table | None:
    """What has a name among that which a value is made of; None if it is an object like others.

    Empty if nothing inside is worth a name. ``args`` are those of its reduction.
    """
    if isinstance(value, _SEALED):
        return {}
    try:
        find = _finder(type(value))
        return None if find is None else {id(part.object): part for part in find(value, args)}
    except Exception:  # of another version than those we know
        return None


_SEALED = (np.ndarray, np.dtype, np.generic, CodeType)

_Finder = Callable[[Any, Any], Iterable[Part]]


def _finder(kind: type) -> _Finder | None:
    for cls in kind.__mro__:
        package = _FINDERS.get(cls.__module__.partition(".")[0])
        if package is not None:
            return package.get(cls.__name__) or package.get("any")
    return None


def _pandas(table: Any, args: Any) -> Iterator[Part]:
    columns = [short(c) for c in table.columns] if table.ndim == 2 else []
    yield Part(table._mgr, "")
    for block in table._mgr.blocks:
        names = [columns[i] for i in block.mgr_locs] if columns else []
        yield from _block(block.values, names, table.index)
    for label, axis in ((" index", table.index), (" columns", getattr(table, "columns", None))):
        yield Part(axis, label)
        data = getattr(axis, "_data", None)
        if _holds_objects(data):
            yield Part(data, "", cells_of(data))


def _block(values: Any, names: Sequence[str], index: Any) -> Iterator[Part]:
    inner = getattr(values, "_ndarray", None)  # of an extension array that is one array inside
    if _holds_objects(inner):
        yield Part(values, _columns(names))
        yield Part(inner, "", _rows(index))
    elif not _holds_objects(values):
        yield Part(values, _columns(names))
    elif len(names) < 2:
        yield Part(values, _columns(names), _rows(index))
    else:
        yield Part(values, "", _rows_of(names, index))


def _columns(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(f" column {name}" for name in names)
    more = ", …" if len(names) > MOST_NAMED else ""
    return f" columns {', '.join(names[:MOST_NAMED])}{more}"


def _rows(index: Any) -> Cells:
    """One column, or a Series."""
    return Cells(lambda n: f" row {short(index[n])}", lambda n: "[…]", max(len(index), 1))


def _rows_of(names: Sequence[str], index: Any) -> Cells:
    """Several columns in one array, one after the other."""
    rows = max(len(index), 1)

    def group(n: int) -> str:
        return f" column {names[n // rows]}"

    return Cells(lambda n: f"{group(n)} row {short(index[n % rows])}", group, rows)


def _holds_objects(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.hasobject


def _arrow(table: Any, args: Any) -> Iterator[Part]:
    """A pyarrow table reduces to its columns and its schema."""
    if isinstance(args[0], list):
        for name, column in zip(table.schema.names, args[0], strict=True):
            yield Part(column, f" column {short(name)}")


def _nothing(value: Any, args: Any) -> Iterable[Part]:
    """It is a leaf, whatever it is made of."""
    return ()


_FINDERS: dict[str, dict[str, _Finder]] = {
    "pandas": {"DataFrame": _pandas, "Series": _pandas},
    "pyarrow": {"Table": _arrow, "RecordBatch": _arrow, "any": _nothing},
    "polars": {"DataFrame": _nothing, "Series": _nothing},
    "torch": {"Tensor": _nothing},
}
"""By package and class, or a base of it."""

"""What data frames are made of, so that what is in them can be named. Imports none of them.

pandas pickles a frame as blocks of columns of one dtype. Which columns an array has is seen from
where its memory begins. What is kept in another way than we know gets no name from here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from workbench.expressions import short, written
from workbench.serialization.arrays import address

MOST_NAMED = 2
"""Columns that the label of a block of many names."""


class ColumnCells(NamedTuple):
    """What the objects of an array are called, by their number in C order.

    ``columns`` are the labels of what follows each other in it, each ``rows`` objects long; ``row``
    labels one of those.
    """

    columns: tuple[str, ...]
    rows: int
    row: Callable[[int], str]

    def label(self, n: int) -> str:
        """Of one object: ``['x'].iloc[3]``."""
        return self.columns[n // self.rows] + self.row(n % self.rows)

    def group(self, n: int) -> str:
        """Of its like together: the column."""
        return self.columns[n // self.rows] or "[…]"


class Columns:
    """The parts of a frame that have names: objects by identity, arrays also by their memory."""

    def __init__(self, rows: int = 0) -> None:
        self._rows = rows
        self._objects: dict[int, tuple[Any, str]] = {}  # with each object, so that its id stays its
        self._arrays: dict[int, Any] = {}  # by address; None: the index's own objects

    def add(self, part: Any, label: str) -> None:
        """Name an object."""
        self._objects[id(part)] = part, label

    def add_array(self, array: Any, label: str | None) -> None:
        """Name all arrays that begin where this one does."""
        self._arrays[address(array)] = label

    def find(self, child: Any) -> tuple[str, ColumnCells | None] | None:
        """What the part is called that this is, or all of those that are rows of this array; and
        its objects, if it is an array of them."""
        if id(child) in self._objects:
            return self._objects[id(child)][1], None
        if not isinstance(child, np.ndarray) or not child.size:
            return None
        lines = child if child.ndim == 2 and len(child) <= len(self._arrays) else [child]
        addresses = [address(line) for line in lines]
        if not self._arrays.keys() >= {*addresses}:
            return None
        labels = tuple(self._arrays[address] for address in addresses)
        if None in labels:
            return "", cells_of(child)
        several = len(labels) > 1
        if child.dtype.hasobject:
            cells = ColumnCells(labels if several else ("",), max(self._rows, 1), _row)
            return "" if several else labels[0], cells
        if not several:
            return labels[0], None
        names = ", ".join(label.removeprefix("[")[:-1] for label in labels[:MOST_NAMED])
        return f"[[{names}{', …' if len(labels) > MOST_NAMED else ''}]]", None


def _row(n: int) -> str:
    return f".iloc[{n}]"


def cells_of(array: Any) -> ColumnCells:
    """Objects of an array that belongs to no frame: by index."""

    def label(n: int) -> str:
        return f"[{', '.join(map(str, map(int, np.unravel_index(n, array.shape))))}]"

    return ColumnCells(("",), max(array.size, 1), label)


def columns_of(value: Any, args: Any) -> Columns | None:
    """What has a name among that which a value is made of; None if it is an object like others.

    What can only be changed by its library has no named parts: an array, a tensor. ``args`` are
    those of its reduction.
    """
    if isinstance(value, (np.ndarray, np.dtype, np.generic, CodeType)):
        return Columns()
    for cls in type(value).__mro__:
        kinds = _KINDS.get(cls.__module__.partition(".")[0])
        if kinds is not None:
            find = kinds.get(cls.__name__) or kinds.get("any")
            try:
                return find and find(value, args)
            except Exception:  # of another version than those we know
                return None
    return None


def column_label(name: Any, number: int, is_unique: bool) -> str:
    """How a column of a frame is written behind it; ``is_unique``: whether its names are."""
    text = written(name) if is_unique else None
    return f".iloc[:, {number}]" if text is None else f"[{text}]"


def _pandas(frame: Any, args: Any) -> Columns:
    columns = Columns(len(frame.index))
    named = [("", frame)]
    if frame.ndim == 2:
        is_unique = frame.columns.is_unique
        named = [
            (column_label(name, i, is_unique), column)
            for i, (name, column) in enumerate(frame.items())
        ]
    for label, column in named:
        if isinstance(column.dtype, np.dtype):
            columns.add_array(column.to_numpy(), label)
        elif getattr(column.dtype, "tz", None) is not None:  # several are kept in one array
            columns.add_array(column.array.view("i8"), label)
        else:
            columns.add(column.array, label)
            if getattr(column.dtype, "storage", "") == "python":  # one array of str inside
                columns.add_array(np.asarray(column.array), "")
    for label, axis in zip((".index", ".columns"), frame.axes, strict=False):
        columns.add(axis, label)
        if getattr(axis.dtype, "hasobject", False):
            columns.add_array(axis.to_numpy(), None)
    return columns


def _arrow(table: Any, args: Any) -> Columns:
    """A pyarrow table reduces to its columns and its schema."""
    columns = Columns()
    if isinstance(args[0], list):
        for name, column in zip(table.schema.names, args[0], strict=True):
            columns.add(column, f"[{written(name) or short(name)}]")
    return columns


def _sealed(value: Any, args: Any) -> Columns:
    return Columns()


_KINDS: dict[str, dict[str, Callable[[Any, Any], Columns]]] = {
    "pandas": {"DataFrame": _pandas, "Series": _pandas},
    "pyarrow": {"Table": _arrow, "RecordBatch": _arrow, "any": _sealed},
    "polars": {"DataFrame": _sealed, "Series": _sealed},
    "torch": {"Tensor": _sealed},
}
"""By package and class, or a base of it."""

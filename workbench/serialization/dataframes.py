"""Finds names for the parts of data frames. Imports none of their libraries.

pandas pickles a frame as blocks of columns of one dtype. The address of an array tells which
columns it holds. Parts stored in a way unknown to this module get no name.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from workbench.expressions import short, written
from workbench.serialization.arrays import address

MOST_NAMED = 2
"""Columns named in the label of a block; if there are more, … follows."""


class ColumnCells(NamedTuple):
    """Names of an array's objects, by their number in C order.

    ``columns`` are labels of the array's consecutive runs of ``rows`` objects; ``row`` labels one
    object of a run.
    """

    columns: tuple[str, ...]
    rows: int
    row: Callable[[int], str]

    def label(self, n: int) -> str:
        """Return the label of one object: ``['x'].iloc[3]``."""
        return self.columns[n // self.rows] + self.row(n % self.rows)

    def group(self, n: int) -> str:
        """Return the label of all objects in its column: the column's."""
        return self.columns[n // self.rows] or "[…]"


class Columns:
    """The named parts of a frame: objects by identity, arrays also by their memory."""

    def __init__(self, rows: int = 0) -> None:
        self._rows = rows
        self._objects: dict[int, tuple[Any, str]] = {}  # keeps each object: its id stays valid
        self._arrays: dict[int, Any] = {}  # by address; None: the objects of an index

    def add(self, part: Any, label: str) -> None:
        self._objects[id(part)] = part, label

    def add_array(self, array: Any, label: str | None) -> None:
        """Name all arrays that begin where this one does."""
        self._arrays[address(array)] = label

    def find(self, child: Any) -> tuple[str, ColumnCells | None] | None:
        """Return the label of a part, or of named arrays that are this array's rows, and the names
        of its objects, if it is an array of objects. None: it has no name."""
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
            cells = ColumnCells(
                labels if several else ("",), max(self._rows, 1), ".iloc[{}]".format
            )
            return "" if several else labels[0], cells
        if not several:
            return labels[0], None
        names = ", ".join(label.removeprefix("[")[:-1] for label in labels[:MOST_NAMED])
        return f"[[{names}{', …' if len(labels) > MOST_NAMED else ''}]]", None


def cells_of(array: Any) -> ColumnCells:
    """Name the objects of an array that belongs to no frame: by index."""

    def label(n: int) -> str:
        return f"[{', '.join(map(str, map(int, np.unravel_index(n, array.shape))))}]"

    return ColumnCells(("",), max(array.size, 1), label)


def columns_of(value: Any, args: Any) -> Columns | None:
    """Return the named parts of what a value reduces to; None if it is an ordinary object.

    An object that only its library can change (an array, a tensor) has no named parts. ``args`` are
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
            except Exception:  # an unknown version of the library
                return None
    return None


def column_label(name: Any, number: int, is_unique: bool) -> str:
    """Write the access to a column, ``['x']``; ``is_unique``: True if the column names are."""
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
        elif getattr(column.dtype, "tz", None) is not None:  # several columns may share one array
            columns.add_array(column.array.view("i8"), label)
        else:
            columns.add(column.array, label)
            if getattr(column.dtype, "storage", "") == "python":  # it wraps one array of str
                columns.add_array(np.asarray(column.array), "")
    for label, axis in zip((".index", ".columns"), frame.axes, strict=False):
        columns.add(axis, label)
        if getattr(axis.dtype, "hasobject", False):
            columns.add_array(axis.to_numpy(), None)
    return columns


def _arrow(table: Any, args: Any) -> Columns:
    """Name the columns of a pyarrow table, which reduces to its columns and its schema."""
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
"""By package, then by the name of the class or of a base."""

"""Shows the beginning of a value: as text, or as the first rows of a table. Reads little of it.

Imports no library: a table of pandas, polars or pyarrow has its own methods.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from itertools import islice
from numbers import Real
from typing import Any, NamedTuple

from workbench.report.markup import Table

ROWS, COLUMNS = 5, 8
"""Size limits of a table."""

LINES, WIDTH = 8, 88
"""Size limits of a text."""

CELL = 40
"""Characters of one cell."""


class Preview(NamedTuple):
    """A text or a table to show; or the reason why there is none."""

    text: str = ""
    table: Table | None = None
    obstacle: str = ""


class _Short(reprlib.Repr):
    """`repr` with limits in breadth and in depth."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = 8
        self.maxarray = self.maxdeque = 8
        self.maxstring = self.maxother = 120

    def repr_instance(self, x: Any, level: int) -> str:
        """Return the repr of any other object on one line."""
        if type(x).__name__ == "ndarray":
            return f"array({x.dtype}, {x.shape})"
        return " ".join(super().repr_instance(x, level).split())

    repr_ndarray = repr_instance

    def repr_not_built(self, x: Any, level: int) -> str:
        """Return the repr of a `NotBuilt`: its class's name, and what it would have got."""
        if level <= 0:
            return repr(x)
        parts = [self.repr1(each, level - 1) for each in (*x.arguments, *x.items)[: self.maxlist]]
        parts += [
            f"{name}={self.repr1(each, level - 1)}" if name else self.repr1(each, level - 1)
            for name, each in islice(x.attributes.items(), self.maxdict)
        ]
        more = len(x.arguments) + len(x.items) + len(x.attributes) > len(parts)
        return f"{x.of}({', '.join(parts)}{', …' * more})"


def preview(value: Any) -> Preview:
    """Return the beginning of a value. Raises what its class's own methods raise."""
    for kind in type(value).__mro__:
        look = _LOOKS.get((kind.__module__.partition(".")[0], kind.__name__))
        if look is not None:
            return look(value)
    return Preview(_cut(_Short().repr(value)))


def in_short(value: Any) -> str:
    """Return the beginning of a value's repr, on one line."""
    return _clip(" ".join(_Short().repr(value).split()), WIDTH)


def _array(array: Any) -> Preview:
    import numpy as np

    edge = 3 if array.ndim < 3 else 1
    with np.printoptions(
        linewidth=WIDTH,
        threshold=4 * edge,
        edgeitems=edge,
        precision=5,
        formatter={"object": _Short().repr} if array.dtype.hasobject else None,
    ):
        return Preview(_cut(str(array)))


def _pandas(frame: Any) -> Preview:
    """Preview a copy of the first cells: else pandas' caches would keep the store's bytes alive."""
    part = frame.iloc[:ROWS, :COLUMNS].copy()
    head = ("", *(str(name) for name in part.columns))
    cells = [
        [part.index[row], *(part.iat[row, column] for column in range(part.shape[1]))]
        for row in range(len(part))
    ]
    return _table(head, cells, frame.shape)


def _series(series: Any) -> Preview:
    return _pandas(series.to_frame("" if series.name is None else series.name))


def _polars(frame: Any) -> Preview:
    part = frame[:ROWS, :COLUMNS]
    return _table(tuple(part.columns), part.rows(), frame.shape)


def _arrow(table: Any) -> Preview:
    part = table.slice(0, ROWS).select(table.schema.names[:COLUMNS])
    columns = [column.to_pylist() for column in part.columns]
    shape = table.num_rows, table.num_columns
    return _table(tuple(part.schema.names), list(zip(*columns, strict=True)), shape)


def _table(head: tuple[str, ...], cells: Sequence[Sequence[Any]], shape: Any) -> Preview:
    rows, columns = shape
    more = [
        f"{count - shown} more {what}"
        for count, shown, what in ((rows, ROWS, "rows"), (columns, COLUMNS, "columns"))
        if count > shown
    ]
    lines = tuple(tuple(_cell(value) for value in line) for line in cells)
    names = tuple(_clip(name, CELL) for name in head)
    figures = tuple(
        name
        for name, column in zip(names, zip(*cells, strict=True), strict=False)
        if all(isinstance(value, Real) for value in column)
    )
    return Preview(table=Table(names, lines, figures, ", ".join(more)))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return _clip(" ".join(str(value).split()), CELL)


def _cut(text: str) -> str:
    lines = text.split("\n")
    rest = ["…"] if len(lines) > LINES else []
    return "\n".join([*(_clip(line, 4 * WIDTH) for line in lines[:LINES]), *rest])


def _clip(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


_LOOKS: dict[tuple[str, str], Callable[[Any], Preview]] = {
    ("numpy", "ndarray"): _array,
    ("pandas", "DataFrame"): _pandas,
    ("pandas", "Series"): _series,
    ("polars", "DataFrame"): _polars,
    ("pyarrow", "Table"): _arrow,
}
"""By package, then by the name of the class or of a base."""

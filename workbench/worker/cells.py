"""Running a `%%remote` cell: compile it under its own file name, run it, show its last value."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from typing import Any

from workbench.errors import NotDefinedError
from workbench.worker.executor import Failed


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as it travels.

    Attributes
    ----------
    source : str
        The body, below the magic's line.
    filename : str
        The name the notebook's compiler gave the whole cell.
    first_line : int
        The body's first line within the cell, counted from 1.
    outputs : tuple of str
        Names to return, one result each.
    """

    source: str
    filename: str
    first_line: int
    outputs: tuple[str, ...]


def run_cell(cell: Cell, /, **names: Any) -> Any:
    """Run the cell with ``names`` defined; returns None, then each of its outputs.

    The text is never pasted into another: the tree is compiled as it is, with line numbers that
    count from the cell's own first line.
    """
    from workbench.worker.display import cell_display

    tree = ast.parse(cell.source, cell.filename)
    ast.increment_lineno(tree, cell.first_line - 1)
    lines = [""] * (cell.first_line - 1) + cell.source.splitlines()
    linecache.cache[cell.filename] = (
        len(cell.source), None, [line + "\n" for line in lines], cell.filename,
    )  # fmt: skip
    last: Any = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    namespace: dict[str, Any] = {"__name__": "__main__", **names}
    with cell_display(namespace) as show:
        exec(compile(tree, cell.filename, "exec"), namespace)
        if last is not None:
            expression = ast.Expression(last.value)
            value = eval(compile(expression, cell.filename, "eval"), namespace)
            if value is not None and not cell.source.rstrip().endswith(";"):
                show(value)
            del value
    outputs = tuple(_output(namespace, name) for name in cell.outputs)
    return (None, *outputs) if outputs else None


def _output(namespace: dict[str, Any], name: str) -> Any:
    if name in namespace:
        return namespace[name]
    return Failed(
        NotDefinedError(
            f"The cell ended without giving {name!r} a value: the line that assigns it did not "
            "run, or the name was deleted again."
        )
    )

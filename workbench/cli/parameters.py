"""Parameters of a notebook, as papermill has them: values from words, and the cell with them."""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from workbench.errors import WorkbenchError
from workbench.report.notebook_run import unusable_text

INJECTED = "injected-parameters"
"""Tag of the cell that overrides the one tagged ``parameters``."""


def value_of(word: str) -> Any:
    """Return a value as papermill reads it: True, False, None, an int, a float, or the text."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(word)
    return {"True": True, "False": False, "None": None}.get(word, word)


def source_of(values: Mapping[str, Any]) -> str:
    """Return the cell's code. WorkbenchError if one of the names isn't a variable's."""
    lines = ["# Parameters"]
    for name, value in values.items():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise WorkbenchError(unusable_text(repr(name), "it is no name of a variable"))
        is_literal = not isinstance(value, float) or math.isfinite(value)
        lines.append(f"{name} = {value!r}" if is_literal else f'{name} = float("{value}")')
    return "\n".join(lines)


def inject(cells: list[Any], cell: Any) -> None:
    """Put the cell in place of an earlier injected one, else behind ``parameters``, else first."""
    tags = [each.get("metadata", {}).get("tags", ()) for each in cells]
    earlier = [i for i, each in enumerate(tags) if INJECTED in each]
    defaults = [i for i, each in enumerate(tags) if "parameters" in each]
    place = (earlier or [i + 1 for i in defaults] or [0])[0]
    cells[place : place + bool(earlier)] = [cell]

"""Parameters of a notebook, as papermill has them: values from words, and the cell with them."""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
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


def read_values(path: Path) -> dict[str, Any]:
    """Return the values of a JSON file by name. WorkbenchError if it has none."""
    try:
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise WorkbenchError(unusable_text(str(path), error.strerror or str(error))) from None
    except (ValueError, RecursionError) as error:
        raise WorkbenchError(unusable_text(str(path), f"it isn't JSON ({error})")) from None
    if not isinstance(values, dict):
        raise WorkbenchError(unusable_text(str(path), "it has to be an object: names and values"))
    return values


def source_of(values: Mapping[str, Any]) -> str:
    """Return the cell's code. WorkbenchError if one of the names isn't a variable's."""
    lines = ["# Parameters"]
    for name, value in values.items():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise WorkbenchError(unusable_text(repr(name), "it is no name of a variable"))
        lines.append(f"{name} = {_literal(value)}")
    return "\n".join(lines)


def _literal(value: Any) -> str:
    """Return a value of JSON's types as Python's code."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_literal(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    is_number = not isinstance(value, float) or math.isfinite(value)
    return repr(value) if is_number else f'float("{value}")'


def inject(cells: list[Any], cell: Any) -> None:
    """Put the cell in place of an earlier injected one, else behind ``parameters``, else first."""
    tags = [each.get("metadata", {}).get("tags", ()) for each in cells]
    earlier = [i for i, each in enumerate(tags) if INJECTED in each]
    defaults = [i for i, each in enumerate(tags) if "parameters" in each]
    place = (earlier or [i + 1 for i in defaults] or [0])[0]
    cells[place : place + bool(earlier)] = [cell]

"""Notebook files as JSON. nbformat isn't imported for them: each process of tests would spend
seconds on that, before the first test (`test_collecting_stays_light`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.patience import TIMEOUT

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class Node(dict[str, Any]):
    """A part of a notebook; its keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def read(path: Path) -> Node:
    """Read a file. What it keeps as a list of lines is a str."""
    found: Node = json.loads(path.read_text(), object_hook=_node)
    return found


def write(path: Path, cells: Sequence[str], tags: Sequence[str] = ()) -> None:
    """Write a notebook of these code cells, each with these tags."""
    nodes = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {"tags": tags} if tags else {},
            "execution_count": None,
            "source": cell,
            "outputs": [],
        }
        for number, cell in enumerate(cells)
    ]
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": METADATA, "cells": nodes}
    path.write_text(json.dumps(whole))


def executed(cells: Sequence[str]) -> Any:
    """Execute these code cells as `workbench run` does, and return its notebook."""
    import nbformat

    from workbench.cli.execution import Execution

    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    execution = Execution(made, Path.cwd(), os.environ, limit=TIMEOUT)
    done = execution.run()
    assert done.state == "done", done
    execution.set_widgets_metadata()
    return made


def _node(found: dict[str, Any]) -> Node:
    return Node((key, _joined(value) if _is_text(key) else value) for key, value in found.items())


def _is_text(key: str) -> bool:
    return key in ("source", "text") or ("/" in key and not key.endswith("json"))


def _joined(value: Any) -> Any:
    return "".join(value) if isinstance(value, list) else value

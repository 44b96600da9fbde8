"""`results`: which exercises of many saved notebooks are done, as a table: for a class's teacher.

Reads what their checks have shown, in any language; runs nothing, and asks no session.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from workbench.course.checks import exercises
from workbench.course.exercises import SHAPES, Lesson
from workbench.report.markup import DOTS, Rich, Table

CHECKED = re.compile(rf"(\w+): .*\n(?:.*\n)*?([{DOTS}]+) ")
"""What a check shows: the exercise, and then which exercises of its lesson are done."""


@dataclass(frozen=True, repr=False)
class ClassResults(Rich):
    """A row for each notebook and lesson. Prints as text, shows as a table."""

    table: Table

    def _text(self) -> str:
        return self.table.text()

    def _repr_html_(self) -> str:
        return self.table.html()


def results(folder: str | PathLike[str]) -> ClassResults:
    """Read the notebooks that a class has handed in.

    Parameters
    ----------
    folder : path
        Where they are, saved with their output; folders inside it are read too, but for hidden
        ones, such as Jupyter's checkpoints.

    Returns
    -------
    ClassResults
        For each notebook: how many exercises are done, and the names of the others.
    """
    paths = [path.relative_to(folder) for path in sorted(Path(folder).rglob("*.ipynb"))]
    shown = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
    rows = [(str(path), *row) for path in shown for row in _rows(folder / path)]
    note = "" if rows else f"There is no notebook in {str(folder)!r}."
    return ClassResults(Table(("notebook", "lesson", "done", "not yet"), tuple(rows), note=note))


def _rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """Of a notebook, for each of its lessons: the title, how much is done, and what isn't."""
    try:
        found = _done_in(path)
    except (OSError, *SHAPES) as error:
        yield f"can't be read: {error}", "", ""
        return
    for lesson, done in found.items():
        left = [each.name for each in lesson.exercises if each.name not in done]
        yield lesson.title, f"{len(done)} of {len(lesson.exercises)}", ", ".join(left)
    if not found:
        yield "no check was run", "", ""


def _done_in(path: Path) -> dict[Lesson, set[str]]:
    """What a notebook's checks have shown to be done. ValueError: they were another version's."""
    found: dict[Lesson, set[str]] = {}
    for text in _shown(json.loads(path.read_text(encoding="utf-8"))):
        if (said := CHECKED.match(text)) and said[1] in exercises():
            lesson, _ = exercises()[said[1]]
            if len(said[2]) != len(lesson.exercises):
                raise ValueError("another version of the course made its checks: run it again")
            row = zip(said[2], lesson.exercises, strict=True)
            found.setdefault(lesson, set()).update(e.name for sign, e in row if sign == DOTS[1])
    return found


def _shown(notebook: dict[str, Any]) -> Iterator[str]:
    """The texts under a notebook's code cells."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            yield "".join(output.get("data", {}).get("text/plain", ()))

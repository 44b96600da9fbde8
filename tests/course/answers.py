"""What the answers to a lesson's exercises are made of. No answers, no tests.

They stand in a text file beside the lesson's module. First the right guesses, by what stands behind
``guess-`` in the id of the cell; then, by the exercise's name, the right cell, and wrong ones with
what the check says of each: a regular expression. A cell that begins with ``= `` is what that
expression makes of the module's names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.tables import tables

RESTART = "# The kernel is restarted.\n"
"""A line of an answer at which that happens. What stands before and after it are cells that are run
as a person does: a background cell goes on meanwhile."""


class Edit(NamedTuple):
    """An answer that edits the exercise's cell: texts, each with what stands in its place."""

    changes: tuple[str, ...]


def edit(*changes: str) -> Edit:
    return Edit(changes)


def typed(answer: str | Edit, cell: str) -> str:
    """What the cell is with this answer, which is another cell or an edit of it."""
    if isinstance(answer, str):
        return answer
    for old, new in zip(answer.changes[::2], answer.changes[1::2], strict=True):
        assert old in cell, old
        cell = cell.replace(old, new)
    return cell


def other(question: str) -> str:
    """A wrong guess: another choice, another order, or a number that is far off."""
    found = f"measured_{question}"
    return (
        f"guess_{question} = {found}.answer[::-1] if isinstance({found}.answer, tuple) else next("
        f"x for x in {found}.choices or [{found}.answer * 3 + 1] if x != {found}.answer)"
    )


class Wrong(NamedTuple):
    """An answer that isn't right, "almost" or "wrong", and what the check says of it."""

    state: str
    says: str
    source: str | Edit


@dataclass(frozen=True)
class Answers:
    """Of one lesson: what replaces its cells."""

    guesses: Mapping[str, str]
    right: Mapping[str, str | Edit]
    wrong: Mapping[str, Sequence[Wrong]]

    @property
    def mistaken(self) -> Mapping[str, str]:
        """Wrong guesses, as source."""
        return {each: other(each.replace("-", "_")) for each in self.guesses}


def read(module: str, names: Mapping[str, Any]) -> Answers:
    """Return the answers that stand beside the file of a lesson's module, which has these names."""

    def cell(text: str) -> Any:
        return eval(text[2:], {"edit": edit, **names}) if text.startswith("= ") else text

    head = Path(module).with_suffix(".txt").read_text().partition("\n## ")[0]
    guesses = re.findall(r"^([\w-]+) = (.*)", head, re.MULTILINE)
    exercises = {name: rows for name, rows in tables(module).items() if name}
    assert all(rows[0][0] == "right" for rows in exercises.values())
    return Answers(
        {name: f"guess_{name.replace('-', '_')} = {guess}" for name, guess in guesses},
        {name: cell(rows[0][1]) for name, rows in exercises.items()},
        {
            name: [Wrong(*kind.split(": ", 1), cell(text)) for kind, text in rows[1:]]
            for name, rows in exercises.items()
        },
    )

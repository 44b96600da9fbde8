"""What the answers to a lesson's exercises are made of. No answers, no tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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


@dataclass(frozen=True)
class Wrong:
    """An answer that isn't right, and what the check says of it: a regular expression."""

    source: str | Edit
    says: str
    state: str = "wrong"


def almost(source: str | Edit, says: str) -> Wrong:
    """One to which little is wanting."""
    return Wrong(source, says, "almost")


@dataclass(frozen=True)
class Answers:
    """Of one lesson: what replaces its cells.

    ``guesses`` by what stands behind ``guess-`` in the id of the cell: the right ones, as source;
    ``right`` and ``wrong`` by the exercise's name.
    """

    guesses: Mapping[str, str] = field(default_factory=dict)
    right: Mapping[str, str | Edit] = field(default_factory=dict)
    wrong: Mapping[str, Sequence[Wrong]] = field(default_factory=dict)

    @property
    def mistaken(self) -> Mapping[str, str]:
        """Wrong guesses, as source."""
        return {each: other(each.replace("-", "_")) for each in self.guesses}

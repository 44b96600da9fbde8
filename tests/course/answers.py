"""What the answers to a lesson's exercises are made of. No answers, no tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

RESTART = "# The kernel is restarted.\n"
"""A line of an answer at which that happens. What stands before and after it are cells that are run
as a person does: a background cell goes on meanwhile."""


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

    source: str
    says: str
    state: str = "wrong"


def almost(source: str, says: str) -> Wrong:
    """One to which little is wanting."""
    return Wrong(source, says, "almost")


@dataclass(frozen=True)
class Answers:
    """Of one lesson: what replaces its cells.

    ``guesses`` by what stands behind ``guess-`` in the id of the cell: the right ones, as source;
    ``right`` and ``wrong`` by the exercise's name.
    """

    guesses: Mapping[str, str] = field(default_factory=dict)
    right: Mapping[str, str] = field(default_factory=dict)
    wrong: Mapping[str, Sequence[Wrong]] = field(default_factory=dict)

    @property
    def mistaken(self) -> Mapping[str, str]:
        """Wrong guesses, as source."""
        return {each: other(each.replace("-", "_")) for each in self.guesses}

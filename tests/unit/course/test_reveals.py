"""`reveal`: what agrees, what isn't a guess, and how that is said."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from IPython.core.formatters import HTMLFormatter

from workbench.course import measure, reveal
from workbench.course.measure import Measurement
from workbench.course.reveals import Reveal, compare
from workbench.course.words import ENGLISH, say

SHARED = Measurement("shared", ("shared", "copy"), [("inode", "5", "5")], ("", "one", "two"))
NOTHING = Measurement(None, unit="s")
ORDER = Measurement(("list", "array"), ("list", "array"))  # as a lesson has ranked them


def shown(guess: object, measured: Measurement, why: str = "") -> Reveal:
    return compare("one", {"guess_one": guess, "measured_one": measured}, why, ENGLISH)


@pytest.mark.parametrize(
    ("guess", "measured", "says"),
    [
        ("shared", SHARED, "You guessed: shared. Measured: shared. Right."),
        ("copy", SHARED, "You guessed: copy. Measured: shared.\n"),
        (..., SHARED, "after `guess_one =`, run that cell, and then this one again."),
        (..., NOTHING, "the three dots after `guess_one =`, and run the cells from there again."),
        (5, NOTHING, "Nothing was measured yet.\nRun the cells between your guess and this one"),
        ("coppy", SHARED, 'one of these: `"shared"`, `"copy"`. Did you mean `"copy"`?'),
        (["list", "array"], ORDER, "You guessed: list, array. Measured: list, array. Right."),
        (("array", "list"), ORDER, "Measured: list, array."),
        (["list"], ORDER, 'Put these in an order: `"array"`, `"list"`.'),
        (5, Measurement(6.02, unit="s"), "You guessed: 5 s. Measured: 6.02 s. Right."),
        (1, Measurement(0.02, unit="s"), "You guessed: 1 s. Measured: 20 ms."),
        (11, Measurement(12), "You guessed: 11. Measured: 12."),
        (12.0, Measurement(12), "Measured: 12. Right."),
        (np.arange(3), Measurement(1), "The guess is a number"),
        (np.arange(3), SHARED, 'one of these: `"shared"`, `"copy"`.'),
        ([{"list"}, ["array"]], ORDER, "Put these in an order"),
        (-6, Measurement(6), "You guessed: -6. Measured: 6."),
        ("six", Measurement(6.02, unit="s"), "The guess is a number, as 3 is."),
        ("11 MB", Measurement(11.1, unit="MB"), "write it without quotes, and without a unit."),
        ("6", Measurement(6), "The guess is a number: write it without quotes."),
        (True, Measurement(True), "You guessed: True. Measured: True. Right."),
        ("yes", Measurement(True), "The guess is True or False."),
    ],
)
def test_what_is_said(guess: object, measured: Measurement, says: str) -> None:
    text = str(shown(guess, measured, why="Because."))
    assert says in f"{text}\n"
    assert ("Right." in text) == says.endswith("Right.")
    assert ("Because." in text) == ("Measured:" in text)  # before a guess nothing is given away
    assert ("inode" in text) == ("Measured:" in text and measured is SHARED)


def test_what_was_measured_for_another_question_is_not_its_answer() -> None:
    """Nor is a guess."""
    other = {"guess_one": "shared", "measured_one": SHARED}
    unguessed = str(compare("two", other, "Because.", ENGLISH))
    assert unguessed.startswith("Make a guess first.\nThere is no variable `guess_two` now: run")
    unmeasured = str(compare("two", {**other, "guess_two": "shared"}, "Because.", ENGLISH))
    assert unmeasured.startswith("Nothing was measured yet.\nRun the cells between")
    assert "Because" not in unguessed + unmeasured


def test_it_looks_at_the_variables_of_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(sys.modules["__main__"]), "guess_here", "copy")
    monkeypatch.setitem(vars(sys.modules["__main__"]), "measured_here", SHARED)
    assert str(reveal("here", why="Because.")).startswith("You guessed: copy. Measured: shared.")


def test_a_block_that_ends_in_an_error_has_measured_nothing() -> None:
    for block in (measure.seconds(), measure.memory(), measure.bars()):
        with pytest.raises(ZeroDivisionError), block as measured:
            1 / 0  # noqa: B018
        assert str(shown("live", measured)).startswith("Nothing was measured yet.")


def test_a_page_has_the_same_words() -> None:
    html = HTMLFormatter()(shown("copy", SHARED, why="One `file`."))
    for part in ("You guessed: copy.", "Measured: shared.", "inode", "One <code", "file</code>"):
        assert part in html
    assert "shared" not in HTMLFormatter()(shown(..., SHARED))


def test_facts_of_a_cells_own_stand_below_and_braces_without_values_are_text() -> None:
    measured = measure.answer(3, {"pages": 3, "a {brace}": "{x}"})
    assert "pages: 3\na {brace}: {x}" in str(shown(3, measured))
    assert str(say('Write `{"a": 1}`.')) == 'Write `{"a": 1}`.'
    assert str(say("{n} of {all}", n=1, all=say("{x}", x="{y}"))) == "1 of {y}"


def test_what_is_otherwise_on_a_cluster_is_said_after_the_reason() -> None:
    measured = Measurement("copy", ("shared", "copy"), note=say("But this is a cluster."))
    text = repr(shown("shared", measured, why="They are the same bytes."))
    assert text.endswith("They are the same bytes. But this is a cluster.")
    assert "cluster" not in repr(shown(..., measured))

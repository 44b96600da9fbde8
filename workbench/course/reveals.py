"""`reveal`: a guess beside what was measured. Decides whether they agree, and shows both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from workbench.course.measure import Measurement, on_cluster
from workbench.course.notebook import variables
from workbench.course.words import Said, Words, say
from workbench.format import human_seconds
from workbench.report.markup import Rich, Table, card, page, title
from workbench.report.mistyped import likest

TOLERANCE = 2.0
"""A guess of what isn't a whole number agrees if it is no more than so many times too large or too
small,"""

AT_ONCE = 0.1
"""or if both numbers are this small: a tenth of a second, or of any other unit."""


@dataclass(frozen=True, repr=False)
class Reveal(Rich):
    """A guess, what was measured, and why. Prints as text, shows as a card.

    ``mood`` is ``good`` if they agree, ``busy`` if not, ``idle`` if there is no guess to compare.
    """

    headline: Said
    state: Said
    mood: str
    measured: Measurement
    why: str
    words: Words
    note: Said | None = None

    def _text(self) -> str:
        heading = self._say(self.headline)
        if self.mood != "idle":
            heading += f" {self._say(self.state)}"
        facts = [f"{label}: {text}" if label else text for label, text in self._facts()]
        table = self._table()
        parts = [heading, *([table.text()] if table else []), *facts, self._why()]
        return "\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        state = "" if self.mood == "idle" else self._say(self.state)
        heading = title(self._say(self.headline), "", state, self.mood)
        table = self._table()
        return card(heading, self._facts(), page(table.html() if table else "", self._why()))

    def _table(self) -> Table | None:
        """The figures in columns, if they have heads."""
        if not self.measured.head:
            return None
        head, *rows = (
            tuple(map(self._say, row)) for row in (self.measured.head, *self.measured.rows)
        )
        return Table(head, tuple(rows))

    def _facts(self) -> list[tuple[str, str]]:
        """The figures, if they haven't. Without a guess what to do for one."""
        if self.mood == "idle":
            return [("", self._say(self.state))]
        rows = [] if self.measured.head else self.measured.rows
        return [(self._say(label), self._say(value)) for label, value in rows]

    def _why(self) -> str:
        note = "" if self.note is None else self._say(self.note)
        return " ".join(each for each in (self.why, note) if each)

    def _say(self, what: Said | str) -> str:
        """A sentence; or what a lesson's cell calls a figure."""
        return what.within(self.words) if isinstance(what, Said) else self.words(what)


def revealing(words: Words) -> Callable[..., Reveal]:
    """`reveal`, in the language of these words."""

    def reveal(question: str, why: str = "") -> Reveal:
        """Show a guess beside what was measured.

        Each question has variables of its own, so that an answer is never held against the guess
        of another one.

        Parameters
        ----------
        question : str
            Its name: the guess is the variable ``guess_<question>``, a word, a number or an order
            of words (``...`` is no guess yet); what was measured is ``measured_<question>``, as
            `measure` gives it.
        why : str, optional
            One sentence that explains it.

        Returns
        -------
        Reveal
            Shown under the cell, if it is the last thing there. Where something is missing, it
            says which cells to run.
        """
        return compare(question, variables(), why, words)

    return reveal


def compare(question: str, found: Mapping[str, Any], why: str, words: Words) -> Reveal:
    """The same, of these variables."""
    name = f"guess_{question}"
    guess, measured = found.get(name, _MISSING), found.get(f"measured_{question}")
    is_measured = isinstance(measured, Measurement) and measured.answer is not None
    if guess is _MISSING or guess is ...:
        headline = say("Make a guess first.")
        return _unanswered(headline, _to_guess(name, guess is ..., is_measured), words)
    if not isinstance(measured, Measurement) or not is_measured:
        todo = say("Run the cells between your guess and this one, and then this one again.")
        return _unanswered(say("Nothing was measured yet."), todo, words)
    if refusal := _refusal(guess, measured):
        return _unanswered(say("That is no guess yet."), refusal, words)
    headline = say("You guessed: {guess}.", guess=_worded(guess, measured.unit))
    answer = _worded(measured.answer, measured.unit)
    state, mood = say("Measured: {answer}.", answer=answer), "busy"
    if _agree(guess, measured.answer):
        state, mood = say("Measured: {answer}. Right.", answer=answer), "good"
    note = measured.note
    if note is None and mood == "busy" and on_cluster():
        note = say("But this session runs on a cluster, where this may be otherwise.")
    return Reveal(headline, state, mood, measured, why, words, note)


_MISSING = object()


def _to_guess(name: str, is_made: bool, is_measured: bool) -> Said:
    """What to do for a guess. What is measured already isn't asked for again: not every cell can
    run twice."""
    if is_made and is_measured:
        return say(
            "Replace the three dots after `{name} =`, run that cell, and then this one again.",
            name=name,
        )
    if is_made:
        return say(
            "Replace the three dots after `{name} =`, and run the cells from there again.",
            name=name,
        )
    if is_measured:
        return say(
            "There is no variable `{name}` now: run the cell with your guess, and then this "
            "one again.",
            name=name,
        )
    return say(
        "There is no variable `{name}` now: run the cell with your guess, and those below it.",
        name=name,
    )


def _unanswered(headline: Said, todo: Said, words: Words) -> Reveal:
    """Nothing to compare. Tells what to do, and nothing of what was measured."""
    return Reveal(headline, todo, "idle", Measurement(None), "", words)


def _refusal(guess: Any, measured: Measurement) -> Said | None:
    """What is wrong with a guess of another kind than the answer; None if nothing is."""
    if measured.choices:
        words = {_plain(choice) for choice in measured.choices}
        if isinstance(measured.answer, tuple):
            given = guess if isinstance(guess, list | tuple) else ()
            texts = {_plain(each) for each in given if isinstance(each, str)}
            if texts != words or len(given) != len(words):
                # by the alphabet: the choices may be in the order that is asked for
                listed = _quoted(tuple(sorted(measured.choices)))
                return say("Put these in an order: {choices}.", choices=listed)
        elif not isinstance(guess, str) or _plain(guess) not in words:
            meant = likest(str(guess), measured.choices)
            return say(
                "The guess is one of these: {choices}.{meant}",
                choices=_quoted(measured.choices),
                meant=say(" Did you mean {word}?", word=_quoted((meant,))) if meant else "",
            )
    elif _is_number(measured.answer) and not _is_number(guess):
        if isinstance(guess, str) and _reads_as_number(guess):
            return say("The guess is a number: write it without quotes.")
        if isinstance(guess, str) and _reads_as_number(guess.partition(" ")[0]):
            return say("The guess is a number: write it without quotes, and without a unit.")
        return say("The guess is a number, as {example} is.", example=3)
    elif isinstance(measured.answer, bool) and not isinstance(guess, bool):
        return say("The guess is True or False.")
    return None


def _agree(guess: Any, answer: Any) -> bool:
    if isinstance(answer, Integral):
        return bool(guess == answer)
    if _is_number(answer):
        small, large = sorted((abs(guess), abs(answer)))
        alike = (guess < 0) == (answer < 0) and large <= TOLERANCE * small
        return bool(alike or large <= AT_ONCE)
    return repr(_plain(guess)) == repr(_plain(answer))  # an array has no truth value


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _plain(value: Any) -> Any:
    """Without what makes no difference: capitals and spaces around."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return value.strip().lower() if isinstance(value, str) else value


def _quoted(choices: tuple[str, ...]) -> str:
    return ", ".join(f'`"{choice}"`' for choice in choices)


def _worded(value: Any, unit: str) -> Said | str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if _is_number(value):
        if unit == "s":
            return human_seconds(float(value))
        shown = str(value) if isinstance(value, Integral) else f"{value:.3g}"
        return f"{shown} {unit}".strip()
    return say(value) if isinstance(value, str) and "{" not in value else str(value)

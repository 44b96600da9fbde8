"""`check`: finds an exercise by its name, asks it, and words the answer: hints, page, progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench import context
from workbench.course import progress
from workbench.course.exercises import Exercise, Lesson, Live, Outcome, lessons, untouched
from workbench.course.notebook import is_loaded, variables
from workbench.course.words import Said, Words, say
from workbench.engine.base import Engine
from workbench.report.markup import DOTS, Html, Rich, card, dots, link, title
from workbench.report.mistyped import did_you_mean

DOCS = "../docs/"
"""Where the pages lie, from the notebooks."""

STATES = {
    "right": (say("Right."), "good"),
    "almost": (say("Almost."), "busy"),
    "wrong": (say("Not yet."), "bad"),
    "unready": (say("Wait."), "busy"),
    "untouched": (say("Not begun."), "idle"),
}


def exercises() -> dict[str, tuple[Lesson, Exercise]]:
    """Each exercise by its name, with the lesson that it belongs to."""
    return {each.name: (lesson, each) for lesson in lessons() for each in lesson.exercises}


def failed_asks(engine: Engine) -> Counter[str]:
    """How often each exercise was asked in vain, in this process and session."""
    return Counter()


@dataclass(frozen=True, repr=False)
class CheckResult(Rich):
    """What a check answers. Prints as text, shows as a card; never raises.

    ``hints`` are those that are due; ``page`` is what to read, with its address; ``done`` says of
    each exercise of the lesson whether it is done.
    """

    exercise: str
    outcome: Outcome
    words: Words
    hints: tuple[Said, ...] = ()
    page: Sequence[str] = ("", "")
    lesson: str = ""
    done: tuple[bool, ...] = ()

    @property
    def state(self) -> str:
        """``right``, ``almost``, ``wrong``, ``unready`` or ``untouched``."""
        return self.outcome.state

    def _facts(self) -> list[tuple[str, str]]:
        facts = [
            (self._say(say("hint {number}", number=number)), self._say(hint))
            for number, hint in enumerate(self.hints, 1)
        ]
        return [("", self._say(self.outcome.sentence)), *facts]

    def _label(self) -> str:
        if not self.done:
            return ""
        template = "{lesson}: {done} of {all} exercises done"
        return self._say(
            say(template, lesson=say(self.lesson), done=sum(self.done), all=len(self.done))
        )

    def _text(self) -> str:
        state = self._say(STATES[self.state][0])
        lines = [f"{self.exercise}: {state}"]
        lines += [f"{label}: {text}" if label else text for label, text in self._facts()]
        if self.page[1]:
            lines.append(f"{self._say(say('read'))}: {self._say(say(self.page[1]))}")
        if self.done:
            lines.append(f"{''.join(DOTS[each] for each in self.done)} {self._label()}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        state, mood = STATES[self.state]
        facts = self._facts()
        if self.page[0]:
            address, text = self.page
            facts.append((self._say(say("read")), link(self._say(say(text)), f"{DOCS}{address}")))
        heading = title(f"check.{self.exercise}", "", self._say(state), mood)
        return card(heading, facts, dots(self.done, self._label()) if self.done else Html())

    def _say(self, what: Said) -> str:
        return what.within(self.words)


class Checks:
    """All checks, each a method under the exercise's name: ``check.first_result()``.

    ``words`` is the language of what they answer.
    """

    def __init__(self, words: Words) -> None:
        self._words = words

    def __dir__(self) -> list[str]:
        return list(exercises())

    def __getattr__(self, name: str) -> Callable[[], CheckResult]:
        found = exercises().get(name)
        if found is None:
            meant = "" if name.startswith("_") else did_you_mean(name, exercises())
            raise AttributeError(f"There is no exercise {name!r}.{meant}", name=name, obj=None)
        lesson, exercise = found

        def ask() -> CheckResult:
            return self._ask(lesson, exercise)

        ask.__name__ = ask.__qualname__ = name
        ask.__doc__ = f"Look at the session: is `{name}` of {lesson.title!r} done?"
        return ask

    def __repr__(self) -> str:
        return f"<the checks of {len(lessons())} lessons: check.<exercise>()>"

    def _ask(self, lesson: Lesson, exercise: Exercise) -> CheckResult:
        engine = context.get()
        if engine is None or engine.end_reason is not None:
            outcome = untouched(
                "No session runs. Start one by `%workbench start`, and run the cells again."
            )
            if not is_loaded():
                outcome = untouched(
                    "This kernel has no session. After a restart, run the cell with"
                    " `%load_ext workbench` again, and then the exercise's cells."
                )
            return CheckResult(exercise.name, outcome, self._words)
        asked = context.companion(failed_asks)
        outcome = exercise.ask(Live(variables(), engine))
        is_right = outcome.state == "right"
        done = progress.note(engine, [exercise.name] if is_right else [])
        due = 0 if is_right else asked[exercise.name]
        if outcome.state != "unready":
            asked[exercise.name] = 0 if is_right else due + 1
        hints = tuple(map(say, exercise.hints[:due]))
        page = ("", "") if is_right else exercise.page
        row = tuple(each.name in done for each in lesson.exercises)
        return CheckResult(exercise.name, outcome, self._words, hints, page, lesson.title, row)

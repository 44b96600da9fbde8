"""What an exercise is, and what a check may answer. Each lesson's exercises have a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.core.snapshot import JobRecord, ObjectRecord, Snapshot
from workbench.course.measure import settled
from workbench.course.words import Said, say
from workbench.engines.base import Engine
from workbench.errors import WorkbenchError
from workbench.ref import ObjectRef
from workbench.report.facts import is_internal
from workbench.report.processes import Processes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check found. ``state``: right, almost, wrong or untouched."""

    state: str
    sentence: Said


def right(template: str, **values: Any) -> Outcome:
    """It is solved; the sentence says what in the session proves that."""
    return Outcome("right", say(template, **values))


def almost(template: str, **values: Any) -> Outcome:
    """One thing is missing; the sentence says what was seen."""
    return Outcome("almost", say(template, **values))


def wrong(template: str, **values: Any) -> Outcome:
    """It isn't solved; the sentence says what was seen, not what to do."""
    return Outcome("wrong", say(template, **values))


def untouched(template: str = "", **values: Any) -> Outcome:
    """Nothing has been tried yet."""
    return Outcome("untouched", say(template or "The cell above waits for you.", **values))


class RefusedError(Exception):
    """What a look has come upon on its way, where no more can be said than this."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(str(outcome.sentence))
        self.outcome = outcome


def not_done(job: JobRecord, name: str) -> Outcome | None:
    """What is to be said of a background cell that hasn't come to its end; None if it has."""
    match job.state:
        case "done":
            return None
        case "failed":
            return wrong("The last background cell that makes `{name}` has failed.", name=name)
        case "stopped":
            return wrong("The last background cell that makes `{name}` was stopped.", name=name)
        case "queued":
            return wrong("The cell that makes `{name}` hasn't begun: ask again when it is done.",
                         name=name)  # fmt: skip
        case _:
            return wrong("The cell that makes `{name}` is still running: ask again when it is "
                         "done.", name=name)  # fmt: skip


class Live:
    """What a check may look at: the notebook's variables, and the session.

    Attributes
    ----------
    variables : mapping of str to object
        The notebook's.
    engine : Engine
        The current session.
    """

    def __init__(self, variables: Mapping[str, Any], engine: Engine) -> None:
        self.variables = variables
        self.engine = engine

    def __getitem__(self, name: str) -> Any:
        """A variable; ``...`` if there is none of that name."""
        return self.variables.get(name, ...)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The session now: what was let go of before is gone, with actors that nobody has."""
        return settled(self.engine)

    @property
    def objects(self) -> list[ObjectRecord]:
        """What is in the store, without Workbench's own."""
        return [record for record in self.snapshot.objects if not is_internal(record)]

    def stored(self, name: str) -> ObjectRecord | None:
        """The object of that name in the store."""
        return next((each for each in self.objects if name in each.names), None)

    def had(self, id: Any) -> bool:
        """Whether this process has made an object of that id, as ``ref.hex()`` gives it."""
        try:
            number = int(id, 16)
        except (TypeError, ValueError):
            return False
        later, _ = self.engine.put(None)  # ids count what a process has made
        makers = Processes(self.engine.snapshot())
        maker = makers.made_by(number)
        return maker is not None and maker == makers.made_by(later.id) and number < later.id

    def assigning(self, name: str) -> JobRecord | None:
        """The last background cell that assigns a name, or will; also one with ``--wait``."""
        jobs = reversed(self.engine.jobs())
        return next((job for job in jobs if name in job.binds), None)

    def value(self, name: str) -> Any:
        """What the store has under a name; ``...`` if it has none, or that isn't ready."""
        ref = self.engine.find(name)
        return ... if ref is None else self.fetched(ref)

    def fetched(self, value: Any) -> Any:
        """What a ref refers to, ``...`` if that isn't ready; of anything else itself."""
        if not isinstance(value, ObjectRef):
            return value
        found = self.engine.describe(value)
        if found is not None and found.object.where == "pending":
            return ...
        return self.engine.get([value], None, False)[0]


Look = Callable[[Live], Outcome]


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise.

    Attributes
    ----------
    name : str
        As it is asked: ``check.name()``.
    look : callable
        Looks at the session, and says how it is.
    hints : tuple of str
        Three, one more each time; the last names the cell to look at.
    docs : str
        The page that helps, in ``docs``, with a heading: ``memory.md#when-an-object-goes``.
    page : str
        What that is called: ``Memory: when an object goes``.
    needs : tuple of str
        Variables that the exercise's cell assigns: while one is missing, or ``...``, nothing has
        been tried.
    subject : str
        The variable that is named if the look can't make anything of it; the last of ``needs``.
    """

    name: str
    look: Look
    hints: tuple[str, str, str]
    docs: str
    page: str
    needs: tuple[str, ...] = ()
    subject: str = ""

    def ask(self, live: Live) -> Outcome:
        """How it is now. Whatever the look raises is an answer too."""
        for name in self.needs:
            if live[name] is ...:
                return untouched("`{name}` has no value yet: its cell waits for you.", name=name)
        try:
            return self.look(live)
        except RefusedError as refused:
            return refused.outcome
        except Exception as error:
            kind, subject = type(error).__name__, self.subject or "".join(self.needs[-1:])
            if isinstance(error, SHAPES) and not isinstance(error, WorkbenchError) and subject:
                return wrong("`{name}` has another shape than asked for ({kind}: {error}).",
                             name=subject, kind=kind, error=error)  # fmt: skip
            return wrong("This can't be checked: {kind}: {error}", kind=kind, error=error)


SHAPES = AttributeError, LookupError, TypeError, ValueError
"""What Python raises of a value that isn't made as expected."""


def exercise(
    hints: tuple[str, str, str],
    docs: str,
    page: str,
    needs: Sequence[str] = (),
    subject: str = "",
) -> Callable[[Look], Exercise]:
    """Make an exercise of the function that looks, under its name; see `Exercise`."""

    def made(look: Look) -> Exercise:
        return Exercise(look.__name__, look, hints, docs, page, tuple(needs), subject)

    return made


@dataclass(frozen=True, slots=True)
class Lesson:
    """A notebook's exercises, in their order. ``file`` is its name without ``.ipynb``."""

    file: str
    title: str
    exercises: tuple[Exercise, ...]

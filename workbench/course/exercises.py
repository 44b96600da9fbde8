"""What an exercise is, and what a check may answer. What it looks at is in the lesson's module; its
words are in ``lessons.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib import import_module
from importlib.resources import files
from typing import Any

import numpy as np

from workbench.checkpoints.records import Checkpoint
from workbench.checkpoints.timeline import kept_name
from workbench.core.snapshot import ActorRecord, JobRecord, ObjectRecord, Snapshot
from workbench.course.measure import settled, where
from workbench.course.words import Said, say
from workbench.engine.base import Engine
from workbench.engine.queries import Describe, Jobs, Lookup, Reasons
from workbench.errors import GetTimeoutError, WorkbenchError
from workbench.ref import ObjectRef
from workbench.report.facts import is_internal
from workbench.report.processes import Processes
from workbench.report.reasons import chips
from workbench.report.why import why


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check found. ``state``: right, almost, wrong, unready or untouched."""

    state: str
    sentence: Said


def _outcome(state: str, template: str, **values: Any) -> Outcome:
    return Outcome(state, say(template, **values))


right = partial(_outcome, "right")
"""It is solved; the sentence says what in the session proves that."""

almost = partial(_outcome, "almost")
"""One thing is missing; the sentence says what was seen."""

wrong = partial(_outcome, "wrong")
"""It isn't solved; the sentence says what was seen, not what to do."""

unready = partial(_outcome, "unready")
"""What was tried still runs: asking now is no try."""

untouched = partial(_outcome, "untouched")
"""Nothing has been tried yet."""


class RefusedError(Exception):
    """What a look has come upon on its way, where no more can be said than this. An exercise need
    not catch it: `Exercise.ask` answers with it."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(str(outcome.sentence))
        self.outcome = outcome


def refused(template: str, **values: Any) -> RefusedError:
    """The refusal of what isn't solved: see `wrong`."""
    return RefusedError(wrong(template, **values))


NOT_DONE = {
    "failed": say("The last background cell that makes `{name}` has failed."),
    "stopped": say("The last background cell that makes `{name}` was stopped."),
    "queued": say("The cell that makes `{name}` hasn't begun: ask again when it is done."),
    "running": say("The cell that makes `{name}` is still running: ask again when it is done."),
}
"""What is to be said of a background cell in these states."""


SECONDS = 20.0
"""How long a check waits at most for what it calls."""


class Live:
    """What a check may look at: the notebook's variables, and the current session."""

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
        """True if this process has made an object of that id, as ``ref.hex()`` gives it."""
        try:
            number = int(id, 16)
        except (TypeError, ValueError):
            return False
        later, _ = self.engine.put(None)  # ids count what a process has made
        makers = Processes(self.engine.snapshot())
        maker = makers.made_by(number)
        return maker is not None and maker == makers.made_by(later.id) and number < later.id

    def made_by(self, name: str) -> JobRecord:
        """The last background cell that assigns a name, also one with ``--wait``; refused if there
        is none or it isn't done."""
        jobs = reversed(self.engine.ask(Jobs()))
        job = next((job for job in jobs if name in job.binds), None)
        has_value = name in self.variables and not isinstance(self[name], ObjectRef)
        if job is None and has_value:
            raise refused(
                "`{name}` is there, and no background cell made it: your kernel did.", name=name
            )
        if job is None:
            raise refused("No background cell has assigned `{name}`.", name=name)
        if job.state == "failed" and has_value:
            raise refused(
                "The last background cell that makes `{name}` has failed. What `{name}` is now "
                "comes from your kernel, or from an earlier cell.",
                name=name,
            )
        return self.done(job, name)

    def done(self, job: JobRecord, name: str) -> JobRecord:
        """The background cell that makes a name; refused if it isn't done."""
        if (said := NOT_DONE.get(job.state)) is not None:
            is_over = job.state in ("failed", "stopped")
            raise RefusedError((wrong if is_over else unready)(said.template, name=name))
        return job

    def record(self, name: str) -> ObjectRecord:
        """The object of that name in the store; refused if there is none."""
        found = self.stored(name)
        if found is None:
            raise refused("The store has no `{name}`: `%put {name}` stores it.", name=name)
        return found

    def value(self, name: str) -> Any:
        """What the store has under a name; refused if it has none, or that isn't ready."""
        ref = self.engine.ask(Lookup(name))
        found = self.fetched(self.engine.borrow(self.record(name).id) if ref is None else ref)
        if found is ... and self.record(name).where == "pending":
            raise RefusedError(unready("`{name}` isn't ready yet: ask again.", name=name))
        return found

    def fetched(self, value: Any) -> Any:
        """What a ref refers to, ``...`` if that isn't ready; of anything else itself."""
        if not isinstance(value, ObjectRef):
            return value
        found = self.engine.ask(Describe(value.id))
        if found is not None and found.object.where == "pending":
            return ...
        return self.engine.get([value], None, False)[0]

    def stored_between(self, refs: Sequence[ObjectRef]) -> int:
        """How many objects this process has made between these results of calls: functions, and
        what was passed by value."""
        ids = {ref.id for ref in refs}  # ids count what a process has made
        return max(ids) - min(ids) + 1 - len(ids)

    def own_arrays(self, nbytes: int) -> dict[str, np.ndarray]:
        """The notebook's arrays of so many bytes or more that aren't in shared memory, by name."""
        arrays = {
            name: value
            for name, value in self.variables.items()
            if isinstance(value, np.ndarray) and value.nbytes >= nbytes
        }
        return {name: array for name, array in arrays.items() if not where(array).inode}

    def branches(self) -> dict[str, Checkpoint]:
        """The last checkpoint of each branch of kept variables; refused if none are kept."""
        ref = self.engine.ask(Lookup(kept_name()))
        if ref is None:
            raise refused("No variables are kept: `%workbench keep` keeps them.")
        (history,) = self.engine.get([ref], None, False)
        lasts = [history.checkpoints[number] for number in history.branches.values()]
        return dict(zip(history.branches, self.engine.get(lasts, None, False), strict=True))

    def answer(self, ref: ObjectRef) -> tuple[Any, str]:
        """What a task gave, and the error if it failed."""
        try:
            return self.engine.get([ref], SECONDS, False)[0], ""
        except GetTimeoutError:
            return None, f"no answer within {SECONDS:.0f} s"
        except Exception as error:  # whatever the task raised
            return None, str(error).partition("\n")[0] or type(error).__name__

    def task_result(self, name: str) -> Any:
        """What a task has given, of whose result a variable is the ref; refused if none has."""
        ref = self[name]
        if not isinstance(ref, ObjectRef):
            raise refused(
                "`{name}` is no ref: it should be what `.remote(...)` returns.", name=name
            )
        found = self.engine.ask(Describe(ref.id))
        if found is not None and found.object.about is not None:  # which tells what a put has cost
            raise refused(
                "`{name}` is a ref to something that was put: no task has made it.", name=name
            )
        value, error = self.answer(ref)
        if error:
            raise refused("The task has failed: {error}", error=error)
        return value

    def let_go(self, variable: str) -> ObjectRecord | None:
        """The object whose id a variable has; None if it is gone; refused if it never was."""
        if not self.had(self[variable]):
            raise refused(
                "`{name}` is the id of no object that was here: run the cells above again.",
                name=variable,
            )
        found = self.of_id(self[variable])
        if found is not None:
            # A worker says what it reads no more within some milliseconds, or when it is asked.
            self.engine.ask(Reasons(found.id))
            del self.snapshot
            found = self.of_id(self[variable])
        return found

    def of_id(self, id: Any) -> ObjectRecord | None:
        """The object of an id; None if it is gone, or was freed and has no bytes any more."""
        found = next((each for each in self.objects if f"{each.id:016x}" == id), None)
        return None if found is not None and found.state == "freed" and not found.size else found

    def reasons(self, record: ObjectRecord) -> str:
        """All that keeps an object, in the words of `%why`."""
        account = self.engine.ask(Reasons(record.id, deep=True))
        found = why(account, f"{record.id:016x}").reasons if account is not None else ()
        return "; ".join(sorted(reason.text for reason in found)) or ", ".join(chips(record))

    def job(self, name: str) -> JobRecord | None:
        """The last background cell of that name."""
        jobs = (job for job in self.snapshot.jobs if job.name == name)
        return max(jobs, key=lambda job: job.number, default=None)

    def actor(self, handle: object) -> ActorRecord | None:
        """The actor that a handle is of, dead or alive; None if it is no handle of one."""
        number = getattr(getattr(handle, "_ref", None), "id", None)
        return next((each for each in self.snapshot.actors if each.id == number), None)


Look = Callable[[Live], Outcome]


@dataclass(frozen=True, slots=True, eq=False)
class Exercise:
    """One exercise, asked as ``check.name()``.

    ``look`` says how it is in the session; the others are as in ``lessons.toml``. While a variable
    that it ``needs`` is missing, or ``...``, nothing has been tried.
    """

    name: str
    look: Look
    hints: Sequence[str]
    page: Sequence[str]
    needs: Sequence[str] = ()
    subject: str = ""

    def ask(self, live: Live) -> Outcome:
        """How it is now. Whatever the look raises is an answer too."""
        for name in self.needs:
            if name not in live.variables:
                return untouched(
                    "There is no variable `{name}` now: run the exercise's cell, above this check.",
                    name=name,
                )
            if live[name] is ...:
                return untouched("`{name}` has no value yet: its cell waits for you.", name=name)
        try:
            return self.look(live)
        except RefusedError as refused:
            return refused.outcome
        except Exception as error:
            kind, subject = type(error).__name__, self.subject or "".join(self.needs[-1:])
            if isinstance(error, SHAPES) and not isinstance(error, WorkbenchError) and subject:
                if subject not in live.variables:
                    return untouched(
                        "There is no variable `{name}` now: run the cell above that makes it.",
                        name=subject,
                    )
                return wrong(
                    "`{name}` has another shape than asked for ({kind}: {error}).",
                    name=subject,
                    kind=kind,
                    error=error,
                )
            return wrong("This can't be checked: {kind}: {error}", kind=kind, error=error)


SHAPES = AttributeError, LookupError, TypeError, ValueError
"""What Python raises of a value that isn't made as expected."""


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """A notebook's exercises, in their order. ``file`` is its name without ``.ipynb``; ``module``
    has what its exercises look at."""

    file: str
    title: str
    module: str
    exercises: Sequence[Exercise]


@cache
def lessons() -> tuple[Lesson, ...]:
    """All lessons, in the order of their notebooks."""
    words = files("workbench.course").joinpath("lessons.toml").read_text(encoding="utf-8")
    return tuple(_lesson(**each) for each in tomllib.loads(words)["lesson"])


def _lesson(file: str, title: str, module: str, exercise: list[dict[str, Any]]) -> Lesson:
    looks = import_module(f"workbench.course.{module}")
    found = [Exercise(look=getattr(looks, each["name"]), **each) for each in exercise]
    return Lesson(file, title, module, found)

"""State of one notebook that its magics share: its shell, stored variables, running jobs."""

from __future__ import annotations

from functools import partial
from typing import Any

from IPython.core.magic import Magics

from workbench import context
from workbench.core.snapshot import ACTOR_PREFIX
from workbench.engine.base import Call, Engine
from workbench.engine.queries import Lookup
from workbench.errors import SessionError
from workbench.ipython import write_back
from workbench.ipython.bindings import Bindings
from workbench.ipython.job import Job, collected
from workbench.ipython.job_outputs import is_made, outputs_of
from workbench.ipython.joblines import JobLines
from workbench.ipython.keeping import Keeping
from workbench.ipython.missing_names import StayedName, note_missing_name
from workbench.ipython.output import Router
from workbench.ipython.progress import CallsProgress
from workbench.ipython.running_cell import RunningCell
from workbench.ipython.sent_settings import SentSettings
from workbench.options import TaskOptions
from workbench.ref import ObjectRef

MOST_JOBS = 50  # background cells remembered here


_TOLD = TaskOptions(num_returns=0, max_retries=0, name="a widget's callbacks")


class Notebook:
    def __init__(self, shell: Any) -> None:
        self.shell = shell  # of a kernel or a terminal
        self.router = Router(shell)
        self.router.on_widget = self._widget_used
        self.bindings = Bindings()
        self.running = RunningCell(shell)
        self.keeping = Keeping(shell.user_ns, self.own_names, self.running)
        self.lines = JobLines(self.router)
        self.calls = CallsProgress(self.router)
        self.jobs: dict[int, Job] = {}  # the last ones that it started or collected, by id
        self.awaited: list[Job] = []  # jobs that the running cell waits for
        self.begun: list[Job] = []  # jobs that the running cell has begun
        self.settings = SentSettings()
        self.remote_cell = 0  # number of the latest cell that had the settings
        self.stayed: dict[str, StayedName] = {}  # names that remote cells kept
        self._hidden: dict[str, Any] = {}  # variables of which cells had others: told once
        self._early: dict[int, int] = {}  # jobs that run but aren't followed yet → worker
        self._rest: dict[int, tuple[int, list[ObjectRef | None]]] = {}  # the same for `completed`

    @property
    def variables(self) -> dict[str, Any]:
        """The variables that a person sees, by name; also to bind them."""
        return self.shell.user_ns  # type: ignore[no-any-return]

    def is_hidden_anew(self, name: str) -> bool:
        """True if nobody was told yet that a cell has another variable of this name."""
        value = self.variables[name]
        is_told = self._hidden.get(name, self) is value
        self._hidden[name] = value
        return not is_told

    def own_names(self) -> list[str]:
        """Return the names of variables, without IPython's own: In, Out, get_ipython, open, ..."""
        hidden = self.shell.user_ns_hidden
        there = list(self.variables.items())
        return [name for name, value in there if hidden.get(name, hidden) is not value]

    def begin(self, job: Job, waited: bool, quiet: bool) -> None:
        """Show the job's line, and prepare for its end: `Job.follow` comes next.

        ``waited``: the running cell waits for it, and raises its errors itself. It shows a line
        if that takes a while.
        """
        self.begun.append(job)
        self._enter(job, waited)
        if not (quiet or waited):
            self.lines.begin(job)

    def expect(self, job: Job) -> None:
        """Prepare the cell for the job's output; of several tasks, each line has a label."""
        cell = self.router.cell(job.origin)
        cell.jobs[job], cell.actor = None, job.actor
        cell.screen.labelled |= job.size > 1

    def _widget_used(self, actor: str, origin: int, id: str, data: dict[str, Any]) -> None:
        """Tell a namespace that a person used one of its widgets; it handles that after its present
        call. Output of the callbacks appears under the widget's cell. Any thread with comms."""
        engine = context.get()
        if engine is None or engine.end_reason is not None:
            return
        namespace = engine.ask(Lookup(ACTOR_PREFIX + actor))
        if namespace is not None:
            with self.router.within(origin):
                engine.call(namespace, "hear", Call((id, data), {}, _TOLD))

    def _enter(self, job: Job, waited: bool = False) -> None:
        self.jobs[job.id] = job
        if len(self.jobs) > MOST_JOBS:
            self.jobs.pop(next((id for id, each in self.jobs.items() if each.is_over), 0), None)
        if worker := self._early.pop(job.id, 0):
            job.on_started(worker)
        if rest := self._rest.pop(job.id, None):
            self._add_remaining_tasks(job, *rest)
        job.on_end = partial(self._on_job_ended, waited)

    def collect(self, engine: Engine, id: int) -> Job | None:
        """Show a background cell's output in the running cell; bind what it assigns, unless done
        before. It may be one of another or an earlier kernel, or one of ours once more.

        None if that cell no longer exists.
        """
        origin = self.router.origin()
        with self.router.hold_output(origin):  # until it is known whose lines those are
            found = engine.collect(id)
            if found is None:
                return None
            job, outputs = collected(engine, found, origin)
            self.expect(job)
            if (mine := self.jobs.get(id)) is None:
                self._bind(outputs)
            else:
                job.originals, job.is_again = mine.originals, True
            self._enter(job)
            self.lines.begin(job)
        job.follow()
        return job

    def _bind(self, outputs: dict[str, ObjectRef | list[ObjectRef]]) -> None:
        new = {n: made for n, made in outputs.items() if not self._is_fetched(n, made)}
        self.variables.update(new)

    def _is_fetched(self, name: str, made: ObjectRef | list[ObjectRef]) -> bool:
        """True if the variable is the value of what a cell made, fetched earlier by `%get`."""
        known = self.bindings.find(name, self.variables.get(name))
        return known is not None and known[1].ref == made

    def _on_job_ended(self, waited: bool, job: Job) -> None:
        """End the job's line, bindings and errors. In the thread that reads the socket."""
        for name, before in job.give_back():
            if name in job.outputs and is_made(self.variables.get(name), job.outputs[name]):
                self.variables[name] = before
        for text in write_back.at_end(job, waited):
            job.note(text)
        self.lines.end(job)
        self.router.cell(job.origin).jobs.pop(job, None)
        errors = [error for error in job.errors if not isinstance(error, SessionError)]
        if not waited and errors and job.state == "failed":
            note_missing_name(errors[0], self.variables, self.stayed)
            self.router.failed(job.origin, errors[0])
            if len(errors) > 1:
                others = f"... and {len(errors) - 1} more of them failed."
                self.router.note(job.origin, others, "stderr")

    def maker(self, ref: ObjectRef) -> str:
        """Return the background cell that makes or made a ref's object; '' if none of ours."""
        for job in reversed(list(self.jobs.values())):
            for made in job.outputs.values():
                if ref in made if isinstance(made, list) else ref == made:
                    return job.name
        return ""

    def on_job_fully_submitted(self, id: int, size: int, results: list[ObjectRef | None]) -> None:
        """Note that all of a job collected earlier is submitted. In the reading thread."""
        self._rest[id] = size, results  # before the lookup, as in `on_job_started`
        job = self.jobs.get(id)
        if job is not None and self._rest.pop(id, None) is not None:
            self._add_remaining_tasks(job, size, results)

    def _add_remaining_tasks(self, job: Job, size: int, results: list[ObjectRef | None]) -> None:
        outputs = outputs_of(job.binds, results, True)
        for name, refs in outputs.items():
            value, before = self.variables.get(name), job.outputs.get(name)
            if isinstance(value, list) and before is not None and is_made(value, before):
                value += refs  # in place, for all who hold the list
        job.add_remaining_tasks(size, outputs, results[:: 1 + len(job.binds)])

    def on_job_started(self, id: int, worker: int) -> None:
        """Note that a job runs. In the thread that reads the socket."""
        self._early[id] = worker  # before the lookup: `follow` reads it after entering the job
        job = self.jobs.get(id)
        if job is not None and self._early.pop(id, 0):
            job.on_started(worker)
            self.lines.on_job_started(job)


class NotebookMagics(Magics):
    shell: Any  # an InteractiveShell, never None

    def __init__(self, notebook: Notebook) -> None:
        super().__init__(notebook.shell)
        self._notebook = notebook

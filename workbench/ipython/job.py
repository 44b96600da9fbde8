"""Handle of a background cell: to find, wait for, read, stop. Its line: `report`."""

from __future__ import annotations

import asyncio
import re
import threading
import time
import weakref
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from workbench.core.events import PROGRESS, Output
from workbench.core.logs import TEXT, printed
from workbench.core.snapshot import JobRecord
from workbench.engine import queries
from workbench.engine.base import CollectedJob, Engine
from workbench.errors import (
    GetTimeoutError,
    SessionError,
    TaskCancelledError,
    TaskTimeoutError,
)
from workbench.ipython.job_outputs import Outputs, outputs_of
from workbench.ipython.originals import Originals
from workbench.ref import ObjectRef
from workbench.report.cached import cache_notes
from workbench.report.job_status import DROPPED, NOT_KEPT, JobStatus, why_lost
from workbench.report.markup import Rich
from workbench.result_cache.records import FromCache
from workbench.serialization.mutations import Mutations
from workbench.surroundings.surroundings import Made

MOST_NUMBERS = 10_000  # tasks that still have a number after a job's end

_PERCENT = re.compile(rb"(\d{1,3})%\|")
"""Percentage in tqdm's bars."""


class Job(Rich):
    """One background cell, followed to its end.

    Made by ``%%remote`` and ``%workbench job NAME``. ``await job`` and ``job.result()`` return what
    it assigned, ``job.output()`` what it printed; ``job.cancel()`` stops it. ``job.state`` is
    queued, running, done, failed or stopped; ``job.errors`` are those of its tasks.
    """

    def __init__(self, engine: Engine, name: str, size: int, origin: int, actor: str = "") -> None:
        self.name = name  # for people: ``cell 7``
        self.size = size  # number of tasks: more than one if it runs once per item
        self.origin = origin  # number of the cell under which its output appears
        self.actor = actor  # the namespace in which it runs, if not in the pool
        self.id = 0  # that of its first task, once submitted
        self.state = "queued"
        self.binds: tuple[str, ...] = ()  # of a collected job: all names that it assigns
        self.worker = 0  # the last that got one of its tasks
        self.ended = 0  # number of its tasks that are over
        self.peak = 0  # most bytes of memory of a worker meanwhile; 0: unknown
        self.errors: list[BaseException] = []
        self.stopping = 0  # number of requests to stop it
        self.replaced: dict[str, Any] = {}  # earlier values of variables that now hold its outputs
        self.unset: set[str] = set()  # outputs to which it, or one of its tasks, assigned nothing
        self.notes: list[str] = []  # further remarks on its line; see `note`
        self.shown_count = 0  # number of times it has shown something
        self.originals: Originals | None = None  # values that it captured by value
        self.apart: list[tuple[str, str]] = []  # see `CellInputs`
        self.mutations: list[Mutations] = []  # what its tasks changed in those
        self.threads: frozenset[str] = frozenset()  # its functions that go on in threads
        self.settings: list[Made] = []  # what its tasks set
        self.from_cache: list[FromCache] = []  # what became of its tasks' cached results
        self.then: dict[str, Any] = {}  # see `note_before`
        self.is_told = False  # True: `%get --jobs` has said that the notebook changed the same
        self.is_again = False  # True: this kernel has followed it before
        self.mutated: list[str] = []  # at its end: the names of changed variables
        self.lost: dict[str, str] = {}  # at its end: unusable outputs, with the reason
        self.over = threading.Event()  # set after its last line is shown
        self.on_end: Callable[[Job], None] | None = None
        self._engine = engine
        self._outputs: dict[str, weakref.ref[ObjectRef] | list[weakref.ref[ObjectRef]]] = {}
        self._dones: list[ObjectRef] = []  # until it is over
        self._is_followed = False
        self._numbers: dict[int, int] = {}  # task → its index
        self._submitted = time.monotonic()
        self._began: float | None = None
        self._seconds = 0.0
        self._share: float | None = None
        self._calls: tuple[int, int] | None = None  # its own calls: done, known
        self._known: JobRecord | None = None  # of a job that was over before it was followed
        self._ending = False
        self._lock = threading.Lock()  # for the reading thread, and one that closes the session
        self._finished: Future[None] = Future()

    @property
    def outputs(self) -> Outputs:
        """Refs to what it assigns, by name; a list, one per item, if it runs once per item.

        A job holds them weakly, as variables hold them: outputs that nobody holds are left out.
        """
        found: Outputs = {}
        for name, watch in self._outputs.items():
            if isinstance(watch, list):
                refs = [ref for ref in (each() for each in watch) if ref is not None]
                if len(refs) == len(watch):
                    found[name] = refs
            elif (ref := watch()) is not None:
                found[name] = ref
        return found

    @property
    def brings_settings(self) -> bool:
        """True if the notebook gets what it sets: not of several runs, nor of a namespace."""
        return self.size == 1 and not self.is_again and not self.actor

    @property
    def assigns(self) -> frozenset[str]:
        """Names of all that it assigns, whoever still holds it."""
        return frozenset(self._outputs)

    def set_outputs(self, outputs: Outputs) -> None:
        self._outputs = {
            name: [weakref.ref(each) for each in ref] if isinstance(ref, list) else weakref.ref(ref)
            for name, ref in outputs.items()
        }

    @property
    def is_over(self) -> bool:
        return self.state not in ("queued", "running")

    @property
    def seconds(self) -> float:
        """Seconds that it has run, or waited for its turn if it hasn't begun."""
        if self.is_over:
            return self._seconds
        return time.monotonic() - (self._submitted if self._began is None else self._began)

    def add_task(self, done: ObjectRef) -> None:
        """Note a submitted task; its first result, ``done``, marks its end."""
        self.id = self.id or done.id
        self._numbers[done.id] = len(self._dones)
        self._dones.append(done)

    def number_of(self, task: int) -> int | None:
        """Return the index of a task in this job; None if it isn't one of the job's."""
        return self._numbers.get(task)

    def label_of(self, output: Output) -> str:
        """Return a label for the writer of an output: which of several tasks."""
        number = self.number_of(output.task) if self.size > 1 else None
        return f"(worker {output.worker})" if number is None else f"[{number}]"

    def follow(self) -> None:
        """Watch the ends of its tasks, once all were submitted."""
        with self._lock:
            dones, self._is_followed = list(self._dones), True
        for done in dones:
            self._engine.future(done).add_done_callback(self._task_ended)
        if not dones:
            self._end_if_over()

    def add_remaining_tasks(
        self, size: int, outputs: Outputs, dones: Sequence[ObjectRef | None]
    ) -> None:
        """Add the remaining tasks of a job collected before all were submitted. The reading thread.

        ``size`` is the number of all its tasks, ``dones`` are results of the rest.
        """
        for name, refs in outputs.items():
            watches = self._outputs.get(name)
            if isinstance(watches, list) and isinstance(refs, list):
                watches += map(weakref.ref, refs)
        there = [done for done in dones if done is not None]
        with self._lock:
            self.size, self.ended = size, self.ended + len(dones) - len(there)
            for done in there:
                self.add_task(done)
            followed = there if self._is_followed else []
        for done in followed:
            self._engine.future(done).add_done_callback(self._task_ended)
        if self._is_followed:
            self._end_if_over()

    def on_started(self, worker: int, seconds: float = 0.0) -> None:
        """Note that it runs, since ``seconds`` ago. The reading thread."""
        self.worker = worker
        if not self.is_over:
            self.state = "running"
            self._began = time.monotonic() - seconds

    def resume(self, record: JobRecord) -> None:
        """Take over what the session knows of a job that another process has followed so far.

        If it is over, the session may not remember the ends of all its tasks, if they are many.
        """
        self.worker, self._seconds = record.worker, record.seconds
        if record.state == "running":
            self.on_started(record.worker, record.seconds)
        if record.is_over:
            self._known = record
            self.ended = self.size - len(self._dones)

    def _task_ended(self, future: Future[Any]) -> None:
        """Note that one task is over. The reading thread."""
        error = future.exception()
        with self._lock:
            self.ended += 1
            if error is not None:
                # Without the traceback: its frames include those of a waiting cell, and would
                # keep all that the cell captured as long as the job is remembered.
                self.errors.append(error.with_traceback(None))
            else:
                ran = future.result()
                self.peak = max(self.peak, getattr(ran, "peak", 0))
                self.unset.update(getattr(ran, "unset", ()))
                if (mutations := getattr(ran, "mutations", None)) is not None:
                    self.mutations.append(mutations)
                self.threads |= getattr(ran, "threads", frozenset())
                if (made := getattr(ran, "settings", None)) is not None:
                    self.settings.append(made)
                if (cached := getattr(ran, "from_cache", None)) is not None:
                    self.from_cache.append(cached)
        self._end_if_over(isinstance(error, SessionError))

    def _end_if_over(self, is_over: bool = False) -> None:
        with self._lock:
            last = is_over or self.ended >= self.size
            last, self._ending = last and not self._ending, self._ending or last
        if last:
            self._end()

    def _end(self) -> None:
        if self._began is not None:
            self._seconds = time.monotonic() - self._began
        failures = [error for error in self.errors if not _is_stop(error)]
        self.state = "failed" if failures else "stopped" if self.errors else "done"
        if self._known is not None:
            self.state, self.ended = self._known.state, self.size
        try:
            self._find_lost()
            for note in cache_notes(self.from_cache):
                self.note(note)
            if self.on_end is not None:
                self.on_end(self)
        finally:
            self._dones.clear()
            if len(self._numbers) > MOST_NUMBERS:
                self._numbers.clear()
            self.over.set()
            self._finished.set_result(None)

    def on_output(self, output: Output) -> None:
        """Note an output of the job. The reading thread."""
        if output.kind == PROGRESS:
            done, known = map(int, output.data.split())
            self._calls = done, known
            return
        self.shown_count += 1
        is_bar = output.kind in TEXT and b"%|" in output.data
        if percents := is_bar and _PERCENT.findall(output.data):
            self._share = int(percents[-1]) / 100

    def _find_lost(self) -> None:
        """Find outputs that failed although their task didn't. The reading thread: asks nobody.

        The session reports a task's outputs before its end.
        """
        told = {str(error) for error in self.errors}  # errors of its tasks
        there = self.outputs
        if not self.errors:
            gone = [n for n in self._outputs if n not in there and n not in self.unset]
            self.lost |= dict.fromkeys(gone, NOT_KEPT)
        for name, refs in there.items():
            several = isinstance(refs, list)
            known = refs if isinstance(refs, list) else [refs]
            bad = [ref for ref in known if self._engine.state(ref) == "failed"]
            causes = [self._engine.future(ref).exception() for ref in bad]
            lost = [error for error in causes if error is not None and str(error) not in told]
            if lost and name not in self.unset:
                text = why_lost(lost[0])
                self.lost[name] = f"{len(lost)} of {len(known)} {text}" if several else text

    @property
    def status(self) -> JobStatus:
        # The share of several tasks: those over; of one: what its progress bar shows.
        calls = self._calls if self.size == 1 else None
        share = self.ended / self.size if self.size > 1 else self._share
        if calls is not None:
            share = calls[0] / calls[1] if calls[1] else None
        failed = len(self.errors) if self._known is None else self._known.failed
        return JobStatus(
            self.name, self.state, self.seconds, self.size, self.ended, failed,
            self.worker, self.actor, self.stopping > 0, share, self.peak,
            tuple(n for n in self._outputs if n not in self.unset and n not in self.lost),
            (*(f"{name}: {why}" for name, why in self.lost.items()), *self.notes), bool(self.lost),
            calls=calls,
        )  # fmt: skip

    def note_before(
        self, binds: Collection[str], outputs: Collection[str], variables: dict[str, Any]
    ) -> None:
        """Remember what names that it binds, and aren't outputs, meant when it was submitted."""
        self.then = {n: variables[n] for n in binds if n in variables and n not in outputs}

    def note(self, text: str) -> None:
        """Add a remark to its line, once. Any thread; too late after its end."""
        if text not in self.notes:
            self.notes.append(text)

    def give_back(self) -> Iterator[tuple[str, Any]]:
        """At its end, yield the `replaced` variables that got no value, with their earlier ones.

        If some of several tasks gave one, the list of their results stays.
        """
        replaced, self.replaced = self.replaced, {}
        for name, before in replaced.items():
            if len(self.errors) == self.ended or (name in self.unset and self.size == 1):
                yield name, before

    # -- for a person -----------------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end; raises no error of the cell's.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        bool
            False if it isn't over by then.
        """
        return self.over.wait(timeout)

    def result(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait for the cell, and return what it assigned, by name.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        dict
            Without names whose lines did not run (in a branch), and without objects that nobody
            holds any more.

        Raises
        ------
        GetTimeoutError
            If it takes longer than ``timeout`` seconds. The cell goes on.
        TaskError, TaskCancelledError
            The error it failed with, or that it was stopped.
        """
        if not self.wait(timeout):
            raise GetTimeoutError(
                f"{self.name} was not over after {timeout} s. It goes on; ask again later."
            )
        if self.errors:
            raise self.errors[0]
        return self.values(self.outputs.keys() - self.unset)

    def values(self, names: Collection[str]) -> dict[str, Any]:
        """Return those of what it assigned, of a job that is over, by name."""
        return {
            name: self._engine.get(ref, None, False)
            if isinstance(ref, list)
            else self._engine.get([ref], None, False)[0]
            for name, ref in self.outputs.items()
            if name in names
        }

    def __await__(self) -> Generator[Any, None, dict[str, Any]]:
        yield from asyncio.shield(asyncio.wrap_future(self._finished)).__await__()
        return self.result(0)

    def cancel(self, *, force: bool = False) -> None:
        """Stop it; what it has done so far stays.

        Parameters
        ----------
        force : bool
            Kill its worker: for code that doesn't react to an interrupt.
        """
        self.stopping += 1
        self._engine.cancel(self._dones[:1], force)  # cancels all its tasks

    def output(self) -> str:
        """Return what it has printed so far, at most the last megabyte; asks the session.

        Returns
        -------
        str
            In the order in which it came, stdout and stderr mixed. Empty if the session no longer
            remembers the cell: it keeps the output of the last thousand.

        Raises
        ------
        SessionError
            If the session is over.
        """
        return printed(self.read_outputs() or ())

    def read_outputs(self) -> tuple[Output, ...] | None:
        """Return all outputs so far, or the last ones, as `output` does; None: unknown."""
        return self._engine.ask(queries.Outputs(self.id))

    @property
    def key(self) -> str:
        """Identifier of the job, unique among all sessions."""
        return key_of(self._engine, self.id)

    def _text(self) -> str:
        return str(self.status)

    def _repr_html_(self) -> str:
        return self.status._repr_html_()


def key_of(engine: Engine, job: int) -> str:
    """Return an identifier of a job, unique among all sessions."""
    return f"{engine.session}/{job:x}"


def _is_stop(error: BaseException) -> bool:
    return isinstance(error, TaskCancelledError) and not isinstance(error, TaskTimeoutError)


def collected(engine: Engine, found: CollectedJob, origin: int) -> tuple[Job, Outputs]:
    """Return the collected job, and what it assigns; its output goes to cell ``origin``."""
    record, results = found
    job = Job(engine, record.name, max(record.size, 1), origin)
    outputs = outputs_of(record.binds, results, record.size > 1)
    job.set_outputs(outputs)
    # Before asking for the ends: the results should be known by then.
    engine.arrivals(ref for ref in results if ref is not None)
    job.id, job.binds = record.id, record.binds
    for done in results[:: 1 + len(record.binds)]:
        if done is not None:
            job.add_task(done)
    job.resume(record)
    if record.dropped:
        job.note(DROPPED)
    return job, outputs

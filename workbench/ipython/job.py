"""A background cell as a person holds it: to find, wait for, read, stop. Its line: `report`."""

from __future__ import annotations

import asyncio
import re
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from workbench.core.events import PROGRESS, Output
from workbench.core.logs import TEXT
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
from workbench.report.job_status import DROPPED, NOT_KEPT, JobStatus, why_lost
from workbench.report.markup import Rich
from workbench.serialization.mutations import Mutations

MOST_NUMBERS = 10_000  # tasks that are told apart after a job's end

_PERCENT = re.compile(rb"(\d{1,3})%\|")
"""tqdm's bars."""


class Job(Rich):
    """One background cell, followed to its end.

    Made by ``%%remote`` and ``%workbench job NAME``. ``await job`` and ``job.result()`` give what
    it assigned, ``job.output()`` what it printed, ``job.cancel()`` stops it. ``job.state`` is
    queued, running, done, failed or stopped; ``job.errors`` are its tasks'.
    """

    def __init__(self, engine: Engine, name: str, size: int, origin: int, actor: str = "") -> None:
        self.name = name  # what people call it: ``cell 7``
        self.size = size  # how many tasks it is: more than one if it runs once per item
        self.origin = origin  # the number of the cell under which its output appears
        self.actor = actor  # the namespace that it runs in, if it isn't the pool
        self.id = 0  # its first task's, once that was submitted
        self.state = "queued"
        self.binds: tuple[str, ...] = ()  # of one that was collected: all names that it assigns
        self.worker = 0  # the last that was given one of its tasks
        self.ended = 0  # so many of its tasks are over
        self.peak = 0  # bytes of memory a worker had meanwhile; 0 where nobody can tell
        self.errors: list[BaseException] = []
        self.stopping = 0  # how often somebody asked for it
        self.replaced: dict[str, Any] = {}  # what variables were that mean its outputs meanwhile
        self.unset: set[str] = set()  # outputs that it, or one of its tasks, gave no value
        self.notes: list[str] = []  # what its line says besides; see `note`
        self.printed = 0  # so often it has printed something
        self.originals: Originals | None = None  # what it captured by value
        self.apart: list[tuple[str, str]] = []  # see `CellInputs`
        self.mutations: list[Mutations] = []  # what its tasks changed of that
        self.is_again = False  # this kernel has followed it before
        self.mutated: list[str] = []  # at its end: the names of those
        self.lost: dict[str, str] = {}  # at its end: outputs that aren't good, with why
        self.over = threading.Event()  # set when its last line is shown too
        self.on_end: Callable[[Job], None] | None = None
        self._engine = engine
        self._outputs: dict[str, weakref.ref[ObjectRef] | list[weakref.ref[ObjectRef]]] = {}
        self._dones: list[ObjectRef] = []  # until it is over
        self._is_followed = False
        self._numbers: dict[int, int] = {}  # task → its place among them
        self._submitted = time.monotonic()
        self._began: float | None = None
        self._seconds = 0.0
        self._share: float | None = None
        self._calls: tuple[int, int] | None = None  # of its own: done, and known
        self._known: JobRecord | None = None  # of one that was over before it was followed
        self._ending = False
        self._lock = threading.Lock()  # tasks end in whichever thread reads, or closes the session
        self._finished: Future[None] = Future()

    @property
    def outputs(self) -> Outputs:
        """What it assigns, by name; a list, one for each item, if it runs once per item.

        Variables keep that, and a job doesn't: what nobody has any more is left out.
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

    def makes(self, outputs: Outputs) -> None:
        self._outputs = {
            name: [weakref.ref(each) for each in ref] if isinstance(ref, list) else weakref.ref(ref)
            for name, ref in outputs.items()
        }

    @property
    def is_over(self) -> bool:
        return self.state not in ("queued", "running")

    @property
    def seconds(self) -> float:
        """How long it has run, or waited for its turn if it hasn't begun."""
        if self.is_over:
            return self._seconds
        return time.monotonic() - (self._submitted if self._began is None else self._began)

    def holds(self, done: ObjectRef) -> None:
        """One more task of it was submitted: its first result tells its end."""
        self.id = self.id or done.id
        self._numbers[done.id] = len(self._dones)
        self._dones.append(done)

    def number_of(self, task: int) -> int | None:
        """Which of its tasks that is; None if it is none."""
        return self._numbers.get(task)

    def label_of(self, output: Output) -> str:
        """Who wrote that, in a word: of several tasks, which one."""
        number = self.number_of(output.task) if self.size > 1 else None
        return f"(worker {output.worker})" if number is None else f"[{number}]"

    def follow(self) -> None:
        """All of it was submitted: have its end noticed."""
        with self._lock:
            dones, self._is_followed = list(self._dones), True
        for done in dones:
            self._engine.future(done).add_done_callback(self._task_ended)
        if not dones:
            self._end_if_over()

    def completes(self, size: int, outputs: Outputs, dones: Sequence[ObjectRef | None]) -> None:
        """It is so many tasks, and these are the rest of them. The reading thread.

        Of one that was collected before all of it was submitted.
        """
        for name, refs in outputs.items():
            watches = self._outputs.get(name)
            if isinstance(watches, list) and isinstance(refs, list):
                watches += map(weakref.ref, refs)
        there = [done for done in dones if done is not None]
        with self._lock:
            self.size, self.ended = size, self.ended + len(dones) - len(there)
            for done in there:
                self.holds(done)
            followed = there if self._is_followed else []
        for done in followed:
            self._engine.future(done).add_done_callback(self._task_ended)
        if self._is_followed:
            self._end_if_over()

    def begins(self, worker: int, seconds: float = 0.0) -> None:
        """It runs now, and has for so many seconds. The reading thread."""
        self.worker = worker
        if not self.is_over:
            self.state = "running"
            self._began = time.monotonic() - seconds

    def resume(self, record: JobRecord) -> None:
        """Take over what the session knows of a job that somebody else has followed so far.

        If it is over, the ends of very many tasks aren't remembered singly.
        """
        self.worker, self._seconds = record.worker, record.seconds
        if record.state == "running":
            self.begins(record.worker, record.seconds)
        if record.is_over:
            self._known = record
            self.ended = self.size - len(self._dones)

    def _task_ended(self, future: Future[Any]) -> None:
        """One task is over. The reading thread."""
        error = future.exception()
        with self._lock:
            self.ended += 1
            if error is not None:
                # Without the frames in which it was built: those of a cell that waits are among
                # them, and would keep all that it took along as long as the job is remembered.
                self.errors.append(error.with_traceback(None))
            else:
                ran = future.result()
                self.peak = max(self.peak, getattr(ran, "peak", 0))
                self.unset.update(getattr(ran, "unset", ()))
                if (mutations := getattr(ran, "mutations", None)) is not None:
                    self.mutations.append(mutations)
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
            if self.on_end is not None:
                self.on_end(self)
        finally:
            self._dones.clear()
            if len(self._numbers) > MOST_NUMBERS:
                self._numbers.clear()
            self.over.set()
            self._finished.set_result(None)

    def shows(self, output: Output) -> None:
        """It has shown this. The reading thread."""
        if output.kind == PROGRESS:
            done, known = map(int, output.data.split())
            self._calls = done, known
        elif output.kind in TEXT:
            self.printed += 1
            if percents := b"%|" in output.data and _PERCENT.findall(output.data):
                self._share = int(percents[-1]) / 100

    def _find_lost(self) -> None:
        """Which outputs aren't good, though their task was. The reading thread: it asks nobody.

        The session tells of a task's outputs before it tells of its end.
        """
        told = {str(error) for error in self.errors}  # what its tasks failed with
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
        # Of several, how many are over; of one, what its progress bar says.
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

    def note(self, text: str) -> None:
        """Have its line say this besides, once. Any thread; after its end it is too late."""
        if text not in self.notes:
            self.notes.append(text)

    def give_back(self) -> Iterator[tuple[str, Any]]:
        """At its end: the `replaced` variables to which it gave no value, and what they were.

        If some of several tasks did, the list of their results stays.
        """
        replaced, self.replaced = self.replaced, {}
        for name, before in replaced.items():
            if len(self.errors) == self.ended or (name in self.unset and self.size == 1):
                yield name, before

    # -- for a person -----------------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end; raises nothing of the cell's.

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
        """What the cell assigned, by name; waits for it.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        dict
            Without a name whose line did not run (it is in a branch), and one whose object nobody
            has any more.

        Raises
        ------
        GetTimeoutError
            If it takes longer than ``timeout`` seconds. The cell goes on.
        TaskError, TaskCancelledError
            What it failed with, or that it was stopped.
        """
        if not self.wait(timeout):
            raise GetTimeoutError(
                f"{self.name} was not over after {timeout} s. It goes on; ask again later."
            )
        if self.errors:
            raise self.errors[0]
        return {
            name: self._engine.get(ref, None, False)
            if isinstance(ref, list)
            else self._engine.get([ref], None, False)[0]
            for name, ref in self.outputs.items()
            if name not in self.unset
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
        for first in self._dones[:1]:  # stands for all
            self._engine.cancel(first, force, True)

    def output(self) -> str:
        """What it has printed so far, or the last megabyte of it; the session is asked.

        Returns
        -------
        str
            In the order in which it came, stdout and stderr alike. Empty if the session remembers
            the cell no more: of very many cells it remembers the last thousand.

        Raises
        ------
        SessionError
            If the session is over.
        """
        shown = self.shown() or ()
        return "".join(o.data.decode("utf-8", "replace") for o in shown if o.kind in TEXT)

    def shown(self) -> tuple[Output, ...] | None:
        """All that it has shown so far, or the last of it, as `output`; None: nobody knows."""
        return self._engine.ask(queries.Outputs(self.id))

    @property
    def key(self) -> str:
        """What tells it from the jobs of all sessions."""
        return key_of(self._engine, self.id)

    def _text(self) -> str:
        return str(self.status)

    def _repr_html_(self) -> str:
        return self.status._repr_html_()


def key_of(engine: Engine, job: int) -> str:
    """What tells a job from those of all other sessions."""
    return f"{engine.session}/{job:x}"


def _is_stop(error: BaseException) -> bool:
    return isinstance(error, TaskCancelledError) and not isinstance(error, TaskTimeoutError)


def collected(engine: Engine, found: CollectedJob, origin: int) -> tuple[Job, Outputs]:
    """The job that was collected, and what it assigns; its output comes to cell ``origin``."""
    record, results = found
    job = Job(engine, record.name, max(record.size, 1), origin)
    outputs = outputs_of(record.binds, results, record.size > 1)
    job.makes(outputs)
    # Before the ends are asked for: what comes of these is to be known by then.
    engine.arrivals(ref for ref in results if ref is not None)
    job.id, job.binds = record.id, record.binds
    for done in results[:: 1 + len(record.binds)]:
        if done is not None:
            job.holds(done)
    job.resume(record)
    if record.dropped:
        job.note(DROPPED)
    return job, outputs

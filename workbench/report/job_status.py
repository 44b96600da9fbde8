"""Wording of a background cell in one line: what it is doing, how far it is, how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.snapshot import JobRecord
from workbench.errors import SerializationError, TaskError, failure_of
from workbench.format import (
    human_bytes,
    human_count,
    human_elapsed,
    human_seconds,
    human_share,
    listed,
)
from workbench.report.markup import Rich, status

MOST_NAMES = 6  # assigned names that the last line lists; the rest are counted

AS_OF = " (as of "
"""Text before the time, in the line of a cell that ran then."""

DROPPED = "What it made is gone: nobody had it when memory was needed. Run the cell again."

STILL = (
    "Its widgets don't react: what you do to them doesn't reach the worker. In a namespace "
    "(`%%remote --actor NAME`) it does."
)
"""Note on a cell that made sliders, buttons and the like."""

_SIGNS = {
    "queued": ("○", "idle"),
    "running": ("●", "busy"),
    "done": ("✓", "good"),
    "failed": ("✗", "bad"),
    "stopped": ("■", "idle"),
    "unknown": ("?", "idle"),
}
"""Sign and mood by state."""

_LOST = ("!", "bad")
"""Sign and mood of a job that is done, but lacks some of its results."""


@dataclass(frozen=True, slots=True, repr=False)
class JobStatus(Rich):
    """One background cell at a moment. Prints as a line.

    ``cell 5 · worker 2 · running 4 s``; then ``cell 5 · done in 4.2 s · peak 310 MB · df``.
    """

    name: str
    state: str
    seconds: float  # since it began; before that, since it was submitted
    size: int = 1  # number of tasks
    ended: int = 0  # number of tasks that are over
    failed: int = 0  # number of tasks that failed
    worker: int = 0
    actor: str = ""  # the namespace in which it runs, if not in the pool
    is_stopping: bool = False
    share: float | None = None  # how much of it is done, from 0 to 1; None: unknown
    peak: int = 0  # bytes of memory; 0: unknown
    assigned: tuple[str, ...] = ()  # names that it gave a value
    notes: tuple[str, ...] = ()  # remarks below its line, a line each
    lost: bool = False  # some results are missing; a note says which, and why
    calls: tuple[int, int] | None = None  # that it submits: done, and in all (0: unknown)
    when: str = ""  # the time of this status, if it isn't now

    def _text(self) -> str:
        return "\n  ".join([self.line, *self.notes])

    @property
    def is_over(self) -> bool:
        return self.state not in ("queued", "running")

    @property
    def sign(self) -> tuple[str, str]:
        """Sign and mood of its state."""
        return _LOST if self.state == "done" and self.lost else _SIGNS[self.state]

    @property
    def line(self) -> str:
        if self.state == "unknown":
            return f"{self.name} · of another session, so how it ended isn't known here"
        several = f"{self.ended} of {self.size}" if self.size > 1 else ""
        if self.state == "queued":
            parts = [f"queued {human_elapsed(self.seconds)}", several]
        elif self.state == "running":
            worker = f"worker {self.worker}" if self.size == 1 else ""
            doing = "stopping" if self.is_stopping else "running"
            share = human_share(self.share) if self.size == 1 and self.share is not None else ""
            if self.calls is not None:
                share = str(CallsStatus(*self.calls))
            parts = [
                f"in {self.actor}" if self.actor else worker,
                f"{doing} {human_elapsed(self.seconds)}",
                several or share,
            ]
        else:
            how = f" {'in' if self.state == 'done' else 'after'} {human_seconds(self.seconds)}"
            parts = [
                self.state + (how if self.seconds else ""),  # else it never began
                several and f"{self.ended - self.failed} of {self.size}",
                f"peak {human_bytes(self.peak)}" if self.peak else "",
                listed(self.assigned if self.state == "done" else (), MOST_NAMES),
            ]
        when = f"{AS_OF}{self.when})" if self.when else ""
        return " · ".join(filter(None, [self.name, *parts])) + when

    def _repr_html_(self) -> str:
        return status(*self.sign, self.line, None if self.is_over else self.share, self.notes)


@dataclass(frozen=True, slots=True, repr=False)
class CallsStatus(Rich):
    """Calls that a cell has submitted to executors, in a line.

    ``2 of 8 calls done``, or ``2 calls done`` while their number is unknown; then ``8
    calls done in 4.2 s``.
    """

    done: int
    known: int  # 0: unknown
    seconds: float | None = None  # duration of the cell; None while it runs

    def _text(self) -> str:
        of = f" of {human_count(self.known)}" if self.known else ""
        text = f"{human_count(self.done)}{of} calls done"
        if self.seconds is None:
            return text
        if self.done < self.known:
            return f"{text} after {human_seconds(self.seconds)}"
        return f"{human_count(self.known)} calls done in {human_seconds(self.seconds)}"

    def _repr_html_(self) -> str:
        if self.seconds is None:
            share = self.done / self.known if self.known else None
            return status(*_SIGNS["running"], str(self), share)
        return status(*_SIGNS["done" if self.done == self.known else "stopped"], str(self))


def of_record(record: JobRecord) -> JobStatus:
    """Return the status of a cell whose kernel is gone, from its session's record."""
    ask = f"`%workbench jobs {record.name}`"
    note = f"The kernel ended before this cell did. {ask} shows all of it."
    if not record.is_over:
        note = f"The kernel ended; the cell went on. {ask} shows it."
    return JobStatus(
        record.name,
        record.state,
        record.seconds,
        record.size,
        record.ended,
        record.failed,
        record.worker,
        assigned=record.binds,
        notes=(note,),
    )


NOT_KEPT = "not kept: no variable referred to it when the cell ended"
"""Why a cell's result is missing whose variable was given another value."""


def why_lost(error: BaseException) -> str:
    """Word in a clause why a cell's result is missing: ``can't be stored (sqlite3.Connection)``."""
    failures = error.failures if isinstance(error, SerializationError) else ()
    if failures:
        return f"can't be stored ({listed(list(dict.fromkeys(f.type for f in failures)), 3)})"
    text = failure_of(error).text if isinstance(error, TaskError) else ""
    return (text or f"{type(error).__name__}: {error}").split("\n")[0]

"""Background cells as people find them: in a few words, as a table, by a name. Asks nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.core.snapshot import JobRecord
from workbench.errors import MagicError
from workbench.markup import Rich, Table, page, status
from workbench.report.format import count, human_bytes, human_seconds

if TYPE_CHECKING:
    from workbench.ipython.job import Job

HEAD = ("job", "name", "state", "time", "output", "assigns")

NONE = "There are no background cells."

_STATES = {
    "queued": "is queued",
    "running": "is running",
    "done": "finished",
    "failed": "failed",
    "cancelled": "was cancelled",
}


def concerning(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Those that somebody who comes now may want to know of: not over, or over and kept."""
    return [job for job in jobs if job.kept or not job.is_over]


def in_words(job: JobRecord) -> str:
    """``cell 5 finished (3 lines of output)``."""
    shown = _shown(job) if job.is_over else ""
    return f"{job.name} {_STATES[job.state]}" + (f" ({shown} of output)" if shown else "")


@dataclass(frozen=True)
class JobTable(Rich):
    """Background cells, a row each. Prints as text, shows as a table; iterate it for the records.

    Attributes
    ----------
    records : tuple of JobRecord
        In the order in which they were started.
    """

    records: tuple[JobRecord, ...]

    def __iter__(self) -> Iterator[JobRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __str__(self) -> str:
        return self._table.text() if self.records else NONE

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return page(self._table.html() if self.records else NONE)

    @property
    def _table(self) -> Table:
        return Table(HEAD, tuple(map(_row, self.records)))


def choose(jobs: Sequence[JobRecord], wanted: str) -> JobRecord:
    """The one meant by ``cell 7``, ``7`` or ``#3``.

    The numbers of cells begin anew with each kernel. So of several of that name it is one that is
    kept, else one that isn't over, else the last.

    Raises
    ------
    MagicError
        If there is none.
    """
    found = [job for job in jobs if wanted in (job.name, f"#{job.number}", job.name.split()[-1])]
    if not found:
        names = ", ".join(dict.fromkeys(job.name for job in jobs)) or "none"
        raise MagicError(f"There is no background cell {wanted!r}. There are: {names}.")
    return max(found, key=lambda job: (job.kept, not job.is_over, job.number))


def _row(job: JobRecord) -> tuple[str, ...]:
    return (
        f"#{job.number}",
        job.name,
        f"{job.state}, not collected" if job.kept else job.state,
        human_seconds(job.seconds) if job.seconds else "",
        _shown(job),
        ", ".join(job.binds),
    )


def _shown(job: JobRecord) -> str:
    counts = ((job.lines, "line"), (job.displays, "display"))
    return " and ".join(count(n, noun) for n, noun in counts if n)


# -- one that this notebook follows -------------------------------------------------------------

MOST_NAMES = 6
"""Assigned names that the last line lists; the rest are counted."""

_MARKS = {
    "queued": ("○", "idle"),
    "running": ("●", "busy"),
    "done": ("✓", "good"),
    "failed": ("✗", "bad"),
    "cancelled": ("■", "idle"),
}
"""By state: a sign, and its mood."""


def words(job: Job) -> str:
    """``cell 5 · worker 2 · running 4 s``; then ``cell 5 · done in 4.2 s · peak 310 MB``."""
    items = f"{job.ended} of {job.size}" if job.size > 1 else ""
    if job.is_over:
        items = items and f"{job.ended - len(job.errors)} of {job.size}"
        time = human_seconds(job.seconds)
        how = {
            "done": f"done in {time}",
            "failed": f"failed after {time}",
            "cancelled": f"stopped after {time}",
        }[job.state]
        peak = f"peak {human_bytes(job.peak)}" if job.peak else ""
        parts = [job.name, how, items, peak, _assigned(job)]
    elif job.state == "queued":
        parts = [job.name, f"queued {clock(job.seconds)}", items]
    else:
        worker = f"in {job.actor}" if job.actor else f"worker {job.worker}" if job.size == 1 else ""
        doing = "stopping" if job.stopping else "running"
        share = f"{job.share:.0%}" if job.size == 1 and job.share is not None else ""
        parts = [job.name, worker, f"{doing} {clock(job.seconds)}", items or share]
    return " · ".join(filter(None, parts))


def clock(seconds: float) -> str:
    """Whole seconds, as a line that goes on shows them: ``4 s``, ``2 min 04 s``, ``1 h 07 min``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole // 60 % 60:02} min"


def line_html(job: Job) -> str:
    """The same with a sign in colour, and a strip if it is several tasks."""
    return status(*_MARKS[job.state], words(job), None if job.is_over else job.share)


def _assigned(job: Job) -> str:
    names = [n for n in job.names if n not in job.unset] if job.state == "done" else []
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def bundle(job: Job) -> dict[str, str]:
    """What stays in the notebook, and what front ends without widgets show."""
    return {"text/plain": words(job), "text/html": line_html(job)}

"""Background cells in words: a sentence, a line, a table; and found by a name. Asks nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workbench.core.snapshot import JobRecord
from workbench.errors import MagicError
from workbench.markup import Rich, Table, page, status
from workbench.units import count, human_bytes, human_seconds

HEAD = ("job", "name", "state", "time", "output", "assigns")

NONE = "There are no background cells."

MOST_NAMES = 6
"""Assigned names that the last line lists; the rest are counted."""


class _Look(NamedTuple):
    """How a state is shown: in a sentence, and by a sign and its mood."""

    verb: str
    sign: str
    mood: str


_LOOKS = {
    "queued": _Look("is queued", "○", "idle"),
    "running": _Look("is running", "●", "busy"),
    "done": _Look("is done", "✓", "good"),
    "failed": _Look("failed", "✗", "bad"),
    "stopped": _Look("was stopped", "■", "idle"),
}


def concerning(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Those that somebody who comes now may want to know of: not over, or over and kept."""
    return [job for job in jobs if job.kept or not job.is_over]


def in_words(job: JobRecord) -> str:
    """``cell 5 is done (3 lines of output)``."""
    shown = _shown(job) if job.is_over else ""
    return f"{job.name} {_LOOKS[job.state].verb}" + (f" ({shown} of output)" if shown else "")


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


@dataclass(frozen=True, slots=True)
class JobStatus(Rich):
    """One background cell at a moment. Prints as a line.

    ``cell 5 · worker 2 · running 4 s``; then ``cell 5 · done in 4.2 s · peak 310 MB · df``.
    """

    name: str
    state: str
    seconds: float  # for which it has run; or has waited, if it hasn't begun
    size: int = 1  # tasks
    ended: int = 0  # of them
    failed: int = 0  # of those that ended
    worker: int = 0
    actor: str = ""  # the namespace that it runs in, if it isn't the pool
    is_stopping: bool = False
    share: float | None = None  # how much of it is done, from 0 to 1, if that is known
    peak: int = 0  # bytes of memory; 0 if nobody knows
    assigned: tuple[str, ...] = ()  # names that have a value by it

    def __str__(self) -> str:
        several = f"{self.ended} of {self.size}" if self.size > 1 else ""
        if self.state == "queued":
            parts = [f"queued {clock(self.seconds)}", several]
        elif self.state == "running":
            worker = f"worker {self.worker}" if self.size == 1 else ""
            doing = "stopping" if self.is_stopping else "running"
            share = f"{self.share:.0%}" if self.size == 1 and self.share is not None else ""
            parts = [
                f"in {self.actor}" if self.actor else worker,
                f"{doing} {clock(self.seconds)}",
                several or share,
            ]
        else:
            how = f" {'in' if self.state == 'done' else 'after'} {human_seconds(self.seconds)}"
            parts = [
                self.state + (how if self.seconds else ""),  # else it never began
                several and f"{self.ended - self.failed} of {self.size}",
                f"peak {human_bytes(self.peak)}" if self.peak else "",
                self._names(),
            ]
        return " · ".join(filter(None, [self.name, *parts]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same with a sign in colour, and a strip if it is known how much is done."""
        look = _LOOKS[self.state]
        is_over = self.state not in ("queued", "running")
        return status(look.sign, look.mood, str(self), None if is_over else self.share)

    def _names(self) -> str:
        names = self.assigned if self.state == "done" else ()
        more = len(names) - MOST_NAMES
        return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def clock(seconds: float) -> str:
    """Whole seconds, as a line that goes on shows them: ``4 s``, ``2 min 04 s``, ``1 h 07 min``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole // 60 % 60:02} min"

"""Background cells as people find them: in a few words, as a table, by a name. Asks nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.core.snapshot import JobRecord
from workbench.errors import MagicError
from workbench.markup import Rich, Table, page
from workbench.units import count, human_seconds

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

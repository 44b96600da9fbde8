"""Background cells as people find them: in a few words, as a table, by a name. Asks nobody."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.core.snapshot import JobRecord
from workbench.errors import MagicError
from workbench.units import count, human_seconds

HEAD = ("job", "name", "state", "time", "output", "assigns")

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


def table(jobs: Sequence[JobRecord]) -> str:
    """All of them, a line each."""
    rows = [HEAD, *map(_row, jobs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


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

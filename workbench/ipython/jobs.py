"""Background cells as people find them: by a name, and in the line below one. Asks nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.core.snapshot import JobRecord
from workbench.errors import MagicError
from workbench.markup import status
from workbench.report.format import human_bytes, human_elapsed, human_seconds, human_share, listed

if TYPE_CHECKING:
    from workbench.ipython.job import Job


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
        parts = [job.name, f"queued {human_elapsed(job.seconds)}", items]
    else:
        worker = f"in {job.actor}" if job.actor else f"worker {job.worker}" if job.size == 1 else ""
        doing = "stopping" if job.stopping else "running"
        share = f"{human_share(job.share)}" if job.size == 1 and job.share is not None else ""
        parts = [job.name, worker, f"{doing} {human_elapsed(job.seconds)}", items or share]
    return " · ".join(filter(None, parts))


def line_html(job: Job) -> str:
    """The same with a sign in colour, and a strip if it is several tasks."""
    return status(*_MARKS[job.state], words(job), None if job.is_over else job.share)


def _assigned(job: Job) -> str:
    names = [n for n in job.names if n not in job.unset] if job.state == "done" else []
    return listed(names, MOST_NAMES)


def bundle(job: Job) -> dict[str, str]:
    """What stays in the notebook, and what front ends without widgets show."""
    return {"text/plain": words(job), "text/html": line_html(job)}

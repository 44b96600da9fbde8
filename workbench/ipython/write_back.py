"""What remote cells changed in place: what their lines say of it, and writing it back here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from workbench.errors import MagicError
from workbench.ipython.job import Job
from workbench.report.write_back import (
    apart_text,
    both_text,
    brought_text,
    coarse_text,
    copies_text,
    gone_text,
    lost_text,
    namespace_text,
    not_compared_text,
    not_updated_text,
    perhaps_apart_text,
    unsteady_text,
    waiting_text,
)


def at_end(job: Job, waited: bool) -> list[str]:
    """What there is to say once it is over. The reading thread."""
    names = job.mutated = _names(each.names for each in job.mutations)
    unknown = _names(each.unknown for each in job.mutations)
    lost = [each for each in job.mutations if each.lost]
    said = []
    if lost:
        said.append(lost_text(lost[0].names, lost[0].lost))
    elif names and job.actor:
        said.append(namespace_text(names, job.actor))
    elif names and not any(each.packed for each in job.mutations):
        said.append(copies_text(names))
    elif names and job.originals is None:
        said += [] if job.is_again else [gone_text(names)]
    elif names and not waited:
        said.append(waiting_text(names))
    if unknown:
        said.append(not_compared_text(unknown))
    for stored, other in job.apart:
        others = [name for name in names if name != stored]
        if other and not {stored, other}.isdisjoint(names):
            said.append(apart_text(stored, other))
        elif others and not other:
            said.append(perhaps_apart_text(stored, others))
    if coarse := _names(each.coarse for each in job.mutations if each.packed):
        said.append(coarse_text(coarse))
    if unsteady := _names(each.unsteady for each in job.mutations):
        said.append(unsteady_text(unsteady))
    return said


def let_go(jobs: Iterable[Job]) -> None:
    """Of what cells that are over took along, keep what is to be brought yet.

    The main thread: the last of a person's objects may go, and with it runs their code.
    """
    for job in jobs:
        if job.over.is_set() and not any(each.packed for each in job.mutations):
            job.originals = None
            job.mutations.clear()


def bring(job: Job, variables: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Make the notebook's objects what the cell left of them.

    Returns what the cell assigned that is one of them; and in a sentence, what didn't work.
    """
    originals, mutations = job.originals, next(iter(job.mutations), None)
    job.originals = None
    job.mutations.clear()
    if originals is None or mutations is None or mutations.lost:
        return {}, ""
    try:
        if mutations.packed is not None:
            originals.update(mutations, variables)
    except Exception as error:  # of code of the user's
        return {}, not_updated_text(mutations.names, f"{type(error).__name__}: {error}")
    own = originals.objects() if mutations.outputs else {}
    return {name: own[n] for name, n in mutations.outputs.items() if n in own}, ""


def find(jobs: Iterable[Job], name: str, running: bool) -> Job | None:
    """The latest cell that changed this variable's object; also one that is ``running`` and may."""
    for job in reversed(list(jobs)):
        if job.originals is None:
            continue
        if running and not job.is_over and name in job.originals.tracked.names:
            return job
        if any(name in each.names and each.packed is not None for each in job.mutations):
            return job
    return None


def get(job: Job, name: str, target: str | None, variables: dict[str, Any]) -> str:
    """``%get name`` waits for the cell, and brings what it changed; says what came of it.

    Raises
    ------
    MagicError
        If the notebook has changed it too, or it can't be changed here.
    """
    job.wait()
    if job.errors:
        raise job.errors[0]
    originals = job.originals
    found = next((each for each in job.mutations if name in each.names), None)
    if originals is None or found is None:
        return f"{job.name} didn't change {name}."
    if target is not None:
        variables[target] = originals.copied(found, name)
        return ""
    changed, unknown = originals.changed_here()
    here = [name for name in changed if name in found.names]
    if name in originals.values and variables.get(name) is not originals.values[name]:
        here.append(name)
    if here:
        raise MagicError(both_text(here, job.name))
    _, failed = bring(job, variables)
    if failed:
        raise MagicError(failed)
    return brought_text(found.names, job.name, [n for n in unknown if n in found.names])


def _names(each: Iterable[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(name for names in each for name in names))

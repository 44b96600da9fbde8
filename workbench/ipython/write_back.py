"""Words what remote cells changed in place, and writes it back to the notebook."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from workbench.errors import MagicError
from workbench.ipython.bindings import Bindings
from workbench.ipython.job import Job
from workbench.ref import ObjectRef
from workbench.report import write_back as texts
from workbench.report.write_back import filled_in
from workbench.serialization.merging import ConflictError
from workbench.serialization.mutations import NO_DIFFERENCE, Difference, Mutations
from workbench.surroundings.pickled import opened
from workbench.surroundings.surroundings import add


def at_end(job: Job, waited: bool) -> list[str]:
    """Return notes for the line of a job that is over. The reading thread."""
    names = job.mutated = _names(each.names for each in job.mutations)
    unknown = _names(each.unknown for each in job.mutations)
    lost = [each for each in job.mutations if each.lost]
    coarse = _names(each.coarse for each in job.mutations if each.packed)
    unsteady = _names(each.unsteady for each in job.mutations)
    notes = []
    if lost:
        notes.append(filled_in(texts.LOST, lost[0].names, why=lost[0].lost))
    elif names and job.actor:
        notes.append(filled_in(texts.IN_NAMESPACE, names, actor=job.actor))
    elif names and not any(each.packed for each in job.mutations):
        notes.append(filled_in(texts.COPIES, names))
    elif names and job.originals is None:
        notes += [] if job.is_again else [filled_in(texts.KERNEL_GONE, names)]
    elif names and not waited:
        notes.append(filled_in(texts.WAITING, names))
    for stored, other in job.apart:
        changed = [name for name in names if name != stored]
        if other and not {stored, other}.isdisjoint(names):
            notes.append(filled_in(texts.APART, [stored, other]))
        elif changed and not other:
            notes.append(filled_in(texts.PERHAPS_APART, changed, stored=stored))
    for each in job.mutations:
        notes += [filled_in(texts.STAYED, [name], why=why) for name, why in each.stayed.items()]
    brings = job.brings_settings
    kept = _names(each.kept if brings else (*each.names, *each.kept) for each in job.settings)
    if kept:
        notes.append(filled_in(texts.SET_THERE, kept))
    if not waited and brings and (later := _names(each.names for each in job.settings)):
        notes.append(filled_in(texts.SET_WAITING, later))
    gone = _names(each.gone for each in job.mutations)
    if gone and not waited:
        notes.append(filled_in(texts.DELETED, gone))
    if job.threads and not job.actor:
        notes.append(filled_in(texts.GOES_ON, sorted(job.threads)))
    others = (texts.NOT_COMPARED, unknown), (texts.COARSE, coarse), (texts.UNSTEADY, unsteady)
    return notes + [filled_in(text, each) for text, each in others if each]


def are_apart(apart: Iterable[tuple[str, str]]) -> list[str]:
    """Return notes, before an expression runs, on values that share an object; see `CellInputs`."""
    return [filled_in(texts.ARE_APART, pair) for pair in apart if pair[1]]


def forget_finished(jobs: Iterable[Job]) -> None:
    """Drop what finished cells captured, unless their changes may still be fetched.

    The main thread: this may drop the last reference to a user's object, and so run user code.
    """
    for job in jobs:
        if job.over.is_set() and not any(each.packed or each.gone for each in job.mutations):
            job.originals = None
            job.mutations.clear()


def bring(
    job: Job,
    variables: dict[str, Any],
    outputs: Collection[str] = (),
    here: Difference = NO_DIFFERENCE,
) -> tuple[dict[str, Any], str]:
    """Change the notebook's objects, and bind the names, as the cell left them.

    Returns the ``outputs`` among those names, unbound; and a sentence on what didn't work. Objects
    that have changed ``here``, too, are merged; a `ConflictError` leaves all as it was.
    """
    originals, mutations = job.originals, next(iter(job.mutations), None)
    bound: dict[str, Any] = {}
    failed = ""
    if originals is not None and mutations is not None and not mutations.lost:
        try:
            if mutations.packed is not None:
                bound = originals.update(mutations, variables, here)
        except ConflictError:
            raise
        except Exception as error:  # from the user's code
            why = f"{type(error).__name__}: {error}"
            failed = filled_in(texts.NOT_UPDATED, mutations.names, why=why)
        else:
            variables |= {name: bound[name] for name in mutations.bound if name in bound}
            for name in mutations.gone:
                variables.pop(name, None)
    # Last: whoever presses Ctrl-C before can bring it later.
    job.originals = None
    job.mutations.clear()
    return {name: bound[name] for name in outputs if name in bound}, failed


def bring_all(
    job: Job,
    variables: dict[str, Any],
    bindings: Bindings,
    fetched: Mapping[str, tuple[Any, Any]],
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Change the notebook as a background cell that is done would have, if somebody had waited.

    What the notebook has assigned since stays, but for what was ``fetched`` of earlier cells: refs
    and values, by name. Returns the values of the job's outputs, unbound; the names of what else
    changed; and sentences on what didn't work.
    """
    job.wait()
    originals, mutations = job.originals, next(iter(job.mutations), None)
    if originals is None or mutations is None:
        return {}, *add_settings(job, only_unchanged=True)
    before, here = dict(variables), originals.changed_here()
    named = dict.fromkeys((*mutations.names, *mutations.bound, *mutations.gone))
    now = variables | {n: ref for n, (ref, got) in fetched.items() if variables.get(n) is got}
    stays = [n for n in named if not _is_as_then(n, job, mutations, here, now, bindings)]
    brought = [n for n in named if n not in stays and n not in job.outputs and not mutations.lost]
    both = [n for n in here.names if n in mutations.names] or mutations.names
    try:
        made, failed = bring(job, variables, job.outputs, here)
    except ConflictError:
        said = [] if job.is_told else [filled_in(texts.CHANGED_IN_BOTH, both, job=job.name)]
        job.is_told = True
        names, more = add_settings(job, only_unchanged=True)
        return {}, names, [*said, *more]
    for name in stays:
        variables.pop(name, None)
        variables |= {name: before[name]} if name in before else {}
    names, more = add_settings(job, only_unchanged=True)
    return made, [*([] if failed else brought), *names], [*filter(None, [failed]), *more]


def _is_as_then(
    name: str,
    job: Job,
    mutations: Mutations,
    here: Difference,
    variables: Mapping[str, Any],
    bindings: Bindings,
) -> bool:
    """True if the variable still means what it meant when the cell was submitted."""
    originals, nothing = job.originals, object()
    if originals is None:
        return False
    now = variables.get(name, nothing)
    if name in originals.values:
        return now is originals.values[name]
    if isinstance(ref := originals.names.get(name), ObjectRef):  # or what `%get` has made of it
        known = bindings.find(name, now)
        return now == ref if isinstance(now, ObjectRef) else bool(known and known[1].ref == ref)
    if name in mutations.names:  # a global of a function
        return name not in here.names
    return now is job.then.get(name, nothing)


def add_settings(job: Job, only_unchanged: bool = False) -> tuple[list[str], list[str]]:
    """Change this process's settings as the cell changed its own, once; see `Part.add`. Return what
    a person calls them, and sentences on those that are left."""
    made = job.settings[:] if job.brings_settings else []
    job.settings.clear()
    left = {word for each in made for word in add(opened(each.packed), only_unchanged)}
    names = [name for name in _names(each.names for each in made) if name not in left]
    return names, [filled_in(texts.SET_THERE, sorted(left))] if left else []


def find(
    jobs: Iterable[Job], name: str, variables: Mapping[str, Any], is_elsewhere: bool
) -> list[Job]:
    """Find the cells that changed this variable's object, or the one that runs and still may, in
    the order in which they began; only those since a cell that assigned it.

    ``is_elsewhere``: another object of that name can be fetched. Then cells that still run don't
    count, nor those whose object isn't the variable's any more.
    """
    found: list[Job] = []
    for job in reversed(list(jobs)):
        if name in job.assigns and job.state not in ("failed", "stopped"):
            break
        if job.originals is None:
            continue
        values = job.originals.values
        if is_elsewhere and name in values and variables.get(name) is not values[name]:
            continue
        may_change = not is_elsewhere and not job.is_over and name in job.originals.tracked.names
        did = any(name in _brought(each) and each.packed is not None for each in job.mutations)
        if may_change or did:
            found.append(job)
    now = variables.get(name)
    mine = [j for j in found if j.originals and j.originals.values.get(name, now) is now]
    return mine[::-1] or found[:1]  # of another object: it can only be had as another variable


def get(job: Job, name: str, target: str | None, variables: dict[str, Any]) -> str:
    """Wait for the cell for ``%get name``, and write back its changes; return what happened.

    Raises
    ------
    MagicError
        If the notebook has changed it too, or it can't be changed here.
    """
    job.wait()
    if job.errors:
        raise job.errors[0]
    originals = job.originals
    found = next((each for each in job.mutations if name in _brought(each)), None)
    if originals is None or found is None:
        return f"{job.name} didn't change {name}."
    if target is not None:
        variables[target] = originals.copied(found, name)
        return ""
    here = originals.changed_here()
    both = [each for each in here.names if each in found.names]
    try:
        if name in originals.values and variables.get(name) is not originals.values[name]:
            raise ConflictError
        _, failed = bring(job, variables, job.outputs, here)
    except ConflictError:
        names = both or [name]
        raise MagicError(filled_in(texts.CHANGED_IN_BOTH, names, job=job.name)) from None
    if failed:
        raise MagicError(failed)
    unknown = [each for each in (*here.unknown, *here.unsteady) if each in found.names]
    doubts = (texts.MERGED, both), (texts.NOT_LOOKED_AT, unknown)
    brought = dict.fromkeys([*found.names, *_brought(found)])
    said = [filled_in(text, names, job=job.name) for text, names in doubts if names]
    return "; ".join([f"{job.name}: {', '.join(brought)}", *said])


def _brought(mutations: Mutations) -> tuple[str, ...]:
    return (*mutations.names, *mutations.bound)


def _names(each: Iterable[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(name for names in each for name in names))

"""Words for the records of a session: the only place that words a fact.

Plain functions of records; renderers place the results. They ask only the operating system, for
this process's id. What an engine can't tell is None, or says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from workbench.core.descriptions import TaskRecord
from workbench.core.snapshot import (
    ACTOR_PREFIX,
    INCARNATION,
    KEPT_PREFIX,
    JobRecord,
    ObjectRecord,
    Snapshot,
    result_of,
)
from workbench.format import (
    NO_FIGURE,
    OWN,
    UNKNOWN,
    count,
    human_age,
    human_bytes,
    human_count,
    human_time,
    joined,
    listed,
)
from workbench.report import reasons
from workbench.report.processes import Processes, actor_text, open_in

MOST_WORDS = 20
"""Actors or cells that one line names; the rest are counted."""

MOST_VARIABLES = 4
"""Variables with one object that are named for it."""

Place = tuple[str, str]
"""A variable of this process, and what it has of an object: ``ref`` or ``view``."""

Held = Mapping[int, Sequence[Place]]
"""By object id, the variables of this process that have it: what `Engine.held` finds."""


# -- objects ---------------------------------------------------------------------------------------

WHERE = {
    "inline": "too small for shared memory",
    "memory": "in shared memory",
    "worker": "in a worker's memory",
    "disk": "on disk",
    "pending": "pending",
}

MOVES = {"alive": "yes", "resident": "no", "freed": "freed, still shown"}
"""Texts on whether an object can move to disk, by `ObjectRecord.strength`."""

NO_OBJECTS = "No objects. %put makes one."


def no_match(pattern: str) -> str:
    return f"No object matches {pattern!r}."


def plain_name(name: str) -> str:
    """Return a name in the store without the prefix of actors' names."""
    return name.removeprefix(ACTOR_PREFIX)


def name_of(name: str) -> str:
    """Return a name in the store, for people: ``df``, ``actor db``."""
    if name.startswith(KEPT_PREFIX):
        return f"kept variables of {PurePath(name.removeprefix(KEPT_PREFIX)).name}"
    return f"actor {plain_name(name)}" if name.startswith(ACTOR_PREFIX) else name


def names_of(record: ObjectRecord) -> str:
    return ", ".join(map(name_of, record.names))


def is_internal(record: ObjectRecord) -> bool:
    """True if it is one of Workbench's own, which run cells. People needn't see it."""
    return not record.names and type_of(record).startswith(OWN)


def variables_of(places: Sequence[Place]) -> str:
    """Name the first variables that have it; ``df, as it was at 12:00:00`` only without ``df``, and
    ``Out[3]`` only if no other variable has it."""
    paths = [path.partition(", as it was at ") for path in dict(places)]
    plain = {name for name, note, _ in paths if not note}
    names = ["".join(path) for path in paths if not path[1] or path[0] not in plain]
    persons = [name for name in names if not _OUTPUT.match(name)]
    return first_of(persons or [name for name in names if name.startswith("Out[")] or names)


_OUTPUT = re.compile(r"Out\[|_+\d*(?!\w)")
"""How the names begin that IPython gives to a cell's result."""


def first_of(variables: Sequence[str]) -> str:
    """Name the first variables; the rest aren't counted, because the search for them ends early."""
    return ", ".join([*variables[:MOST_VARIABLES], *["…"][: len(variables) > MOST_VARIABLES]])


def title_of(record: ObjectRecord, held: Held | None = None) -> str:
    """Return what people know an object by: its names, else the variables that hold it, else the
    place where it was made, else its key in the engine or its id."""
    variables = variables_of((held or {}).get(record.id, ()))
    site = site_of(record)
    return (
        names_of(record) or variables or record.key or (site and f"from {site}") or id_of(record.id)
    )


def id_of(id: int) -> str:
    return f"{id:016x}"


def type_of(record: ObjectRecord) -> str:
    """Return the type of an object, as far as the session knows: ``ndarray float64 (3,)``."""
    if record.about:
        return record.about.type
    return UNKNOWN if record.type is None else record.type or result_of(record.state)


def kind_of(record: ObjectRecord) -> str:
    """Return only its type's name, without dtype and shape; other texts as they are."""
    if record.about or record.type:
        return type_of(record).partition(" ")[0]
    return f"type {UNKNOWN}" if record.type is None else type_of(record)


def site_of(record: ObjectRecord) -> str:
    """Return the line of a person's code where it was made; empty if unknown."""
    return record.about.site if record.about else record.site


def place_of(record: ObjectRecord, processes: Processes) -> str:
    """Return the same, with the process that runs that code if it isn't this one."""
    site = site_of(record)
    return site and site + processes.of_another(record.id)


def size_of(record: ObjectRecord) -> int | None:
    """Return its bytes; None as long as they are unknown."""
    return record.size if record.size or record.where not in ("", "pending") else None


def figure(nbytes: int | None) -> str:
    return NO_FIGURE if nbytes is None else human_bytes(nbytes)


def where_text(record: ObjectRecord) -> str:
    return MOVES["freed"] if record.state == "freed" else WHERE.get(record.where, UNKNOWN)


def age_text(record: ObjectRecord) -> str:
    return NO_FIGURE if record.age is None else human_age(record.age)


def moves_text(record: ObjectRecord) -> str:
    """Word whether it can move to disk, and what prevents it: ``no: pinned, arrays``."""
    if record.strength is None:
        return NO_FIGURE
    if record.strength != "resident":
        return MOVES[record.strength]
    against = [
        reasons.chip(code, n)
        for code, n in reasons.counts(record)
        if reasons.REASONS[code].keeps_in_memory
    ]
    return f"{MOVES['resident']}: {', '.join([*against, *['a running task'] * record.in_use])}"


# -- why objects are here --------------------------------------------------------------------------


class WordedPin(NamedTuple):
    """One reason why an object is here. ``reason``: a key of `reasons.REASONS`; ``here``: True if
    it is in this process."""

    reason: str
    text: str
    here: bool = False


def pins_of(
    record: ObjectRecord, processes: Processes, places: Sequence[Place] = ()
) -> Iterator[WordedPin]:
    """Yield the reasons why an object is here, as far as its record tells; ``places``: where this
    process has it."""
    for name in record.names:
        yield _pin("name", plain_name(name))
    if record.pinned:
        yield _pin("user", record.pinned)
    if record.job:
        yield _pin("job", record.job)
    for client in record.holders:
        yield _held("ref", client, processes, places)
    if record.tasks:
        yield _pin("task", count(record.tasks, "task"))
    if record.parents:
        yield _pin("contained", count(record.parents, "object"))
    for site in record.escapes:
        yield _pin("escaped", site)
    for client in record.viewers or ():
        yield _held("view", client, processes, places)


def _pin(reason: str, what: str, here: bool = False) -> WordedPin:
    return WordedPin(reason, reasons.phrase(reason, what), here)


def _held(reason: str, client: int, processes: Processes, places: Sequence[Place]) -> WordedPin:
    here = processes.is_here(client)
    variables = first_of([f"`{path}`" for path, kind in places if here and kind == reason])
    where = processes.name(client)
    return _pin(reason, f"{where}: {variables}" if variables else where, here)


def why_text(record: ObjectRecord, processes: Processes, places: Sequence[Place] = ()) -> str:
    """Word all reasons in one line; processes that have several refs or arrays are combined."""
    texts: dict[str, str] = {}
    for pin in pins_of(record, processes, places):
        texts[pin.reason] = f"{texts[pin.reason]}, {pin.text}" if pin.reason in texts else pin.text
    for reason, clients in (("ref", record.holders), ("view", record.viewers or ())):
        if len(clients) > 1:
            chip = reasons.REASONS[reason].chips
            texts[reason] = f"{chip} in {processes.several(clients)}"
    return ", ".join(texts.values()) or (UNKNOWN if record.viewers is None else "nothing")


def what_breaks(record: ObjectRecord, processes: Processes, places: Sequence[Place] = ()) -> str:
    """Word who couldn't read the object any more if it were freed; empty if nobody.

    Arrays that show it stay as they are.
    """
    refs = [f"`{path}`" for path, kind in places if kind == "ref"][:3]
    here = [client for client in record.holders if processes.is_here(client)]
    elsewhere = len(record.holders) - len(here)
    users = refs or [f"a ref in {processes.name(client)}" for client in here[:1]]
    if elsewhere:
        users.append(f"refs in {count(elsewhere, 'other process', 'other processes')}")
    if record.tasks:
        users.append(count(record.tasks, "task"))
    if record.parents:
        users.append(f"{count(record.parents, 'object')} it is inside of")
    if not users or record.state == "freed":
        return ""
    return f"It is still used by {joined(users)}: reading it there will fail."


# -- tasks and background cells --------------------------------------------------------------------

NO_JOBS = "No background cells. %%remote starts one."


def job_state(job: JobRecord) -> str:
    """Return ``running``, or ``done, not fetched`` if its results wait to be fetched."""
    return ", ".join(filter(None, (job.state, unfetched(job))))


def unfetched(job: JobRecord) -> str:
    if job.kept and job.is_over:
        return "not fetched"
    if job.there and job.is_over:
        return "results kept"
    return "results gone" if job.dropped else ""


def job_output(job: JobRecord) -> str:
    """Word how much it has shown: ``3 lines and 1 display``; if cut, ``at least 3 lines``."""
    shown = ((job.lines, "line"), (job.displays, "display"))
    least = "at least " if job.shown_in_part else ""
    return least + " and ".join(count(n, noun) for n, noun in shown if n)


def job_text(job: JobRecord) -> str:
    """Word a job's state: ``cell 5 done (3 lines of output)``."""
    output = job_output(job) if job.is_over else ""
    return f"{job.name} {job.state}" + (f" ({output} of output)" if output else "")


def job_items(job: JobRecord) -> str:
    """Word how many items of a cell that runs once per item have ended: ``3 of 8``."""
    return f"{job.ended} of {job.size}" if job.size > 1 else ""


def left_by_cells(jobs: Iterable[JobRecord]) -> list[str]:
    """Return names assigned by cells whose notebook saw their end and is gone; each once."""
    return list(dict.fromkeys(n for job in jobs if job.is_over and not job.kept for n in job.there))


def job_texts(jobs: Iterable[JobRecord]) -> list[str]:
    """Word the jobs that matter to somebody who joins now: not over, or over and kept."""
    return [job_text(job) for job in jobs if job.kept or not job.is_over]


def task_text(task: TaskRecord, processes: Processes) -> str:
    """Word the task that makes an object: ``fit in worker 3``."""
    doing = {
        "waiting": ", until its arguments are there",
        "queued": ", which has not begun",
        "running": f" in {processes.numbered(task.worker)}" if task.worker else ", which runs",
    }
    return f"`{task.name}`{doing.get(task.state, '')}"


# -- a session -------------------------------------------------------------------------------------


def session_name(snapshot: Snapshot) -> str:
    """Return the name without its unique part, and the engine; if observed, the address."""
    if snapshot.is_observed:
        return f"{snapshot.engine.capitalize()} at {snapshot.session}"
    return short_name(snapshot.session) + on_engine(snapshot.engine)


def on_engine(engine: str) -> str:
    """Return `` on Ray``; empty for a session of this machine."""
    return "" if engine == "local" else f" on {engine.capitalize()}"


def short_name(session: str) -> str:
    return session.rpartition(INCARNATION)[0] or session


def users_text(snapshot: Snapshot) -> str:
    """Word who uses the session, and how long it stays without them."""
    there = joined(open_in(snapshot))
    stays = human_time(snapshot.linger)
    if not there:
        return f"no notebook; ends within {stays}" if snapshot.linger else "no notebook"
    if not snapshot.linger:
        return f"{there}; ends when the last notebook leaves"
    return f"{there}; kept for {stays} after the last notebook leaves"


def workers_text(snapshot: Snapshot) -> str:
    """Word the pool: ``4 workers (3 idle, 1 busy)``; if they start on demand, ``2 of 6
    workers started (2 busy)``. Actors' workers are not part of it.

    The local engine has none while nobody uses the session.
    """
    states = worker_states(snapshot)
    if not states and snapshot.engine == "local":
        return "no workers until the next task"
    if not states and not snapshot.slots:
        return f"workers {UNKNOWN}"
    parts = ", ".join(f"{n} {state}" for state, n in states.items())
    started, slots = sum(states.values()), snapshot.slots or 0
    pool = count(started, "worker")
    if started < slots:
        pool = f"{started} of {count(slots, 'worker')} started"
    return pool + (f" ({parts})" if parts else "")


def workers_heading(snapshot: Snapshot) -> str:
    """Return a heading: ``Workers · 4``, ``Workers · 2 of 6 started · 1 of an actor``."""
    started, slots = sum(worker_states(snapshot).values()), snapshot.slots or 0
    actors = len(snapshot.workers) - started
    pool = f"{started} of {slots} started" if started < slots else str(started) if started else ""
    of_actors = f"{actors} of {'an actor' if actors == 1 else 'actors'}" if actors else ""
    return " · ".join(filter(None, ("Workers", pool, of_actors)))


def worker_states(snapshot: Snapshot) -> dict[str, int]:
    return Counter(worker.state for worker in snapshot.workers if not worker.actor)


def tasks_text(snapshot: Snapshot) -> str:
    if snapshot.queued is None and snapshot.running is None:
        return f"how many tasks run or wait is {UNKNOWN}"
    queued = UNKNOWN if snapshot.queued is None else human_count(snapshot.queued)
    return f"{count(snapshot.running, 'task')} running, {queued} queued"


def session_facts(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return facts about a session, except its objects, by label."""
    actors = [actor_text(actor) for actor in snapshot.actors]
    return [
        ("open in", users_text(snapshot)),
        ("workers", f"{workers_text(snapshot)}; {tasks_text(snapshot)}"),
        ("store", store_text(snapshot)),
        ("actors", listed(actors, MOST_WORDS)),
        ("background", listed(job_texts(snapshot.jobs), MOST_WORDS)),
        ("last spill error", snapshot.trouble),
    ]


def lacks_text(lacks: Iterable[str]) -> str:
    """Word what the engine can't do, a line each: the first sentence."""
    return "\n".join(dict.fromkeys(lack.partition(". ")[0].rstrip(".") + "." for lack in lacks))


def store_text(snapshot: Snapshot) -> str:
    """Word what the store has: ``265 MB of 10 GB in 12 objects, 30 MB reusable, 1 GB on disk``."""
    spilled = f", {human_bytes(snapshot.spilled)} on disk" if snapshot.spilled else ""
    reusable = f", {human_bytes(snapshot.warm_free)} reusable" if snapshot.warm_free else ""
    return f"{room_text(snapshot)} in {count(snapshot.count, 'object')}{reusable}{spilled}"


def room_text(snapshot: Snapshot) -> str:
    if not snapshot.capacity:
        if snapshot.live is None:
            return f"sizes and capacity {UNKNOWN}"
        return f"{human_bytes(snapshot.live)}, capacity {UNKNOWN}"
    return f"{human_bytes(snapshot.live)} of {human_bytes(snapshot.capacity)}"


def full_text(nbytes: int, snapshot: Snapshot | None, reason: str, held: Held) -> str:
    """Word that the store has no room for ``nbytes``: what takes most of it, and what to do.

    ``snapshot`` has the largest objects in memory (None if the session gave none);
    ``reason`` says why these can't move to disk.
    """
    lines = [f"No room for {human_bytes(nbytes)}."]
    if snapshot is not None:
        disk = f", {human_bytes(snapshot.spilled)} more on disk" if snapshot.spilled else ""
        lines[0] += f" {room_text(snapshot)} are in use{disk}. The largest:"
        processes = Processes(snapshot)
        for record in snapshot.objects:
            freed = f"{MOVES['freed']}; " if record.state == "freed" else ""
            lines.append(
                f"  {figure(size_of(record)):>9}  {title_of(record, held)} ({type_of(record)}): "
                f"{freed}{why_text(record, processes, held.get(record.id, ()))}"
            )
    return "\n".join(
        [
            *lines,
            reason,
            "Let go of what you don't need (`del`, `free(ref)`; `%why` says what keeps it), or "
            "start a larger store (`%workbench start --memory …`).",
        ]
    )

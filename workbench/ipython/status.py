"""One line and one table about a session, as text. Reads `Engine.summary`; asks nothing else."""

from __future__ import annotations

from workbench.core.events import About
from workbench.core.snapshot import ActorRecord, ObjectRecord, Snapshot
from workbench.engines.base import ACTOR_PREFIX, Engine
from workbench.ipython.jobs import concerning, in_words
from workbench.units import count, human_bytes, human_seconds, human_time

MOST_ROWS = 20
"""Named objects that the status lists; the rest are counted."""

MOST_WORDS = 8
"""Of each kind of thing that is named in one line; the rest are counted."""


def started_line(engine: Engine) -> str:
    """What was started; or what was joined, and what is there."""
    what = "joined" if engine.joined else "started"
    line = (
        f"Workbench {what} session {engine.session.rpartition('.')[0]}: "
        f"{count(engine.workers, 'worker')}, store of {human_bytes(engine.capacity)}."
    )
    return line + _found(engine.summary()) if engine.joined else line


def _found(snapshot: Snapshot) -> str:
    """A sentence on what has a name in a session, and one on its background cells, if any."""
    names = sorted(name for record in snapshot.objects for name in record.names)
    actors = sorted(n.removeprefix(ACTOR_PREFIX) for a in snapshot.actors for n in a.names)
    jobs = [in_words(job) for job in concerning(snapshot.jobs)]
    parts = [
        _listed(names, snapshot.names),
        f"actor{'s' * (len(actors) > 1)} {_listed(actors, len(actors))}" if actors else "",
    ]
    there = "; ".join(filter(None, parts))
    cells = f" Background: {_listed(jobs, len(jobs))}; %workbench jobs shows more." if jobs else ""
    return (f" It has {there}." if there else "") + cells


def _listed(words: list[str], count: int) -> str:
    more = count - len(words[:MOST_WORDS])
    return ", ".join(words[:MOST_WORDS]) + (f" and {more} more" if more > 0 else "")


def put_line(label: str, about: About) -> str:
    """What a put cost."""
    nbytes = about.inband + about.outband
    seconds = about.pickle_seconds + about.copy_seconds
    rate = f", {nbytes / seconds / 1e9:.2g} GB/s" if nbytes >= 1 << 20 and seconds else ""
    outband = (
        f"{human_bytes(about.outband)} copied directly in {count(about.buffers, 'buffer')}"
        if about.outband
        else "all of it pickled"
    )
    return (
        f"{label}: {about.type}, {human_bytes(nbytes)} in {human_seconds(seconds)}{rate}; {outband}"
    )


def session_line(snapshot: Snapshot) -> str:
    """Which session it is, whose, and for how long."""
    drivers = sum(client.role == "driver" for client in snapshot.clients)
    stays = (
        f"it outlives the last by {human_time(snapshot.linger)}"
        if snapshot.linger
        else "it ends with the last"
    )
    name = snapshot.session.rpartition(".")[0]
    return f"Session {name}, {count(drivers, 'notebook or script')}; {stays}"


def status_text(snapshot: Snapshot, huge_pages: str = "") -> str:
    """The session now, in a few lines; one of them about ``huge_pages``, if there is to say."""
    states = [worker.state for worker in snapshot.workers if not worker.actor]
    parts = ", ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states))
    lines = [
        session_line(snapshot),
        f"Pool: {count(len(states), 'worker')} ({parts}), "
        f"{count(snapshot.running, 'task')} running, {snapshot.queued} queued",
        f"Store: {human_bytes(snapshot.live)} of {human_bytes(snapshot.capacity)} in "
        f"{count(snapshot.count, 'object')}, {human_bytes(snapshot.warm_free)} kept warm"
        + (f", {human_bytes(snapshot.spilled)} on disk" if snapshot.spilled else ""),
    ]
    if huge_pages:
        lines.append(huge_pages)
    if snapshot.trouble:
        lines.append(f"The disk failed when objects were to move there: {snapshot.trouble}")
    named = snapshot.objects[:MOST_ROWS]
    rows = [_row(record) for record in named]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    lines += [f"  {n:<{widths[0]}}  {size:>{widths[1]}}  {type}" for n, size, type in rows]
    more = snapshot.names - sum(len(record.names) for record in named)
    if more:
        lines.append(f"  and {more} more")
    lines += [f"Actor {_actor(actor)}" for actor in snapshot.actors[:MOST_ROWS]]
    lines += [f"Background: {in_words(job)}" for job in concerning(snapshot.jobs)[:MOST_ROWS]]
    return "\n".join(lines)


def _actor(actor: ActorRecord) -> str:
    names = "".join(f" {name.removeprefix(ACTOR_PREFIX)!r}" for name in actor.names)
    calls = f", {count(actor.calls, 'call')}" if actor.calls else ""
    return f"{actor.cls}{names}: {actor.state}{calls}"


def _row(record: ObjectRecord) -> tuple[str, str, str]:
    about = record.about
    return ", ".join(record.names), human_bytes(record.size), about.type if about else record.state

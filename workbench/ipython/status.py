"""One line and one table about a session, as text. Reads a snapshot; asks nothing else."""

from __future__ import annotations

from workbench.core.events import About
from workbench.core.snapshot import ActorRecord, ObjectRecord, Snapshot
from workbench.engines.base import ACTOR_PREFIX, Engine
from workbench.units import human_bytes, human_seconds

MOST_ROWS = 20
"""Named objects that the status lists; the rest are counted."""


def started_line(engine: Engine) -> str:
    """What was started, or joined."""
    names = engine.names() if engine.joined else []
    what = "joined" if engine.joined else "started"
    line = (
        f"Workbench {what} session {engine.session.rpartition('.')[0]}: "
        f"{_count(engine.workers, 'worker')}, store of {human_bytes(engine.capacity)}"
    )
    return f"{line}; it has {', '.join(names)}." if names else f"{line}."


def put_line(label: str, about: About) -> str:
    """What a put cost."""
    nbytes = about.inband + about.outband
    seconds = about.pickle_seconds + about.copy_seconds
    rate = f", {nbytes / seconds / 1e9:.2g} GB/s" if nbytes >= 1 << 20 and seconds else ""
    outband = (
        f"{human_bytes(about.outband)} out of band in {_count(about.buffers, 'buffer')}"
        if about.outband
        else "nothing out of band"
    )
    return (
        f"{label}: {about.type}, {human_bytes(nbytes)} in {human_seconds(seconds)}{rate}; {outband}"
    )


def status_text(snapshot: Snapshot) -> str:
    """The session now, in a few lines."""
    states = [worker.state for worker in snapshot.workers if not worker.actor]
    parts = ", ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states))
    drivers = sum(client.role == "driver" for client in snapshot.clients)
    actors = {actor.id for actor in snapshot.actors}
    named = [r for r in snapshot.objects if r.names and r.id not in actors]
    lines = [
        f"Session {snapshot.session.rpartition('.')[0]}, {_count(drivers, 'notebook or script')}",
        f"Pool: {_count(len(states), 'worker')} ({parts}), "
        f"{_count(snapshot.running, 'task')} running, {snapshot.queued} queued",
        f"Store: {human_bytes(snapshot.live)} of {human_bytes(snapshot.capacity)} in "
        f"{_count(len(snapshot.objects), 'object')}, {human_bytes(snapshot.warm_free)} kept warm"
        + (f", {human_bytes(snapshot.spilled)} on disk" if snapshot.spilled else ""),
    ]
    if snapshot.trouble:
        lines.append(f"The disk failed when objects were to move there: {snapshot.trouble}")
    rows = [_row(record) for record in named[:MOST_ROWS]]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    lines += [f"  {n:<{widths[0]}}  {size:>{widths[1]}}  {type}" for n, size, type in rows]
    if len(named) > MOST_ROWS:
        lines.append(f"  and {len(named) - MOST_ROWS} more")
    lines += [f"Actor {_actor(actor)}" for actor in snapshot.actors[:MOST_ROWS]]
    return "\n".join(lines)


def _actor(actor: ActorRecord) -> str:
    names = "".join(f" {name.removeprefix(ACTOR_PREFIX)!r}" for name in actor.names)
    calls = f", {_count(actor.calls, 'call')}" if actor.calls else ""
    return f"{actor.cls}{names}: {actor.state}{calls}"


def _row(record: ObjectRecord) -> tuple[str, str, str]:
    about = record.about
    return ", ".join(record.names), human_bytes(record.size), about.type if about else record.state


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun.replace(' or', 's or')}s"

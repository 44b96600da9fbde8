"""Texts on leaving or ending a session: what is lost with it; on drivers that died; and on options
that a running session can't take."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping, Sequence

from workbench.core.events import ID_BITS
from workbench.core.snapshot import KEPT_PREFIX, DeathRecord, ObjectRecord, Snapshot
from workbench.engine.base import Engine
from workbench.engine.queries import Summary
from workbench.format import count, human_bytes, human_ending, human_seconds, joined, listed
from workbench.report import facts
from workbench.report.freshness import clock
from workbench.report.processes import actor_text, is_this_process

MOST_WORDS = 5
"""Names that a sentence lists; the rest are counted."""

CRASHES = signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL
"""Signals that mostly come from a process's own compiled code."""

RECENT = 60.0  # seconds: what the OOM killer did in that time was most likely this

FEW = 1000
"""Objects that are searched for what is lost when a session is left."""


def lost_by_leaving(engine: Engine) -> str:
    """Word what is lost when this process leaves its session; see `lost_text`."""
    now = engine.ask(Summary())
    return lost_text(engine.snapshot() if now.count <= FEW else now)


def lost_text(now: Snapshot) -> str:
    """Word what would be lost if this process left the session: ``3 objects (120 MB): df, model and
    1 more``; '' if nothing. While others are in it, only what this process alone keeps.

    Code that tasks run doesn't count: functions and classes are sent again.
    """
    ours = {client.client for client in now.clients if is_this_process(client)}
    others = any(c.role == "driver" and c.client not in ours for c in now.clients)
    actors = {actor.id for actor in now.actors}
    told = [r for r in now.objects if r.id not in actors and not facts.is_internal(r)]
    objects = [
        record
        for record in told
        if not facts.type_of(record).startswith(("function ", "class "))
        and not (others and _stays(record, ours))
    ]
    found = []
    uncounted = max(now.count - len(told) - len(actors), 0)
    if objects or uncounted:
        names = sorted(facts.name_of(name) for record in objects for name in record.names)
        total = len(objects) + uncounted
        size = f" ({human_bytes(sum(record.size or 0 for record in objects))})"
        listing = f": {listed(names, MOST_WORDS, total)}" if names else ""
        found.append(count(total, "object") + ("" if uncounted else size) + listing)
    return "; ".join(found if others else [*found, *_lost_with(now)])


def lost_names(now: Snapshot) -> str:
    """Word what is lost with a session, as far as it has names; '' if nothing."""
    actors = {actor.id for actor in now.actors}
    names = sorted(name for r in now.objects if r.id not in actors for name in r.names)
    found = f"{count(now.names, 'named object')}: {listed(names, MOST_WORDS, now.names)}"
    return "; ".join([*([found] if names else []), *_lost_with(now)])


def _lost_with(now: Snapshot) -> Iterator[str]:
    """Yield texts on actors and background cells, which end with the session."""
    actors = [actor_text(actor) for actor in now.actors if actor.state != "dead"]
    jobs = facts.job_texts(now.jobs)
    for ending, noun in ((actors, "actor"), (jobs, "background cell")):
        if ending:
            yield f"{count(len(ending), noun)}: {listed(ending, MOST_WORDS)}"


def stopped_text(session: str, lost: str, seconds: float, killed: int) -> str:
    """Word that a session was ended from a shell: how it went, and what is lost with it."""
    how = f"it took {human_seconds(seconds)}"
    if killed:
        how = f"{count(killed, 'process', 'processes')} didn't end, and had to be killed"
    return f"Session {session} has ended: {how}.{_lost(lost)}"


def died_before(now: Snapshot) -> Iterator[str]:
    """Yield a text on the kernel before this process's, if that died."""
    labels = {client.label for client in now.clients if is_this_process(client)}
    for death in now.deaths:
        if death.driver.label in labels:
            made = death.driver.prefix
            there = [n for r in now.objects if r.id >> ID_BITS == made for n in r.names]
            names = [name for name in there if not name.startswith(KEPT_PREFIX)]
            names += facts.left_by_cells(j for j in now.jobs if j.id >> ID_BITS == made)
            text = death_text(death, "The kernel before this one")
            if names:
                text += f" `%get {' '.join(names)}` binds what it had stored."
            elif not there:
                text += " None of its variables are in the store."
            yield text


def death_text(death: DeathRecord, who: str) -> str:
    """Word when a driver died, in which cell, and of what, as far as known."""
    note, status, where, how = death.note, death.ended.status, "", "this Linux doesn't tell how"
    if note.cell:
        where = f", in cell {note.cell}" if note.runs else f", after cell {note.cell} had ended"
    if note.memory and note.runs:
        line = f", at line {note.line}" if note.line else ""
        where += f" (last seen {human_seconds(death.note_age)} before{line}, with "
        where += f"{human_bytes(note.memory)} of private memory)"
    if status is not None:
        how = f"it {death.why or human_ending(status) + _cause(death, status)}"
    return f"{who} died at {clock(time.time() - death.age)}{where}: {how}."


def _cause(death: DeathRecord, status: int) -> str:
    end = death.ended
    if status >= 0:
        return f", as after `os._exit({status})`"
    if -status in CRASHES:
        return ": compiled code crashed. Jupyter's log says at which line (`Fatal Python error`)"
    if -status != signal.SIGKILL:
        return ""
    if end.oom_kills is None:
        return ", perhaps by Linux because memory ran out"
    within = human_seconds(end.seconds)
    if not end.oom_kills:
        return f", but not by Linux's OOM killer, which killed nothing in the {within} before"
    killed = f"its OOM killer killed a process of this machine in the {within} before"
    likely = "most likely" if end.seconds < RECENT else "perhaps"
    return f", {likely} by Linux because memory ran out: {killed}"


def left_text(lost: str) -> str:
    return f"The session is over for this notebook.{_lost(lost)}"


def _lost(lost: str) -> str:
    return f" Lost with it: {lost}." if lost else ""


def _stays(record: ObjectRecord, ours: set[int]) -> bool:
    kept = record.names or record.pinned or record.tasks or record.parents or record.job
    return bool(kept) or not ours.issuperset(record.holders)


def stays_text(session: str, differences: dict[str, tuple[str, str]], engine: str = "local") -> str:
    """Word that a joined session keeps the options with which it was started.

    ``differences``: by option, its value ('' if unknown) and the one asked for.
    """
    parts = [
        f"{name} stays {there}, not {wished}" if there else f"{name}={wished} changes nothing"
        for name, (there, wished) in differences.items()
    ]
    name = facts.short_name(session)
    ends = f"`workbench stop {name}` in a shell ends it for everybody"
    if engine != "local":
        ends = "`%workbench stop` in each of its notebooks ends it"
    return (
        f"Session {name!r} was there already and keeps what it was started with: "
        f"{joined(parts)}. {ends}; then it can be started anew."
    )


def cluster_text(options: Sequence[str]) -> str:
    return (
        f"{joined(list(options))}: a cluster that runs already has its own, so this changes "
        "nothing. Set it where the cluster is started."
    )


def offers_text(live: Mapping[str, str]) -> str:
    """Word that this process is connected to other systems, and how to run cells there.

    ``live``: by engine, the argument for `init`.
    """
    return "\n".join(
        f"This notebook is connected to {engine.capitalize()}: `%workbench start --engine "
        f"{engine}` runs cells there (in Python, `wb.init({what})`)."
        for engine, what in live.items()
    )

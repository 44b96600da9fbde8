"""What there is to say when a process goes from one session to another: what would be lost, and
what the new one can't take."""

from __future__ import annotations

import os

from workbench.core.snapshot import ObjectRecord, Snapshot
from workbench.report import facts
from workbench.report.format import count, human_bytes, joined, listed

MOST_WORDS = 5
"""Names that a sentence lists; the rest are counted."""


def lost_text(now: Snapshot) -> str:
    """What would be lost if this process left the session: ``3 objects (120 MB): df, model and 1
    more``; '' if nothing. While others are in it, only what this process alone keeps.

    What tasks run doesn't count: functions and classes are sent again.
    """
    ours = {client.client for client in now.clients if client.pid == os.getpid()}
    others = any(c.role == "driver" and c.client not in ours for c in now.clients)
    actors = {actor.id for actor in now.actors}
    objects = [
        record
        for record in now.objects
        if record.id not in actors
        and not facts.type_of(record).startswith(("function ", "class "))
        and not (others and _stays(record, ours))
    ]
    found = []
    if objects or now.count > len(now.objects):
        uncounted = now.count - len(now.objects)
        size = human_bytes(sum(record.size or 0 for record in objects))
        names = sorted(name for record in objects for name in record.names)
        amount = count(len(objects) + uncounted, "object")
        listing = f": {listed(names, MOST_WORDS)}" if names else ""
        found.append(amount if uncounted else f"{amount} ({size}){listing}")
    if now.actors and not others:
        found.append(count(len(now.actors), "actor"))
    jobs = [] if others else [facts.job_text(job) for job in facts.concerning(now.jobs)]
    return joined([*found, *(f"the background cell {job}" for job in jobs[:MOST_WORDS])])


def _stays(record: ObjectRecord, ours: set[int]) -> bool:
    kept = record.names or record.pinned or record.tasks or record.parents or record.job
    return bool(kept) or not ours.issuperset(record.holders)


def too_large_text(capacity: int, limits: dict[str, int]) -> str:
    """That a store of ``capacity`` bytes may take more memory than there is.

    ``limits``: bytes, by what sets them.
    """
    what = min(limits, key=limits.__getitem__)
    there = human_bytes(limits[what])
    says = f"this machine has {there}" if what == "RAM" else f"{what} allows {there} here"
    return (
        f"The store may take {human_bytes(capacity)} of memory, and {says}: before it is full, "
        "puts are refused or processes end. `memory=` (`--memory`) sets less."
    )


def stays_text(session: str, differences: dict[str, tuple[str, str]]) -> str:
    """That a session which was joined keeps what it was started with.

    ``differences``: by option, what it has ('' if nobody knows) and what was asked for.
    """
    parts = [
        f"{name} stays {there}, not {wished}" if there else f"{name}={wished} changes nothing"
        for name, (there, wished) in differences.items()
    ]
    name = facts.short_name(session)
    return (
        f"Session {name!r} was there already and keeps what it was started with: "
        f"{joined(parts)}. `workbench stop {name}` in a shell ends it for everybody; then it can "
        "be started anew."
    )

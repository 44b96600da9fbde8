"""ps, objects, why, stop: ask sessions through `cli.admin`, and print what they say."""

from __future__ import annotations

import contextlib
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from workbench import machine
from workbench.cli import admin, show
from workbench.core.snapshot import ActorRecord, ObjectRecord, Snapshot
from workbench.engines.base import ACTOR_PREFIX
from workbench.engines.local import runtime_directory
from workbench.errors import NotAnsweringError, ObjectLostError, SessionError
from workbench.listing import HEAD, listing, row_of, type_of
from workbench.reasons import explain
from workbench.units import human_bytes, human_seconds

MOST_NAMES = 10
"""Names in the text of an error; the rest are counted."""


# -- ps -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """One session from outside. ``snapshot`` is None if it doesn't answer.

    ``memory`` in bytes, of its own processes, of what these share each its share; ``age`` in
    seconds.
    """

    name: str
    processes: tuple[int, ...]
    memory: int
    age: float
    snapshot: Snapshot | None


def ps(as_json: bool) -> int:
    """Every session."""
    names = admin.sessions()
    with ThreadPoolExecutor(max(len(names), 1)) as pool:  # one that hangs keeps no other waiting
        seen = [each for each in pool.map(_look, names) if each is not None]
    if as_json:
        found = [_seen_json(each) for each in seen]
        show.document({"runtime_directory": str(runtime_directory()), "sessions": found})
    elif seen:
        head = ("session", "state", "drivers", "workers", "actors", "store", "memory", "age")
        show.table(head, map(_seen_row, seen), right=("store", "memory", "age"))
    else:
        print(f"No session is running (in {runtime_directory()}).")
    return 0


def _look(name: str) -> Seen | None:
    """What there is to see; None if it has ended meanwhile."""
    try:
        with admin.AdminConnection(name) as connection:
            snapshot = connection.summary()
    except NotAnsweringError:
        snapshot = None
    except SessionError:
        return None
    pids = tuple(admin.processes(name))
    memory = sum(map(machine.proportional, pids))
    return Seen(name, pids, memory, max(map(machine.age, pids), default=0.0), snapshot)


def _seen_row(seen: Seen) -> tuple[str, ...]:
    memory, age = human_bytes(seen.memory), _age(seen.age)
    snapshot = seen.snapshot
    if snapshot is None:
        return seen.name, "not answering", "", "", "", "", memory, age
    drivers = [f"{c.label} ({c.pid})" for c in snapshot.clients if c.role == "driver"]
    workers = ", ".join(f"{n} {state}" for state, n in _workers(snapshot).items())
    store = f"{human_bytes(snapshot.live)} of {human_bytes(snapshot.capacity)}"
    if snapshot.spilled:
        store += f", {human_bytes(snapshot.spilled)} on disk"
    actors = ", ".join(map(_actor, snapshot.actors))
    drivers = drivers or ["none, it lingers"]
    return seen.name, "ok", ", ".join(drivers), workers, actors, store, memory, age


def _seen_json(seen: Seen) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": seen.name,
        "state": "ok" if seen.snapshot is not None else "not answering",
        "processes": seen.processes,
        "memory": seen.memory,
        "age": seen.age,
    }
    snapshot = seen.snapshot
    if snapshot is not None:
        found |= {
            "drivers": [
                {"pid": c.pid, "label": c.label} for c in snapshot.clients if c.role == "driver"
            ],
            "workers": _workers(snapshot),
            "actors": [
                {"class": a.cls, "names": _names(a), "state": a.state, "calls": a.calls}
                for a in snapshot.actors
            ],
            "objects": snapshot.count,
            "tasks": {"running": snapshot.running, "queued": snapshot.queued},
            "store": {
                "used": snapshot.live, "granted": snapshot.granted, "capacity": snapshot.capacity,
                "on_disk": snapshot.spilled, "trouble": snapshot.trouble,
            },
        }  # fmt: skip
    return found


def _workers(snapshot: Snapshot) -> dict[str, int]:
    """How many of the pool are in each state."""
    states = [worker.state for worker in snapshot.workers if not worker.actor]
    return {state: states.count(state) for state in dict.fromkeys(states)}


def _actor(actor: ActorRecord) -> str:
    names = "".join(f" {name!r}" for name in _names(actor))
    return f"{actor.cls}{names}" + ("" if actor.state == "alive" else f" ({actor.state})")


def _names(actor: ActorRecord) -> list[str]:
    return [name.removeprefix(ACTOR_PREFIX) for name in actor.names]


def _age(seconds: float) -> str:
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds // unit:.0f} {name}"
    return human_seconds(seconds)


# -- objects --------------------------------------------------------------------------------------


def objects(session: str, pattern: str, sort: str, as_json: bool) -> int:
    """What the session's store has."""
    with admin.AdminConnection(session) as connection:
        found = listing(connection.objects(), pattern, sort)
    if as_json:
        show.document({"session": session, "objects": [_object_json(r) for r in found]})
    elif len(found):
        show.table(HEAD, map(row_of, found), right=("size", "age"))
    else:
        print("The store is empty." if not pattern else f"No object matches {pattern!r}.")
    return 0


def _object_json(record: ObjectRecord) -> dict[str, Any]:
    return {
        "id": f"{record.id:016x}",
        "names": record.names,
        "type": type_of(record),
        "size": record.size,
        "state": record.state,
        "where": record.where,
        "age": record.age,
        "pins": {
            "name": len(record.names),
            "user": int(bool(record.pinned)),
            "ref": len(record.holders),
            "task": record.tasks,
            "contained": record.parents,
            "escaped": len(record.escapes),
            "view": len(record.viewers or ()),
        },
    }


# -- why ------------------------------------------------------------------------------------------


def why(session: str, name: str, as_json: bool) -> int:
    """What keeps an object, in the words of `%why`."""
    with admin.AdminConnection(session) as connection:
        account = connection.why(name)
        by_name = account is not None
        if account is None and re.fullmatch("[0-9a-f]{16}", name):
            account = connection.why(int(name, 16))
        names = sorted(connection.names()) if account is None else []
    if account is None:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        raise ObjectLostError(
            f"Session {session!r} has no object {name!r}. Names it has: "
            f"{', '.join(names[:MOST_NAMES]) or 'none'}{more}; `workbench objects {session}` "
            "shows all there is."
        )
    answer = explain(account, name if by_name else "")
    if as_json:
        reasons = [{"text": r.text, "action": r.action} for r in answer.reasons]
        show.document({"session": session, "what": answer.what, "reasons": reasons})
    else:
        print(answer)
    return 0


# -- stop -----------------------------------------------------------------------------------------


def stop(session: str | None, as_json: bool) -> int:
    """End one, or with None all."""
    ended = {}
    if session is not None:
        ended[session] = admin.stop(session)
    else:
        for name in admin.sessions():
            with contextlib.suppress(SessionError):  # it was just ending
                ended[name] = admin.stop(name)
    if as_json:
        show.document(
            {
                "stopped": [
                    {"name": name, "seconds": end.seconds, "killed": end.killed}
                    for name, end in ended.items()
                ]
            }
        )
        return 0
    for name, end in ended.items():
        how = (
            f"{end.killed} process{'es' * (end.killed > 1)} didn't end, and had to be killed"
            if end.killed
            else f"it took {human_seconds(end.seconds)}"
        )
        print(f"Session {name} has ended: {how}.")
    if not ended:
        print(f"No session is running (in {runtime_directory()}).")
    return 0

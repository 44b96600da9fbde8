"""ps, objects, why, stop: query sessions through `cli.admin`, and print the words of `report`."""

from __future__ import annotations

import contextlib
import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from workbench.cli import admin, show
from workbench.core.snapshot import Snapshot
from workbench.engines.local import runtime_directory
from workbench.errors import NotAnsweringError, ObjectLostError, SessionError
from workbench.format import human_age, human_bytes, listed
from workbench.report import facts, json, text
from workbench.report import why as why_text
from workbench.report.markup import Table
from workbench.report.mistyped import did_you_mean
from workbench.report.processes import actor_text, client_name
from workbench.report.sessions import lost_names, stopped_text
from workbench.system import machine

MOST_NAMES = 10
"""Names in the text of an error; the rest are counted."""

SESSIONS = ("session", "state", "open in", "workers", "actors", "store", "memory", "age")


# -- ps -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """One session from outside. ``snapshot`` is None if it doesn't answer.

    ``memory`` of its processes in bytes, shared pages divided among the sharers; ``age`` in
    seconds.
    """

    name: str
    processes: tuple[int, ...]
    memory: int
    age: float
    snapshot: Snapshot | None

    @property
    def state(self) -> str:
        return "not answering" if self.snapshot is None else "ok"

    def row(self) -> tuple[str, ...]:
        now, inside = self.snapshot, ("", "", "", "")
        if now is not None:
            users = [f"{client_name(c)} ({c.pid})" for c in now.clients if c.role == "driver"]
            users += [f"{client_name(d.driver)} (died)" for d in now.deaths]
            actors = ", ".join(map(actor_text, now.actors))
            workers = ", ".join(f"{n} {state}" for state, n in facts.worker_states(now).items())
            store = facts.store_text(now)
            inside = (", ".join(users) or facts.users_text(now), workers or "none", actors, store)
        return (self.name, self.state, *inside, human_bytes(self.memory), human_age(self.age))

    def document(self) -> json.Document:
        seen = ("name", "state", "processes", "memory", "age")
        outside = {name: getattr(self, name) for name in seen}
        return outside | (json.of_session(self.snapshot) if self.snapshot else {})


def ps(as_json: bool, patience: admin.Patience) -> int:
    names = admin.sessions()
    with ThreadPoolExecutor(max(len(names), 1)) as pool:  # a session that hangs delays no other
        seen = [each for each in pool.map(partial(_look, patience), names) if each is not None]
    if as_json:
        found, directory = [each.document() for each in seen], str(runtime_directory())
        print(json.as_text(json.document("ps", runtime_directory=directory, sessions=found)))
    elif seen:
        columns = zip(SESSIONS, *(each.row() for each in seen), strict=True)
        told = [column for column in columns if any(column[1:])]  # mostly there are no actors
        head, *rows = zip(*told, strict=True)
        show.table(Table(head, tuple(rows), ("memory", "age")))
    else:
        show.line(_none())
    return 0


def _none() -> str:
    return f"No session is running on this machine (in {runtime_directory()})."


def _look(patience: admin.Patience, name: str) -> Seen | None:
    """Return the session's state; None if it has ended meanwhile."""
    try:
        with admin.AdminConnection(name, patience) as connection:
            snapshot = connection.summary()
    except NotAnsweringError:
        snapshot = None
    except SessionError:
        return None
    pids = tuple(admin.processes(name))
    memory = sum(map(machine.proportional, pids))
    return Seen(name, pids, memory, max(map(machine.age, pids), default=0.0), snapshot)


# -- objects and why -----------------------------------------------------------------------------


def objects(session: str, pattern: str, sort: str, as_json: bool, patience: admin.Patience) -> int:
    with admin.AdminConnection(session, patience) as connection:
        found = text.objects(connection.objects(), pattern, sort)
    if as_json:
        print(json.as_text(json.of_objects(session, found)))
    elif len(found):
        show.table(found.table(ids=True, most=len(found)))
    else:
        show.line("The store is empty." if not pattern else facts.no_match(pattern))
    return 0


def why(session: str, name: str, deep: bool, as_json: bool, patience: admin.Patience) -> int:
    with admin.AdminConnection(session, patience) as connection:
        account = connection.why(name, deep)
        names = connection.names() if account is None else []
    if account is None:
        raise ObjectLostError(
            f"Session {session!r} has no object {name!r}.{did_you_mean(name, names)} Names it has: "
            f"{listed(names, MOST_NAMES) or 'none'}; `workbench objects {session}` shows all there "
            "is."
        )
    command = shlex.join(["workbench", "why", session, name, "--deep"])
    answer = why_text.why(account, name if name in account.object.names else "", deep=command)
    if as_json:
        print(json.as_text(json.of_whys([(name, answer)])))
    else:
        show.line(str(answer))
    return 0


# -- stop -----------------------------------------------------------------------------------------


def stop(session: str | None, as_json: bool, patience: admin.Patience) -> int:
    """End one session; with None, all."""
    ended = {}
    if session is not None:
        ended[session] = admin.stop(session, patience)
    else:
        for name in admin.sessions():
            with contextlib.suppress(SessionError):  # it was just ending
                ended[name] = admin.stop(name, patience)
    if as_json:
        stopped = [
            {"name": name, "seconds": end.seconds, "killed": end.killed, "lost": _lost(end)}
            for name, end in ended.items()
        ]
        print(json.as_text(json.document("stop", stopped=stopped)))
        return 0
    for name, end in ended.items():
        show.line(stopped_text(name, _lost(end), end.seconds, end.killed))
    if not ended:
        show.line(_none())
    return 0


def _lost(end: admin.Stopped) -> str:
    return "" if end.was is None else lost_names(end.was)

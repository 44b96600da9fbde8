"""Output of `--json`: facts as plain data. Bytes and seconds are numbers, codes are words."""

from __future__ import annotations

from typing import Any

from workbench.core.snapshot import ObjectRecord, Snapshot
from workbench.report import facts, reasons
from workbench.report.processes import actor_name, client_name

Document = dict[str, Any]


def of_object(record: ObjectRecord) -> Document:
    return {
        "id": facts.id_of(record.id),
        "names": [facts.plain_name(name) for name in record.names],
        "title": facts.title_of(record),
        "type": facts.type_of(record),
        "size": facts.size_of(record),
        "state": record.state,
        "where": record.where,
        "age": record.age,
        "moves": facts.moves_text(record),
        "pins": dict.fromkeys(reasons.REASONS, 0) | dict(reasons.counts(record)),
    }


def of_session(snapshot: Snapshot) -> Document:
    return {
        "drivers": [
            {"pid": c.pid, "label": client_name(c)} for c in snapshot.clients if c.role == "driver"
        ],
        "workers": facts.worker_states(snapshot),
        "actors": [
            {
                "class": actor.cls,
                "names": [facts.plain_name(name) for name in actor.names],
                "name": actor_name(actor),
                "state": actor.state,
                "calls": actor.calls,
            }
            for actor in snapshot.actors
        ],
        "objects": snapshot.count,
        "tasks": {"running": snapshot.running, "queued": snapshot.queued},
        "store": {
            "used": snapshot.live,
            "granted": snapshot.granted,
            "capacity": snapshot.capacity,
            "on_disk": snapshot.spilled,
            "trouble": snapshot.trouble,
        },
    }

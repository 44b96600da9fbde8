"""Accounts: why an object of a session on a cluster is here, put together from what is known. Pure.

What nobody can know here is said: see `core.descriptions.Account.unknown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from workbench.core.descriptions import Account, PinRecord
from workbench.core.snapshot import (
    ACTOR_PREFIX,
    ActorRecord,
    ClientRecord,
    ObjectRecord,
    Snapshot,
    WorkerRecord,
)
from workbench.engines.cluster.holders import HolderAnswer, Holders

INSIDE = "whether it is inside other objects in the store"
"""What no process knows."""

FIRST_WORKER = 1 << 20
"""Numbers of clients from here on are those of the cluster's processes, which have none."""


class _Holder(NamedTuple):
    """A process that has the object, as an account tells of it."""

    client: ClientRecord
    worker: WorkerRecord | None
    actor: ActorRecord | None


def account(
    now: Snapshot, record: ObjectRecord, found: Holders, reasons: Iterable[PinRecord], me: int,
    fetched: str = "",
) -> Account:  # fmt: skip
    """``me`` is the client that this process is; ``reasons`` are those that it knows besides.
    ``fetched``: the background cell whose result it is, though somebody has fetched that."""
    holders = [_holder(answer, now) for answer in found.answers]
    pins = [PinRecord("name", detail=name) for name in record.names]
    if record.pinned:
        pins.append(PinRecord("user", detail=record.pinned))
    if record.job:
        pins.append(PinRecord("job", detail=record.job))
    for answer, holder in zip(found.answers, holders, strict=True):
        pins += _pins(answer, me if holder.client.client == 0 else holder.client.client)
    pins += reasons
    pins += [PinRecord("escaped", detail=site) for site in record.escapes]
    unknown = [f"whether {each} has it: no answer in time" for each in found.silent]
    if fetched:
        unknown.insert(0, f"when the session forgets {fetched}, whose result it is and is kept")
    known = {client.client for client in now.clients}
    return Account(
        record, tuple(pins),
        (*now.clients, *(h.client for h in holders if h.client.client not in known)),
        _merged(now.workers, [h.worker for h in holders if h.worker is not None]),
        (*now.actors, *(h.actor for h in holders if h.actor is not None)),
        (*unknown, INSIDE),
    )  # fmt: skip


def _holder(answer: HolderAnswer, now: Snapshot) -> _Holder:
    if not answer.worker:
        mine = (client for client in now.clients if client.prefix == answer.prefix)
        return _Holder(next(mine, ClientRecord(0, answer.pid, "driver", "")), None, None)
    client = ClientRecord(
        FIRST_WORKER + answer.worker, answer.pid, "worker", "", answer.prefix, answer.host
    )
    tasks = (answer.task,) if answer.task else ()
    worker = WorkerRecord(
        answer.worker, answer.pid, "busy" if tasks else "idle", tasks, answer.actor,
        host=answer.host,
    )  # fmt: skip
    if not answer.actor:
        return _Holder(client, worker, None)
    names = (ACTOR_PREFIX + answer.name,) if answer.name else ()
    actor = ActorRecord(answer.actor, answer.cls, names, "alive", answer.worker, 0, 0)
    return _Holder(client, worker, actor)


def _pins(answer: HolderAnswer, client: int) -> Iterator[PinRecord]:
    for kind in answer.kinds:
        places = tuple(place for place in answer.places if place.kind == kind)
        yield PinRecord(
            kind, client, places=places, complete=answer.complete, seen=answer.seen
        )  # fmt: skip


def _merged(
    known: Iterable[WorkerRecord], found: Iterable[WorkerRecord]
) -> tuple[WorkerRecord, ...]:
    """By process: what it says itself counts."""
    return tuple({(w.host, w.pid): w for w in (*known, *found)}.values())

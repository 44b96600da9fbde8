"""Accounts: why an object of a session on a cluster is here, put together from what is known. Pure.

What nobody can know here is said: see `core.descriptions.Account.unknown`.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.core.descriptions import Account, PinRecord
from workbench.core.snapshot import ObjectRecord, Snapshot
from workbench.engines.cluster.holders import Holders

INSIDE = "whether it is inside other objects in the store"
"""What no process knows."""


def account(
    now: Snapshot, record: ObjectRecord, found: Holders, reasons: Iterable[PinRecord],
    fetched: str = "",
) -> Account:  # fmt: skip
    """``reasons`` are those that this process knows besides. ``fetched``: the background cell whose
    result it is, though somebody has fetched that."""
    pins = [PinRecord("name", detail=name) for name in record.names]
    if record.pinned:
        pins.append(PinRecord("user", detail=record.pinned))
    if record.job:
        pins.append(PinRecord("job", detail=record.job))
    pins += [pin for answer in found.answers for pin in answer.pins]
    pins += reasons
    pins += [PinRecord("escaped", detail=site) for site in record.escapes]
    unknown = [f"whether {each} has it: no answer in time" for each in found.silent]
    if fetched:
        unknown.insert(0, f"when the session forgets {fetched}, whose result it is and is kept")
    workers = {(each.host, each.pid): each for each in now.workers}
    workers |= {(w.host, w.pid): w for a in found.answers if (w := a.worker) is not None}
    return Account(
        record, tuple(pins), (*now.clients, *(answer.client for answer in found.answers)),
        tuple(workers.values()),
        (*now.actors, *(answer.actor for answer in found.answers if answer.actor is not None)),
        (*unknown, INSIDE),
    )  # fmt: skip

"""Holders: which processes of a session on a cluster have an object, and under which names; and
why it is here, put together from that (`account`).

Nobody there counts who holds what, so all are asked that listen to the keeper (`inquiries`). Each
looks at itself (`found_here`).
"""

from __future__ import annotations

import os
import platform
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import NamedTuple

import msgspec

from workbench.client.referrer_search import find_referrers
from workbench.core.descriptions import Account, PinRecord
from workbench.core.snapshot import (
    ACTOR_PREFIX,
    ActorRecord,
    ClientRecord,
    ObjectRecord,
    Snapshot,
    WorkerRecord,
)
from workbench.engine.presentation import process_label
from workbench.engines.cluster.backend import Backend, Message
from workbench.engines.cluster.store import ClusterStore

PATIENCE, DEEP_PATIENCE = 5.0, 150.0
"""Seconds within which a process must have looked; the latter if all is to be looked at: more than
`client.referrer_search` takes."""

LOOK = 0.02
"""Seconds after which it is asked again whether all have answered."""


class HolderQuestion(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Do you have that object, and where? ``deep``: look at all there is."""

    object: int
    deep: bool = False


class HolderAnswer(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What one process has of an object, and who that is: as a client, whose number is its ids'
    prefix; as a worker of the cluster's, and the actor that lives there, if it is that."""

    pins: tuple[PinRecord, ...]
    client: ClientRecord
    worker: WorkerRecord | None = None
    actor: ActorRecord | None = None


class Holders(NamedTuple):
    """Those that have it; and those that didn't say, each in a few words."""

    answers: tuple[HolderAnswer, ...]
    silent: tuple[str, ...]


encode = msgspec.msgpack.Encoder().encode
encode_tasks = msgspec.msgpack.Encoder().encode
tasks_of = msgspec.msgpack.Decoder(list[int]).decode
question_of = msgspec.msgpack.Decoder(HolderQuestion).decode
_answer_of = msgspec.msgpack.Decoder(HolderAnswer).decode


def found_here(process: ClusterStore, question: HolderQuestion) -> HolderAnswer | None:
    """What this process has of an object; None if it has nothing."""
    hosting = process.hosting
    kept = process.kept(question.object)
    if not kept:
        return None
    kinds = tuple(kept)
    roots = process.listener.roots() if hosting is None else hosting.variables
    # It empties ``kept``: what stood in a variable of ours would be found.
    places, complete, seen = find_referrers(kept, roots, question.deep)
    me, pid, host = process.prefix, os.getpid(), platform.node()
    pins = tuple(
        PinRecord(
            kind, me, places=tuple(each for each in places if each.kind == kind),
            complete=complete, seen=seen,
        )
        for kind in kinds
    )  # fmt: skip
    if hosting is None:
        return HolderAnswer(pins, ClientRecord(me, pid, "driver", process_label(), me, host))
    tasks = (hosting.work.name,) if hosting.work.name else ()
    worker = WorkerRecord(
        hosting.worker, pid, "busy" if tasks else "idle", tasks, hosting.actor, host=host
    )
    names = (ACTOR_PREFIX + hosting.called,) if hosting.called else ()
    actor = ActorRecord(hosting.actor, hosting.cls.__name__, names, "alive", hosting.worker, 0, 0)
    client = ClientRecord(me, pid, "worker", "", me, host)
    return HolderAnswer(pins, client, worker, actor if hosting.actor else None)


def answer_apart(process: ClusterStore, question: bytes, reply: Callable[[bytes], object]) -> None:
    """Reply to a question, in a thread of its own; with b"" if there is nothing to say. Takes a
    second or two."""

    def look() -> None:
        said = b""
        try:
            found = found_here(process, question_of(question))
            said = b"" if found is None else encode(found)
        finally:  # also if something hostile was in the way
            reply(said)

    threading.Thread(target=look, name="workbench-referrers", daemon=True).start()


def heard(process: ClusterStore, message: Message) -> None:
    """This process was asked: see `Inquiries`. In a thread that mustn't wait."""
    reply = partial(process.backend.tell, "answered", message.task, process.prefix)
    if message.data:
        answer_apart(process, message.data, reply)
    else:
        hosting = process.hosting
        reply(encode_tasks([] if hosting is None else hosting.work.active()))


def ask_processes(
    backend: Backend, question: bytes, listeners: Collection[int], seconds: float
) -> dict[int, bytes]:
    """What these say, by their prefixes: waits for them, but not for ever."""
    if not listeners:
        return {}
    until = time.monotonic() + seconds
    number = backend.ask("inquire", question, list(listeners))
    while time.monotonic() < until:
        missing = set(listeners).difference(backend.ask("answers", number))
        if not missing & backend.ask("listeners").keys():
            break
        time.sleep(LOOK)
    told: dict[int, bytes] = backend.ask("answers", number, True)
    return told


def ask_all(process: ClusterStore, id: int, deep: bool, patience: float | None = None) -> Holders:
    """What all processes of the session have of an object."""
    data = encode(HolderQuestion(id, deep))
    seconds = patience if patience is not None else DEEP_PATIENCE if deep else PATIENCE
    others = dict(process.backend.ask("listeners"))
    others.pop(process.prefix, None)
    mine: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    answer_apart(process, data, mine.put)  # apart: what runs in this thread is looked at too
    told = ask_processes(process.backend, data, others, seconds)
    silent = [name for prefix, name in others.items() if prefix not in told]
    silent += process.backend.unasked
    every = [_answer_of(each) for each in (mine.get(), *told.values()) if each]
    return Holders(tuple({each.client.client: each for each in every}.values()), tuple(silent))


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

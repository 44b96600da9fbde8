"""Holders: which processes of a session on a cluster have an object, and under which names.

Nobody there counts who holds what, so all are asked: drivers by the keeper (`inquiries`), the
cluster's own processes by the system (`Backend.explain`). Each looks at itself (`found_here`).
"""

from __future__ import annotations

import os
import platform
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from workbench.client.referrer_search import find_referrers
from workbench.core.events import Place
from workbench.core.snapshot import ClientRecord
from workbench.engines.cluster.backend import Message
from workbench.engines.cluster.store import ClusterStore

PATIENCE, DEEP_PATIENCE = 5.0, 150.0
"""Seconds within which a process must have looked; the latter if all is to be looked at: more than
`client.referrer_search` takes."""

LOOK = 0.02
"""Seconds after which it is asked again whether drivers have answered."""


class HolderQuestion(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Do you have that object, and where? ``deep``: look at all there is."""

    object: int
    deep: bool = False


class HolderAnswer(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What one process has of an object.

    ``kinds`` are ``ref``, if it has a handle, and ``view``, if arrays show it. ``places``,
    ``complete`` and ``seen`` are as in `core.descriptions.PinRecord`. In a process of the cluster's
    ``worker`` is its number, ``actor`` that of the actor which lives there: a ``cls``, by that
    ``name``; ``task`` is what runs there.
    """

    pid: int
    host: str
    kinds: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    complete: bool = True
    seen: int = 0
    prefix: int = 0
    worker: int = 0
    actor: int = 0
    cls: str = ""
    name: str = ""
    task: str = ""


class Holders(NamedTuple):
    """Those that have it; and those that didn't say, each in a few words."""

    answers: tuple[HolderAnswer, ...]
    silent: tuple[str, ...]


encode = msgspec.msgpack.Encoder().encode
question_of = msgspec.msgpack.Decoder(HolderQuestion).decode
_answer_of = msgspec.msgpack.Decoder(HolderAnswer).decode


def found_here(process: ClusterStore, question: HolderQuestion) -> HolderAnswer | None:
    """What this process has of an object; None if it has nothing."""
    hosting = process.hosting
    kept = process.kept(question.object)
    if not kept:
        return None
    kinds = tuple(kept)
    roots = process.roots() if hosting is None else hosting.variables
    # It empties ``kept``: what stood in a variable of ours would be found.
    places, complete, seen = find_referrers(kept, roots, question.deep)
    pid, host = os.getpid(), platform.node()
    if hosting is None:
        return HolderAnswer(pid, host, kinds, places, complete, seen, process.prefix)
    cls = hosting.cls.__name__ if hosting.actor else ""
    return HolderAnswer(
        pid, host, kinds, places, complete, seen, process.prefix, hosting.worker, hosting.actor,
        cls, hosting.called, hosting.work.name,
    )  # fmt: skip


def answer(process: ClusterStore, question: bytes) -> bytes:
    """To a question that came; b"" if there is nothing to say. Takes a second or two."""
    found = found_here(process, question_of(question))
    return b"" if found is None else encode(found)


def answer_apart(process: ClusterStore, question: bytes, reply: Callable[[bytes], object]) -> None:
    """The same in a thread of its own."""

    def look() -> None:
        said = b""
        try:
            said = answer(process, question)
        finally:  # also if something hostile was in the way
            reply(said)

    threading.Thread(target=look, name="workbench-referrers", daemon=True).start()


def heard(process: ClusterStore, message: Message) -> None:
    """A driver was asked: see `Inquiries`. In a thread that mustn't wait."""
    answer_apart(
        process, message.data,
        lambda said: process.backend.tell("answered", message.task, process.prefix, said),
    )  # fmt: skip


def ask_all(
    process: ClusterStore,
    clients: Sequence[ClientRecord],
    id: int,
    deep: bool,
    patience: float | None = None,
) -> Holders:
    """What all processes of the session have of an object: waits for them, but not for ever."""
    data = encode(HolderQuestion(id, deep))
    seconds = patience if patience is not None else DEEP_PATIENCE if deep else PATIENCE
    others = {c.prefix: c for c in clients if c.prefix != process.prefix}
    until = time.monotonic() + seconds
    number = process.backend.ask("inquire", data, list(others)) if others else 0
    asked: list[tuple[list[bytes], list[str]]] = []
    ask = threading.Thread(
        target=lambda: asked.append(process.backend.explain(data, seconds)), daemon=True,
        name="workbench-holders",
    )  # fmt: skip
    ask.start()
    mine: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    if process.hosting is None:
        answer_apart(process, data, mine.put)  # apart: what runs in this thread is looked at too
    else:
        mine.put(b"")  # it is asked as one of the cluster's
    ask.join(max(until - time.monotonic(), LOOK))
    told: dict[int, bytes] = {}
    while others and time.monotonic() < until:
        told = process.backend.ask("answers", number)
        if others.keys() <= told.keys():
            break
        time.sleep(LOOK)
    if others:
        process.backend.ask("answers", number, True)
    answers, silent = asked[0] if asked else ([], ["the cluster's processes"])
    silent += [f"process {c.pid} on {c.host}" for p, c in others.items() if p not in told]
    every = [_answer_of(each) for each in (mine.get(), *told.values(), *answers) if each]
    by_process = {(each.host, each.pid, each.prefix): each for each in every}
    return Holders(tuple(by_process.values()), tuple(silent))

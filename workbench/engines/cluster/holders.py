"""Holders: which processes of a session on a cluster have an object, and under which names.

Nobody there counts who holds what, so all are asked that listen to the keeper (`inquiries`). Each
looks at itself (`found_here`).
"""

from __future__ import annotations

import os
import platform
import queue
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

import msgspec

from workbench.client.referrer_search import find_referrers
from workbench.core.events import Place
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
    while len(backend.ask("answers", number)) < len(listeners) and time.monotonic() < until:
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
    by_process = {(each.host, each.pid, each.prefix): each for each in every}
    return Holders(tuple(by_process.values()), tuple(silent))

"""What a lesson measures: where bytes lie, what memory grew, how long it took. Shows nothing.

Also imported in tasks: it needs no session and no notebook, and what `where` gives can be pickled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from workbench import context
from workbench.core.snapshot import Snapshot
from workbench.course.location import Location
from workbench.course.location import where as where
from workbench.course.watching import watching as watching
from workbench.course.words import Said, say
from workbench.engine.base import Engine
from workbench.engine.queries import CaughtUp, Summary
from workbench.format import NO_FIGURE, human_bytes, human_count, human_seconds
from workbench.report.facts import id_of
from workbench.report.reasons import chips
from workbench.system.machine import MemoryGauge

Row = tuple[Said | str, ...]

NOTICED = 1_000_000
"""Bytes of memory that count as growth: less comes and goes by itself."""

FIRST_SECOND = "", say("first"), say("second")
BEFORE_AFTER = "", say("before"), say("after")
"""Heads of the columns."""


@dataclass
class Measurement:
    """An answer that was measured, and the figures it was made from.

    Attributes
    ----------
    answer : str or float or bool or tuple
        What is compared with the guess. None: not measured; the block hasn't ended, or in an error.
    choices : tuple of str
        The words that a guess can be; empty if it is no word.
    rows : list of tuple
        The figures, a row each: what it is, and one or two values.
    head : tuple
        What stands above the columns; empty if there is one value a row.
    unit : str
        Of a number: ``s``.
    note : Said, optional
        What is otherwise here than on one machine; said after the reason.
    """

    answer: Any
    choices: tuple[str, ...] = ()
    rows: list[Row] = field(default_factory=list)
    head: Row = ()
    unit: str = ""
    note: Said | None = None


def sharing(first: Any, second: Any) -> Measurement:
    """Judge whether two values are the same memory, in one process or in two.

    The same bytes have the same inode and offset in every process, whatever their addresses are.

    Parameters
    ----------
    first, second : object or Location
        Values of this process, or what `where` gave, here or in a task.

    Returns
    -------
    Measurement
        ``shared`` or ``copy``.

    Examples
    --------
    >>> x = bytearray(10)
    >>> sharing(memoryview(x)[:5], x).answer
    'shared'
    """
    places = [each if isinstance(each, Location) else where(each) for each in (first, second)]
    one, two = places
    none = say("none: private memory")
    inodes = (str(place.inode) if place.inode else none for place in places)
    offsets = (human_count(place.offset) if place.inode else NO_FIGURE for place in places)
    rows: list[Row] = [
        (say("process"), *(str(place.pid) for place in places)),
        (say("address"), *(f"{place.address:#x}" for place in places)),
        (say("shared file (inode)"), *inodes),
        (say("offset in that file"), *offsets),
    ]
    if any(place.own_pages for place in places):
        copied = (say("{own} of {all}", own=place.own_pages, all=place.pages) for place in places)
        rows.append((say("pages copied on write"), *copied))
    is_shared, note = one.shares(two), None
    if not is_shared and one.pid != two.pid and on_cluster():
        note = say(
            "But this session runs on a cluster: each machine has a copy of its own, which its "
            "processes share; and on Dask each process has its own of what is below 1 MB."
        )
    answer = "shared" if is_shared else "copy"
    return Measurement(answer, ("shared", "copy"), rows, FIRST_SECOND, note=note)


def _session() -> Engine | None:
    engine = context.get()
    return engine if engine is not None and engine.end_reason is None else None


def on_cluster() -> bool:
    """True if the session runs on a cluster, where much is otherwise than the lessons say."""
    engine = _session()
    return engine is not None and engine.facts.system != "local"


def identity(first: Any, second: Any) -> Measurement:
    """Judge whether two names mean the same Python object, as ``is`` says.

    Parameters
    ----------
    first, second : object
        Values of this process.

    Returns
    -------
    Measurement
        ``same object`` or ``another object``.
    """
    answer = "same object" if first is second else "another object"
    rows: list[Row] = [(say("id"), f"{id(first):#x}", f"{id(second):#x}")]
    return Measurement(answer, ("same object", "another object"), rows, FIRST_SECOND)


# -- what grew, how long it took -------------------------------------------------------------------


@contextmanager
def memory() -> Iterator[Measurement]:
    """Around a block: whose memory grew, this process's own or the store's.

    Own memory is ``RssAnon`` of ``/proc/self/status``: what no other process has.

    Yields
    ------
    Measurement
        ``kernel``, ``store``, ``both`` or ``neither``, when the block has ended.
    """
    words = {(True, True): "both", (True, False): "kernel", (False, True): "store"}
    found = Measurement(None, ("kernel", "store", "both", "neither"), head=BEFORE_AFTER)
    before = own_memory(), occupancy()
    yield found
    after = own_memory(), occupancy()
    kernel, store = (now - then > NOTICED for now, then in zip(after, before, strict=True))
    found.answer = words.get((kernel, store), "neither")
    found.rows = [
        (say("this process's own memory"), human_bytes(before[0]), human_bytes(after[0])),
        (say("objects in the store"), human_bytes(before[1]), human_bytes(after[1])),
    ]


def own_memory() -> int:
    """Bytes that only this process has: ``RssAnon``."""
    return MemoryGauge().private(os.getpid())


def available() -> int:
    """Bytes of memory that are left, on this machine or in its container.

    Returns
    -------
    int
        What processes could take before the first of them is ended for it, about.
    """
    return MemoryGauge().read()[0]


def occupancy() -> int:
    """Bytes that the objects of the current session take in memory; 0 without a session."""
    return _bars()[0]


def kept(id: str) -> Measurement:
    """How many megabytes the store still has of one object.

    Parameters
    ----------
    id : str
        The object's id, as ``ref.hex()`` gives it: who has only that doesn't keep the object.

    Returns
    -------
    Measurement
        A number of MB, 0 if the object is gone.
    """
    engine = _session()
    records = () if engine is None else settled(engine).objects
    found = next((each for each in records if id_of(each.id) == id), None)
    if found is None:
        return Measurement(0.0, unit="MB", rows=[(say("in the store"), say("nothing of it"))])
    rows: list[Row] = [
        (say("in the store"), human_bytes(found.size)),
        (say("kept by"), ", ".join(chips(found))),
    ]
    return Measurement(found.size / 1e6, unit="MB", rows=rows)


def settled(engine: Engine) -> Snapshot:
    """The session when what was let go of before is gone, and the actors that nobody has."""
    deadline = time.monotonic() + ENDING
    while True:
        engine.ask(CaughtUp())
        found = engine.snapshot()
        living = {0, *(actor.id for actor in found.actors if actor.state != "dead")}
        ending = [worker for worker in found.workers if worker.actor not in living]
        if not ending or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


ENDING = 20.0
"""Seconds that are waited at most for the processes of actors that end just now."""


@contextmanager
def bars() -> Iterator[Measurement]:
    """Around a block: which part of the store's bar grew most.

    Yields
    ------
    Measurement
        ``live``, ``reusable`` or ``available``, when the block has ended.
    """
    found = Measurement(None, BARS, head=BEFORE_AFTER)
    before = _bars()
    yield found
    after = _bars()
    growth = [now - then for now, then in zip(after, before, strict=True)]
    found.answer = BARS[growth.index(max(growth))]
    found.rows = [
        (say(bar), human_bytes(then), human_bytes(now))
        for bar, then, now in zip(BARS, before, after, strict=True)
    ]
    if found.answer == "available" and on_cluster():
        found.note = say(
            "But this session runs on a cluster. What its store keeps for the next put isn't known "
            "here, so that what is let go of counts as available."
        )


BARS = "live", "reusable", "available"


def _bars() -> tuple[int, int, int]:
    """Bytes of each part, as the view of the store shows them."""
    engine = _session()
    if engine is None:
        return 0, 0, 0
    engine.ask(CaughtUp())
    now = engine.ask(Summary())
    live, reusable = now.live or 0, now.warm_free or 0
    return live, reusable, max(0, (now.capacity or 0) - live - reusable)


@contextmanager
def seconds() -> Iterator[Measurement]:
    """Around a block: how long it takes.

    Yields
    ------
    Measurement
        A number of seconds, when the block has ended.
    """
    found = Measurement(None, unit="s")
    began = time.perf_counter()
    yield found
    found.answer = time.perf_counter() - began
    found.rows = [(say("time"), human_seconds(found.answer))]


def nearest(seconds: float, choices: tuple[str, ...]) -> str:
    """Which of these times is nearest to the measured one.

    Parameters
    ----------
    seconds : float
        As it was measured.
    choices : tuple of str
        As ``"2 s"``.

    Returns
    -------
    str
        One of them.
    """
    return min(choices, key=lambda choice: abs(seconds - float(choice.partition(" ")[0])))


def answer(value: Any, facts: Mapping[str, Any], choices: tuple[str, ...] = ()) -> Measurement:
    """An answer that a cell has measured itself.

    Parameters
    ----------
    value : object
        What came out: a word, a number, or a tuple of words in an order.
    facts : mapping
        The figures it comes from: what each is, and its value.
    choices : tuple of str, optional
        The words that a guess can be.

    Returns
    -------
    Measurement
    """
    return Measurement(value, choices, [(say(label), str(each)) for label, each in facts.items()])

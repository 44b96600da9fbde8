"""Lists that print as text and show as tables: objects, background cells. And single lines.

Puts facts into rows and lines; `markup` makes text and HTML of them.
"""

from __future__ import annotations

import fnmatch
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from workbench.core.events import About
from workbench.core.snapshot import KEPT_PREFIX, JobRecord, ObjectRecord, Snapshot
from workbench.engine.base import Engine
from workbench.engine.queries import Capacity, Summary
from workbench.format import (
    count,
    human_bytes,
    human_count,
    human_rate,
    human_seconds,
    listed,
    printable,
)
from workbench.report import facts, reasons
from workbench.report.colors import OTHER, STATES
from workbench.report.facts import Held
from workbench.report.markup import Rich, Table, clip, page
from workbench.report.processes import Processes
from workbench.report.sessions import died_before
from workbench.report.view_texts import LEAST_COPY, job_where

Item = TypeVar("Item")

MOST_ROWS = 60
"""Objects shown; the rest are counted."""

SMALL, MOST_SMALL = 10_000, 5
"""Objects of fewer bytes that have no name share a line, if they are more than so many."""

MOST_PUTS = 10
"""Objects of one `%put` that have a line each; of more, only the largest are shown."""

SLOW = 0.5
"""Seconds of pickling from which on a put's line says how to find out what takes long."""

MOST_LETTERS = 60
"""Characters of a name: longer ones would push the other columns out of sight."""

MOST_WORDS = 8
"""Names of one kind in a line; the rest are counted."""

OBJECTS = ("name", "type", "size", "where", "why it is here", "age")
JOBS = ("job", "name", "state", "where", "time", "done", "output", "assigns")

_KEYS: dict[str, Callable[[ObjectRecord], Any]] = {
    "size": lambda record: -record.size,
    "age": lambda record: -(record.age or 0.0),
    "name": lambda record: (not record.names, record.names),
    "type": facts.type_of,
}

ORDERS = tuple(_KEYS)


class Listing(Rich, Generic[Item]):
    """Records that print as text and show as a table. Iterate it for the records."""

    records: tuple[Item, ...]
    nothing = ""  # its text without any records

    @abstractmethod
    def table(self) -> Table:
        """Return the table to show."""

    def __iter__(self) -> Iterator[Item]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def title(self) -> str:
        """Return what stands above the table, or alone if there are no records."""
        return "" if self.records else self.nothing

    def _text(self) -> str:
        shown = self.table().text() if self.records else ""
        return "\n".join(filter(None, (self.title(), shown)))

    def _repr_html_(self) -> str:
        return page(self.title(), self.table().html() if self.records else "")


# -- objects ---------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ObjectTable(Listing[ObjectRecord]):
    """Objects in some order. Prints as text, shows as a table; iterates over the records.

    There are ``others`` more, of ``others_size`` bytes; ``held`` names objects that have no name.
    The ``small`` ones have no row.
    """

    records: tuple[ObjectRecord, ...]
    held: Held = field(default_factory=dict, repr=False)
    others: int = 0
    others_size: int = 0
    nothing: str = facts.NO_OBJECTS
    processes: Processes | None = field(default=None, repr=False)
    small: frozenset[int] = frozenset()

    def table(self, ids: bool = False, most: int = MOST_ROWS) -> Table:
        """Return the table, on request with the ids that `workbench why` takes."""
        small = [r for r in self.records if r.id in self.small and not ids]
        large = [r for r in self.records if r.id not in self.small or ids]
        left = large[most:]
        number, size = len(left) + self.others, sum(r.size for r in left) + self.others_size
        more = [f"and {human_count(number)} more, {human_bytes(size)}"] if number else []
        if small:
            bytes = human_bytes(sum(r.size for r in small))
            more.append(f"{human_count(len(small))} small ones, {bytes}: `%objects *` lists them")
        head = (*OBJECTS, "id") if ids else OBJECTS
        rows = tuple(
            (*self._row(record, ids), facts.id_of(record.id))[: len(head)]
            for record in large[:most]
        )
        return Table(head, rows, ("size", "age"), "; ".join(more))

    def _row(self, record: ObjectRecord, ids: bool) -> tuple[str, ...]:
        title = facts.title_of(record, self.held)
        return (
            clip(title if ids else self._to_ask_by(record, title), MOST_LETTERS),
            facts.type_of(record),
            facts.figure(facts.size_of(record)),
            facts.where_text(record),
            ", ".join(reasons.chips(record)),
            facts.age_text(record),
        )

    def _to_ask_by(self, record: ObjectRecord, title: str) -> str:
        """Return the title; one that is only a place or an id begins with the short id, and says
        whose the object is: ``00000002 from Cell In[3] of other.ipynb``."""
        site = facts.site_of(record)
        place = f" from {site}" if site else ""
        if title not in (place.lstrip(), id := facts.id_of(record.id)):
            return title
        return id[-8:] + place + (self.processes.of_another(record.id) if self.processes else "")


def objects(
    found: Iterable[ObjectRecord],
    pattern: str = "",
    order: str = "size",
    held: Held | None = None,
    limit: int | None = None,
    others: int = 0,
    others_size: int = 0,
    searched: bool = False,
    processes: Processes | None = None,
) -> ObjectTable:
    """Return all objects except Workbench's own, and freed ones of which only refs are left.

    Raises `ValueError` if there is no such order.

    ``pattern`` matches a name or the type: ``train*``, ``ndarray*``; ``order`` by ``size`` or
    ``age`` puts the greatest first; ``others`` and their bytes are not in ``found``. ``searched``:
    ``found`` holds only matches.
    """
    if order not in ORDERS:
        raise ValueError(f"Objects can be sorted by {', '.join(ORDERS)}, not by {order!r}.")
    every = searched or not pattern
    there = [r for r in found if not facts.is_internal(r) and (r.state != "freed" or r.viewers)]
    records = [r for r in there if every or _matches(r, pattern)]
    records.sort(key=_KEYS[order])
    left = records[limit:] if limit is not None else []
    others, others_size = others + len(left), others_size + sum(r.size for r in left)
    nothing = facts.no_match(pattern) if pattern else facts.NO_OBJECTS
    listed = tuple(records[: len(records) - len(left)])
    known = held or {}
    small = frozenset(
        r.id
        for r in listed
        if r.state == "ready" and r.size < SMALL and not (pattern or r.names or known.get(r.id))
    )
    small = small if len(small) > MOST_SMALL else frozenset()
    return ObjectTable(listed, held or {}, others, others_size, nothing, processes, small)


def _matches(record: ObjectRecord, pattern: str) -> bool:
    names = (*record.names, *map(facts.plain_name, record.names), facts.type_of(record))
    return any(fnmatch.fnmatch(name, pattern) for name in names)


# -- background cells ------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class JobTable(Listing[JobRecord]):
    """Background cells, a row each. Prints as text, shows as a table; iterates over the records."""

    nothing = facts.NO_JOBS

    records: tuple[JobRecord, ...]  # in the order in which they were started

    def table(self, most: int | None = None) -> Table:
        shown, left = self.records[:most], self.records[most:] if most else ()
        marks = tuple(STATES.get(job.state, OTHER) for job in shown)
        more, flexible = f"and {len(left)} more" if left else "", ("name", "output", "assigns")
        return Table(JOBS, tuple(map(_job_row, shown)), ("time", "done"), more, marks, flexible)


def _job_row(job: JobRecord) -> tuple[str, ...]:
    return (
        f"#{job.number}",
        clip(job.name, MOST_LETTERS),
        facts.job_state(job),
        job_where(job),
        human_seconds(job.seconds) if job.seconds else "",
        facts.job_items(job),
        facts.job_output(job),
        clip(", ".join(job.binds), 80),
    )


# -- one line --------------------------------------------------------------------------------------


def put_line(label: str, about: About) -> str:
    """Return the line of a put: ``df: DataFrame (500000, 9), 42 MB in 11 ms, 3.8 GB/s; ...``."""
    nbytes, seconds = _bytes(about), about.pickle_seconds + about.copy_seconds
    rate = f", {human_rate(nbytes / seconds)}" if nbytes >= LEAST_COPY and seconds else ""
    rate += " in new memory" if rate and about.cold else ""
    direct = (
        f"{human_bytes(about.outband)} copied directly in {count(about.buffers, 'buffer')}"
        if about.outband
        else "all of it pickled"
    )
    took = human_seconds(seconds)
    line = f"{label}: {about.type}, {human_bytes(nbytes)} in {took}{rate}; {direct}"
    if about.pickle_seconds >= SLOW:
        line += f"; `%cost {label}` shows what takes so long"
    return printable(line)


def put_text(puts: Sequence[tuple[str, About, str]]) -> str:
    """Return a line for each put, of a name, with remarks; of many, a table of the largest."""
    if len(puts) <= MOST_PUTS:
        lines = [(put_line(name, about), remarks) for name, about, remarks in puts]
        return "\n".join("; ".join(filter(None, line)) for line in lines)
    puts = sorted(puts, key=lambda put: -_bytes(put[1]))
    rows = tuple(
        (clip(name, MOST_LETTERS), about.type, *_costs([about]), remarks)
        for name, about, remarks in puts[:MOST_PUTS]
    )
    sums = [_costs([about for _, about, _ in some]) for some in (puts, puts[MOST_PUTS:])]
    whole, rest = (f"{size} in {seconds}" for size, seconds in sums)
    note = f"{count(len(puts), 'object')}, {whole}; {len(puts) - MOST_PUTS} smaller ones, {rest}"
    return Table(("name", "type", "size", "time", ""), rows, ("size", "time"), note).text()


def _costs(abouts: Sequence[About]) -> tuple[str, str]:
    """Return the size and the time of some puts together."""
    seconds = sum(about.pickle_seconds + about.copy_seconds for about in abouts)
    return human_bytes(sum(map(_bytes, abouts))), human_seconds(seconds)


def _bytes(about: About) -> int:
    return about.inband + about.outband


def started_line(engine: Engine, replaced: Engine | None = None) -> str:
    """Word what was started or joined. A cluster's store size is left to `%workbench`.

    ``replaced``: the empty session that this one replaces.
    """
    system, joined = engine.facts.system, engine.facts.joined
    store = f", store of {human_bytes(engine.ask(Capacity()))}" if system == "local" else ""
    line = (
        f"Workbench {'joined' if joined else 'started'} session "
        f"{facts.short_name(engine.session)}{facts.on_engine(system)}: "
        f"{count(engine.workers, 'worker')}{store}."
    )
    ends = f" {engine.can.keep}" if engine.can.keep else ""
    if replaced is not None:
        where = facts.on_engine(replaced.facts.system) or " on this machine"
        where = " before it" if replaced.facts.system == system else where
        ends += f" It replaces the session{where}; nothing is lost."
    if not joined:
        return line + ends
    now = engine.ask(Summary())
    return printable("\n".join([line + ends + _found(now), *died_before(now)]))


def _found(snapshot: Snapshot) -> str:
    """Return sentences on a session's named objects and its background cells, if any."""
    names = sorted(n for r in snapshot.objects for n in r.names if not n.startswith(KEPT_PREFIX))
    actors = sorted(facts.name_of(name) for actor in snapshot.actors for name in actor.names)
    found = [*names, *actors]
    jobs = facts.job_texts(snapshot.jobs)
    total = max(snapshot.names, len(names)) + len(actors)
    there = f" It has {listed(found, MOST_WORDS, total)}." if found else ""
    more = f" Background: {listed(jobs, MOST_WORDS)}; %workbench jobs shows more." if jobs else ""
    left = facts.left_by_cells(snapshot.jobs)
    kept = f" Of cells that are done: {listed(left, MOST_WORDS)}; %get brings them." if left else ""
    return there + more + kept

"""The views of a session as they stay in a notebook: text, and HTML without scripts.

One frozen snapshot in; nothing here asks anybody. What each view says is made once, as lines, bars
and tables, and `markup` makes text and HTML of them. `plots.pictures` draws the same as a PNG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from workbench.core.snapshot import JobRecord, ObjectRecord, Snapshot
from workbench.markup import (
    Html,
    Key,
    Piece,
    Rich,
    Strip,
    Table,
    clip,
    heading,
    muted,
    page,
    scroll,
)
from workbench.report import words
from workbench.report.colors import MACHINE, OTHER, STATES, STORE, STRENGTHS, Coloring, kind_of
from workbench.report.facts import type_of
from workbench.report.format import UNKNOWN, count, human_bytes, human_count, human_seconds
from workbench.report.lanes import Lane, lanes
from workbench.report.words import Held

MOST_BOXES = 200
MOST_LANES = 12
MOST_ROWS = 30
MOST_TYPES = 8

LEVELS = "▁▂▃▄▅▆▇█"
EVERY = 5
"""Seconds that a letter of the timeline stands for."""

Block = str | Strip | Key | Table
"""A view consists of these, below each other."""


# -- occupancy -----------------------------------------------------------------------------------


def _occupancy(now: Snapshot, held: Held) -> list[Block]:
    coloring = Coloring(now)
    drawn, left = lanes(now, coloring, MOST_BOXES, MOST_LANES)
    more = f"and {count(len(left), 'segment')} more, {_sum(s.live for s in left)} live"
    objects = words.objects(now.count or len(now.objects))
    return [
        f"Store: {words.store_words(now)} · {objects}",
        *_bar(words.store_parts(now), STORE, now.capacity or 0, "Store", "█▒· "),
        words.inline_words(now),
        *_machine(now),
        _timeline(now),
        *(_segments(drawn, held) if now.segments is not None else [f"{words.NO_PLACE}."]),
        more if left else "",
        *_types(now, coloring),
    ]


def _machine(now: Snapshot) -> list[Block]:
    if now.memory is None:
        return [f"Memory of the machine: {UNKNOWN}"]
    parts = words.machine_parts(now, now.memory)
    said = f"Memory: {words.machine_words(now.memory)}"
    return [said, *_bar(parts, MACHINE, sum(size for _, size in parts), "Memory", "█▓▒░·")]


def _bar(
    parts: Sequence[tuple[str, int | None]],
    colors: Sequence[str],
    whole: int,
    label: str,
    glyphs: str,
) -> list[Block]:
    """To scale what belongs to the whole; and what the colours are."""
    inside = sum(size or 0 for part, size in parts if part not in words.BESIDE)
    whole = max(whole, inside) if whole else 0  # more may live than there is room for, for a while
    pieces, at = [], 0.0
    for (part, size), color, glyph in zip(parts, colors, glyphs, strict=True):
        share = (size or 0) / whole if whole else 0.0
        if share and part not in words.BESIDE:
            pieces.append(Piece(at, share, color, f"{part} {words.size(size)}", glyph))
            at += share
    entries = tuple(
        (color, f"{part} {words.size(size)}")
        for (part, size), color in zip(parts, colors, strict=True)
    )
    key = Key(entries)
    return [Strip(tuple(pieces), f"{label}: {key.text()}"), key] if whole else [key]


def _timeline(now: Snapshot) -> str:
    """As a line of letters, the higher the more."""
    if now.history is None:
        return f"The last two minutes are {UNKNOWN}."
    history = [sample for sample in now.history if sample.age <= words.SECONDS]
    if not history:
        return ""
    most = max(sample.live for sample in history)
    steps = [
        next((sample.live for sample in reversed(history) if sample.age >= age), None)
        for age in range(words.SECONDS - EVERY, -1, -EVERY)
    ]
    letters = "".join(
        "·" if live is None else LEVELS[round(live / (most or 1) * (len(LEVELS) - 1))]
        for live in steps
    )
    happened = ", ".join(count(n, what) for what, n in words.happened(history).items())
    return f"Last two minutes: {letters} {human_bytes(most)} at most; {happened}"


def _segments(drawn: list[Lane], held: Held) -> list[Block]:
    if not drawn:
        return []
    longest = max(lane.length for lane in drawn) or 1
    rows = []
    for lane in drawn:
        pieces = tuple(
            Piece(
                box.start / longest, box.length / longest, box.color,
                f"{clip(words.title_of(box.record, held), 60)}: {clip(type_of(box.record), 60)}, "
                f"{human_bytes(box.record.size)}" if box.record else "",
                full=box.full,
            )
            for box in lane.boxes
        )  # fmt: skip
        live, granted = human_bytes(lane.segment.live), human_bytes(lane.segment.granted)
        label = f"{clip(lane.owner, 60)}: {count(lane.objects, 'object')}, {live} of {granted}"
        of = "" if lane.segment.disk else granted
        owner, objects = clip(lane.owner, 60), human_count(lane.objects)
        rows.append((owner, Strip(pieces, label), live, of, objects))
    head = ("segment", "to scale", "live", "of", "objects")
    return [Table(head, tuple(rows), head[2:], flexible=("segment",))]


def _types(now: Snapshot, coloring: Coloring) -> list[Block]:
    if not now.objects:
        return [words.no_objects(now)]
    head = ("type", "objects", "size")
    rows = tuple(
        (clip(g.label, 60), human_count(g.number), human_bytes(g.size)) for g in coloring.groups
    )
    marks = tuple(group.color for group in coloring.groups)
    return [Table(head, rows, head[1:], words.most_of(now), marks)]


# -- pins ----------------------------------------------------------------------------------------


def _pins(now: Snapshot, held: Held) -> list[Block]:
    if not now.objects:
        return [words.no_objects(now)]
    records = sorted(now.objects, key=lambda r: -r.size)
    head = ("object", "type", "size", "strength", "why it is here", "age")
    rows = tuple(
        (
            clip(words.title_of(record, held), 80),
            clip(type_of(record), 60),
            words.size_in(record),
            record.strength or words.NO_FIGURE,
            clip(words.why(record, now), 240),
            words.age(record.age),
        )
        for record in records[:MOST_ROWS]
    )
    flexible = ("object", "type", "why it is here")
    marks = tuple(STRENGTHS[record.strength][0] for record in records[:MOST_ROWS])
    return [Table(head, rows, ("size", "age"), _rest(records, now), marks, flexible)]


def _rest(records: Sequence[ObjectRecord], now: Snapshot) -> str:
    left = records[MOST_ROWS:]
    more = f"and {human_count(len(left))} more, {_sum(r.size for r in left)}" if left else ""
    return "; ".join(filter(None, (more, words.most_of(now))))


# -- costs ---------------------------------------------------------------------------------------


def _costs(now: Snapshot, held: Held) -> list[Block]:
    known = sorted((r for r in now.objects if r.about), key=lambda r: -words.seconds_of(r))
    if not known:
        return [f"What serialization costs is {UNKNOWN}." if now.objects else "Nothing yet."]
    head = ("object", "type", "pickle", "copy", "load", "in-band", "out-of-band", "copy speed")
    rows = tuple(_cost(record, held) for record in known[:MOST_ROWS])
    repeated = [record for record in known if words.repeats_of(record)]
    advice: list[Block] = [
        f"{clip(words.title_of(record, held), 60)}: {words.repeats_of(record)}"
        for record in repeated[:MOST_TYPES]
    ]
    if len(repeated) > MOST_TYPES:
        advice.append(f"and {len(repeated) - MOST_TYPES} more that were serialized repeatedly")
    unread = any(not record.load_seconds for record in known[:MOST_ROWS])
    note = [f"{words.NO_FIGURE}: not read yet, too little to tell, or {UNKNOWN}"] if unread else []
    table = Table(head, rows, head[2:], _rest(known, now), flexible=("type",))
    return [table, *advice, *note, *_costs_by_type(known)]


def _cost(record: ObjectRecord, held: Held) -> tuple[str, ...]:
    about = record.about
    assert about is not None
    return (
        clip(words.title_of(record, held), 30),
        clip(type_of(record), 60),
        words.took(about.pickle_seconds),
        words.took(about.copy_seconds),
        words.took(record.load_seconds or None),
        human_bytes(about.inband),
        human_bytes(about.outband),
        words.speed(words.speed_of(record)),
    )


def _costs_by_type(known: Sequence[ObjectRecord]) -> list[Block]:
    types: dict[str, list[ObjectRecord]] = {}
    for record in known:
        types.setdefault(kind_of(record), []).append(record)
    if len(types) == len(known):
        return []
    head = ("type", "objects", "pickle", "copy", "load", "in-band", "out-of-band")
    costs = sorted(types.items(), key=lambda item: -sum(map(words.seconds_of, item[1])))
    rows = []
    for kind, records in costs[:MOST_TYPES]:
        abouts = [record.about for record in records if record.about]
        load = sum(record.load_seconds for record in records)
        rows.append(
            (
                clip(kind, 40),
                human_count(len(records)),
                words.took(sum(about.pickle_seconds for about in abouts)),
                words.took(sum(about.copy_seconds for about in abouts)),
                words.took(load or None),
                _sum(about.inband for about in abouts),
                _sum(about.outband for about in abouts),
            )
        )
    more = f"and {len(costs) - MOST_TYPES} more types" if len(costs) > MOST_TYPES else ""
    return [Table(head, tuple(rows), head[1:], more)]


# -- jobs ----------------------------------------------------------------------------------------


def _jobs(now: Snapshot, held: Held) -> list[Block]:
    return [_cells(now), _workers(now)]


def _cells(now: Snapshot) -> Block:
    if not now.jobs:
        return words.no_jobs(now)
    found = words.jobs_in_order(now.jobs)
    head = ("job", "name", "state", "where", "time", "done", "output", "assigns")
    rows = tuple(map(_job, found[:MOST_ROWS]))
    more = f"and {len(found) - MOST_ROWS} more" if len(found) > MOST_ROWS else ""
    marks = tuple(STATES.get(job.state, OTHER) for job in found[:MOST_ROWS])
    return Table(head, rows, ("time", "done"), more, marks, ("name", "output", "assigns"))


def _workers(now: Snapshot) -> Block:
    if not now.workers:
        return words.no_workers(now)
    rows = tuple(
        (
            f"worker {worker.number}",
            worker.state,
            clip(words.runs(worker, now.actors), 80),
            str(worker.pid) if worker.pid else words.NO_FIGURE,
            words.figure(words.worker_memory(worker, now)),
        )
        for worker in now.workers[:MOST_ROWS]
    )
    more = f"and {len(now.workers) - MOST_ROWS} more" if len(now.workers) > MOST_ROWS else ""
    marks = tuple(STATES.get(worker.state, OTHER) for worker in now.workers[:MOST_ROWS])
    head = ("worker", "state", "runs", "process", "memory")
    return Table(head, rows, head[3:], more, marks, ("runs",))


def _job(job: JobRecord) -> tuple[str, ...]:
    shown = ((job.lines, "line"), (job.displays, "display"))
    return (
        f"#{job.number}",
        clip(job.name, 60),
        f"{job.state}, not collected" if job.kept else job.state,
        f"worker {job.worker}" if job.worker else "",
        human_seconds(job.seconds) if job.seconds else "",
        f"{job.ended} of {job.size}" if job.size > 1 else "",
        " and ".join(count(n, noun) for n, noun in shown if n),
        clip(", ".join(job.binds), 80),
    )


def _sum(sizes: Iterable[int]) -> str:
    return human_bytes(sum(sizes))


VIEWS: dict[str, Callable[[Snapshot, Held], list[Block]]] = {
    "occupancy": _occupancy,
    "pins": _pins,
    "costs": _costs,
    "jobs": _jobs,
}
"""In the order in which the dashboard has them."""

PARTS = tuple(VIEWS)
"""The views there are, as the dashboard has them."""

COLUMNS = 100
"""Of a terminal."""


@dataclass(frozen=True)
class Still(Rich):
    """One view, or several below each other, of one moment.

    Attributes
    ----------
    parts : tuple of str
        Some of `PARTS`.
    snapshot : Snapshot
    held : mapping of int to tuple of str, optional
        By object, the variables that hold it: names for those that have none.
    """

    parts: tuple[str, ...]
    snapshot: Snapshot
    held: Held | None = None

    def __post_init__(self) -> None:
        wrong = [part for part in self.parts if part not in PARTS]
        if wrong or not self.parts:
            raise ValueError(f"The views are {', '.join(PARTS)}; not {', '.join(wrong) or 'none'}.")

    def text(self) -> str:
        """For a terminal of 100 columns."""
        sections = []
        for part in self.parts:
            blocks = [_as_text(block) for block in self._blocks(part)]
            sections.append("\n".join([part.capitalize(), *filter(None, blocks)]))
        return "\n\n".join([*sections, clip(self.caption(), COLUMNS)])

    __str__ = __repr__ = text

    def html(self) -> Html:
        """For a page: no scripts, no style sheet; where styles are taken away it can be read."""
        inside = []
        for part in self.parts:
            inside += [heading(part.capitalize()), *map(_as_html, self._blocks(part))]
        return page(*inside, muted(self.caption()))

    def _repr_html_(self) -> str:
        return self.html()

    def caption(self) -> str:
        """Of which session, and of when."""
        name = clip(words.session_name(self.snapshot), 60)
        what = f"session {name}" if self.snapshot.engine == "local" else name
        scope = f", {self.snapshot.scope}" if self.snapshot.scope else ""
        return f"{what}{scope}, {words.taken(self.snapshot)}"

    def _blocks(self, part: str) -> list[Block]:
        return VIEWS[part](self.snapshot, self.held or {})


def _as_text(block: Block) -> str:
    if isinstance(block, str):
        return "\n".join(wrap(block, COLUMNS))
    if isinstance(block, Key):
        return "\n".join(wrap(block.text(), COLUMNS))
    return block.text(COLUMNS) if isinstance(block, Table) else block.text()


def _as_html(block: Block) -> Html:
    if isinstance(block, str):
        return muted(block)
    return scroll(block.html()) if isinstance(block, Table) else block.html()

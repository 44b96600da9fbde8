"""Static views of a session for a notebook: text, and HTML without scripts.

From one frozen snapshot; asks nobody. The content of each view is built once, as lines, bars
and tables; `markup` makes text and HTML of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from workbench.core.snapshot import HISTORY_SECONDS, ObjectRecord, Snapshot
from workbench.format import (
    NO_FIGURE,
    UNKNOWN,
    count,
    human_bytes,
    human_count,
    human_rate,
    human_seconds,
)
from workbench.report import facts, view_texts
from workbench.report.checkpoints import NONE_KEPT
from workbench.report.colors import OTHER, STATES, STRENGTHS, Coloring
from workbench.report.facts import Held
from workbench.report.history import CellHistory
from workbench.report.lanes import Lane, lanes
from workbench.report.markup import (
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
from workbench.report.processes import Processes
from workbench.report.text import JobTable

MOST_BOXES = 200
MOST_LANES = 12
MOST_ROWS = 30
MOST_TYPES = 8

COLUMNS = 100
"""Width of a terminal."""

LEVELS = "▁▂▃▄▅▆▇█"
EVERY = 5
"""Seconds that a character of the timeline stands for."""

Block = str | Strip | Key | Table | CellHistory
"""Elements of a view, below each other."""


@dataclass(frozen=True, repr=False)
class Still(Rich):
    """One view, or several below each other, of one moment: ``parts`` are of `PARTS`, or `history`.

    ``held`` names the objects that have no name. ``late``: the session was asked again and hasn't
    answered yet. ``process``: a bar of this process's own memory; ``history``: the cells whose
    variables are kept, if any. Raises `ValueError` if there is no such part.
    """

    parts: tuple[str, ...]
    snapshot: Snapshot
    held: Held | None = None
    late: bool = False
    process: view_texts.Bar | None = None
    history: CellHistory | None = None

    def __post_init__(self) -> None:
        wrong = [part for part in self.parts if part not in (*PARTS, "history")]
        if wrong or not self.parts:
            raise ValueError(f"The views are {', '.join(PARTS)}; not {', '.join(wrong) or 'none'}.")

    def _text(self) -> str:
        sections = []
        for part in self.parts:
            blocks = [block_text(block) for block in self._blocks(part)]
            sections.append("\n".join([part.capitalize(), *filter(None, blocks)]))
        return "\n\n".join([*sections, "\n".join(wrap(self.caption(), COLUMNS))])

    def html(self) -> Html:
        """Return HTML for a page: no scripts, no style sheet; readable where styles are removed."""
        inside = []
        for part in self.parts:
            inside += [heading(part.capitalize()), *map(block_html, self._blocks(part))]
        return page(*inside, muted(self.caption()))

    _repr_html_ = html

    def caption(self) -> str:
        name = clip(facts.session_name(self.snapshot), 60)
        what = f"session {name}" if self.snapshot.engine == "local" else name
        has_scope = self.snapshot.scope and self.parts != ("jobs",)  # which concerns objects
        scope = f"; shown: {self.snapshot.scope}" if has_scope else ""
        late = f" ({view_texts.LATE})" if self.late else ""
        return f"{what}, {view_texts.taken(self.snapshot)}{late}{scope}"

    def _blocks(self, part: str) -> list[Block]:
        if part == "history":
            return [self.history or NONE_KEPT]
        blocks = VIEWS[part](view_texts.without_internal(self.snapshot), self.held or {})
        has_bar = part == "occupancy" and self.process is not None
        return [*blocks, *bar_blocks(self.process)] if has_bar and self.process else blocks


def block_text(block: Block) -> str:
    if isinstance(block, Table | CellHistory):
        return block.text(COLUMNS)
    if isinstance(block, Strip):
        return block.text()
    return "\n".join(wrap(block if isinstance(block, str) else block.text(), COLUMNS))


def block_html(block: Block) -> Html:
    if isinstance(block, str):
        return muted(block)
    return scroll(block.html()) if isinstance(block, Table) else block.html()


# -- occupancy -----------------------------------------------------------------------------------


def _occupancy(now: Snapshot, held: Held) -> list[Block]:
    coloring = Coloring(now)
    drawn, left = lanes(now, coloring, MOST_BOXES, MOST_LANES)
    live = human_bytes(sum(segment.live for segment in left))
    more = f"and {count(len(left), 'segment')} more, {live} live" if left else ""
    store = view_texts.store_bar(now)
    objects = count(now.count or len(now.objects), "object")
    return [
        *bar_blocks(store, now.capacity or 0, objects),
        store.note,
        *bar_blocks(view_texts.machine_bar(now)),
        _timeline(now),
        *(
            _segments(drawn, held)
            if now.segments is not None
            else [view_texts.nothing(now)["segments"]]
        ),
        more,
        *_types(now, coloring),
    ]


_GLYPHS = {"reusable": "▒", "workers": "▓", "kernels": "▒", "others": "░"}
"""Fill characters in a terminal: dense for what is taken, light for what is available."""


def bar_blocks(bar: view_texts.Bar, capacity: int = 0, more: str = "") -> list[Block]:
    """Draw the parts of the whole to scale, with a key of the colours."""
    head = f"{bar.label}: {bar.figure}" + (f" · {more}" if more else "")
    inside = {part: size or 0 for part, size in bar.parts}
    # For a while, live objects may exceed the capacity.
    whole = max(capacity, sum(inside.values())) if bar.whole else 0
    pieces, at = [], 0.0
    for (part, size), (color, text) in zip(inside.items(), bar.key(), strict=False):
        if size and whole:
            glyph = "·" if part in ("available", "free") else _GLYPHS.get(part, "█")
            pieces.append(Piece(at, size / whole, color, text, glyph))
            at += size / whole
    if not bar.parts:
        return [head]
    key = Key(tuple(bar.key()))
    return [head, *([Strip(tuple(pieces), f"{bar.label}: {key.text()}")] if whole else []), key]


def _timeline(now: Snapshot) -> str:
    """Draw the recent past as a line of characters, higher for more."""
    history = view_texts.recent(now)
    if not history:
        return view_texts.nothing(now)["timeline"] if now.history is None else ""
    most = max(sample.live for sample in history)
    steps = [
        next((sample.live for sample in reversed(history) if sample.age >= age), None)
        for age in range(round(HISTORY_SECONDS) - EVERY, -1, -EVERY)
    ]
    letters = "".join(
        "·" if live is None else LEVELS[round(live / (most or 1) * (len(LEVELS) - 1))]
        for live in steps
    )
    happened = ", ".join(count(n, what) for what, n in view_texts.happened(history).items())
    return f"Last two minutes: {letters} {human_bytes(most)} at most; {happened}"


def _segments(drawn: list[Lane], held: Held) -> list[Block]:
    if not drawn:
        return []
    longest = max(lane.length for lane in drawn) or 1
    rows = []
    for lane in drawn:
        pieces = tuple(
            Piece(
                box.start / longest,
                box.length / longest,
                box.color,
                _tooltip(box.record, held) if box.record else "",
                full=box.full,
            )
            for box in lane.boxes
        )
        owner, full = clip(lane.owner, 60), view_texts.filled_text(lane.segment)
        label = f"{owner}: {count(lane.objects, 'object')}, {full}"
        rows.append((owner, Strip(pieces, label), full, human_count(lane.objects)))
    head = ("segment", "to scale", "full", "objects")
    return [Table(head, tuple(rows), head[2:], flexible=("segment",))]


def _tooltip(record: ObjectRecord, held: Held) -> str:
    size = facts.figure(facts.size_of(record))
    return f"{clip(facts.title_of(record, held), 60)}: {clip(facts.type_of(record), 60)}, {size}"


def _types(now: Snapshot, coloring: Coloring) -> list[Block]:
    if not now.objects:
        return [view_texts.nothing(now)["objects"]]
    head = ("type", "objects", "size")
    rows = tuple(
        (clip(g.label, 60), human_count(g.number), human_bytes(g.size)) for g in coloring.groups
    )
    marks = tuple(group.color for group in coloring.groups)
    return [Table(head, rows, head[1:], view_texts.listed_text(now), marks)]


# -- pins ----------------------------------------------------------------------------------------


def _pins(now: Snapshot, held: Held) -> list[Block]:
    if not now.objects:
        return [view_texts.nothing(now)["objects"]]
    records = view_texts.by_size(now)
    processes = Processes(now)
    head = ("object", "type", "size", "can move", "why it is here", "age")
    rows = tuple(
        (
            clip(facts.title_of(record, held), 80),
            clip(facts.type_of(record), 60),
            facts.figure(facts.size_of(record)),
            facts.MOVES.get(record.strength or "", NO_FIGURE),
            clip(facts.why_text(record, processes, held.get(record.id, ())), 240),
            facts.age_text(record),
        )
        for record in records[:MOST_ROWS]
    )
    flexible = ("object", "type", "why it is here")
    marks = tuple(STRENGTHS[record.strength][0] for record in records[:MOST_ROWS])
    rest = view_texts.rest_text(records[MOST_ROWS:], now)
    return [Table(head, rows, ("size", "age"), rest, marks, flexible)]


# -- costs ---------------------------------------------------------------------------------------

_FIGURES = ("pickle", "copy", "load", "pickled", "copied directly")


def _costs(now: Snapshot, held: Held) -> list[Block]:
    known = view_texts.by_cost(now)
    if not known:
        return [view_texts.nothing(now)["costs"]]
    head = ("object", "type", *_FIGURES, "copy speed")
    rows = tuple(
        (
            clip(facts.title_of(record, held), 30),
            clip(facts.type_of(record), 60),
            *_figures([record]),
            NO_FIGURE if (speed := view_texts.speed_of(record)) is None else human_rate(speed),
        )
        for record in known[:MOST_ROWS]
    )
    repeated = [record for record in known if view_texts.repeats_of(record)]
    advice: list[Block] = [
        f"{clip(facts.title_of(record, held), 60)}: {view_texts.repeats_text(record)}"
        for record in repeated[:MOST_TYPES]
    ]
    if len(repeated) > MOST_TYPES:
        advice.append(f"and {len(repeated) - MOST_TYPES} more that were serialized repeatedly")
    unread = any(not record.load_seconds for record in known[:MOST_ROWS])
    note = [f"{NO_FIGURE}: not read yet, too little to tell, or {UNKNOWN}"] if unread else []
    rest = view_texts.rest_text(known[MOST_ROWS:], now)
    table = Table(head, rows, head[2:], rest, flexible=("type",))
    return [table, *advice, *note, *_costs_by_type(known)]


def _figures(records: Sequence[ObjectRecord]) -> tuple[str, ...]:
    abouts = [record.about for record in records if record.about]
    load = sum(record.load_seconds for record in records)
    return (
        human_seconds(sum(about.pickle_seconds for about in abouts)),
        human_seconds(sum(about.copy_seconds for about in abouts)),
        human_seconds(load) if load else NO_FIGURE,
        human_bytes(sum(about.inband for about in abouts)),
        human_bytes(sum(about.outband for about in abouts)),
    )


def _costs_by_type(known: Sequence[ObjectRecord]) -> list[Block]:
    types: dict[str, list[ObjectRecord]] = {}
    for record in known:
        types.setdefault(facts.kind_of(record), []).append(record)
    if len(types) == len(known):
        return []
    costs = sorted(types.items(), key=lambda item: -sum(map(view_texts.seconds_of, item[1])))
    rows = tuple(
        (clip(kind, 40), human_count(len(records)), *_figures(records))
        for kind, records in costs[:MOST_TYPES]
    )
    more = f"and {len(costs) - MOST_TYPES} more types" if len(costs) > MOST_TYPES else ""
    head = ("type", "objects", *_FIGURES)
    return [Table(head, rows, head[1:], more)]


# -- jobs ----------------------------------------------------------------------------------------


def _cells(now: Snapshot) -> Block:
    if not now.jobs:
        return view_texts.nothing(now)["jobs"]
    return JobTable(tuple(view_texts.jobs_in_order(now.jobs))).table(MOST_ROWS)


def _workers(now: Snapshot) -> Block:
    if not now.workers:
        return view_texts.nothing(now)["workers"]
    processes = Processes(now)
    rows = tuple(
        (
            f"worker {worker.number}",
            clip(view_texts.runs_text(worker, processes), 80),
            str(worker.pid) if worker.pid else NO_FIGURE,
            facts.figure(view_texts.worker_memory(worker, now)),
        )
        for worker in now.workers[:MOST_ROWS]
    )
    marks = tuple(STATES.get(worker.state, OTHER) for worker in now.workers[:MOST_ROWS])
    head, left = ("worker", "runs", "process", "memory"), len(now.workers) - MOST_ROWS
    return Table(head, rows, head[2:], f"and {left} more" * (left > 0), marks, ("runs",))


VIEWS: dict[str, Callable[[Snapshot, Held], list[Block]]] = {
    "occupancy": _occupancy,
    "pins": _pins,
    "costs": _costs,
    "jobs": lambda now, held: [_cells(now), _workers(now)],
}
"""In the order of the dashboard."""

PARTS = tuple(VIEWS)
"""The views of a snapshot, in the order of the dashboard; the history is another."""

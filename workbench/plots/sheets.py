"""What the plots of a session draw in rows: the store to scale, pins, costs. Asks nobody.

As many rows as there is room for, in points: an Axes twice as high shows twice as many objects.
Without ``room`` they are for a new figure.
"""

from __future__ import annotations

from workbench.core.snapshot import ObjectRecord, Snapshot
from workbench.format import UNKNOWN, count, human_bytes, human_rate, human_seconds
from workbench.plots.drawing import LINE, DrawnRow, Rect, Sheet, note
from workbench.report import facts, reasons, view_texts
from workbench.report.colors import BAD, HUES, INK, STRENGTHS, TRACK, Coloring
from workbench.report.facts import Held
from workbench.report.lanes import Lane, lanes
from workbench.report.markup import unmarked
from workbench.report.processes import Processes

MOST_BOXES = 3000
"""Boxes in all lanes; more objects are added up by place."""

MOST_LANES, MOST_ROWS = 10, 12
"""Segments, and objects, of a new figure."""

LANE, ROW = LINE + 22.0, LINE + 11.0
"""Points of a segment, and of an object."""

COSTS = (("pickle", HUES[3]), ("copy", HUES[0]), ("load", HUES[2]))


# -- the store -----------------------------------------------------------------------------------


def occupancy(now: Snapshot, held: Held, by: str, room: float | None) -> Sheet:
    coloring = Coloring(now, by)
    bars = [_bar(view_texts.store_bar(now), now.capacity or 0, 14)]
    machine = [_bar(view_texts.machine_bar(now), 0, 7)] if now.memory else []
    key = [(group.color, f"{group.label} {human_bytes(group.size)}") for group in coloring.groups]
    used = sum(bool(segment.live or segment.granted) for segment in now.segments or ())
    legend = DrawnRow(key=[*key, *([(TRACK, view_texts.EMPTY)] if used else [])])
    fits = MOST_LANES
    if room is not None:
        room += 1 - sum(row.height for row in (*bars, legend))
        if room < min(used, MOST_LANES) * LANE + sum(row.height for row in machine):
            machine = []  # the segments have priority
        fits = max(int((room - sum(row.height for row in machine)) / LANE), 1)
    drawn, left = lanes(now, coloring, MOST_BOXES, fits)
    rows = [*bars, *machine, *(_lane(lane, held) for lane in drawn)]
    if left:
        live = human_bytes(sum(segment.live for segment in left))
        rows.append(note(f"and {count(len(left), 'segment')} more, {live} live"))
    if not now.objects or now.segments is None:
        rows.append(note(view_texts.nothing(now)["segments" if now.objects else "objects"]))
    return Sheet(max((lane.length for lane in drawn), default=1), [*rows, legend])


def _bar(bar: view_texts.Bar, capacity: int, high: float) -> DrawnRow:
    """Return the parts of a whole; what is on disk isn't part of it, and is only named."""
    boxes, at = [], 0
    for part, size in bar.parts:
        boxes += [Rect(at, size, view_texts.BAR_PARTS[part].color)] if size else []
        at += size or 0
    boxes, high = (boxes, high) if bar.whole else ([], 0.0)
    key, whole = bar.key(), max(capacity, at) or 1
    return DrawnRow(bar.label, bar.figure, "", boxes, high, 0.0, whole, key, 8.0, "bold")


def _lane(lane: Lane, held: Held) -> DrawnRow:
    boxes = [
        Rect(
            box.start,
            box.length,
            box.color,
            0.5 if box.record and box.record.state == "freed" else 0.3 + 0.7 * box.full,
            _label(box.record, held) if box.record else "",
        )
        for box in lane.boxes
    ]
    objects, full = count(lane.objects, "object"), view_texts.filled_text(lane.segment)
    return DrawnRow(lane.owner, objects, full, boxes, 15.0, lane.length, space=LANE - LINE - 15)


def _label(record: ObjectRecord, held: Held) -> str:
    """Return the name that a person gave it, if any."""
    return facts.names_of(record) or ", ".join(dict(held.get(record.id, ())))


# -- objects -------------------------------------------------------------------------------------


def _row(
    name: str, detail: str, figure: str, bars: list[Rect], most: float, color: str = INK
) -> DrawnRow:
    return DrawnRow(name, detail, figure, bars, 5.0, most, space=ROW - LINE - 5, color=color)


def _fits(room: float | None, wanted: int) -> int:
    """Return how many rows fit, with a line that counts the others if there are any."""
    if room is None:
        return min(wanted, MOST_ROWS)
    return wanted if wanted * ROW <= room + 2 else max(int((room - LINE + 2) / ROW), 1)


def pins(now: Snapshot, held: Held, room: float | None) -> Sheet:
    """Return the reasons: all if three objects still fit below them, or as many as fit into half
    the room; then objects."""
    records = view_texts.by_size(now)
    if not records:
        return Sheet(1, [note(view_texts.nothing(now)["objects"])])
    found, processes = _by_reason(records), Processes(now)
    most = max([*(size for _, _, size in found), *(record.size for record in records)]) or 1
    unknown = any(record.strength is None for record in records)
    key = [entry for strength, entry in STRENGTHS.items() if strength or unknown]
    titles = [
        DrawnRow("By reason", "an object with several reasons counts under each", font="bold"),
        DrawnRow("Largest objects", "and what keeps each", font="bold"),
    ]
    if room is not None:
        room -= sum(row.height for row in (*titles, DrawnRow(key=key, space=8)))
    fits = _fits(room and max(room - min(len(records), 3) * ROW, room / 2), len(found))
    rows = titles[:1]
    for code, number, size in found[:fits]:
        reason = reasons.REASONS[code]
        bar = Rect(0, size, STRENGTHS["resident" if reason.keeps_in_memory else "alive"][0])
        rows.append(_row(reason.chip, count(number, "object"), human_bytes(size), [bar], most))
    if len(found) > fits:
        rows.append(note(f"and {count(len(found) - fits, 'more reason')}"))
    if not found:
        rows.append(note(f"What keeps objects is {UNKNOWN}."))
    if room is not None:
        room -= sum(row.height for row in rows[1:])
    rows += [DrawnRow(space=8), titles[1]]
    fits = _fits(room, len(records))
    for record in records[:fits]:
        why = unmarked(facts.why_text(record, processes, held.get(record.id, ())))
        known = facts.size_of(record)
        bars = [] if known is None else [Rect(0, known, STRENGTHS[record.strength][0])]
        detail = f"{facts.kind_of(record)} · {why}"
        rows.append(_row(facts.title_of(record, held), detail, facts.figure(known), bars, most))
    if fits < len(records):
        rows.append(note(view_texts.rest_text(records[fits:], now)))
    return Sheet(most, [*rows, DrawnRow(key=key)])


def _by_reason(records: list[ObjectRecord]) -> list[tuple[str, int, int]]:
    """Return (reason, objects, bytes), most bytes first."""
    sums: dict[str, tuple[int, int]] = {}
    for record in records:
        for reason, _ in reasons.counts(record):
            number, size = sums.get(reason, (0, 0))
            sums[reason] = number + 1, size + record.size
    return sorted(((reason, *both) for reason, both in sums.items()), key=lambda row: -row[2])


def costs(now: Snapshot, held: Held, room: float | None) -> Sheet:
    known = view_texts.by_cost(now)
    if not known:
        return Sheet(1, [note(view_texts.nothing(now)["costs"])])
    most = view_texts.seconds_of(known[0]) or 1.0
    rows = [DrawnRow(key=[(color, label) for label, color in COSTS], space=6)]
    fits = _fits(room and room - rows[0].height, len(known))
    rows += [_cost(record, held, most) for record in known[:fits]]
    if fits < len(known):
        rows.append(note(view_texts.rest_text(known[fits:], now)))
    return Sheet(most, rows)


def _cost(record: ObjectRecord, held: Held, most: float) -> DrawnRow:
    about = record.about
    assert about is not None
    speed, repeats = view_texts.speed_of(record), view_texts.repeats_text(record)
    detail = f"{facts.type_of(record)} · {human_bytes(about.inband + about.outband)}"
    detail += f" · copied at {human_rate(speed)}" if speed else ""
    figure = f"{repeats} · " * bool(repeats) + human_seconds(view_texts.seconds_of(record))
    bars, at = [], 0.0
    took = (about.pickle_seconds, about.copy_seconds, record.load_seconds)
    for length, (_, color) in zip(took, COSTS, strict=True):
        bars += [Rect(at, length, color)] if length else []
        at += length
    title = facts.title_of(record, held)
    return _row(title, detail, figure, bars, most, BAD if repeats else INK)

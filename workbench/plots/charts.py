"""Draws pins and costs, each into one Axes: lines of text with bars. Asks nobody.

As many rows as there is room for: an Axes twice as high shows twice as many objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.core.snapshot import ObjectRecord, Snapshot
from workbench.format import UNKNOWN, count, human_bytes, human_rate, human_seconds
from workbench.plots.drawing import LINE, Rect, Sheet
from workbench.report import facts, reasons, view_texts
from workbench.report.colors import BAD, HUES, INK, STRENGTHS
from workbench.report.facts import Held
from workbench.report.markup import unmarked
from workbench.report.processes import Processes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW = LINE + 11.0
"""Height of an object's row, in points."""

THIN = 5.0
"""Height of its bar, in points."""

COSTS = (("pickle", HUES[3]), ("copy", HUES[0]), ("load", HUES[2]))


# -- pins ----------------------------------------------------------------------------------------


def pins(ax: Axes, now: Snapshot, held: Held | None = None) -> None:
    records = view_texts.by_size(now)
    found, processes = _by_reason(records), Processes(now)
    sheet = Sheet(ax, max([*(size for _, _, size in found), *(r.size for r in records)] or [1]))
    if not records:
        sheet.note(view_texts.nothing(now)["objects"])
        return
    _reasons(sheet, found, len(records))
    sheet.skip(8)
    sheet.line("Largest objects", "and what keeps each", strong=True)
    fits = _fits(sheet.points_left - LINE, len(records))
    for record in records[:fits]:
        why = unmarked(facts.why_text(record, processes, (held or {}).get(record.id, ())))
        size = facts.figure(facts.size_of(record))
        sheet.line(facts.title_of(record, held), f"{facts.kind_of(record)} · {why}", size)
        bar = Rect(0, record.size, STRENGTHS[record.strength][0])
        _bar(sheet, [bar] if facts.size_of(record) is not None else [])
    if fits < len(records):
        sheet.note(view_texts.rest_text(records[fits:], now))
    unknown = any(record.strength is None for record in records)
    sheet.legend(entry for key, entry in STRENGTHS.items() if key or unknown)


def _by_reason(records: Sequence[ObjectRecord]) -> list[tuple[str, int, int]]:
    """Return (reason, objects, bytes), most bytes first."""
    sums: dict[str, tuple[int, int]] = {}
    for record in records:
        for reason, _ in reasons.counts(record):
            number, size = sums.get(reason, (0, 0))
            sums[reason] = number + 1, size + record.size
    return sorted(((reason, *both) for reason, both in sums.items()), key=lambda row: -row[2])


def _reasons(sheet: Sheet, found: Sequence[tuple[str, int, int]], objects: int) -> None:
    """Draw all reasons if three objects still fit below; else as many as fit into half the room."""
    sheet.line("By reason", "an object with several reasons counts under each", strong=True)
    rows = int((sheet.points_left - 2 * LINE - 8) / ROW + 0.1)
    fits = len(found) if len(found) + min(objects, 3) <= rows else max(rows // 2, 1)
    for code, number, size in found[:fits]:
        reason = reasons.REASONS[code]
        color = STRENGTHS["resident" if reason.keeps_in_memory else "alive"][0]
        sheet.line(reason.chip, count(number, "object"), human_bytes(size))
        _bar(sheet, [Rect(0, size, color)])
    if len(found) > fits:
        sheet.note(f"and {count(len(found) - fits, 'more reason')}")
    if not found:
        sheet.note(f"What keeps objects is {UNKNOWN}.")


def _bar(sheet: Sheet, bars: Sequence[Rect]) -> None:
    sheet.bars(bars, THIN, sheet.most)
    sheet.skip(ROW - LINE - THIN)


def _fits(points: float, wanted: int) -> int:
    """Return how many objects fit, with a line that counts the others if there are any."""
    all = int(points / ROW + 0.1)
    return all if wanted <= all else max(int((points - LINE) / ROW + 0.1), 1)


def pins_height(now: Snapshot, rows: int) -> float:
    found = {reason for record in now.objects for reason, _ in reasons.counts(record)}
    lines = 3 + (len(now.objects) > rows)
    return (max(len(found), 1) + min(len(now.objects), rows)) * ROW + lines * LINE + 8


# -- costs ---------------------------------------------------------------------------------------


def costs(ax: Axes, now: Snapshot, held: Held | None = None) -> None:
    known = view_texts.by_cost(now)
    sheet = Sheet(ax, max([view_texts.seconds_of(record) for record in known[:1]], default=1.0))
    if not known:
        sheet.note(view_texts.nothing(now)["costs"])
        return
    sheet.legend((color, label) for label, color in COSTS)
    sheet.skip(6)
    fits = _fits(sheet.points_left, len(known))
    for record in known[:fits]:
        _cost(sheet, record, held)
    if fits < len(known):
        sheet.note(view_texts.rest_text(known[fits:], now))


def costs_height(now: Snapshot, rows: int) -> float:
    known = sum(record.about is not None for record in now.objects)
    return min(known, rows) * ROW + (1 + (known > rows or not known)) * LINE + 8


def _cost(sheet: Sheet, record: ObjectRecord, held: Held | None) -> None:
    about = record.about
    assert about is not None
    speed = view_texts.speed_of(record)
    what = [facts.type_of(record), human_bytes(about.inband + about.outband)]
    what += [f"copied at {human_rate(speed)}"] if speed else []
    repeats = view_texts.repeats_text(record)
    seconds = human_seconds(view_texts.seconds_of(record))
    sheet.line(
        facts.title_of(record, held),
        " · ".join(what),
        f"{repeats} · {seconds}" if repeats else seconds,
        right_color=BAD if repeats else INK,
    )
    bars, at = [], 0.0
    took = (about.pickle_seconds, about.copy_seconds, record.load_seconds)
    for length, (_, color) in zip(took, COSTS, strict=True):
        if length:
            bars.append(Rect(at, length, color))
        at += length
    _bar(sheet, bars)

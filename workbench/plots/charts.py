"""Pins, costs and jobs, each drawn into one Axes: lines of text with bars. Asks nobody.

As many rows as there is room for: an Axes twice as high shows twice as many objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.core.snapshot import JobRecord, ObjectRecord, Snapshot
from workbench.plots.drawing import LINE, Bar, Sheet
from workbench.report import words
from workbench.report.colors import BAD, HUES, INK, OTHER, STATES, STRENGTHS, kind_of
from workbench.report.facts import size_of, type_of
from workbench.report.format import UNKNOWN, count, human_bytes, human_count, human_seconds
from workbench.report.words import Held

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW = LINE + 11.0
"""Points that an object takes."""

THIN = 5.0
"""Points: its bar's height."""

COSTS = (("pickle", HUES[3]), ("copy", HUES[0]), ("load", HUES[2]))


# -- pins ----------------------------------------------------------------------------------------


def pins(ax: Axes, now: Snapshot, held: Held | None = None) -> None:
    """How much is kept for which reason, and the largest objects with what keeps each."""
    records = sorted(now.objects, key=lambda r: -r.size)
    reasons = _by_reason(records)
    sheet = Sheet(ax, max([*(size for _, _, size in reasons), *(r.size for r in records)] or [1]))
    if not records:
        sheet.note(words.no_objects(now))
        return
    _reasons(sheet, reasons, len(records))
    sheet.skip(8)
    sheet.line("Largest objects", "and what keeps each", strong=True)
    fits = _fits(sheet.left - LINE, len(records))
    for record in records[:fits]:
        what = f"{kind_of(record)} · {words.why(record, now)}"
        sheet.line(words.title_of(record, held), what, words.size_in(record))
        bar = Bar(0, record.size, STRENGTHS[record.strength][0])
        _bar(sheet, [bar] if size_of(record) is not None else [])
    _more(sheet, records[fits:], now)
    unknown = any(record.strength is None for record in records)
    sheet.legend(entry for key, entry in STRENGTHS.items() if key or unknown)


def _by_reason(records: Sequence[ObjectRecord]) -> list[tuple[str, int, int]]:
    """(reason, objects, bytes), the most bytes first."""
    sums: dict[str, tuple[int, int]] = {}
    for record in records:
        for reason in words.reasons_of(record):
            number, size = sums.get(reason, (0, 0))
            sums[reason] = number + 1, size + record.size
    return sorted(((reason, *both) for reason, both in sums.items()), key=lambda row: -row[2])


def _reasons(sheet: Sheet, reasons: Sequence[tuple[str, int, int]], objects: int) -> None:
    """All of them, if that leaves room for three objects; else in half of the room."""
    sheet.line("By reason", "an object counts for each that it has", strong=True)
    rows = int((sheet.left - 2 * LINE - 8) / ROW + 0.1)
    fits = len(reasons) if len(reasons) + min(objects, 3) <= rows else max(rows // 2, 1)
    for reason, number, size in reasons[:fits]:
        color = STRENGTHS["resident" if reason in words.RESIDENT else "alive"][0]
        sheet.line(words.REASONS[reason], words.objects(number), human_bytes(size))
        _bar(sheet, [Bar(0, size, color)])
    if len(reasons) > fits:
        sheet.note(f"and {count(len(reasons) - fits, 'more reason')}")
    if not reasons:
        sheet.note(f"What keeps objects is {UNKNOWN}.")


def _bar(sheet: Sheet, bars: Sequence[Bar]) -> None:
    sheet.bars(bars, THIN, sheet.most)
    sheet.skip(ROW - LINE - THIN)


def _fits(points: float, wanted: int) -> int:
    """How many objects, with the line that counts the others if there are any."""
    all = int(points / ROW + 0.1)
    return all if wanted <= all else max(int((points - LINE) / ROW + 0.1), 1)


def pins_height(now: Snapshot, rows: int) -> float:
    """Points for so many objects."""
    reasons = {reason for record in now.objects for reason in words.reasons_of(record)}
    lines = 3 + (len(now.objects) > rows)
    return (max(len(reasons), 1) + min(len(now.objects), rows)) * ROW + lines * LINE + 8


def _more(sheet: Sheet, left: Sequence[ObjectRecord], now: Snapshot) -> None:
    if left:
        size, most = human_bytes(sum(record.size for record in left)), words.most_of(now)
        sheet.note(f"and {human_count(len(left))} more, {size}" + (f"; {most}" if most else ""))


# -- costs ---------------------------------------------------------------------------------------


def costs(ax: Axes, now: Snapshot, held: Held | None = None) -> None:
    """What took longest to serialize, and how fast it was."""
    known = sorted((r for r in now.objects if r.about), key=lambda r: -words.seconds_of(r))
    sheet = Sheet(ax, max([words.seconds_of(record) for record in known[:1]], default=1.0))
    if not known:
        unknown = f"What serialization costs is {UNKNOWN}." if now.objects else "Nothing yet."
        sheet.note(unknown)
        return
    sheet.legend((color, label) for label, color in COSTS)
    sheet.skip(6)
    fits = _fits(sheet.left, len(known))
    for record in known[:fits]:
        _cost(sheet, record, held)
    _more(sheet, known[fits:], now)


def costs_height(now: Snapshot, rows: int) -> float:
    """Points for so many objects."""
    known = sum(record.about is not None for record in now.objects)
    return min(known, rows) * ROW + (1 + (known > rows or not known)) * LINE + 8


def _cost(sheet: Sheet, record: ObjectRecord, held: Held | None) -> None:
    about = record.about
    assert about is not None
    speed = words.speed_of(record)
    what = [type_of(record), human_bytes(about.inband + about.outband)]
    what += [f"copied at {words.speed(speed)}"] if speed else []
    repeats = words.repeats_of(record)
    seconds = words.took(words.seconds_of(record))
    sheet.line(
        words.title_of(record, held), " · ".join(what),
        f"{repeats} · {seconds}" if repeats else seconds,
        right_color=BAD if repeats else INK,
    )  # fmt: skip
    bars, at = [], 0.0
    took = (about.pickle_seconds, about.copy_seconds, record.load_seconds)
    for length, (_, color) in zip(took, COSTS, strict=True):
        if length:
            bars.append(Bar(at, length, color))
        at += length
    _bar(sheet, bars)


# -- jobs ----------------------------------------------------------------------------------------


def jobs(ax: Axes, now: Snapshot) -> None:
    """Background cells, and what the workers are at."""
    sheet = Sheet(ax, 1.0)
    sheet.line("Background cells", strong=True)
    found = words.jobs_in_order(now.jobs)
    fits = max(int((sheet.left * 0.55) // LINE), 1)
    for job in found[:fits]:
        took = human_seconds(job.seconds) if job.seconds else ""
        sheet.line(job.name, _job(job), took, dot=STATES.get(job.state, OTHER))
    if not found:
        sheet.note(words.no_jobs(now))
    elif len(found) > fits:
        sheet.note(f"and {len(found) - fits} more")
    sheet.skip(8)
    sheet.line("Workers", strong=True)
    fits = max(int(sheet.left / LINE + 0.1), 1)
    for worker in now.workers[:fits]:
        memory = words.worker_memory(worker, now)
        own = "" if memory is None else human_bytes(memory)
        does = " · ".join(filter(None, (worker.state, words.runs(worker, now.actors))))
        color = STATES.get(worker.state, OTHER)
        sheet.line(f"worker {worker.number}", does, own, dot=color)
    if not now.workers:
        sheet.note(words.no_workers(now))
    elif len(now.workers) > fits:
        sheet.note(f"and {len(now.workers) - fits} more")


def jobs_height(now: Snapshot, rows: int) -> float:
    """Points for so many jobs and so many workers."""
    shown = sum(min(max(len(some), 1), rows) for some in (now.jobs, now.workers))
    return (shown + 2) * LINE + 12


def _job(job: JobRecord) -> str:
    items = f"{job.ended} of {job.size}" if job.size > 1 else ""
    where = f"worker {job.worker}" if job.worker else ""
    kept = "not collected" if job.kept else ""
    return " · ".join(filter(None, (job.state, items, where, kept)))

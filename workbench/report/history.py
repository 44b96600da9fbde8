"""The history of cells whose variables are kept: as text, as HTML, and for a page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec import Struct

from workbench.checkpoints.records import Checkpoint
from workbench.format import human_bytes, human_seconds
from workbench.report.checkpoints import changed_text
from workbench.report.graph import Junction, drawn, fold, junctions, width_of
from workbench.report.markup import (
    Html,
    Rich,
    Table,
    as_html,
    clip,
    code,
    heading,
    muted,
    page,
    pre,
)

MOST_ROWS, MOST_SOURCE = 30, 2000
"""Cells in a notebook's file, and characters of one that are shown."""

HINT = "Press a cell to see what it changed. `%checkout NUMBER` goes to it."


class PageCheckpoint(Struct, forbid_unknown_fields=True):
    """A cell for a page. ``graph`` is HTML: its part of the line with branches; ``size`` that of
    the variables it changed; ``branches`` end with it; ``here``: the variables are as they were
    after it."""

    id: str
    title: str
    graph: str
    changed: str
    size: str
    took: str
    when: str
    branches: list[str]
    here: bool


@dataclass(frozen=True, repr=False)
class CellHistory(Rich):
    """All checkpoints, the oldest first; each branch's last one, which may be all that is shown;
    the present branch."""

    checkpoints: Sequence[Checkpoint]
    branches: Mapping[str, int]
    branch: str
    only_ends: bool = False

    def text(self, room: int | None = None) -> str:
        return self._table().text(room)

    _text = text

    def _table(self) -> Table:
        head = ("branch", "cell", "when", "took", "size", "changed")
        shown = [each for each in self.rows[::-1] if each.branches] if self.only_ends else self.rows
        rows = tuple(
            (", ".join(each.branches), each.title, each.when, each.took, each.size, each.changed)
            for each in shown
        )
        return Table(head, rows, ("took", "size"), flexible=("changed",))

    @cached_property
    def _graph(self) -> list[Junction]:
        points = [(each.number, each.before) for each in reversed(self.checkpoints)]
        return junctions(points, self.branches.get(self.branch, 0))

    @cached_property
    def rows(self) -> list[PageCheckpoint]:
        """All of them, the last first."""
        width, here = width_of(self._graph), self.branches.get(self.branch)
        ends: dict[int, list[str]] = {}
        for name in sorted(self.branches, key=lambda name: name != self.branch):
            label = f"{name} (here)" if name == self.branch else name
            ends.setdefault(self.branches[name], []).append(label)
        return [
            PageCheckpoint(
                f"{each.number:x}",
                f"Cell [{each.cell}]",
                str(drawn(row, width, each.number == here)),
                changed_text(each).replace("`", ""),
                human_bytes(size) if (size := bytes_of(each)) else "",
                human_seconds(each.seconds) if each.seconds else "",
                time.strftime("%H:%M:%S", time.localtime(each.when)),
                ends.get(each.number, []),
                each.number == here,
            )
            for each, row in zip(reversed(self.checkpoints), self._graph, strict=True)
        ]

    def html(self) -> Html:
        """Return the line with its branches; a cell opens when it is pressed."""
        width = width_of(self._graph)
        parts = []
        shown = zip(self.rows[:MOST_ROWS], self._graph, reversed(self.checkpoints), strict=False)
        for row, junction, each in shown:
            ends = muted(f" ← {', '.join(row.branches)}" if row.branches else "")
            changed = Html(as_html(row.changed) + ends)
            cells = Html(row.graph), row.title, changed, row.size, row.took, row.when
            parts.append(fold(width, cells, Html(drawn(junction, width) + look(each))))
        left = len(self.rows) - MOST_ROWS
        return Html("".join(parts) + muted(f"and {left} earlier ones. " * (left > 0) + HINT))

    def _repr_html_(self) -> Html:
        if self.only_ends:
            return page("Branches", self._table().html())
        return page(heading("History"), self.html())


def look(cell: Checkpoint) -> Html:
    """Return what a cell changed, and the cell."""
    head, rows = ("variable", "type", "size", "note"), tuple(_changes(cell))
    table = Table(head, rows, ("size",)).html() if rows else muted("No variable was changed.")
    source = cell.source.strip() or "%workbench keep"
    return page(table, heading("Source"), pre(source[:MOST_SOURCE]))


def bytes_of(cell: Checkpoint) -> int:
    """Return the size of what a cell changed, as far as that is in groups."""
    changed = {*cell.changed}
    return sum(group.nbytes for group in cell.groups if changed.intersection(group.names))


def _changes(cell: Checkpoint) -> list[tuple[str, str, str, str]]:
    """Return each variable that a cell changed, and those it made that can't be stored."""
    groups = {name: group for group in cell.groups for name in group.names}
    rows = []
    for name in cell.changed:
        if name in groups:
            group = groups[name]
            others = clip(", ".join(each for each in group.names if each != name), 60)
            note = f"stored together with {others}" if others else ""
            rows.append((name, clip(group.kinds[name], 60), human_bytes(group.nbytes), note))
        elif name in cell.modules:
            rows.append((name, "module", "", cell.modules[name]))
        elif name in cell.plain:
            value = cell.plain[name]
            rows.append((name, type(value).__name__, "", code(clip(repr(value), 60))))
    rows += [(name, "", "", "deleted") for name in cell.deleted]
    lost = [(n, each) for n, each in cell.lost.items() if each.cell == cell.cell]
    return rows + [(n, clip(e.kind, 60), "", f"not kept: {clip(e.why, 120)}") for n, e in lost]

"""The history of cells whose variables are kept: as text, as HTML, and for a page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec import Struct

from workbench.checkpoints.records import Checkpoint
from workbench.format import human_bytes, human_seconds
from workbench.report import graph
from workbench.report.checkpoints import BranchTable, changed_text
from workbench.report.markup import Html, Rich, Table, clip, code, heading, muted, page, pre

MOST_ROWS = 30
"""Cells in a notebook's file."""

MOST_SOURCE = 2000
"""Characters of a cell that are shown."""

HEADS = ("cell", "changed", "size", "took", "when")

HINT = (
    "Press a cell to see what it changed. `%checkout NUMBER` sets the variables to what they were "
    "after it; in `%workbench dashboard`, a button does."
)


class PageCheckpoint(Struct, forbid_unknown_fields=True):
    """A cell for a page. ``graph`` is HTML: its part of the line with branches; ``size`` that of
    the variables it changed, ``all`` that of all; ``branches`` end with it; ``here``: the variables
    are as they were after it."""

    id: str
    title: str
    graph: str
    changed: str
    size: str
    all: str
    took: str
    when: str
    branches: list[str]
    here: bool


@dataclass(frozen=True, repr=False)
class CellHistory(Rich):
    """All checkpoints, the oldest first; each branch's last one; the present branch."""

    checkpoints: Sequence[Checkpoint]
    branches: Mapping[str, int]
    branch: str

    def _text(self) -> str:
        return self.table().text()

    def table(self) -> Table:
        """Return the present branch, the last cell first."""
        known = {each.number: each for each in self.checkpoints}
        number, line = self.branches.get(self.branch), []
        while number in known:
            line.append(known[number])
            number = line[-1].before
        rows = [("", each, not place) for place, each in enumerate(line)]
        return BranchTable(rows, f"Branch {self.branch}").table()

    def look(self, number: int) -> Html:
        """Return what a cell changed, and the cell; nothing if it isn't known."""
        found = next((each for each in self.checkpoints if each.number == number), None)
        if found is None:
            return Html()
        rows = tuple(_changes(found))
        head = ("variable", "type", "size", "note")
        source = found.source.strip()
        shown = source[:MOST_SOURCE] + ("…" if len(source) > MOST_SOURCE else "")
        table = Table(head, rows, ("size",)).html() if rows else muted("No variable was changed.")
        if not source:
            return page(table, muted("From here on the variables are kept."))
        return page(table, heading("Source"), pre(shown))

    @cached_property
    def _graph(self) -> list[graph.Junction]:
        points = [(each.number, each.before) for each in reversed(self.checkpoints)]
        return graph.junctions(points, self.branches.get(self.branch, 0))

    @cached_property
    def rows(self) -> list[PageCheckpoint]:
        """All of them, the last first."""
        width, here = graph.width_of(self._graph), self.branches.get(self.branch)
        names = sorted(self.branches, key=lambda name: name != self.branch)
        return [
            PageCheckpoint(
                f"{each.number:x}",
                f"Cell [{each.cell}]",
                str(graph.drawn(row, width, each.number == here)),
                changed_text(each).replace("`", ""),
                human_bytes(size) if (size := _changed_bytes(each)) else "",
                human_bytes(each.nbytes),
                human_seconds(each.seconds) if each.seconds else "",
                time.strftime("%H:%M:%S", time.localtime(each.when)),
                [
                    f"{name} (here)" if name == self.branch else name
                    for name in names
                    if self.branches[name] == each.number
                ],
                each.number == here,
            )
            for each, row in zip(reversed(self.checkpoints), self._graph, strict=True)
        ]

    def html(self) -> Html:
        """Return the line with its branches; a cell opens when it is pressed."""
        width = graph.width_of(self._graph)
        parts = [graph.fold(width, ("", *HEADS))]
        shown = list(zip(self.rows, self._graph, reversed(self.checkpoints), strict=True))
        for row, junction, each in shown[:MOST_ROWS]:
            cells = Html(row.graph), row.title, row.changed, row.size, row.took, row.when
            body = graph.drawn_on(junction, width), self.look(each.number)
            parts.append(graph.fold(width, cells, row.branches, body))
        left = len(shown) - MOST_ROWS
        more = f"and {left} earlier ones. " if left > 0 else ""
        return Html("".join(parts) + muted(more + HINT))

    def _repr_html_(self) -> Html:
        return page(heading("History"), self.html())


def _changed_bytes(checkpoint: Checkpoint) -> int:
    changed = {*checkpoint.changed}
    return sum(part.nbytes for part in checkpoint.parts if changed.intersection(part.names))


def _changes(found: Checkpoint) -> list[tuple[str, str, str, str]]:
    """Return each variable that a cell changed, and those it made that can't be stored."""
    parts = {name: part for part in found.parts for name in part.names}
    rows = []
    for name in found.changed:
        if name in parts:
            part = parts[name]
            others = ", ".join(each for each in part.names if each != name)
            with_others = f"stored together with {clip(others, 60)}" if others else ""
            kind = clip(part.kinds.get(name, ""), 60)
            rows.append((name, kind, human_bytes(part.nbytes), with_others))
        elif name in found.plain:
            value = found.plain[name]
            rows.append((name, type(value).__name__, "", code(clip(repr(value), 60))))
        elif name in found.modules:
            rows.append((name, "module", "", found.modules[name]))
    rows += [(name, "", "", "deleted") for name in found.deleted]
    lost = [(n, each) for n, each in found.lost.items() if each.cell == found.cell]
    rows += [(n, clip(each.kind, 60), "", f"not kept: {clip(each.why, 120)}") for n, each in lost]
    return rows

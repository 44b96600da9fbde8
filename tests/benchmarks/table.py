"""Samples → the tables, as Markdown. Measures nothing, asserts nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from statistics import median

import rows as given
from rounds import Samples
from rows import Figure, Goal, Row

NOTHING = "–"

SCALES = {
    "B/s": (1e9, "GB/s", 2),
    "bytes": (1, "bytes", 0),
    "share": (0.01, "%", 2),
    "B": (1e6, "MB", 0),
    "/s": (1, "/s", 0),
}
"""Of the units but seconds: see `_scale`."""

Table = list[list[str]]
"""Lines of cells, the heading first."""


class Report:
    """The tables of one run: of what `rounds.run` returned, the rows with these keys."""

    def __init__(self, samples: Samples, rows: Collection[str]) -> None:
        self._samples = samples
        self._rows = [row for row in given.ROWS if row.key in rows]
        self._round_trips = [row for row in given.ROUND_TRIPS if row.key in rows]

    def tables(self) -> list[Table]:
        """The goals; all figures beside the peers', a table a place; serializing; the limits.

        Without what wasn't measured.
        """
        goals = [["what", "Workbench", "beside", "ratio", "goal", "met"]]
        goals += [line for row in self._rows for line in self._goals(row)]
        peers = [self._beside_peers(where) for where in given.WHERE]
        others = [["limits and the like", "median (least … greatest)"]]
        others += [[title, self._show(figure)] for figure, title in given.OTHERS.items()]
        tables = (goals, *peers, self._serializing(), others)
        shown = [[t[0], *(n for n in t[1:] if set(n[1:]) != {NOTHING})] for t in tables]
        return [table for table in shown if len(table) > 1]

    def _beside_peers(self, where: str) -> Table:
        table = [[given.WHERE[where], *given.PEERS.values()]]
        for name, title in given.FIGURES.items():
            contestants = (f"{peer}-{where}" if where else peer for peer in given.PEERS)
            values = [self._show(Figure(peer, name), spread=False) for peer in contestants]
            table.append([title, *values])
        return table

    def _serializing(self) -> Table:
        """Each value beside the other serializers; a ratio that misses its goal says so."""
        ratios = {name: f"× {given.SERIALIZERS[name]}" for name in ("cloudpickle", "ray")}
        table = [["serialize and deserialize", *given.SERIALIZERS.values(), *ratios.values()]]
        for row in self._round_trips:
            figures = {name: Figure(name, row.key) for name in given.SERIALIZERS}
            goals = {goal.beside.contestant: goal for goal in row.goals if goal.beside}
            line = [row.what, *(self._show(each, spread=False) for each in figures.values())]
            for name in ratios:
                goal = goals.get(name) or Goal(0, True, figures[name])
                _, ratio, wanted, met = self._judge(row.ours, goal)
                line.append(f"{ratio} (not {wanted})" if met == "no" else ratio)
            table.append(line)
        return table

    def _goals(self, row: Row) -> Iterator[list[str]]:
        """A line a goal; what the first says isn't repeated."""
        first = [row.what, self._show(row.ours)]
        for goal in row.goals:
            yield [*first, *self._judge(row.ours, goal)]
            first = ["", ""]

    def _judge(self, ours: Figure, goal: Goal) -> list[str]:
        """(beside, ratio, goal, whether it is met)."""
        sign = "≥" if goal.at_least else "≤"
        mine = self._values(ours)
        if goal.beside is None:
            wanted = f"{sign} {bound(goal.bound, _unit(ours))}"
            met = _verdict(median(mine), goal) if mine else NOTHING
            return ["", "", wanted, met]
        wanted = f"{sign} {goal.bound:g} ×"
        others = self._values(goal.beside)
        beside = f"{goal.beside.label} {self._show(goal.beside)}"
        if not mine or not others:
            return [beside, NOTHING, wanted, NOTHING]
        if ours.contestant != goal.beside.contestant:
            mine, others = [median(mine)], [median(others)]
        # Else they were taken in turns: each round has a ratio of its own.
        if _unit(ours) == "s" and goal.at_least:
            mine, others = others, mine
        ratio = median(m / o for m, o in zip(mine, others, strict=True))
        return [beside, f"{ratio:.3g} ×", wanted, _verdict(ratio, goal)]

    def _values(self, figure: Figure) -> list[float]:
        return self._samples.get(figure.contestant, {}).get(figure.name, [])

    def _show(self, figure: Figure, spread: bool = True) -> str:
        values = self._values(figure)
        if not values:
            return NOTHING
        ends = {"least": min(values), "greatest": max(values)} if spread and values[1:] else {}
        return quantity(median(values), _unit(figure), **ends)


def _unit(figure: Figure) -> str:
    return given.UNITS.get(figure.name, "s")


def _verdict(value: float, goal: Goal) -> str:
    return "yes" if (value >= goal.bound if goal.at_least else value <= goal.bound) else "no"


def quantity(value: float, unit: str, *, least: float = 0, greatest: float = 0) -> str:
    """A figure with about three digits, in a unit people can read; its spread beside it."""
    scale, name, digits = _scale(value, unit)
    texts = [f"{v / scale:,.{digits}f}".replace(",", " ") for v in (value, least, greatest)]
    spread = f" ({texts[1]} … {texts[2]})" if greatest else ""
    return f"{texts[0]}{spread} {name}"


def bound(value: float, unit: str) -> str:
    """A round figure."""
    scale, name, _ = _scale(value, unit)
    return f"{value / scale:g} {name}"


def _scale(value: float, unit: str) -> tuple[float, str, int]:
    """(what to divide by, the unit's name, digits after the point)."""
    if unit in SCALES:
        return SCALES[unit]
    scale, name = (1, "s") if abs(value) >= 1 else (1e-3, "ms")
    if abs(value) < 1e-3:
        scale, name = 1e-6, "µs"
    return scale, name, 2 if abs(value) < 10 * scale else 1 if abs(value) < 100 * scale else 0


def as_markdown(table: Table) -> str:
    """A table for docs/benchmarks.md, its columns aligned."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [[cell.ljust(w) for cell, w in zip(line, widths, strict=True)] for line in table]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

"""Words of `workbench run`: a line for each cell, and how it ended."""

from __future__ import annotations

import re

from workbench.format import human_seconds, human_time, listed, printable
from workbench.report.markup import width_of

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def cell_line(place: str, code: str, seconds: float | None, is_good: bool) -> str:
    """Return the line of a cell: ``✓ 3/10    1.2 s  model.fit(X, y)``."""
    sign = "●" if seconds is None else "✓" if is_good else "✗"
    first = code.strip().partition("\n")[0]
    time = "" if seconds is None else human_seconds(seconds)
    return printable(f"{sign} {place:<7} {time:>7}  {first}")


def fitted(line: str, columns: int) -> str:
    """Return as much of a line as a terminal has columns for: a wrapped one isn't replaced."""
    line = line.replace("\t", " ")[:columns]
    while line and width_of(line) > columns:
        line = line[:-1]
    return line


def waiting_line(names: list[str]) -> str:
    return printable(f"● waiting for {listed(names, 5)} in the background")


def failed_text(traceback: str, what: str) -> str:
    return f"{_ANSI.sub('', traceback)}\n{what} failed.".strip()


def overtime_text(seconds: float) -> str:
    return f"It took longer than {human_time(seconds)}, and was stopped."


def ended_text(state: str, problem: str, place: str, seconds: float, path: str) -> str:
    """Word how it ended, where, as in ``3 of 10``, and which file has what was done."""
    at = "" if state == "done" else f" at cell {place}"
    line = f"{state.capitalize()}{at} after {human_seconds(seconds)}: {printable(path)}"
    return f"{problem}\n{line}".strip()


def unusable_text(what: str, why: str) -> str:
    return f"{what} can't be used: {why}."

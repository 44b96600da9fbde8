"""Output of all commands for people. No session here."""

from __future__ import annotations

import shutil
import sys

from workbench.format import printable
from workbench.report.markup import Table

COLORS = {"ok": 32, "note": 33, "problem": 31, "not answering": 31}
"""Terminal colour numbers of words in a column ``state``."""

COLUMNS = 100
"""Width of prose where there is no terminal, unless the environment sets one."""


def table(shown: Table, is_prose: bool = False) -> None:
    """Print a table; in a terminal within its width. Elsewhere only prose is wrapped, to `COLUMNS`,
    so that searching the output finds everything else."""
    is_terminal = sys.stdout.isatty()
    if not is_terminal and not is_prose:
        print(shown.text())
        return
    flexible = tuple(title for title in shown.head if title not in shown.right)
    room = shutil.get_terminal_size((COLUMNS, 24)).columns
    print(shown._replace(flexible=flexible).text(room, None, _painted if is_terminal else None))


def line(text: str) -> None:
    print(printable(text))


def _painted(title: str, cell: str) -> str:
    color = COLORS.get(cell.strip()) if title == "state" else None
    return cell if color is None else f"\x1b[{color}m{cell}\x1b[0m"

"""What all commands print: a table for people, one JSON document for programs. No session here."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

WIDE = 10_000
"""Columns off a terminal: nothing is wrapped or cut that somebody may search for."""

STYLES = {"ok": "green", "note": "yellow", "problem": "bold red", "not answering": "bold red"}
"""Colours of the words in a column ``state``."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Print a table; columns in ``right`` are aligned there. Off a terminal without any frame."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else WIDE)
    shown = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False)
    for title in head:
        side = "right" if title in right else "left"
        shown.add_column(title, justify=side, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        # Text: what a person has called something is no markup.
        cells = (
            Text(cell, STYLES.get(cell, "") if title == "state" else "")
            for title, cell in zip(head, row, strict=True)
        )
        shown.add_row(*cells)
    with console.capture() as capture:
        console.print(shown)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def document(data: Any) -> None:
    """Print the one JSON document of a command. Bytes and seconds are numbers."""
    json.dump(data, sys.stdout, indent=2, ensure_ascii=False)
    print()

"""Words about session files: what was saved, what a file has, and what was opened."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.format import count, human_bytes, listed, printable
from workbench.report.checkpoints import MOST_NAMED, named
from workbench.report.markup import Table
from workbench.session_file.contents import FileEntry, Saved


def saved_text(path: str, saved: Saved) -> str:
    """Return the line of ``%workbench save``."""
    line = f"{path}: {count(len(saved.names), 'variable')}, {human_bytes(saved.nbytes)}."
    if saved.lost:
        whys = [f"`{name}` ({why})" for name, why in saved.lost.items()]
        line += f" Not saved: {listed(whys, MOST_NAMED)}."
    return line


def made_text(made: Mapping[str, Any]) -> str:
    """Return who made a file, as it says itself: ``anna on host, 2026-11-28 21:00``."""
    when = made.get("when")
    day = "at an unknown time"
    if isinstance(when, int | float) and 0 <= when < 1e11:
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(when))
    return (
        f"{made.get('by', '?')} on {made.get('on', '?')}, {day}, with Python "
        f"{made.get('python', '?')} and Workbench {made.get('workbench', '?')}"
    )


def opened_text(
    path: str,
    made: Mapping[str, Any],
    opened: Sequence[str],
    failed: Mapping[str, str],
    left: Sequence[FileEntry],
) -> str:
    """Return the lines of ``%workbench open``. ``left``: what wasn't, because it runs code."""
    line = f"{path}, made by {made_text(made)}: "
    line += f"{named(opened)} opened." if opened else "nothing opened."
    if failed:
        whys = [f"`{name}` ({why})" for name, why in failed.items()]
        line += f" Not opened: {listed(whys, MOST_NAMED)}."
    if left:
        names = [name for entry in left for name in entry.names]
        line += (
            f"\n{named(names)}: opening {'this' if len(names) == 1 else 'these'} runs code that "
            f"the file's maker has chosen. `%workbench open {path} --trust` does it, if you trust "
            "where the file comes from."
        )
    return line


def file_text(path: str, made: Mapping[str, Any], entries: Sequence[FileEntry]) -> str:
    """Return who made a file, and the table of its variables; nothing of it is opened."""
    rows = tuple(
        (
            name,
            kind,
            human_bytes(entry.nbytes) if entry.nbytes and kind is entry.types[0] else "",
            "runs code" if entry.runs_code else "runs no code",
        )
        for entry in entries
        for name, kind in zip(entry.names, entry.types, strict=True)
    )
    table = Table(("variable", "type", "size", "opening it"), rows, ("size",))
    return printable(f"{path}, made by {made_text(made)}\n{table.text()}")

"""Calls each row of `ray_rows`, and writes the table of ``docs/coming-from-ray.md`` from them.

``python -m tests.process.ray_table`` writes the file. No tests.
"""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import workbench as wb
from tests.process.ray_rows import REFUSED, SECTIONS, Row

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-ray.md"


def called(row: Row) -> str:
    """Its last column; AssertionError if the row isn't true."""
    if row.verdict != REFUSED:
        held = row.call()
        assert held is True or held, f"{row.name} isn't {row.verdict}: {held!r}"
        return row.note
    try:
        got: Any = row.call()
    except (TypeError, ValueError, AttributeError) as error:
        return row.note or reason(str(error))
    raise AssertionError(f"{row.name} isn't refused: {got!r}")


def reason(message: str) -> str:
    """What an error says besides what was asked for, as one line of a table."""
    message = re.sub(r"^(module )?'[\w.]+'( object)? has no attribute '\w+'\. ", "", message)
    message = re.sub(r"^\w+=.*? can't be had here\. ", "", message)
    message = re.sub(r" There are: .*", "", message)
    message = re.sub(r"<object object at \w+>", "…", message)
    return " ".join(message.replace("|", "\\|").split())


def page() -> str:
    """The whole page: its head as it is, and the tables. Starts and ends sessions of its own."""
    head, _, _ = PAGE.read_text().partition("## ")
    lines, wrong = [head.rstrip("\n") + "\n"], []
    for title, rows in SECTIONS.items():
        lines += [f"## {title}\n", "| in Ray | here | |", "| --- | --- | --- |"]
        for row in rows:
            wb.init(workers=2, memory="64MB", spill_dir="none", ignore_reinit_error=True)
            try:
                lines.append(f"| {row.name} | {row.verdict} | {called(row)} |")
            except Exception as error:
                wrong.append(f"{row.name}: {type(error).__name__}: {error}")
        lines.append("")
    wb.shutdown()
    gc.collect()  # the errors' frames had refs
    if wrong:
        raise AssertionError("the table is wrong:\n" + "\n".join(wrong))
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())

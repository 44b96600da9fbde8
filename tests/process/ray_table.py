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

HEAD = """\
# Coming from Ray

`import workbench as ray`, and most of what is written for Ray core on one machine runs. Below is
what each of Ray core's public names and options does here (names of Ray 2.20 to 2.50). Each row was
called: a test does so again, and fails where this page is wrong.

- **same**: does what Ray's does.
- **accepted and ignored**: changes nothing here, because it is so anyway.
- **refused**: an error, which says what stands in the last column.

Not in the table is what Ray's documentation doesn't name. What differs though the name is the same:

- A session is one machine's. It begins by itself, and ends with the last process that uses it.
- An actor lives as long as anybody has a handle, also when whoever made it has gone.
- A registered serializer reaches all workers; Ray's is one per process.
- What a task raises is an instance of its own class as well, with all its attributes.
- `sys.exit` in a task is an error like others; Ray's ends the worker.
- The `get` of an `async def` call that was cancelled raises TaskCancelledError, as that of a task;
  Ray's raises RayTaskError.
- A generator that is dropped stops its task; Ray's goes on, unread. A limit to how far ahead it may
  be holds for `async def` generators, too.
- A call that comes while an actor is made again waits; Ray's raises ActorUnavailableError.
- Drivers that name no namespace have the same one; Ray's have one each.
- `kill` of what is no actor is a TypeError; Ray's raises ValueError.
- Functions may be of any size. `@remote()` without options is `@remote`.
- Workers have numpy imported, and threads of their own; they set no title of their process.
- Errors and tracebacks have texts of their own.
- Ids are shorter, and no ref can be made of one.

The table is made by `python -m tests.process.ray_table`.
"""


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
    message = re.sub(r"^module 'workbench[\w.]*' has no attribute '\w+'\. ", "", message)
    message = re.sub(r"^\w+=.*? can't be had here\. ", "", message)
    message = re.sub(r" There are: .*", "", message)
    message = re.sub(r"<object object at \w+>", "…", message)
    return " ".join(message.replace("|", "\\|").split())


def page() -> str:
    """The whole page. Starts and ends sessions of its own."""
    lines, wrong = [HEAD], []
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

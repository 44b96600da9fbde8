"""Answers to notebook 04: travels.txt."""

from __future__ import annotations

from tests.course.answers import Edit, edit, read

EVERY = "[codes[start : start + 100_000] for start in range(0, 20_000, 1000)]"


def windows(every: str, one: str) -> Edit:
    """A table of windows, and what a function gives as one."""
    return edit(EVERY, every, "return windows[number]", f"return {one}")


def search(stored: str, given: str, arguments: str = "query, letters") -> Edit:
    """What is stored, and a task that searches the letters it is given."""
    return edit("@wb", f"{stored}\n@wb", "(query)", f"({arguments})", '"CAT FACE"', given)


STORED = "stored = wb.put(letters)"


def look_up(arguments: str, given: str) -> str:
    """A task that looks up a name, defined once for all queries."""
    return f"""
stored_names = wb.put(names)


@wb.remote
def look_up({arguments}):
    return names.index(query)


calls = [look_up.remote({given}) for query in queries]
found_rows = wb.get(calls)
"""


ANSWERS = read(__file__, globals())

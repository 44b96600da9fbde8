"""Reads tables that stand as text beside the module that uses them. No tests."""

from __future__ import annotations

import re
from pathlib import Path


def tables(beside: str) -> dict[str, list[list[str]]]:
    """Return the rows of each table, by its title: a row's name, and its fields.

    A table begins with ``## `` and its title, a row with ``== `` and its name. Below stand its
    fields, of any number of lines; each but the first begins with ``-> ``. What is above the first
    table has no title.
    """
    found = {}
    for table in re.split(r"^## ", "\n" + Path(beside).with_suffix(".txt").read_text(), flags=re.M):
        title, _, text = table.partition("\n")
        _, *rows = re.split(r"^== ", text, flags=re.M)
        found[title] = [_fields(row) for row in rows]
    return found


def _fields(row: str) -> list[str]:
    name, _, text = row.strip("\n").partition("\n")
    return [name, *re.split(r"\n-> ?", text)]

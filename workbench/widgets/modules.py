"""Joins the page's ES modules into one text, for front ends that take only one. Reads files.

In `static` they are plain modules, which Node and a browser load as they are. Each imports only
what others declare, by its own name and on one line, and no name is declared twice (a test checks
that). So without those lines, and in the order of their imports, they are one module.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"
ENTRY = "view.js"
LINES = "lines.js"
"""The entries: of live views, and of background cells' lines."""

_IMPORT = re.compile(r'^import \{[^}\n]*\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)


@cache
def script(entry: str = ENTRY) -> str:
    """Return an entry's modules in one text, each after all that it imports."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in done:
            text = (STATIC / name).read_text(encoding="utf-8")
            for needed in _IMPORT.findall(text):
                add(needed)
            done[name] = _EXPORT.sub("", _IMPORT.sub("", text))

    add(entry)
    return "\n".join(done.values())


@cache
def styles() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(STATIC.glob("*.css")))

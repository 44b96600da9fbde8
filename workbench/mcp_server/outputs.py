"""What a run shows, as a program reads it: text from a position on, within a number of characters.

Pure: no kernel here.
"""

from __future__ import annotations

import json
import re
from typing import Any

MOST_KEPT = 1_000_000
"""Characters of a run's output that are kept: the last ones."""

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

_LINE = re.compile(r"Cell In\[\d+\], line (\d+)|^-+> *(\d+) ", re.MULTILINE)


class RunOutput:
    """Text that a run has shown so far. Lines that are replaced (the line of a background cell, a
    progress bar) aren't in it: ``lines`` has their latest."""

    def __init__(self) -> None:
        self._text = ""
        self._begin = 0  # position of the text that is kept
        self.lines: dict[str, str] = {}

    @property
    def end(self) -> int:
        return self._begin + len(self._text)

    def add(self, text: str) -> None:
        self._text += _ANSI.sub("", text)
        if len(self._text) > MOST_KEPT:
            cut = len(self._text) - MOST_KEPT // 2
            self._begin += cut
            self._text = self._text[cut:]

    def read(self, cursor: int, limit: int) -> dict[str, Any]:
        """Return the text from a position on, where to go on, and how much is left or was lost."""
        start = min(max(cursor, self._begin), self.end)
        text = self._text[start - self._begin :][: max(limit, 0)]
        after = start + len(text)
        found: dict[str, Any] = {"untrusted": True, "text": text, "cursor": after}
        found["left"] = self.end - after
        return found | ({"lost": start - cursor} if start > cursor else {})

    def show(self, content: dict[str, Any], is_update: bool = False) -> None:
        """Add what was displayed, or replace what was displayed under the same id."""
        data = content.get("data", {})
        text = str(data.get("text/plain", ""))
        others = [f"[{mime}]" for mime in data if mime not in ("text/plain", "text/html")]
        text = " ".join(filter(None, [text, *others]))
        name = content.get("transient", {}).get("display_id")
        if name is not None:
            self.lines[str(name)] = _ANSI.sub("", text)
        elif not is_update:
            self.add(text + "\n")


def error_of(content: dict[str, Any]) -> dict[str, Any]:
    """Return an error as a program needs it: its name, its text, and its line in the code."""
    trace = _ANSI.sub("", "\n".join(content.get("traceback", ())))
    lines = [int(one or other) for one, other in _LINE.findall(trace)]
    return {
        "name": content.get("ename", ""),
        "text": _ANSI.sub("", content.get("evalue", "")),
        "line": lines[0] if lines else None,
    }


def bounded(document: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return a document with so many characters of JSON at most: its longest lists and texts are
    cut, and ``cut`` beside them says how much is left out of each."""
    while len(json.dumps(document)) > limit:
        holder, key = max(_long(document), key=lambda each: len(json.dumps(each[0][each[1]])))
        value = holder[key]
        if len(value) <= 1:
            break
        holder[key] = value[: len(value) // 2]
        if isinstance(holder, dict):
            cut = holder.setdefault("cut", {})
            cut[key] = cut.get(key, 0) + len(value) - len(value) // 2
    return document


def _long(value: Any) -> list[tuple[Any, Any]]:
    """Return the places of all lists and texts inside, by what holds each."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = [(value, key) for key, each in items if isinstance(each, list | str) and each]
    inner = value.values() if isinstance(value, dict) else value
    more = [place for each in inner if isinstance(each, dict | list) for place in _long(each)]
    return found + more

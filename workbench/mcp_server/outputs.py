"""What a run shows, as a program reads it: text from a position on, within a number of characters.

Pure: no kernel here.
"""

from __future__ import annotations

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

"""What a background cell has shown, as parts for a page that was opened later. Sends nothing."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any, NamedTuple

from workbench.core.logs import TEXT
from workbench.format import human_bytes
from workbench.ipython.interleave import OpenLine, Screen, Text
from workbench.ipython.job import Job

MOST_TEXT = 100_000
"""Length of the prints that are sent: the last ones."""

MOST_DISPLAYED = 600_000
"""Length of the displays that are sent: the last ones. Jupyter's server drops messages beyond a
million bytes a second."""

_TYPES = "image/png", "image/jpeg", "image/svg+xml", "text/html"
"""Types that a page can show by itself, the best first; text only where there is no other type."""


class Display(NamedTuple):
    """One display: the best of its types that a page can show; an empty one if there is none."""

    type: str
    data: str


def shown_by(job: Job) -> list[str | Display]:
    """Return all that it has shown so far, in order: prints, and displays as they are now."""
    screen, parts, by_id = Screen(job.size > 1), list[str | Display](), dict[str, int]()
    for output in job.read_outputs() or ():
        label = job.label_of(output)
        if output.kind in TEXT:
            text = output.data.decode("utf-8", "replace")
            parts += filter(None, map(_text, screen.write(label, output.kind, text)))
        elif output.kind == "clear":
            parts.clear()
            by_id.clear()
            screen.clear()
        elif output.kind in ("display", "update"):
            content = json.loads(output.data)
            name = content.get("transient", {}).get("display_id", "")
            if output.kind == "display":
                parts += filter(None, map(_text, screen.heading(label)))
                by_id[name] = len(parts)
                parts.append(_display(content["data"]))
            elif name in by_id:
                parts[by_id[name]] = _display(content["data"])
    return _within_limits(parts, job.name)


def _text(part: Text | OpenLine) -> str:
    if isinstance(part, Text):
        return part.text
    return f"{part.text}\n" if part.is_last else ""


def _display(bundle: dict[str, Any]) -> Display:
    """Return what a page can show of a display. HTML that needs its scripts is nothing, and text
    that stands for a widget, a formula or the like."""
    for kind in _TYPES if len(bundle) > 1 else (*_TYPES, "text/plain"):
        data = bundle.get(kind)
        if isinstance(data, str) and not (kind == "text/html" and "<script" in data):
            return Display(kind, data)
    return Display("", "")


def _within_limits(parts: list[str | Display], name: str) -> list[str | Display]:
    """Return the last of them; where a display is left out, a line says how to see it."""
    text, displayed, kept = MOST_TEXT, MOST_DISPLAYED, list[str | Display]()
    for part in reversed(parts):
        if isinstance(part, Display):
            displayed -= len(part.data)
            if displayed < 0 or not part.type:
                size = f" of {human_bytes(len(part.data))}" if part.type else ""
                part = f"[a display{size}: %workbench jobs {name} shows it]\n"
            kept.append(part)
        elif text > 0:
            kept.append(part[-text:])
            text -= len(part)
    joined = list[str | Display]()
    for kind, group in groupby(reversed(kept), type):
        alike = list(group)
        joined += alike if kind is Display else ["".join(map(str, alike))]
    return joined

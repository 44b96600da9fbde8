"""Displays in a worker, as messages: MIME bundles, figures. No IPython, no cells."""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from workbench.core.logs import TEXT

Show = Callable[[str, bytes, str], None]
"""Takes the kind, the content and the key of what the running task displays."""

Recording = AbstractContextManager[list[tuple[str, bytes, str]]]
"""Context that collects what a task shows: kind, content, key."""

_show: Show | None = None
_record: Callable[[], Recording] | None = None


def connect(show: Show, record: Callable[[], Recording]) -> None:
    """Send what this process displays to ``show`` from now on; see `OutputQueue`."""
    global _show, _record
    _show, _record = show, record


def recorded() -> Recording:
    """Context that collects what the running task shows meanwhile, prints included."""
    return nullcontext([]) if _record is None else _record()


def show_again(kind: str, data: bytes, key: str) -> None:
    """Show something that was `recorded`."""
    if kind in TEXT:
        getattr(sys, kind).write(data.decode("utf-8", "replace"))
    elif _show is not None:
        _show(kind, data, key)


def send_display(data: Any, metadata: Any, transient: Any, update: Any) -> None:
    plain = {
        mime: base64.b64encode(part).decode("ascii") if isinstance(part, bytes) else part
        for mime, part in data.items()
    }
    bundle = {"data": plain, "metadata": metadata, "transient": transient}
    if update:
        send("update", bundle, str(transient.get("display_id", "")))
    else:
        send("display", bundle)


def send(kind: str, content: Any, key: str = "") -> None:
    """Send a message's content, as JSON, to whoever submitted the running task."""
    if _show is not None:
        _show(kind, json.dumps(content, default=str).encode(), key)


def figure_text(figure: Any, printer: Any, cycle: bool) -> None:
    width, height = figure.get_size_inches() * figure.dpi
    axes = len(figure.axes)
    printer.text(f"<Figure size {width:.0f}x{height:.0f} with {axes} Axes>")


def figure_png(figure: Any) -> bytes:
    """Return the figure as PNG bytes, drawn like inline figures of a notebook."""
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return file.getvalue()


def show_figures(show: Callable[[Any], None]) -> None:
    """Show the figures that are open, as matplotlib's inline backend does at the end of a cell."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        for number in pyplot.get_fignums():
            show(pyplot.figure(number))


def close_figures() -> None:
    # Also those that couldn't be shown: the next cell would show them.
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")

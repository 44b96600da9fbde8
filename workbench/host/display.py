"""Rich display in a worker: what is shown in a cell, sent as Output instead of published."""

from __future__ import annotations

import base64
import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from workbench import context
from workbench.host.environment import surely

if TYPE_CHECKING:
    from workbench.host.cells import Cell


@contextlib.contextmanager
def cell_display(
    cell: Cell, namespace: dict[str, Any], stays: bool = False
) -> Iterator[Callable[[Any], None]]:
    """Around a cell: magics see its names, and figures it leaves open are shown.

    Yields what shows the last expression's value. What a cell has shown isn't kept here, unless
    its namespace ``stays``: then its widgets do too.
    """
    from workbench.host.comms import forget
    from workbench.host.shell import worker_shell

    shell = worker_shell()
    shell.enter(namespace, cell.in_notebook)
    streams = sys.stdout, sys.stderr
    plain, warnings.formatwarning = warnings.formatwarning, _warner(cell)

    def leave() -> None:
        warnings.formatwarning = plain
        shell.leave()
        _close_figures()
        if not stays:
            sys.stdout, sys.stderr = streams  # a cell of somebody else's would be silent
            forget()

    try:
        yield shell.show
    finally:
        try:
            _show_figures(shell.show)
        finally:
            surely(leave)


def send_display(data: Any, metadata: Any, transient: Any, update: Any) -> None:
    """Send a MIME bundle to whoever submitted the running task."""
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
    engine = context.get()
    if engine is not None:
        engine.show(kind, json.dumps(content, default=str).encode(), key)


def figure_text(figure: Any, printer: Any, cycle: bool) -> None:
    """A matplotlib figure in a line."""
    width, height = figure.get_size_inches() * figure.dpi
    axes = len(figure.axes)
    printer.text(f"<Figure size {width:.0f}x{height:.0f} with {axes} Axes>")


def figure_png(figure: Any) -> bytes:
    """A matplotlib figure as a picture."""
    import io

    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return file.getvalue()


def _show_figures(show: Callable[[Any], None]) -> None:
    """What matplotlib's inline backend does at the end of a cell; and then `_close_figures`."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        for number in pyplot.get_fignums():
            show(pyplot.figure(number))


def _close_figures() -> None:
    """Also those that couldn't be shown: the next cell would show them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


def _warner(cell: Cell) -> Callable[..., str]:
    """Python's own text of a warning, but that a cell goes by the name a person knows."""
    plain = warnings.formatwarning

    def text(message: Any, category: Any, filename: str, *rest: Any, **options: Any) -> str:
        said = plain(message, category, filename, *rest, **options)
        if cell.label and filename == cell.filename:
            return said.replace(filename, cell.label, 1)
        return said

    return text

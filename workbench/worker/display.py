"""Rich display in a worker: IPython's own formatters, sent as Output instead of published."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from workbench import current


@contextlib.contextmanager
def cell_display(namespace: dict[str, Any]) -> Iterator[Callable[[Any], None]]:
    """Around a cell: ``display`` is defined in it, and figures it leaves open are shown.

    Yields what shows the last expression's value.
    """
    shell = worker_shell()
    namespace.setdefault("display", shell.workbench_display)
    namespace.setdefault("get_ipython", lambda: shell)
    try:
        yield shell.workbench_display
    finally:
        _show_figures(shell.workbench_display)


@cache
def worker_shell() -> Any:
    """This process's IPython shell, made at the first cell (some 70 ms).

    A real one, because ``IPython.display`` and everybody's ``_repr_*_`` hooks look for it. It
    keeps no history and runs no cells; only its formatters and its publisher are used.
    """
    import os

    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.display import display
    from traitlets.config import Config

    os.environ.setdefault("MPLBACKEND", "agg")

    class Publisher(DisplayPublisher):
        def publish(self, data: Any, metadata: Any = None, *args: Any, **kwargs: Any) -> None:
            send_display(data, metadata or {}, kwargs.get("transient") or {}, kwargs.get("update"))

        def clear_output(self, wait: bool = False) -> None:
            send("clear", {"wait": bool(wait)})

    class WorkerShell(InteractiveShell):
        display_pub_class = Publisher
        workbench_display = staticmethod(display)

        def init_virtualenv(self) -> None:
            """``sys.path`` is the notebook's already; and a warning would land in its cell."""

    config = Config()
    config.HistoryManager.enabled = False
    streams = sys.stdout, sys.stderr, sys.excepthook, sys.displayhook
    shell: Any = WorkerShell.instance(config=config)
    sys.stdout, sys.stderr, sys.excepthook, sys.displayhook = streams
    formatters = shell.display_formatter.formatters
    formatters["text/plain"].for_type_by_name("matplotlib.figure", "Figure", _figure_text)
    formatters["image/png"].for_type_by_name("matplotlib.figure", "Figure", _figure_png)
    return shell


def send_display(data: Any, metadata: Any, transient: Any, update: Any) -> None:
    """Send a MIME bundle to whoever submitted the running task."""
    import base64

    plain = {
        mime: base64.b64encode(part).decode("ascii") if isinstance(part, bytes) else part
        for mime, part in data.items()
    }
    bundle = {"data": plain, "metadata": metadata, "transient": transient}
    send("update" if update else "display", bundle)


def send(kind: str, content: Any) -> None:
    """Send a message's content, as JSON, to whoever submitted the running task."""
    engine = current.get()
    if engine is not None:
        engine.show(kind, json.dumps(content, default=str).encode())


def _figure_text(figure: Any, printer: Any, cycle: bool) -> None:
    width, height = figure.get_size_inches() * figure.dpi
    axes = len(figure.axes)
    printer.text(f"<Figure size {width:.0f}x{height:.0f} with {axes} Axes>")


def _figure_png(figure: Any) -> bytes:
    import io

    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return file.getvalue()


def _show_figures(show: Callable[[Any], None]) -> None:
    """What matplotlib's inline backend does at the end of a cell."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        for number in pyplot.get_fignums():
            show(pyplot.figure(number))
        pyplot.close("all")

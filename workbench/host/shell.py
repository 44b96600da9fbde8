"""A worker's IPython shell: formatters, magics, `get_ipython()`. Imported only for cells.

It keeps no history, shows no errors and has no names of its own.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import importlib
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any, ClassVar, NoReturn

from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display
from traitlets.config import Config

from workbench.host import comms
from workbench.host.display import (
    close_figures,
    figure_png,
    figure_text,
    send,
    send_display,
    show_figures,
)
from workbench.host.execution import run_text


@cache
def worker_shell() -> WorkerShell:
    """Return this process's shell, made at the first cell (some 70 ms) or before the fork.

    A real one, because ``IPython.display``, magics and all ``_repr_*_`` hooks look for it.
    """
    config = Config()
    config.HistoryManager.enabled = False
    streams = sys.stdout, sys.stderr, sys.excepthook, sys.displayhook
    shell: WorkerShell = WorkerShell.instance(config=config)
    sys.stdout, sys.stderr, sys.excepthook, sys.displayhook = streams
    shell.set_hook("show_in_pager", _print_page, 0)
    native: Any = builtins
    native.get_ipython = shell.get_ipython  # functions of a cell look for it, wherever they run
    shell.draw_figures()
    WorkerShell.first_tables = [copy.copy(table) for table in shell.tables()]
    WorkerShell.made = shell
    return shell


@contextlib.contextmanager
def cell_shell(
    namespace: dict[str, Any], in_notebook: bool, stays: bool = False
) -> Iterator[Callable[[Any], None]]:
    """Context of a cell: magics see its names, and figures that it leaves open are shown.

    Yields a function that shows the last expression's value. Widgets of the cell are forgotten at
    the end, unless its namespace ``stays``.
    """
    shell = worker_shell()
    shell.enter(namespace, in_notebook)
    streams = sys.stdout, sys.stderr

    def leave() -> None:
        shell.leave()
        close_figures()
        if not stays:
            sys.stdout, sys.stderr = streams  # else another person's cell would be silent
            comms.forget()

    try:
        yield display
    finally:
        try:
            show_figures(display)
        finally:
            surely(leave)


def surely(clean: Callable[[], object]) -> None:
    """Call ``clean``, again if a Stop interrupts it: the next cell would have the leftovers."""
    try:
        clean()
    except KeyboardInterrupt:
        clean()
        raise


KERNELS_SHELL = "ipykernel.zmqshell"
"""tqdm assumes a notebook if this module is loaded; an older tqdm, if the shell's configuration has
a section IPKernelApp."""


class _Sign(ModuleType):
    """Stands in for that module, which is slow to import. Reading an attribute imports it."""

    def __init__(self) -> None:
        super().__init__(KERNELS_SHELL)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(KERNELS_SHELL) is self:
            del sys.modules[KERNELS_SHELL]
        return getattr(importlib.import_module(KERNELS_SHELL), name)


class Publisher(DisplayPublisher):
    def publish(self, data: Any, metadata: Any = None, *args: Any, **kwargs: Any) -> None:
        send_display(data, metadata or {}, kwargs.get("transient") or {}, kwargs.get("update"))

    def clear_output(self, wait: bool = False) -> None:
        send("clear", {"wait": bool(wait)})


class WorkerShell(InteractiveShell):
    display_pub_class = Publisher
    made: ClassVar[WorkerShell | None] = None  # this process's
    first_tables: ClassVar[list[Any]] = []  # its `tables` before any cell

    def tables(self) -> list[Any]:
        """Return formatters, hooks, extensions: dicts, sets and lists that a cell may add to.

        Without magics: IPython loads some of its own late and only once.
        """
        formatters: Any = self.display_formatter
        kinds = formatters.formatters.values()
        extensions: Any = self.extension_manager
        return [
            vars(formatters.formatters["text/plain"])["_trait_values"],  # `%precision`
            *(each.type_printers for each in kinds),
            *(each.deferred_printers for each in kinds),
            *(each.singleton_printers for each in kinds),
            extensions.loaded,
            *self.events.callbacks.values(),
            self.ast_transformers,
            self.input_transformers_cleanup,
            self.input_transformers_post,
        ]

    def enter(self, namespace: dict[str, Any], in_notebook: bool) -> None:
        """Begin a cell: magics find its names, and tqdm finds a notebook if there is one."""
        self.user_ns = namespace
        self.draw_figures()
        comms.install()
        if in_notebook:
            self.config["IPKernelApp"] = Config()
            sys.modules.setdefault(KERNELS_SHELL, _Sign())

    def draw_figures(self) -> None:
        """Have figures drawn by us, unless a formatter of their type was set: that comes first."""
        formatters: Any = self.display_formatter
        for kind, draw in (("text/plain", figure_text), ("image/png", figure_png)):
            formatters.formatters[kind].for_type_by_name("matplotlib.figure", "Figure", draw)

    def leave(self) -> None:
        """End a cell: forget its names and settings."""
        self.user_ns = {}
        self.config.pop("IPKernelApp", None)
        if isinstance(sys.modules.get(KERNELS_SHELL), _Sign):
            del sys.modules[KERNELS_SHELL]
        self._main_mod_cache.clear()  # of `%run`

    def init_path(self) -> None:
        """Add no entry for the working directory: the notebook's is there by name."""

    def init_deprecation_warnings(self) -> None:
        """Do nothing: Python's own filter shows warnings of `__main__`, where cells run."""

    def init_virtualenv(self) -> None:
        """Do nothing: ``sys.path`` is the notebook's, and a warning would appear in the cell."""

    def enable_matplotlib(self, gui: Any = None) -> tuple[str, str]:
        """Do nothing: figures are always shown inline."""
        return "inline", "inline"

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        """Raise the error where a magic would show it and go on: here it ends the cell.

        An error of a representation, the only kind passed in ``exc_tuple``, is shown, as in a
        kernel, and the cell goes on.
        """
        if exc_tuple is not None:
            traceback.print_exception(*exc_tuple)
            return
        error = sys.exc_info()[1]
        assert error is not None
        raise error

    def run_cell(self, raw_cell: str, *args: Any, **kwargs: Any) -> None:
        """Run code that a magic (``%%capture``) runs in place of the cell."""
        run_text(self.transform_cell(raw_cell), self.user_ns, display)

    def ask_exit(self) -> NoReturn:
        """End the cell on ``exit``, not the worker."""
        raise SystemExit


def _print_page(shell: Any, page: Any, start: int = 0, screen_lines: int = 0) -> None:
    """Print what ``?`` shows, in place of a pager."""
    print(page["text/plain"] if isinstance(page, dict) else page)

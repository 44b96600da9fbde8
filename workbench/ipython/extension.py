"""The extension in one shell: connects the parts, and disconnects them. Starts no session."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from workbench import config, context, error_notes
from workbench.engine.base import CellListener, Engine
from workbench.errors import TaskError
from workbench.host.display import figure_png
from workbench.host.reloading import ModuleTimes
from workbench.ipython import write_back
from workbench.ipython.arguments import help_alone
from workbench.ipython.completion import Completion
from workbench.ipython.error_display import explained, rendered
from workbench.ipython.interrupts import stop_what_it_began
from workbench.ipython.magics.checkpoints import CheckpointMagics
from workbench.ipython.magics.objects import KeepingMagics
from workbench.ipython.magics.remote import RemoteMagics
from workbench.ipython.magics.sessions import SessionMagics
from workbench.ipython.magics.store import BarePut, StoringMagics
from workbench.ipython.missing_names import note_missing_name
from workbench.ipython.modules import ReloadWatch
from workbench.ipython.notebook import Notebook
from workbench.ipython.sent_settings import SentSettings
from workbench.report.freshness import edited_text, set_text
from workbench.report.memory import STOPPED
from workbench.report.text import started_line
from workbench.system import data_limit

MAGICS = SessionMagics, StoringMagics, RemoteMagics, KeepingMagics, CheckpointMagics
"""All our magics, in five classes."""

INTERRUPTED = KeyboardInterrupt, asyncio.CancelledError
"""Errors of an interrupted cell; the latter if it was awaiting something."""


class Extension:
    """The extension from load to unload."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._notebook = notebook = Notebook(shell)
        self._magics = [kind(notebook) for kind in MAGICS]
        self._matcher = Completion(notebook, self._magics).match
        self._router = notebook.router
        self._lacks_reload = ""  # what to print if `%autoreload` can't work on this engine
        self._tells = False  # True: print a line when a session begins, whatever starts it
        self._bare_put = BarePut()
        self._reloads = ReloadWatch(self._module_is_loaded)
        self._modules = ModuleTimes()
        self._submitted = 0  # number of the last cell that submitted something
        self._hooks = {"pre_run_cell": self._cell_begins, "post_run_cell": self._cell_ended}

    def attach(self) -> None:
        self._shell.register_magics(*self._magics)
        self._shell.Completer.custom_matchers.append(self._matcher)
        self._shell.ast_transformers += [self._bare_put]
        if self._bare_put.ends(self._shell.history_manager.input_hist_parsed[-1]):
            sys.displayhook = _show_nothing  # till the cell's end: its tree was made before this
        self._shell.input_transformers_cleanup.append(help_alone)
        for event, hook in self._hooks.items():
            self._shell.events.register(event, hook)
        self._before = self._shell.custom_exceptions, self._shell.CustomTB
        kinds = *error_notes.KINDS, NameError, TaskError, KeyboardInterrupt, MemoryError
        self._shell.set_custom_exc(kinds, self._show_error)
        self._shell.debugger = explained(self._shell.debugger)
        self._shell.showtraceback = rendered(self._shell)
        self._hooks_of_threads = threading.excepthook, sys.unraisablehook
        threading.excepthook, sys.unraisablehook = (
            functools.partial(self._thread_fails, each) for each in self._hooks_of_threads
        )
        self._shows_figures = _show_figures(self._shell, True)
        if hasattr(self._shell, "kernel"):
            self._shell.kernel.do_shutdown = self._kernel_shuts_down
        self._notebook.running.begins(stored=1)
        context.watch(self._meet)
        self._reloads.attach()
        self._tells = True

    def detach(self) -> bool:
        """Restore the shell to its earlier state. True if variables were kept."""
        context.watch(None)
        kept = self._notebook.keeping.leave()
        self._reloads.detach()
        self._shell.custom_exceptions, self._shell.CustomTB = self._before
        self._notebook.settings.close()
        threading.excepthook, sys.unraisablehook = self._hooks_of_threads
        del self._shell.debugger, self._shell.showtraceback  # the methods of its class remain
        if hasattr(self._shell, "kernel"):
            del self._shell.kernel.do_shutdown
        if self._shows_figures:
            _show_figures(self._shell, False)
        for event, hook in self._hooks.items():
            self._shell.events.unregister(event, hook)
        self._shell.input_transformers_cleanup.remove(help_alone)
        self._shell.ast_transformers.remove(self._bare_put)
        self._shell.Completer.custom_matchers.remove(self._matcher)
        manager = self._shell.magics_manager
        for magics in self._magics:
            manager.registry.pop(type(magics).__name__)
            for kind, names in magics.magics.items():
                for name in names:
                    manager.magics[kind].pop(name, None)
        return kept

    def _meet(self, engine: Engine, replaced: Engine | None) -> None:
        """Attach to a new session, whatever starts it: its output goes to this shell's cells."""
        self._notebook.settings.close()
        self._notebook.settings = SentSettings(shared=engine.facts.inherits)
        notebook = self._notebook
        self._router.logs = engine.facts.logs
        engine.listener = CellListener(
            self._router.sink,
            notebook.on_job_started,
            notebook.on_job_fully_submitted,
            self._submits,
            notebook.bindings.held,
            notebook.calls.tally,
        )
        self._notebook.running.note()
        self._lacks_reload = engine.can.edited
        if self._tells:
            self._notebook.bindings.clear()  # of the previous session
            print(started_line(engine, replaced))
            self.bring_back(engine)
        self._notebook.lines.attend()

    def bring_back(self, engine: Engine) -> None:
        """Bring back the variables that an earlier kernel kept in a session, and print a line."""
        keep = vars(self._shell).pop("workbench_kept", False) or config.load().keep
        if line := self._notebook.keeping.meet(engine, keep):
            print(line)

    def _kernel_shuts_down(self, restart: bool) -> Any:
        """Replace the kernel's `do_shutdown`; runs in its control thread. Jupyter calls it for
        restarts too and says so; VS Code doesn't distinguish them."""
        engine = context.get()
        if engine is not None:
            engine.keep(None, final=not (restart or _in_vs_code()))
        return type(self._shell.kernel).do_shutdown(self._shell.kernel, restart)

    def _show_error(
        self, shell: Any, kind: type, error: BaseException, tb: Any, tb_offset: int | None = None
    ) -> Any:
        """Show a cell's error: add notes if it may concern stored objects or names missing here."""
        if isinstance(error, KeyboardInterrupt) and self._notebook.running.is_out_of_memory:
            kind, error = MemoryError, MemoryError(STOPPED).with_traceback(tb)
        if isinstance(error, MemoryError):
            self._notebook.running.is_out_of_memory = True
            data_limit.raise_after_error()  # to show it takes memory
        elif isinstance(error, KeyboardInterrupt):
            _leave_out_ours(tb)
        notebook = self._notebook
        error_notes.explain(error, notebook.variables, notebook.maker)
        error_notes.explain_shortage(error)
        note_missing_name(error, notebook.variables, notebook.stayed)
        others, show = self._before
        if isinstance(error, others):
            return show(kind, error, tb, tb_offset=tb_offset)
        return shell.showtraceback((kind, error, tb), tb_offset=tb_offset)

    def _thread_fails(self, before: Callable[[Any], object], failure: Any) -> None:
        """Show the error of a thread, or one that nobody can catch. If it had no memory, stop the
        cell, too, which may wait for ever for it. (ZeroMQ ends a process that has none.)"""
        if isinstance(failure.exc_value, MemoryError):
            data_limit.raise_after_error()
            if threading.current_thread() is not threading.main_thread():
                self._notebook.running.stop()
        before(failure)

    def _cell_begins(self, info: Any = None) -> None:
        self._router.enter_cell()
        if getattr(info, "store_history", False):  # else part of a cell, as of `%%capture`
            self._notebook.running.begins()
            self._notebook.keeping.cell_begins()
        engine = context.get()
        if engine is not None and engine.end_reason is None and self._autoreloads():
            if self._lacks_reload:
                print(self._lacks_reload)  # once
                self._lacks_reload = ""
            engine.refresh()

    def _submits(self) -> int:
        """Return the submitting cell's number; once per cell, note edited modules. Any thread."""
        origin = self._router.origin()
        if origin != self._submitted:  # the first of a cell
            self._submitted = origin
            self._modules.note_imports()
            edited = list(self._modules.edited())
            for name in () if self._autoreloads() else edited:
                self._router.note(origin, self._lacks_reload or edited_text(name))
            has_settings = origin == self._notebook.remote_cell
            for what in () if has_settings else self._notebook.settings.newly_set():
                self._router.note(origin, set_text(what))
        return origin

    def _fail(self, result: Any) -> None:
        """Fail a cell if a background cell that it began failed: otherwise the program that
        executes the notebook takes it for done."""
        failed = [job for job in self._notebook.begun if job.state == "failed"]
        if failed and result is not None and result.success:
            error = result.error_in_exec = failed[0].errors[0]
            render = getattr(
                error, "_render_traceback_", None
            )  # of `WorkbenchError`: shown already
            self._shell._last_traceback = render() if render else [str(error)]

    def background(self, seconds: float, stops: bool) -> tuple[list[str], list[tuple[str, ...]]]:
        """Return the names of background cells that go on after so many seconds, and of those that
        failed, each with the message that it came with and its error. For `cli.execution`."""
        jobs, deadline = list(self._notebook.jobs.values()), time.monotonic() + seconds
        for job in jobs if stops else ():
            job.cancel()
        going = [job for job in jobs if not job.wait(max(deadline - time.monotonic(), 0))]
        return [job.name for job in going], [
            (self._router.cell(job.origin).header["header"]["msg_id"], job.name, str(error))
            for job in jobs
            if job.state == "failed" and job not in going
            for error in job.errors[:1]
        ]

    def _module_is_loaded(self, name: str, again: bool) -> None:
        self._modules.loaded(name)
        engine = context.get()
        if again and engine is not None and engine.end_reason is None:
            engine.refresh()

    def _autoreloads(self) -> bool:
        """True if `%autoreload` is on. Only its private reloader knows."""
        magics = self._shell.magics_manager.registry.get("AutoreloadMagics")
        return bool(getattr(getattr(magics, "_reloader", None), "enabled", False))

    def _cell_ended(self, result: Any = None) -> None:
        if getattr(getattr(result, "info", None), "store_history", False):
            self._notebook.running.ends()
        self._modules.note_imports()
        self._notebook.bindings.prune(self._shell.user_ns)
        write_back.forget_finished(list(self._notebook.jobs.values()))
        engine = context.get()
        if isinstance(getattr(result, "error_in_exec", None), INTERRUPTED) and engine:
            stop_what_it_began(self._notebook, engine)
        self._notebook.awaited.clear()
        if not self._router.shows_late_output:
            # nbclient and tools built on it keep a cell's output only until the next one
            # begins. So background cells end there with the cell that started them.
            for job in list(self._notebook.jobs.values()):
                job.wait()
            self._fail(result)
        self._notebook.begun.clear()
        self._router.leave_cell()
        self._notebook.calls.end()
        data_limit.give_back()
        if getattr(getattr(result, "info", None), "store_history", False):
            self._notebook.keeping.cell_ended(result)


def _show_nothing(value: object) -> None:
    """Be the display hook of a cell whose last value nobody asked for."""


_FIGURE = "matplotlib.figure", "Figure"


def _show_figures(shell: Any, on: bool) -> bool:
    """Show figures from workers in a notebook that hasn't imported pyplot.

    A later import of pyplot replaces the printer. False if there was one already.
    """
    pictures = shell.display_formatter.formatters["image/png"]
    ways = [pictures.deferred_printers.get(_FIGURE)]
    ways += [way for kind, way in pictures.type_printers.items() if kind.__name__ == _FIGURE[1]]
    if on and any(way is not None for way in ways):
        return False
    if on:
        pictures.for_type_by_name(*_FIGURE, figure_png)
    elif figure_png in ways:
        pictures.pop(".".join(_FIGURE))
    return True


def _leave_out_ours(tb: TracebackType | None) -> None:
    """End the traceback where our code, or IPython code leading to it, begins: the place inside it
    where the interrupt came tells nobody anything."""
    last = None  # the user's last frame
    while tb is not None:
        package = tb.tb_frame.f_globals.get("__name__", "").partition(".")[0]
        if package == "workbench" and last is not None:
            last.tb_next = None
            return
        if package != "IPython":
            last = tb
        tb = tb.tb_next


def _in_vs_code() -> bool:
    return any(name.startswith("VSCODE_") for name in os.environ)

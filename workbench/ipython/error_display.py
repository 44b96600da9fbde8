"""Shows a task's error as it describes itself, and explains it in place of `%debug`.

The frames of such an error were in a worker: they are shown from the record, and none can be
opened. Each function takes a shell's method and returns its replacement.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import textwrap
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from workbench.errors import TaskError, WorkbenchError, failure_of
from workbench.format import printable
from workbench.report.names import not_here_text


def rendered(shell: Any) -> Callable[..., None]:
    """Replace `showtraceback`, which `%tb` calls too; a task's error renders itself.

    IPython ignores how a SyntaxError, a SystemExit or an error with an ExceptionGroup renders.
    """
    show = shell.showtraceback

    @functools.wraps(show)
    def shown(exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        error = (exc_tuple or sys.exc_info())[1] or getattr(sys, "last_value", None)
        if isinstance(error, WorkbenchError):
            _forget(error.__traceback__)
        if isinstance(error, TaskError) and _is_not_asked(error):
            shell._get_exc_info(exc_tuple)  # notes it for `%tb` and `%debug`
            shell._showtraceback(type(error), error, error._render_traceback_())
        elif isinstance(error, MemoryError) and not isinstance(error, WorkbenchError):
            kind, _, tb = shell._get_exc_info(exc_tuple)
            offset = options.get("tb_offset")
            try:
                lines = shell.InteractiveTB.structured_traceback(kind, error, tb, tb_offset=offset)
            except MemoryError:  # that takes tens of MB; IPython would print this one instead
                lines = traceback.format_exception(kind, error, tb and tb.tb_next)
            shell._showtraceback(kind, error, lines)
        else:
            show(exc_tuple, *args, **options)

    return shown


def _forget(tb: TracebackType | None) -> None:
    """Clear our own frames, which aren't shown: the error would keep alive what they hold."""
    while tb is not None:
        if str(tb.tb_frame.f_globals.get("__name__", "")).startswith("workbench."):
            with contextlib.suppress(RuntimeError):  # the frame is still running
                tb.tb_frame.clear()
        tb = tb.tb_next


def _is_not_asked(error: BaseException) -> bool:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        if isinstance(each, BaseExceptionGroup):
            return True
        each = each.__context__
    return isinstance(error, SyntaxError | SystemExit)


def explained(debugger: Callable[..., None]) -> Callable[..., None]:
    """Replace `debugger`, which `%debug` and `%pdb` open; after a task's error it explains."""

    @functools.wraps(debugger)
    def opened(*args: Any, **options: Any) -> None:
        error = getattr(sys, "last_value", None)
        if isinstance(error, TaskError):
            failure = failure_of(error)
            said = not_here_text(failure.text.partition(":")[0], failure.task)
            print(printable(textwrap.fill(said, 80)))  # notebooks would break words
        else:
            debugger(*args, **options)

    return opened

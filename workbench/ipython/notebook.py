"""One notebook as the magics share it: its shell, what is stored of it, what runs for it."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from workbench.engines.base import Engine
from workbench.errors import NotDefinedError, SessionError
from workbench.ipython.bindings import Bindings
from workbench.ipython.output import Router
from workbench.ref import ObjectRef


class Notebook:
    """See the module.

    Attributes
    ----------
    shell : InteractiveShell
        A kernel's or a terminal's.
    router : Router
        Brings what tasks show to its cells.
    bindings : Bindings
        Which variables are what the store has.
    running : set of Future
        Background cells that this notebook started or collected.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.router = Router(shell)
        self.bindings = Bindings()
        self.running: set[Future[Any]] = set()

    @property
    def variables(self) -> dict[str, Any]:
        """What a person sees as variables, by name; also to bind them."""
        return self.shell.user_ns  # type: ignore[no-any-return]

    def cell_number(self) -> int:
        """The number that the front end shows beside the running cell.

        Read off the file name of its code: ``execution_count`` is that number in some versions
        of IPython, and the next one in others.
        """
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            label = self.shell.compile.format_code_name(frame.f_code.co_filename)
            if label is not None:
                return int(re.sub(r"\D", "", label[1]))
        return int(self.shell.execution_count)

    def follow(self, engine: Engine, done: ObjectRef) -> None:
        """If the background cell with this first result fails, show it under the running cell."""
        origin = self.router.origin()
        future = engine.future(done)
        self.running.add(future)
        future.add_done_callback(lambda future: self._ended(origin, future))

    def _ended(self, origin: int, future: Future[Any]) -> None:
        """A background cell is over. In the thread that reads the socket."""
        self.running.discard(future)
        error = future.exception()
        if error is not None and not isinstance(error, SessionError):
            self.router.failed(origin, error)


def missing(names: list[str], where: str, known: Iterable[Any]) -> NotDefinedError:
    """The error of names that mean nothing, with what was perhaps meant."""
    close = difflib.get_close_matches(names[0], [n for n in known if isinstance(n, str)], 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = " and ".join(repr(n) for n in names)
    verb = "is" if len(names) == 1 else "are"
    return NotDefinedError(f"{listed} {verb} not defined in {where}.{hint} Nothing was sent.")

"""The live part of background cells' lines: what a page is told, and what it says. No words.

A line stays in the notebook as HTML without scripts, in an element with a name; the script finds
these and keeps them true while there is a kernel. One model serves all lines of a kernel.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets
from IPython.core.getipython import get_ipython

from workbench.widgets.modules import LINES, script

VSCODE = "__vsc_ipynb_file__"
"""A variable that VS Code gives each notebook."""

Message = dict[str, Any]


class LinePage(anywidget.AnyWidget):
    """See the module.

    ``heard`` is called with this and what a page says, in the kernel's main thread or a subshell's.
    ``key`` is the one line that it is for, where a front end runs a script only in a view.
    """

    _esm = script(LINES)
    key = traitlets.Unicode().tag(sync=True)

    def __init__(self, heard: Callable[[LinePage, Message], None], key: str = "") -> None:
        self._heard = heard
        super().__init__(key=key)

    def open(self) -> None:
        """Begin to be a widget. Called by its maker, in any thread: a page may answer at once."""
        self.on_msg(lambda widget, message, buffers: self._heard(self, message))
        super().open()

    def tell(self, message: Message) -> None:
        """Send a message, of what JSON can take, to all pages. Any thread."""
        comm: Any = self.comm
        if comm is None:
            return
        with contextlib.suppress(Exception):  # the front end may be gone
            self.send(message)
        # ipykernel 7.4 answers a comm on the subshell that last published on it, which would be
        # a busy one; so its comm forgets that, and the front end's choice holds.
        vars(comm).pop("_reply_subshell_id", None)


def needs_view() -> bool:
    """Whether the front end runs a widget's script only where its view is shown."""
    shell = get_ipython()
    return "google.colab" in sys.modules or (shell is not None and VSCODE in shell.user_ns)

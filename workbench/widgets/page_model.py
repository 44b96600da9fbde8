"""Base of our widgets: a model that sends messages to pages, and receives theirs."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import anywidget
import traitlets
from IPython.core.getipython import get_ipython

VSCODE = "__vsc_ipynb_file__"
"""A variable that VS Code sets in each notebook."""

Message = dict[str, Any]
"""A message to or from a page, as JSON takes it."""


class PageModel(anywidget.AnyWidget):
    @traitlets.observe("comm")
    def _opened(self, change: dict[str, Any]) -> None:
        """Replace the comm's message handler. Pages may send messages while a cell runs, on a
        subshell or while it awaits. ``comm`` would then trigger IPython's events, on which
        matplotlib shows and closes all figures of the cell."""
        if change["new"] is not None:
            change["new"].handle_msg = self._handle_msg
            _let_front_end_choose(change["new"])

    def send_message(self, message: Message) -> None:
        """Send a message to all pages that have the model. Any thread.

        Parameters
        ----------
        message : dict
            What JSON can take.
        """
        comm: Any = self.comm
        if comm is None:
            return
        with contextlib.suppress(Exception):  # the front end may be gone
            self.send(message)
        _let_front_end_choose(comm)
        self._on_sent(message)

    def _on_sent(self, message: Message) -> None:
        """Hook that runs after a message was sent."""


def _let_front_end_choose(comm: Any) -> None:
    """Make a comm forget its subshell: ipykernel 7.4 would answer on the one that last published
    on it, which may be busy; so the front end's choice holds."""
    vars(comm).pop("_reply_subshell_id", None)


def view_bundle(model: PageModel) -> dict[str, Any]:
    """Return, by MIME type, what makes a front end show a view of the model."""
    view = {"version_major": 2, "version_minor": 0, "model_id": model.model_id}
    return {"application/vnd.jupyter.widget-view+json": view}


def needs_view() -> bool:
    """True if the front end runs a widget's script only where its view is shown."""
    shell = get_ipython()
    return "google.colab" in sys.modules or (shell is not None and VSCODE in shell.user_ns)

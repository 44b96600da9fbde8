"""What our widgets have in common: a model that tells pages messages, and hears what they say."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import anywidget
import traitlets
from IPython.core.getipython import get_ipython

VSCODE = "__vsc_ipynb_file__"
"""A variable that VS Code gives each notebook."""

Message = dict[str, Any]
"""What goes to a page, or comes from it, as JSON takes it."""


class PageModel(anywidget.AnyWidget):
    @traitlets.observe("comm")
    def _opened(self, change: dict[str, Any]) -> None:
        """Pages may say something while a cell runs, on a subshell or while it awaits. ``comm``
        would trigger IPython's events then, with which matplotlib shows and closes all figures
        that the cell has begun: so it hands messages over without."""
        if change["new"] is not None:
            change["new"].handle_msg = self._handle_msg
            _let_front_end_choose(change["new"])

    def tell(self, message: Message) -> None:
        """Send a message to all pages that have it. Any thread.

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
        self._told(message)

    def _told(self, message: Message) -> None:
        """For whoever has to do something when a message is out."""


def _let_front_end_choose(comm: Any) -> None:
    """ipykernel 7.4 answers a comm on the subshell that last published on it, which would be a
    busy one; so its comm forgets that, and the front end's choice holds."""
    vars(comm).pop("_reply_subshell_id", None)


def view_bundle(model: PageModel) -> dict[str, Any]:
    """By MIME type, what has a front end show a view of it."""
    view = {"version_major": 2, "version_minor": 0, "model_id": model.model_id}
    return {"application/vnd.jupyter.widget-view+json": view}


def needs_view() -> bool:
    """Whether the front end runs a widget's script only where its view is shown."""
    shell = get_ipython()
    return "google.colab" in sys.modules or (shell is not None and VSCODE in shell.user_ns)

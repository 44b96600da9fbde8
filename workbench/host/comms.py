"""Widgets made on a worker: their messages go out as Output of kind ``comm``.

A widget's state is in the front end. What a person does to it there comes back only to a namespace,
whose process keeps its widgets.
"""

from __future__ import annotations

import base64
import sys
from typing import Any

import comm
from comm.base_comm import BaseComm

from workbench.host.display import close_figures, send, show_figures

THIS_CELL = "workbench-this-cell"
"""Stands for the number of the message that brought the cell, which only its kernel knows."""


class _CellsKernel:
    """Kernel that gives `ipywidgets.Output()` that number: front ends put all messages with it
    into the widget meanwhile."""

    def get_parent(self) -> dict[str, Any]:
        return {"header": {"msg_id": THIS_CELL}}


class WorkerComm(BaseComm):
    """Comm from a widget to the front end that shows the running task's cell."""

    kernel = _CellsKernel()

    def publish_msg(
        self,
        msg_type: str,
        data: Any = None,
        metadata: Any = None,
        buffers: Any = None,
        **keys: Any,
    ) -> None:
        """Send one message. Any thread."""
        if msg_type == "comm_open":
            _show_figures_in_place()
        message = {
            "msg_type": msg_type,
            "content": {"comm_id": self.comm_id, "data": data or {}, **keys},
            "metadata": metadata or {},
            "buffers": [base64.b64encode(each).decode("ascii") for each in buffers or ()],
        }
        send("comm", message, self._key(msg_type, data))

    def _key(self, msg_type: str, data: Any) -> str:
        """Return the same key for states that replace each other: same widget, same traits."""
        if msg_type != "comm_msg" or not isinstance(data, dict) or data.get("method") != "update":
            return ""
        if "msg_id" in data.get("state", ()):  # an Output: what is shown between two states counts
            return ""
        return " ".join((self.comm_id, *sorted(data.get("state", ()))))

    def detach(self) -> None:
        """Mark it closed, so that its deletion sends nothing: the front end keeps what it shows."""
        self._closed = True


def _show_figures_in_place() -> None:
    """Make `interact` show figures in its Output, as with the inline backend."""
    interaction: Any = sys.modules.get("ipywidgets.widgets.interaction")
    if interaction is not None:
        interaction.show_inline_matplotlib_plots = _show_open_figures


def _show_open_figures() -> None:
    from IPython.display import display

    show_figures(display)
    close_figures()


def hear(id: str, data: dict[str, Any]) -> None:
    """Hand a message from the front end to a widget of this process."""
    there = comm.get_comm_manager().comms.get(id)
    if there is not None:
        there.handle_msg({"content": {"comm_id": id, "data": data}, "metadata": {}, "buffers": []})


def install() -> None:
    """Make ``comm``, and so ipywidgets, create our comms; again if ipykernel has set its own."""
    comm.create_comm = WorkerComm


def forget() -> None:
    """Forget the widgets of a cell that is over; the front end keeps them as they are.

    Both ``comm`` and ipywidgets would keep every one of them.
    """
    comms = comm.get_comm_manager().comms
    for each in list(comms.values()):
        if isinstance(each, WorkerComm):
            each.detach()
    comms.clear()
    widgets: Any = sys.modules.get("ipywidgets.widgets.widget")
    if widgets is not None:
        widgets._instances.clear()

"""Represents widgets made on workers in the kernel: messages out, and a stand-in for each.

Front ends talk to a widget through the kernel. The stand-in sends them its state when a page is
loaded again. A person's actions go to the namespace that made the widget; the widgets of
other cells are stills.
"""

from __future__ import annotations

import base64
import json
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import comm
from comm.base_comm import BaseComm

from workbench.host.comms import THIS_CELL

MOST_BYTES = 64_000_000  # of binary data in widgets' states; more isn't kept
MOST_WIDGETS = 2_000  # stand-ins kept; each has the widget's state. The oldest go first

Message = tuple[str, dict[str, Any], dict[str, Any]]
"""Type, content, and by name the metadata and the buffers of a message."""


Tell = Callable[[str, dict[str, Any]], None]
"""Gets a widget's id, and what a person did to it: the data of a ``comm_msg``."""


class Widgets:
    """Stand-ins of the widgets; see the module. `message` runs in the thread that reads the socket.

    ``publish`` sends a message to the front ends.
    """

    def __init__(self, publish: Callable[..., None]) -> None:
        self._publish = publish
        self._there: OrderedDict[str, StandIn] = OrderedDict()
        self._nbytes = 0  # of binary parts of all states

    def message(self, data: bytes, cell: str = "", tell: Tell | None = None) -> Message:
        """Return a widget's message in publishable form, and note its contents.

        ``cell`` is the id of the front end's message with its cell. ``tell`` gets what is done to
        the widget; None: nobody does anything.
        """
        said = json.loads(data)
        kind, content = said["msg_type"], said["content"]
        buffers = [base64.b64decode(each) for each in said["buffers"]]
        id, state = content["comm_id"], content["data"].get("state")
        if state and state.get("msg_id") == THIS_CELL:
            state["msg_id"] = cell
        if kind == "comm_open":
            self._add(id, content, tell)
        elif kind == "comm_close":
            self._remove(id)
        if state and id in self._there:
            self._note(self._there[id], state, content["data"].get("buffer_paths", []), buffers)
        if kind == "comm_open":
            self.introduce()
        return kind, content, {"metadata": said["metadata"], "buffers": buffers}

    def _add(self, id: str, content: dict[str, Any], tell: Tell | None) -> None:
        self._there[id] = StandIn(self._publish, id, content["target_name"], tell)
        comm.get_comm_manager().register_comm(self._there[id])
        if len(self._there) > MOST_WIDGETS:
            self._remove(next(iter(self._there)))

    def _remove(self, id: str) -> None:
        stand_in = self._there.pop(id, None)
        if stand_in is not None:
            self._nbytes -= stand_in.nbytes
            comm.get_comm_manager().comms.pop(id, None)
            _known_to_ipywidgets().pop(id, None)

    def _note(self, stand_in: StandIn, state: Any, paths: list[Any], buffers: list[bytes]) -> None:
        """Update its state; binary parts as bytes, if they are whole values and not too large."""
        self._nbytes -= stand_in.nbytes
        stand_in.state.update(state)
        for path, data in zip(paths, buffers, strict=False):
            stand_in.state.pop(path[0], None)
            if len(path) == 1 and self._nbytes + stand_in.nbytes + len(data) <= MOST_BYTES:
                stand_in.state[path[0]] = data
        self._nbytes += stand_in.nbytes

    def introduce(self) -> None:
        """Register the stand-ins with ipywidgets, if that is imported: a page that is loaded again
        asks it for the states of all widgets at once."""
        known = _known_to_ipywidgets()
        for id, stand_in in list(self._there.items()):
            if "_model_name" in stand_in.state:
                known.setdefault(id, stand_in)


def _known_to_ipywidgets() -> dict[str, Any]:
    """Return the table that ipywidgets, once imported, sends to a page; it has no public name."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    found: dict[str, Any] = getattr(module, "_instances", {})
    return found


class StandIn(BaseComm):
    """Comm that answers requests for the widget's state, and passes on all other messages."""

    def __init__(
        self, publish: Callable[..., None], id: str, target: str, tell: Tell | None
    ) -> None:
        self._publish = publish
        self._tell = tell
        self.state: dict[str, Any] = {}
        super().__init__(target_name=target, comm_id=id, primary=False)

    def publish_msg(self, msg_type: str, data: Any = None, *args: Any, **keys: Any) -> None:
        if msg_type == "comm_msg":  # it doesn't open or close the front end's side
            content = {"comm_id": self.comm_id, "data": data}
            self._publish(msg_type, content, buffers=keys.get("buffers"))

    @property
    def nbytes(self) -> int:
        return sum(len(part) for part in list(self.state.values()) if isinstance(part, bytes))

    # -- what ipywidgets asks its own widgets for --------------------------------------------------

    @property
    def model_id(self) -> str:
        return str(self.comm_id)

    @property
    def _model_name(self) -> str:
        return str(self.state["_model_name"])

    @property
    def _model_module(self) -> str:
        return str(self.state["_model_module"])

    @property
    def _model_module_version(self) -> str:
        return str(self.state["_model_module_version"])

    def get_state(self, *args: Any, **keys: Any) -> dict[str, Any]:
        """Return a copy: the thread that reads the socket may add to the state at any time."""
        return dict(self.state)

    def _get_embed_state(self, drop_defaults: bool = False) -> dict[str, Any]:
        return {
            "model_name": self._model_name,
            "model_module": self._model_module,
            "model_module_version": self._model_module_version,
            "state": self.get_state(),
        }

    def handle_msg(self, msg: dict[str, Any]) -> None:
        data = msg["content"]["data"]
        if data.get("method") == "request_state":
            state = self.get_state()
            binary = {key: state.pop(key) for key in list(state) if isinstance(state[key], bytes)}
            update = {"method": "update", "state": state, "buffer_paths": [[key] for key in binary]}
            self.send(update, buffers=list(binary.values()))
        elif self._tell is not None:
            self.state.update(data.get("state", {}))
            self._tell(str(self.comm_id), data)


def is_control(content: dict[str, Any]) -> bool:
    """True if the message opens a widget for input: only these can be disabled."""
    return "disabled" in content["data"].get("state", {})

"""The live views: anywidgets, fed by the session's one `Feed`. Show and delegate, decide nothing.

What is left in the notebook is a view's static form, in an element that the page's script finds:
it puts the live view in its place, as long as there is a kernel. So there is never "Error
displaying widget": whoever opens the notebook elsewhere, or without a kernel, sees the session as
it was.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import uuid
from typing import Any

import anywidget
import traitlets
from IPython.core.getipython import get_ipython

from workbench import api, current, markup
from workbench.widgets import actions, stills
from workbench.widgets.feed import Feed
from workbench.widgets.modules import script, styles
from workbench.widgets.rows import Row

PARTS = ("occupancy", "pins", "costs", "jobs")

VSCODE = "__vsc_ipynb_file__"
"""A variable that VS Code gives each notebook."""


class View(anywidget.AnyWidget):
    """Some parts of the picture, of the session that was the current one when it was made.

    It updates itself while it is shown. In a notebook it is enough to have it as the last line of
    a cell; inside ipywidgets' boxes it is a widget like others.

    Raises
    ------
    SessionError
        If there is no session, and none can be started.
    """

    _esm = script()
    _css = styles()
    parts = traitlets.List(traitlets.Unicode()).tag(sync=True)
    key = traitlets.Unicode().tag(sync=True)
    world = traitlets.Any().tag(sync=True, to_json=lambda _, view: view.feed.world())

    def __init__(self, *parts: str) -> None:
        engine = api.engine()
        self.feed = current.companion(Feed)
        self._engine = engine
        super().__init__(parts=list(parts), key=uuid.uuid4().hex)
        self.on_msg(self._heard)

    def open(self) -> None:
        """Begin to be a widget, if anybody is there to see one. Called by its maker."""
        if is_attended():
            super().open()

    # -- what a page says --------------------------------------------------------------------------

    def _heard(self, view: object, request: Row, buffers: object) -> None:
        """The kernel's main thread, or a subshell's."""
        match request.get("do"):
            case "shown":
                page, seq = request.get("page", ""), request.get("seq", -1)
                self.feed.shown(self, bool(request.get("on")), page, seq)
            case "resync":
                self.tell({"kind": "world", **self.feed.world()})
            case action if action in actions.ACTIONS:
                number = request.get("number")
                self.tell({"kind": "noted", "number": number})
                thread = threading.Thread(
                    target=self._perform, args=(number, request), name="workbench-action"
                )
                thread.daemon = True
                thread.start()
            case _:
                pass

    def _perform(self, number: object, request: Row) -> None:
        answer = actions.perform(self._engine, request)
        self.tell({"kind": "answer", "number": number, **answer})

    def tell(self, message: Row) -> None:
        """Send a message to all pages that have this view. Any thread."""
        comm: Any = self.comm
        if comm is None:
            return
        with contextlib.suppress(Exception):  # the front end may be gone
            self.send(message)
        # ipykernel 7.4 answers a comm on the subshell that last published on it, which would be
        # a busy one; so its comm forgets that, and the front end's choice holds.
        vars(comm).pop("_reply_subshell_id", None)

    # -- what stays in the notebook ----------------------------------------------------------------

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        bundle = stills.bundle(self.parts, self._engine.snapshot(), self._engine.held())
        bundle["text/html"] = markup.mount(self.key, markup.Html(bundle["text/html"]))
        if needs_view():
            bundle["application/vnd.jupyter.widget-view+json"] = {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self.model_id,
            }
        return bundle, {}


def needs_view() -> bool:
    """Whether the front end runs a widget's script only where its view is shown."""
    shell = get_ipython()
    return "google.colab" in sys.modules or (shell is not None and VSCODE in shell.user_ns)


def is_attended() -> bool:
    """Whether a person sits at the front end that runs this cell.

    Programs that run notebooks would keep the whole model in the notebook, for nobody.
    """
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return False
    content = kernel.get_parent().get("content", {})
    return bool(content.get("allow_stdin", True))


class Occupancy(View):
    """How full the store is, and of what: capacity, segments to scale, the last two minutes."""

    def __init__(self) -> None:
        super().__init__("occupancy")


class Pins(View):
    """Every object with what keeps it here, and what to do about it."""

    def __init__(self) -> None:
        super().__init__("pins")


class Costs(View):
    """What serializing each object cost, beside what this machine can copy."""

    def __init__(self) -> None:
        super().__init__("costs")


class Jobs(View):
    """Background cells and workers, and what they do."""

    def __init__(self) -> None:
        super().__init__("jobs")


class Dashboard(View):
    """All of them."""

    def __init__(self) -> None:
        super().__init__(*PARTS)


def dashboard() -> Dashboard:
    """The session as it is, alive: occupancy, pins, costs and jobs in one view.

    Raises
    ------
    SessionError
        If there is no session, and none can be started.
    """
    return Dashboard()

"""Live views: anywidgets, with data from the session's one `Feed`. They show and delegate only.

The notebook keeps a view's static form, in an element that the page's script finds and replaces by
the live view, as long as there is a kernel. So there is never "Error displaying widget": in a
notebook that is opened elsewhere, or without a kernel, people see the session as it was.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import traitlets
from IPython.core.getipython import get_ipython

from workbench.report import markup
from workbench.report.html import PARTS, Still
from workbench.widgets import actions
from workbench.widgets.feed import feed_of
from workbench.widgets.modules import script, styles
from workbench.widgets.page_model import Message, PageModel, needs_view, view_bundle

RENEWAL = 60.0
"""Seconds after which the static form is renewed while it is shown and nobody uses it: each
renewal makes the notebook unsaved."""


class LiveView(PageModel):
    """Some views of the session that was current when it was made.

    It updates itself while it is shown. In a notebook, put it on the last line of a cell; inside
    ipywidgets' boxes it is a widget like others.

    Parameters
    ----------
    of : distributed.Client or module, optional
        Another session than the current one: see `dashboard`.

    Raises
    ------
    SessionError
        If there is no session, and none can be started.
    TypeError
        If ``of`` is something else.
    """

    shows: tuple[str, ...] = ()
    _esm = script()
    _css = styles()
    parts = traitlets.List(traitlets.Unicode()).tag(sync=True)
    key = traitlets.Unicode().tag(sync=True)
    world = traitlets.Any().tag(sync=True, to_json=lambda _, view: view.feed.world())

    def __init__(self, of: Any = None) -> None:
        self.feed = feed_of(of)
        self.feed.catch_up()
        self._kept = -1  # the last difference that the static form includes
        self._due = time.monotonic() + RENEWAL
        # In a box it shares the width with others; alone, it takes all of it.
        share = {"flex": "1 1 0%", "min_width": "0"}
        super().__init__(parts=list(self.shows), key=uuid.uuid4().hex, layout=share)
        self.on_msg(self._heard)

    def open(self) -> None:
        """Become a widget, if a person can see one. Called by its maker."""
        if is_attended():
            super().open()

    @property
    def model_id(self) -> Any:
        """Its id for a page. A box that holds it reads this: then the widget must exist."""
        if self.comm is None:
            super().open()
        return super().model_id

    # -- messages from a page ----------------------------------------------------------------------

    def _heard(self, view: object, request: Message, buffers: object) -> None:
        """Handle a page's message. The kernel's main thread, or a subshell's."""
        match request.get("do"):
            case "shown":
                on, page = bool(request.get("on")), request.get("page", "")
                before = self.feed.set_shown(self, on, page, request.get("seq", -1))
                if before and (not on or (request.get("idle") and time.monotonic() > self._due)):
                    self._renew()
            case "resync":
                self.send_message(self.feed.world())
            case action if action in actions.ACTIONS:
                self.send_message({"kind": "noted", "number": request.get("number")})
                _in_a_thread(self._perform, request)
            case _:
                pass

    def _perform(self, request: Message) -> None:
        answer = actions.perform(self.feed.engine, request)
        self.send_message({"kind": "answer", "number": request.get("number"), **answer})
        self.feed.refresh_now()

    def _on_sent(self, message: Message) -> None:
        if message.get("ended"):
            self._renew()

    # -- the static form in the notebook -----------------------------------------------------------

    def _ipython_display_(self) -> None:
        shell = get_ipython()
        if getattr(shell, "kernel", None) is None:
            print(self._still())
        else:
            self._publish(update=False)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._bundle(), {}

    def _still(self) -> Still:
        history = self.feed.kept.history
        shown = [part for part in self.parts if history or part != "history"]
        return Still(
            tuple(shown or self.parts),
            self.feed.snapshot(),
            self.feed.held,
            self.feed.is_late,
            self.feed.process,
            history,
        )

    def _bundle(self) -> dict[str, Any]:
        still = self._still()
        bundle: dict[str, Any] = {
            "text/plain": str(still),
            "text/html": markup.place("view", {"workbench": self.key}, still.html()),
        }
        if needs_view():
            bundle |= view_bundle(self)
        return bundle

    def _renew(self) -> None:
        """Update the static form in the notebook; called while nobody uses the view."""
        if self._kept != self.feed.seq and not needs_view():
            self._kept, self._due = self.feed.seq, time.monotonic() + RENEWAL
            _in_a_thread(self._publish, True)

    def _publish(self, update: bool) -> None:
        shell = get_ipython()
        if shell is not None:
            place = {"display_id": f"workbench-view-{self.key}"}
            shell.display_pub.publish(self._bundle(), {}, transient=place, update=update)


def _in_a_thread(target: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=target, args=arguments, name="workbench-view", daemon=True).start()


def is_attended() -> bool:
    """True if a person uses the front end that runs this cell.

    Programs that run notebooks would save the whole model in the notebook, for nobody.
    """
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return False
    content = kernel.get_parent().get("content", {})
    return bool(content.get("allow_stdin", True))


def _view(name: str, summary: str) -> type[LiveView]:
    """Make a class of live views of one part."""
    parameters = """
    Parameters
    ----------
    of : distributed.Client or module, optional
        Whose, as for `dashboard`.
    """
    members = {"__doc__": f"{summary}\n{parameters}", "__module__": __name__}
    return type(name, (LiveView,), {**members, "shows": (name.lower(),)})


Occupancy = _view(
    "Occupancy",
    "How full the store is, and of what: capacity, segments to scale, the last two minutes.",
)
Pins = _view("Pins", "Every object with what keeps it here, and what to do about it.")
Costs = _view("Costs", "What serializing each object cost, beside what this machine can copy.")
Jobs = _view("Jobs", "Background cells and workers, and what they do.")
History = _view("History", "Cells whose variables are kept: what each changed; to check out.")


class Dashboard(LiveView):
    """All views in one.

    Parameters
    ----------
    of : distributed.Client or module, optional
        Whose, as for `dashboard`.
    """

    shows = (*PARTS, "history")


def dashboard(of: Any = None) -> Dashboard:
    """Show the session live: occupancy, pins, costs and jobs in one view; also the history of
    cells, if `%workbench keep` keeps it.

    For a cluster of Ray or Dask it shows what the cluster tells, and changes nothing there; the
    rest is shown as "not known here". While somebody looks, the cluster is asked once a second, or
    less often if its answers take long.

    Parameters
    ----------
    of : distributed.Client or module, optional
        A client of a Dask cluster, or the module ``ray`` after ``ray.init()``. Default: the current
        session; it is started if there is none.

    Returns
    -------
    Dashboard

    Raises
    ------
    SessionError
        If there is no session, and none can be started.
    TypeError
        If ``of`` is something else.

    Examples
    --------
    >>> import ray, workbench
    >>> ray.init()
    >>> workbench.dashboard(ray)
    """
    return Dashboard(of)

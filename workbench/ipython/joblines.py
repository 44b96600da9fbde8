"""The line under a background cell: what it is doing, a Stop button; at its end one quiet line.

Its words are `report.job_status`. Threads: the one that starts a cell, the one that reads the
socket, the one that ticks, and the button's (the kernel's main one, or a subshell's).
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from workbench.ipython.job import Job
from workbench.ipython.output import Router

TICK = 0.5
"""Seconds between two looks at the cells that run, and before a cell gets a button: one that is
over by then gets its quiet line alone."""

_CLASS = "workbench-job"

_STYLE = (
    f"<style>.{_CLASS}.jupyter-widgets-disconnected::before{{display:none}}"
    f".{_CLASS}.jupyter-button.jupyter-widgets-disconnected{{display:none}}</style>"
)
"""When the kernel is gone, the line stays as it was last, and there is nothing to press."""


class JobLine:
    def __init__(self, job: Job, router: Router) -> None:
        self.job = job
        self._router = router
        self._due = time.monotonic() + TICK
        self._lock = threading.RLock()  # it ticks, ends and is pressed in different threads
        self._name = ""  # its display id, once it is there
        self._said = ""
        self._ended = False
        self._may_press = True
        self._widget: Any = None
        self._text: Any = None
        self._button: Any = None

    def show(self) -> None:
        """Put it under its cell; again, if the cell has cleared its output."""
        with self._lock:
            if not self._router.is_terminal:
                self._name = self._name or self._router.display_id("job")
                self._said = str(self.job.status)
                self._router.display(self.job.origin, self._name, self._bundle(), True)

    def began(self) -> None:
        """It runs now: that is said at once, where there is a line. The thread that reads."""
        with self._lock:
            if not (self._ended or self._router.is_terminal):
                self._refresh()

    def tick(self) -> None:
        with self._lock:
            if self._ended or self._router.is_terminal or time.monotonic() < self._due:
                return
            if self._may_press and self._widget is None and not self._router.headless:
                self._may_press = False  # once: where it can't be made, the words are enough
                self._make_widget()
                self._router.display(self.job.origin, self._name, self._bundle(), False)
            else:
                self._refresh()

    def _refresh(self) -> None:
        status = self.job.status
        if (said := str(status)) == self._said:
            return
        self._said = said
        if self._text is not None:
            self._text.value = _STYLE + status._repr_html_()
        else:
            self._router.display(self.job.origin, self._name, self._bundle(), False)

    def end(self) -> None:
        with self._lock:
            job, self._ended = self.job, True
            if self._router.is_terminal:
                self._router.note(job.origin, str(job.status), "stdout")
            else:
                self._router.display(job.origin, self._name, job._repr_mimebundle_(), False)
            self._close_widget()

    # -- the button: needs ipywidgets, which takes a while to import -------------------------------

    def _bundle(self) -> dict[str, Any]:
        shown: dict[str, Any] = dict(self.job._repr_mimebundle_())
        if self._widget is not None:
            shown["application/vnd.jupyter.widget-view+json"] = {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self._widget.model_id,
            }
        return shown

    def _make_widget(self) -> None:
        import ipywidgets

        self._text = ipywidgets.HTML(_STYLE + self.job._repr_html_())
        self._button = ipywidgets.Button(
            description="Stop",
            tooltip=f"Stop {self.job.name}",
            layout={"width": "auto", "height": "24px", "margin": "0 0 0 12px"},
        )
        self._button.on_click(self._pressed)
        self._widget = ipywidgets.HBox([self._text, self._button], layout={"align_items": "center"})
        for part in (self._text, self._button, self._widget):
            part.add_class(_CLASS)
        self._unbind()

    def _pressed(self, button: Any) -> None:
        """Once: stop it. Again: kill its worker. The kernel's main thread, or a subshell's."""
        self.job.cancel(force=self.job.stopping > 0)
        with self._lock:
            if self._ended or self._text is None:
                return
            self._text.value = _STYLE + self.job._repr_html_()
            if not self.job.actor:  # that would lose all it has
                button.description = "Kill"
                button.tooltip = f"Kill the worker that runs {self.job.name}"
                self._unbind()

    def _unbind(self) -> None:
        """Let the front end say where a press is to be handled.

        ipykernel 7.4 answers a comm on the subshell that last published on it, which would be the
        main one, busy with a cell; so its comm forgets that.
        """
        vars(self._button.comm).pop("_reply_subshell_id", None)

    def _close_widget(self) -> None:
        parts = self._text, self._button, self._widget
        self._text = self._button = self._widget = None
        for part in filter(None, parts):
            with contextlib.suppress(Exception):  # the front end may be gone
                part.layout.close()
                part.close()


class JobLines:
    """The lines of one notebook, and the thread that keeps them true while any is open."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._lock = threading.Lock()
        self._lines: dict[Job, JobLine] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def begin(self, job: Job) -> None:
        line = JobLine(job, self._router)
        line.show()
        self._router.cell(job.origin).fixed = line.show
        with self._lock:
            self._lines[job] = line
            self._closed.clear()
            if self._thread is None and not self._router.is_terminal:
                self._thread = threading.Thread(
                    target=self._run, name="workbench-jobs", daemon=True
                )
                self._thread.start()
        if job.is_over:  # it ended before we knew it
            self.end(job)

    def began(self, job: Job) -> None:
        line = self._lines.get(job)
        if line is not None:
            line.began()

    def end(self, job: Job) -> None:
        with self._lock:
            line = self._lines.pop(job, None)
            if not self._lines:
                self._closed.set()
        if line is not None:
            line.end()
        elif job.notes:  # it was quiet, or over before it had a line
            self._router.note(job.origin, "\n".join(job.notes))

    def _run(self) -> None:
        while True:
            self._closed.wait(TICK)
            with self._lock:
                if not self._lines:
                    self._thread = None
                    return
                lines = list(self._lines.values())
            for line in lines:
                with contextlib.suppress(Exception):  # a front end that can't: no reason to end
                    line.tick()

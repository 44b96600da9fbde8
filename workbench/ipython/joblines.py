"""Line under a background cell: what it is doing, a Stop button; at its end only the outcome.

Its words are `report.job_status`. The notebook saves plain HTML that is true whenever it is read; a
script in the page (`widgets.lines`) shows the present state and the button over it, also in pages
opened later, and over lines of kernels that are gone. Threads: the one that starts a cell, the one
that reads the socket, the one that ticks, and the one that receives pages' messages (the kernel's
main one, or a subshell's).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench import context
from workbench.engine.queries import Jobs
from workbench.errors import SessionError
from workbench.ipython.job import Job, key_of
from workbench.ipython.missed import Display, shown_by
from workbench.ipython.output import Router
from workbench.report.job_status import AS_OF, JobStatus, of_record
from workbench.report.markup import mood_color, place

TICK = 0.5
"""Seconds between two checks of the running cells, and before a cell gets a button: one that is
over by then never gets one."""

RENEWAL = 10.0
"""Seconds after which the saved line is renewed, if a script shows the present state anyway."""

HEARTBEAT = 2.0
"""Seconds after which a page gets the same state again: it takes silence for the kernel's end."""

MOST_LINES = 1_000
"""Lines remembered for pages that are opened later."""

MOST_TOLD = 100
"""Lines sent to a page that asks for none: its notebook may not have been saved since."""


class JobLine:
    """One line in a notebook. ``pages`` are those that receive all lines."""

    def __init__(self, job: Job, router: Router, pages: list[Any]) -> None:
        self.job = job
        self._pages = pages
        self.name = router.display_id("job")
        self.view: Any = None  # its own `LinePage`, where each line needs a view
        self.followed = False  # a page shows what it prints, and doesn't get that as output
        self._router = router
        self._due = time.monotonic() + TICK
        self._lock = threading.RLock()  # it ticks, ends and is clicked in different threads
        self._number = 0  # renewals
        self._renewed = self._told_at = 0.0
        self._said = ""
        self._shown: tuple[int, int] | None = None  # numbers of outputs and errors last sent
        self._displays: list[Display] = []  # those last sent
        self._ended = False

    def show(self) -> None:
        """Show the line under its cell; again, if the cell has cleared its output."""
        with self._lock:
            self._publish(is_new=True)

    def on_job_started(self) -> None:
        """Show at once that it runs now. The reading thread."""
        with self._lock:
            if not self._ended:
                self._publish()
                self.send_state()

    @property
    def wants_page(self) -> bool:
        """True if it has lasted long enough to be worth a button."""
        return not self._ended and time.monotonic() >= self._due

    def tick(self) -> None:
        """Report changes: to the pages, or without any in the saved line."""
        with self._lock:
            if not self.wants_page:
                return
            status, now = self.job.status, time.monotonic()
            changed, has_page = str(status) != self._said, bool(self._pages or self.view)
            if now - self._renewed > RENEWAL if has_page else changed:
                self._publish()
            if has_page and (changed or now - self._told_at > HEARTBEAT):
                self._said, self._told_at = str(status), now
                self.send_state()

    def end(self) -> None:
        with self._lock:
            self._ended = True
            view, self.view = self.view, None
            self._publish()
            self.send_state()
            if view is not None:
                view.close()

    def renew(self) -> None:
        """Renew the saved line now: by it a page learns whether its cell's output reaches it."""
        with self._lock:
            if self.wants_page:
                self._publish()

    def _publish(self, is_new: bool = False) -> None:
        """Renew the saved line."""
        self._number += 1
        self._renewed, self._said = time.monotonic(), str(self.job.status)
        self._router.display(self.job.origin, self.name, self._bundle(), is_new)

    def _bundle(self) -> dict[str, Any]:
        job = self.job
        status = job.status
        still = status if job.is_over else replace(status, when=time.strftime("%H:%M, %-d %b"))
        shown: dict[str, Any] = dict(still._repr_mimebundle_())
        # `line` identifies it; `seq` counts the renewals.
        known = {"line": self.name, "job": job.key, "name": job.name, "seq": str(self._number)}
        shown["text/html"] = place("line", known, shown["text/html"])
        if self.view is not None:
            from workbench.widgets.page_model import view_bundle

            shown |= view_bundle(self.view)
        return shown

    # -- what pages are told ----------------------------------------------------------------------

    def shown_in(self, view: Any) -> None:
        """Show the line from now on in a view of its own."""
        with self._lock:
            if not self._ended:
                self.view = view
                self._publish()

    def page_state(self) -> dict[str, Any]:
        """Return all that a page needs to know about the line."""
        with self._lock:
            job = self.job
            may_kill = job.stopping and not job.actor  # an actor would lose its state
            button = "" if job.is_over else "Kill" if may_kill else "Stop"
            what = f"the worker that runs {job.name}" if may_kill else job.name
            return {
                **_worded(self.name, job.status),
                "seq": self._number,
                "job": job.key,
                "button": button,
                "title": f"{button} {what}",
            }

    def send_state(self) -> None:
        """Send the line's state to its pages."""
        for page in [*self._pages, *filter(None, [self.view])]:
            page.send_message(self.page_state())

    def tell_missed(self) -> None:
        """Send what it has shown to the pages, if that is more than last time. A display is sent
        once, and then named by its number."""
        shown = self.job.shown_count, len(self.job.errors)
        if shown == self._shown or not self._pages:
            return
        self._shown = shown
        with contextlib.suppress(SessionError):
            parts = shown_by(self.job)
            parts += [f"{type(error).__name__}: {error}" for error in self.job.errors[:1]]
            displays = [part for part in parts if isinstance(part, Display)]
            before, self._displays = self._displays, displays
            numbers = iter(range(len(displays)))
            message = {
                "kind": "shown",
                "line": self.name,
                "parts": [next(numbers) if isinstance(p, Display) else p for p in parts],
                "displays": {
                    str(number): display._asdict()
                    for number, display in enumerate(displays)
                    if before[number : number + 1] != [display]
                },
            }
            for page in self._pages:
                page.send_message(message)

    def follow(self) -> None:
        """Note that a page shows what it shows, and doesn't get that as output."""
        self.followed, self._shown, self._displays = True, None, []
        self.tell_missed()


def _worded(line: str, status: JobStatus) -> dict[str, Any]:
    sign, mood = status.sign
    return {
        "kind": "line",
        "line": line,
        "sign": sign,
        "color": mood_color(mood),
        "text": status.line,
        "notes": status.notes,
        "share": status.share if not status.is_over else None,
        "over": status.is_over,
    }


class JobLines:
    """The lines of one notebook, and the thread that updates them while any is open."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._lock = threading.Lock()
        self._lines: dict[Job, JobLine] = {}  # of jobs that aren't over
        self._shown: OrderedDict[str, JobLine] = OrderedDict()  # by name: these, and earlier ones
        self._pages: list[Any] = []  # one `LinePage`, once made: all pages receive it
        self._may_have_page = True
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def begin(self, job: Job) -> None:
        """Show a line for the job. Where output is text, it appears when the job is over."""
        line = JobLine(job, self._router, self._pages)
        with self._lock:
            if job.is_over:  # somebody waited for it; its end has been reported
                return
            self._lines[job] = line
            if self._router.is_text(job.origin):
                return
            self._shown[line.name] = line  # first: the page asks about a line that it sees
            if len(self._shown) > MOST_LINES:
                self._shown.popitem(last=False)
            line.show()
            self._router.cell(job.origin).jobs[job] = line.show
            self._closed.clear()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="workbench-jobs", daemon=True
                )
                self._thread.start()

    def on_job_started(self, job: Job) -> None:
        line = self._lines.get(job)
        if line is not None and not self._router.is_text(job.origin):
            line.on_job_started()

    def end(self, job: Job) -> None:
        with self._lock:
            line = self._lines.pop(job, None)
            if not self._lines:
                self._closed.set()
        if line is None:  # it was quiet, or over before it had a line
            if job.notes:
                self._router.note(job.origin, "\n".join(job.notes))
        elif self._router.is_text(job.origin):
            self._router.note(job.origin, str(job.status), "stdout")
        else:
            line.end()
            if line.followed:  # not here: it asks the session, and this thread reads the answer
                threading.Thread(target=line.tell_missed, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._closed.wait(TICK)
            with self._lock:
                if not self._lines:
                    self._thread = None
                    return
                lines = list(self._lines.values())
            for line in lines:
                with contextlib.suppress(Exception):  # a front end that can't: go on
                    if line.wants_page and not self._router.headless:
                        self._make_page(line)
                    line.tick()
                    if line.followed:
                        line.tell_missed()

    # -- pages: need anywidget, which takes a while to import -------------------------------------

    def attend(self) -> None:
        """Finish lines in the notebook that are from a kernel that is gone. In a thread, because it
        takes a while."""
        if not self._router.is_terminal and not self._router.headless:
            threading.Thread(target=self._attend, name="workbench-lines", daemon=True).start()

    def _attend(self) -> None:
        engine = context.get()
        with contextlib.suppress(Exception):  # a front end that can't do this, or the session's end
            if engine is not None and (
                _has_open_lines() or (engine.facts.joined and engine.ask(Jobs()))
            ):
                self._make_page()

    def _make_page(self, line: JobLine | None = None) -> None:
        with self._lock:  # once: if it fails, the text is enough
            may_have_page, self._may_have_page = self._may_have_page, False
        if not may_have_page:
            return
        from workbench.widgets.lines import LinePage
        from workbench.widgets.page_model import needs_view

        self._router.introduce_widgets()
        if not needs_view():
            self._pages.append(LinePage(self._heard))
            return
        self._may_have_page = True
        if line is not None and line.view is None:
            line.shown_in(LinePage(self._heard, line.name))

    def _heard(self, page: Any, message: dict[str, Any]) -> None:
        """Handle a page's message. The kernel's main thread, or a subshell's."""
        line = self._shown.get(str(message.get("line", "")))
        match message.get("do"):
            case "lines":
                self._answer(page, message.get("lines", []))
            case "stop" if line is not None:
                line.job.cancel(force=line.job.stopping > 0)  # a second click kills its worker
                line.send_state()
            case "follow" if line is not None:
                line.follow()

    def _answer(self, page: Any, asked: list[dict[str, str]]) -> None:
        """Send a page the present state of the lines it has. A page that was just loaded and asks
        for none gets the last ones."""
        known = [self._shown[each["line"]] for each in asked if each.get("line") in self._shown]
        for line in known:
            line.renew()
        for line in known if asked else list(self._shown.values())[-MOST_TOLD:]:
            page.send_message({**line.page_state(), "source": self._router.source(line.job.origin)})
        others = [each for each in asked if each.get("line") not in self._shown]
        engine = context.get()
        if not others or engine is None:
            return
        with contextlib.suppress(SessionError):
            records = {key_of(engine, job.id): job for job in engine.ask(Jobs())}
            for each in others:  # from kernels that are gone
                record = records.get(each.get("job", ""))
                unknown = JobStatus(each.get("name", ""), "unknown", 0.0)
                status = of_record(record) if record else unknown
                page.send_message({**_worded(each.get("line", ""), status), "foreign": True})


def _has_open_lines() -> bool:
    """True if the notebook's file has lines of cells that ran when it was saved."""
    with contextlib.suppress(OSError, KeyError):
        saved = Path(os.environ["JPY_SESSION_NAME"]).read_bytes()
        return b"workbench-line" in saved and AS_OF.encode() in saved
    return False

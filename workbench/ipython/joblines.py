"""The line under a background cell: what it is doing, a Stop button; at its end one quiet line.

Its words are `report.job_status`. What is saved with the notebook is plain HTML that is true
whenever it is read; a script in the page (`widgets.lines`) puts what is true now, and the button,
over it, also in pages that were opened later, and over lines of kernels that are gone. Threads: the
one that starts a cell, the one that reads the socket, the one that ticks, and the one that hears
pages (the kernel's main one, or a subshell's).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

from workbench import context
from workbench.engine.queries import Jobs
from workbench.errors import SessionError
from workbench.ipython.interleave import Screen, Text
from workbench.ipython.job import Job, key_of
from workbench.ipython.output import Router
from workbench.report.job_status import AS_OF, JobStatus, elsewhere, of_record
from workbench.report.markup import mood_color, place

TICK = 0.5
"""Seconds between two looks at the cells that run, and before a cell gets a button: one that is
over by then gets its quiet line alone."""

RENEWAL = 10.0
"""Seconds after which the saved line is renewed, where a script keeps the one that is seen."""

HEARTBEAT = 2.0
"""Seconds after which a page is told the same again: it takes silence for the kernel's end."""

MOST_LINES = 1_000
"""Lines remembered, for pages that are opened later."""

MOST_TOLD = 100
"""Lines that a page hears of without having asked: its notebook may not have been saved since."""

MOST_MISSED = 100_000
"""Letters of a cell's prints that a page which was opened later is sent: the last ones."""


class JobLine:
    """One line in a notebook. ``pages`` are those that hear of all lines."""

    def __init__(self, job: Job, router: Router, pages: list[Any]) -> None:
        self.job = job
        self._pages = pages
        self.name = router.display_id("job")
        self.view: Any = None  # a `LinePage` of its own, where each needs a view
        self.followed = False  # some page shows what it prints, and isn't sent that as output
        self._router = router
        self._due = time.monotonic() + TICK
        self._lock = threading.RLock()  # it ticks, ends and is pressed in different threads
        self._number = 0  # renewals
        self._renewed = self._told_at = 0.0
        self._said = ""
        self._printed: tuple[int, int] | None = None  # how much was told, and how many errors
        self._ended = False

    def show(self) -> None:
        """Put it under its cell; again, if the cell has cleared its output."""
        with self._lock:
            self._publish(is_new=True)

    def began(self) -> None:
        """It runs now: that is said at once. The thread that reads."""
        with self._lock:
            if not self._ended:
                self._publish()
                self.tell()

    @property
    def wants_page(self) -> bool:
        """Whether it has been there for long enough to be worth a button."""
        return not self._ended and time.monotonic() >= self._due

    def tick(self) -> None:
        """Say what has changed: to the pages, or if there are none in the saved line."""
        with self._lock:
            if not self.wants_page:
                return
            status, now = self.job.status, time.monotonic()
            changed, has_page = str(status) != self._said, bool(self._pages or self.view)
            if now - self._renewed > RENEWAL if has_page else changed:
                self._publish()
            if has_page and (changed or now - self._told_at > HEARTBEAT):
                self._said, self._told_at = str(status), now
                self.tell()

    def end(self) -> None:
        with self._lock:
            self._ended = True
            view, self.view = self.view, None
            self._publish()
            self.tell()
            if view is not None:
                view.close()

    def renew(self) -> None:
        """By that a page finds out whether it is sent what its cell shows. Not in ten seconds."""
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
        still = status if job.is_over else status.at(time.strftime("%H:%M, %-d %b"))
        shown: dict[str, Any] = dict(still._repr_mimebundle_())
        # By `line` it is told from all others; `seq` counts the renewals.
        known = {"line": self.name, "job": job.key, "name": job.name, "seq": str(self._number)}
        shown["text/html"] = place("line", known, shown["text/html"])
        if self.view is not None:
            from workbench.widgets.page_model import view_bundle

            shown |= view_bundle(self.view)
        return shown

    # -- what pages are told ----------------------------------------------------------------------

    def shown_in(self, view: Any) -> None:
        """From now on a view of its own stands for it."""
        with self._lock:
            if not self._ended:
                self.view = view
                self._publish()

    def told(self) -> dict[str, Any]:
        """All that a page has to know of it."""
        with self._lock:
            job = self.job
            may_kill = job.stopping and not job.actor  # that would lose all it has
            button = "" if job.is_over else "Kill" if may_kill else "Stop"
            what = f"the worker that runs {job.name}" if may_kill else job.name
            return {
                **_worded(self.name, job.status),
                "seq": self._number,
                "job": job.key,
                "button": button,
                "title": f"{button} {what}",
            }

    def tell(self) -> None:
        """Have its pages told."""
        for page in [*self._pages, *filter(None, [self.view])]:
            page.tell(self.told())

    def tell_missed(self) -> None:
        """Have them told what it has printed, if that is more than when this was done last."""
        printed = self.job.printed, len(self.job.errors)
        if printed == self._printed or not self._pages:
            return
        self._printed = printed
        with contextlib.suppress(SessionError):
            text = _as_printed(self.job)[-MOST_MISSED:]
            if error := self.job.errors[:1]:
                text += f"{type(error[0]).__name__}: {error[0]}"
            for page in self._pages:
                page.tell({"kind": "text", "line": self.name, "text": text})

    def follow(self) -> None:
        """From now on a page shows what it prints, and isn't sent that as output."""
        self.followed, self._printed = True, None
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


def _as_printed(job: Job) -> str:
    """All its prints, as they stand under its cell."""
    screen, lines = Screen(job.size > 1), []
    for output in job.shown() or ():
        text = output.data.decode("utf-8", "replace")
        for part in screen.write(job.label_of(output), output.kind, text):
            if isinstance(part, Text):
                lines.append(part.text)
            elif part.is_last:
                lines.append(f"{part.text}\n")
    return "".join(lines)


class JobLines:
    """The lines of one notebook, and the thread that keeps them true while any is open."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._lock = threading.Lock()
        self._lines: dict[Job, JobLine] = {}  # of those that aren't over
        self._shown: OrderedDict[str, JobLine] = OrderedDict()  # by name: these, and those before
        self._pages: list[Any] = []  # one `LinePage`, once it is made: all pages hear it
        self._may_have_page = True
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def begin(self, job: Job) -> None:
        """Show a line for it. In a terminal it has one when it is over."""
        line = JobLine(job, self._router, self._pages)
        with self._lock:
            if job.is_over:  # whoever waited for it: its end has said what there was to say
                return
            self._lines[job] = line
            if self._router.is_terminal:
                return
            line.show()
            self._router.cell(job.origin).jobs[job] = line.show
            self._shown[line.name] = line
            if len(self._shown) > MOST_LINES:
                self._shown.popitem(last=False)
            self._closed.clear()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="workbench-jobs", daemon=True
                )
                self._thread.start()

    def began(self, job: Job) -> None:
        line = self._lines.get(job)
        if line is not None and not self._router.is_terminal:
            line.began()

    def end(self, job: Job) -> None:
        with self._lock:
            line = self._lines.pop(job, None)
            if not self._lines:
                self._closed.set()
        if line is None:  # it was quiet, or over before it had one
            if job.notes:
                self._router.note(job.origin, "\n".join(job.notes))
        elif self._router.is_terminal:
            self._router.note(job.origin, str(job.status), "stdout")
        else:
            line.end()
            if line.followed:  # not here: it asks the session, and this is who reads the answer
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
                with contextlib.suppress(Exception):  # a front end that can't: no reason to end
                    if line.wants_page and not self._router.headless:
                        self._make_page(line)
                    line.tick()
                    if line.followed:
                        line.tell_missed()

    # -- pages: need anywidget, which takes a while to import -------------------------------------

    def attend(self) -> None:
        """There may be lines in the notebook of a kernel that is gone: have them brought to their
        end. In a thread of its own, for it takes a while."""
        if not self._router.is_terminal and not self._router.headless:
            threading.Thread(target=self._attend, name="workbench-lines", daemon=True).start()

    def _attend(self) -> None:
        engine = context.get()
        with contextlib.suppress(Exception):  # a front end that can't, or the session's end
            if engine is not None and (
                _has_open_lines() or (engine.facts.joined and engine.ask(Jobs()))
            ):
                self._make_page()

    def _make_page(self, line: JobLine | None = None) -> None:
        with self._lock:  # once: where it can't be made, the words are enough
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
        """A page says something. The kernel's main thread, or a subshell's."""
        line = self._shown.get(str(message.get("line", "")))
        match message.get("do"):
            case "lines":
                self._answer(page, message.get("lines", []))
            case "stop" if line is not None:
                line.job.cancel(force=line.job.stopping > 0)  # pressed again: kill its worker
                line.tell()
            case "follow" if line is not None:
                line.follow()

    def _answer(self, page: Any, asked: list[dict[str, str]]) -> None:
        """A page has lines of these names: what is true of them now. A page that has just been
        loaded, and asks after none, is told of the last ones."""
        known = [self._shown[each["line"]] for each in asked if each.get("line") in self._shown]
        for line in known:
            line.renew()
        for line in known if asked else list(self._shown.values())[-MOST_TOLD:]:
            page.tell({**line.told(), "source": self._router.source(line.job.origin)})
        others = [each for each in asked if each.get("line") not in self._shown]
        engine = context.get()
        if not others or engine is None:
            return
        with contextlib.suppress(SessionError):
            records = {key_of(engine, job.id): job for job in engine.ask(Jobs())}
            for each in others:  # of kernels that are gone
                record = records.get(each.get("job", ""))
                status = of_record(record) if record else elsewhere(each.get("name", ""))
                page.tell({**_worded(each.get("line", ""), status), "foreign": True})


def _has_open_lines() -> bool:
    """Whether the notebook's file has lines of cells that ran when it was saved."""
    with contextlib.suppress(OSError, KeyError):
        saved = Path(os.environ["JPY_SESSION_NAME"]).read_bytes()
        return b"workbench-line" in saved and AS_OF.encode() in saved
    return False

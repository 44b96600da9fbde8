"""Feeds live views of one session: the world once, then differences, while anybody looks.

One thread per session, which asks for changes at most four times a second, and spends at most
1/30 of the time on them. `world`, `set_shown` and `nudge` are called in other
threads: the kernel's main one, or a subshell's.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from IPython.core.getipython import get_ipython
from msgspec import to_builtins

from workbench import api, context
from workbench.core.snapshot import HISTORY_SECONDS, Sample, Snapshot
from workbench.engine.base import Observed
from workbench.engine.queries import CaughtUp, CopySpeed, Held
from workbench.errors import SessionError, WorkbenchError
from workbench.format import UNKNOWN
from workbench.heap import roots, survey
from workbench.report import memory, page
from workbench.report.colors import hues
from workbench.report.facts import Place
from workbench.report.page import Rest, Row, TimelinePoint, key_of
from workbench.report.processes import Processes, owners_of
from workbench.report.view_texts import Bar
from workbench.widgets.kept import kept_in
from workbench.widgets.mirror import MOST, Mirror
from workbench.widgets.page_model import Message, PageModel

SHARE = 30
"""After an update that took one second, this many seconds pass without one."""


@dataclass(frozen=True)
class Timing:
    """Waiting times of a feed, in seconds.

    A page reports every 20 seconds that somebody looks at it. If none has for ``unseen``, it may be
    gone, or a busy cell keeps it from being heard: then it gets one update in ``slow``. After
    ``forgotten`` it gets none until it is heard again; that long after the last page was shown, the
    session stops tracking changes for it.
    """

    pace: float = 0.25
    """Least time between two updates."""

    first: float = 0.5
    """Time that a first view waits for something to show; if there is much, not for all of it."""

    looked: float = 5.0
    """Time that a view waits for a look at the session that began after the line before it (slow
    on a busy cluster). After that the view says that its data is older."""

    unseen: float = 60.0
    slow: float = 10.0
    forgotten: float = 600.0


MOST_SURVEYED = 20_000
"""Objects that are looked at to see where this process's own memory is."""

BINS = 128
"""Parts of a segment for showing where objects without a row are."""


class Feed:
    """See the module. ``held``: by object, the variables of this process that have it.

    ``most``: objects with a row of their own.
    """

    def __init__(self, engine: Observed, timing: Timing = Timing(), most: int = MOST) -> None:
        self.engine = engine
        self.timing = timing
        self._most = most
        self._lock = threading.RLock()  # guards all below
        self._audience: dict[tuple[PageModel, str], float] = {}  # view and page → last heard
        self._mirror = Mirror(most)
        self._rows: dict[int, Row] = {}
        self._owners: dict[int, str] = {}  # by segment
        self.held: dict[int, tuple[Place, ...]] = {}
        self._session: page.PageSession | None = None  # as last sent
        self._timeline: deque[TimelinePoint] = deque()
        self._fresh: list[TimelinePoint] = []  # points of the timeline not sent yet
        self.seq = 0  # of the last difference
        self._anew = 0.0  # when everything may be read again
        self._speed: float | None = None
        self._hues: dict[str, dict[str, int]] = {}
        self._survey_due = 0.0
        self.process: Bar | None = None  # this process's own memory
        self.kept = kept_in(engine)
        self._changes = engine.changes()
        self._thread: threading.Thread | None = None
        self._ending: threading.Timer | None = None  # ends the subscription while nobody looks
        self._is_asleep = False  # the subscription has been ended
        self._hurry = threading.Event()  # ends a pause
        self._looked = threading.Condition()  # guards the next two
        self._looks = 0  # number of looks the thread has had
        self._awaited = 0  # number of looks that include what was done before a view
        self._take_in(self.timing.first)
        self._survey()
        self._difference()
        shell = get_ipython()
        self._events = None if shell is None else shell.events

    @property
    def is_over(self) -> bool:
        return self.engine.end_reason is not None

    # -- in any thread -----------------------------------------------------------------------------

    def world(self) -> Message:
        """Return the present state, as a page gets it: see `report.page`."""
        with self._lock:
            known = self._session or {"session": self.engine.session}
            return {
                "kind": "world",
                "seq": self.seq,
                "now": time.time(),
                **to_builtins(known),
                "ended": self.engine.end_reason,
                "objects": {row.id: to_builtins(row) for row in self._rows.values()},
                "timeline": list(self._timeline),
            }

    def snapshot(self) -> Snapshot:
        """Return the same for one drawing: listed objects, and counts of the others.

        Raises `SessionError` if nothing is known of the session.
        """
        with self._lock:
            if self._mirror.session is None:
                return self.engine.snapshot()
            now = self._mirror.session.taken
            history = tuple(Sample(now - s[0], *s[1:]) for s in self._timeline)
            return self._mirror.session.replace(objects=self._mirror.records(), history=history)

    def catch_up(self) -> None:
        """Include what this process has done so far: a cell that deletes a variable may show a
        view in the next line."""
        until = time.monotonic() + self.timing.looked
        if not self._refresh_here():
            for _ in range(2):
                self._wait_for_session()
                self._wait_for_refresh(until)
            self._refresh_here()  # the thread may have ended meanwhile: there is no page

    def _refresh_here(self) -> bool:
        """Look in this thread; False if the feed's thread does that."""
        with self._lock:
            if self._thread is not None or self.is_over:
                return self._thread is None
            self._take_in(0.0)  # what arrived since the last time
            # Twice: the first answer may include only half of what was done.
            for _ in range(2):
                self._take_in(0.0)  # asks anew
                self._wait_for_session()
                self._changes.hurry()
                self._take_in(0.0)
            self._survey()
            if self._difference():
                self.seq += 1
            return True

    @property
    def is_late(self) -> bool:
        """True if a look that `catch_up` waited for is still missing."""
        return self._thread is not None and self._looks < self._awaited

    def _wait_for_refresh(self, until: float) -> None:
        """Wait until the thread has looked once more from now on, or until that time."""
        with self._looked:
            looks = self._awaited = self._looks + 2  # the present look began before
            while True:
                if self._looks >= looks or self._thread is None or time.monotonic() >= until:
                    return
                self._changes.hurry()
                self._hurry.set()
                self._looked.wait(self.timing.pace)

    def _wait_for_session(self) -> None:
        with contextlib.suppress(WorkbenchError):  # the session ended, or doesn't answer
            self.engine.ask(CaughtUp())

    def set_shown(self, view: PageModel, on: bool, page: str = "", seq: int = -1) -> bool:
        """Note that a page shows this view, and knows all up to difference ``seq``; or no longer.

        Returns whether the page showed it before.
        """
        with self._lock:
            before = (view, page) in self._audience
            heard = max(self._audience.values(), default=0.0)
            if on:
                if not before and seq not in (-1, self.seq):
                    view.send_message(self.world())
                self._audience[view, page] = time.monotonic()
            else:
                self._audience.pop((view, page), None)
            if self.is_over:
                self._broadcast(self._difference())  # the end, if nobody has looked since
            elif on and self._thread is None:
                self._stay()
                self._thread = threading.Thread(
                    target=self._run, name="workbench-views", daemon=True
                )
                self._thread.start()
                if self._events is not None:
                    self._events.register("post_run_cell", self.nudge)
            if self._thread is not None:
                self._changes.interrupt()
                if time.monotonic() - heard > self.timing.unseen:
                    self._hurry.set()
        return before

    def nudge(self, *_: object) -> None:
        """Look at the variables after a cell: they may hold other objects than before."""
        if self._thread is not None:
            self._changes.interrupt()

    def refresh_now(self) -> None:
        """Look at once, after a button's action. Any thread; doesn't wait."""
        if self._thread is not None:
            self._changes.hurry()
            self._hurry.set()

    def close(self) -> None:
        with self._lock:
            self._audience.clear()
            thread = self._thread
            self._stay()
            self._changes.close()
        self._hurry.set()
        if thread is not None:
            thread.join(self.timing.first)

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        """Update the views until nobody looks, or the session is over."""
        try:
            if self._speed is None:
                with contextlib.suppress(RuntimeError, MemoryError):  # Python exits; out of memory
                    self._speed = self.engine.ask(CopySpeed())
            while self._update():
                pass
        finally:
            with self._lock:
                self._leave()  # after an error, the next page starts another thread

    def _update(self) -> bool:
        """Send the next difference, and pause; False if nobody looks any more."""
        self._take_in()
        self._survey()
        began, cpu = time.monotonic(), time.thread_time()
        with self._lock:
            self._broadcast(self._difference())
            is_over = not self._audience or self.is_over
            if is_over:
                self._leave()
        with self._looked:
            self._looks += 1
            self._looked.notify_all()
        if is_over:
            return False
        self._pause(began + max(self.timing.pace, SHARE * (time.thread_time() - cpu)))
        return True

    def _survey(self) -> None:
        """See where this process's own memory is, at most as often as `SHARE` allows."""
        if time.monotonic() >= self._survey_due:
            began = time.thread_time()
            with contextlib.suppress(RuntimeError, MemoryError):  # what it looks at changes
                found = survey.survey(roots.roots(), most=MOST_SURVEYED)
                self.process = memory.process_bar(found)
            self._survey_due = time.monotonic() + SHARE * (time.thread_time() - began)

    def _leave(self) -> None:
        """Stop this thread from being the feed's."""
        if self._thread is threading.current_thread():
            self._thread = None
            if self._events is not None:
                self._events.unregister("post_run_cell", self.nudge)
            if not self._changes.is_over:
                self._ending = threading.Timer(self.timing.forgotten, self._sleep)
                self._ending.name, self._ending.daemon = "workbench-views-ending", True
                self._ending.start()

    def _stay(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _sleep(self) -> None:
        """End the subscription: nobody has looked for long."""
        with self._lock:
            if self._ending is threading.current_thread():
                self._ending, self._is_asleep = None, True
                self._changes.close()

    def _pause(self, until: float) -> None:
        """Pause; longer if no page has been heard for long."""
        with self._lock:
            now = time.monotonic()
            for who, heard in list(self._audience.items()):
                if now - heard > self.timing.forgotten:
                    del self._audience[who]
            if now - max(self._audience.values(), default=0.0) > self.timing.unseen:
                until += self.timing.slow
        self._hurry.wait(max(until - time.monotonic(), 0.0))
        self._hurry.clear()

    def _take_in(self, timeout: float | None = None) -> None:
        """Wait for a change, and apply all changes; with a timeout, those that come soon.

        Returns also if it is interrupted.
        """
        if self._is_asleep and not self.is_over:
            self._is_asleep = False
            self._begin_anew()
        change = self._changes.next(timeout)
        until = time.monotonic() + self.timing.first
        while change is not None:
            with self._lock:
                self._mirror.apply(change)
                self._note(change.session)
            # A change in pieces: the next piece is on its way.
            patience = self.timing.first if timeout is None else max(until - time.monotonic(), 0.0)
            change = self._changes.next(patience) if change.left else None
        if self._mirror.is_thin and time.monotonic() >= self._anew:
            with contextlib.suppress(SessionError):  # the session has just ended
                began = time.monotonic()
                self._begin_anew()
                self._anew = time.monotonic() + SHARE * (time.monotonic() - began)

    def _begin_anew(self) -> None:
        """Resubscribe from scratch, then swap. Doesn't block other threads."""
        changes, mirror = self.engine.changes(), Mirror(self._most)
        change = changes.next(self.timing.first)
        while change is not None:
            mirror.apply(change)
            with self._lock:  # of the history only the last sample: the rest was sent before
                self._note(change.session.replace(history=(change.session.history or ())[-1:]))
            change = changes.next(self.timing.first) if change.left else None
        with self._lock:
            mirror.changed.update(self._rows)
            former, self._changes, self._mirror = self._changes, changes, mirror
        former.close()

    def _note(self, session: Snapshot) -> None:
        last = self._timeline[-1][0] if self._timeline else 0.0
        samples = []
        for s in session.history or ():
            # A delayed sample seems later than it is, and than the next one.
            last = max(last, round(session.taken - s.age, 2))
            samples.append((last, s.live, s.spilled, s.puts, s.frees, s.spills))
        if self._timeline and samples and samples[-1][1:] == self._timeline[-1][1:]:
            samples.pop()  # unchanged
        self._timeline.extend(samples)
        self._fresh += samples
        horizon = session.taken - HISTORY_SECONDS
        while len(self._timeline) > 1 and self._timeline[1][0] < horizon:
            self._timeline.popleft()

    def _difference(self) -> Message:
        """Return the changes since the last call: a difference without number and time."""
        now = self._mirror.session
        if now is None:
            return {}
        processes, owners = Processes(now), owners_of(now)
        objects, gone = self._objects(processes, owners)
        before, self._session = self._session, self._others(now, processes, owners)
        found = {"objects": to_builtins(objects), "gone": gone, "timeline": self._fresh}
        self._fresh = []
        return page.changed(before, self._session) | {k: v for k, v in found.items() if v}

    def _objects(
        self, processes: Processes, owners: dict[int, str]
    ) -> tuple[dict[str, Row], list[str]]:
        mirror, before = self._mirror, self.held
        self.held = held = self.engine.ask(Held())
        mirror.changed.update(id for id in {*before, *held} if before.get(id) != held.get(id))
        moved = {id for id in owners if owners[id] != self._owners.get(id)}
        if moved:
            mirror.changed.update(id for id, r in mirror.listed.items() if r.segment in moved)
        self._owners = owners
        objects, gone = {}, []
        for id in mirror.changed:
            record = mirror.listed.get(id)
            if record is None:
                if self._rows.pop(id, None) is not None:
                    gone.append(key_of(id))
                continue
            row = page.row_of(record, processes, owners, mirror.born[id], held.get(id, ()))
            if row != self._rows.get(id):
                self._rows[id] = objects[row.id] = row
        mirror.changed.clear()
        return objects, gone

    def _others(
        self, session: Snapshot, processes: Processes, owners: dict[int, str]
    ) -> page.PageSession:
        bins = {
            key_of(segment.id): self._mirror.bins(segment.id, segment.end, BINS)
            for segment in session.segments or ()
        }
        return page.session_of(
            session,
            processes,
            owners,
            self.engine.can,
            ended=self.engine.end_reason,
            speed=self._speed,
            process=self.process,
            history=kept.rows if (kept := self.kept.history) else None,
            bins={id: parts for id, parts in bins.items() if any(parts)},
            rest=[Rest(*kind) for kind in self._mirror.kinds()],
            hues=self._coloured(),
        )

    def _coloured(self) -> dict[str, dict[str, int]]:
        """Return the colours of types and owners: earlier ones are kept while those exist."""
        for by, sizes in (("type", Counter[str]()), ("owner", Counter[str]())):
            for row in self._rows.values():
                if row.len:
                    label = row.kind if by == "type" else row.owner
                    sizes[label or UNKNOWN] += row.len
            self._hues[by] = hues(sizes, self._hues.get(by, {}))
        return dict(self._hues)

    def _broadcast(self, diff: Message) -> None:
        if diff:
            self.seq += 1
            message = {"kind": "diff", "seq": self.seq, "now": time.time(), **diff}
            for view in dict.fromkeys(view for view, _ in self._audience):
                view.send_message(message)


def feed_of(of: Any = None) -> Feed:
    """Return the feed of the current session, or of ``of``'s: see `api.observing`."""
    if of is None:
        api.engine()
        return context.companion(Feed)
    return context.beside(of, lambda: Feed(api.observed(of)), lambda feed: feed.is_over)

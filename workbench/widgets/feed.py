"""What live views of one session are fed: the world once, then differences, while anybody looks.

One thread a session, which asks for changes at most four times a second, and takes at most one
part in thirty of the time for what it does with them. `world`, `shown` and `nudge` come in other
threads: the kernel's main one, or a subshell's.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any, Protocol

from IPython.core.getipython import get_ipython
from msgspec import to_builtins

from workbench import api, context
from workbench.core.snapshot import HISTORY_SECONDS, Sample, Snapshot
from workbench.engine.base import Observed
from workbench.engine.queries import CaughtUp, CopySpeed, Held
from workbench.errors import SessionError, WorkbenchError
from workbench.format import UNKNOWN
from workbench.report import page
from workbench.report.colors import hues
from workbench.report.facts import Place
from workbench.report.page import Rest, Row, TimelinePoint, key_of
from workbench.report.processes import Processes, owners_of
from workbench.widgets.mirror import MOST, Mirror
from workbench.widgets.page_model import Message

SHARE = 30
"""An update that took a second is followed by so many without one."""


@dataclass(frozen=True)
class Timing:
    """How long a feed waits for what, in seconds.

    A page says every 20 seconds that it is looked at. If none has for ``unseen``, it may be gone,
    or can't be heard while a cell is busy: then it gets one update in ``slow``. After ``forgotten``
    it gets none any more, until it is heard again; so long after the last page was shown the
    session needn't note any more what changes.
    """

    pace: float = 0.25
    """Between two updates, at least."""

    first: float = 0.5
    """A first view waits so long to have something to show; of very much, it waits no longer."""

    looked: float = 5.0
    """A view waits so long for a look at the session which begins after the line before it: on a
    busy cluster one takes a while. Then the view says that what it has is older."""

    unseen: float = 60.0
    slow: float = 10.0
    forgotten: float = 600.0


BINS = 128
"""Into so many a segment is divided to say where the objects without a row are."""


class Audience(Protocol):
    def tell(self, message: Message) -> None:
        """Send this to all pages that show it."""
        ...


class Feed:
    """See the module. ``held``: by object, the variables of this process that have it.

    ``most``: objects with a row of their own.
    """

    def __init__(self, engine: Observed, timing: Timing = Timing(), most: int = MOST) -> None:
        self.engine = engine
        self.timing = timing
        self._most = most
        self._lock = threading.RLock()  # guards all below
        self._audience: dict[tuple[Audience, str], float] = {}  # view and page → heard when
        self._mirror = Mirror(most)
        self._rows: dict[int, Row] = {}
        self._owners: dict[int, str] = {}  # by segment
        self.held: dict[int, tuple[Place, ...]] = {}
        self._session: page.PageSession | None = None  # as it was told last
        self._timeline: deque[TimelinePoint] = deque()
        self._fresh: list[TimelinePoint] = []  # of the timeline, not told yet
        self.seq = 0  # of the last difference
        self._anew = 0.0  # from when on everything may be heard again
        self._speed: float | None = None
        self._hues: dict[str, dict[str, int]] = {}
        self._changes = engine.changes()
        self._thread: threading.Thread | None = None
        self._ending: threading.Timer | None = None  # ends the subscription while nobody looks
        self._is_asleep = False  # it has
        self._hurry = threading.Event()  # ends a pause
        self._looked = threading.Condition()  # guards the next
        self._looks = 0  # that the thread has had
        self._awaited = 0  # so many, for what was done before a view to be in it
        self._take_in(self.timing.first)
        self._difference()
        shell = get_ipython()
        self._events = None if shell is None else shell.events

    @property
    def is_over(self) -> bool:
        return self.engine.ended is not None

    # -- in any thread -----------------------------------------------------------------------------

    def world(self) -> Message:
        """All there is, as it is now: a `page.World`."""
        with self._lock:
            known = self._session or {"session": self.engine.session}
            return {
                "kind": "world",
                "seq": self.seq,
                "now": time.time(),
                **to_builtins(known),
                "ended": self.engine.ended,
                "objects": {row.id: to_builtins(row) for row in self._rows.values()},
                "timeline": list(self._timeline),
            }

    def snapshot(self) -> Snapshot:
        """As `world`, for those who draw it once: what is listed, and how much there is besides.

        Raises `SessionError` if nothing was ever heard of the session.
        """
        with self._lock:
            if self._mirror.session is None:
                return self.engine.snapshot()
            now = self._mirror.session.taken
            history = tuple(Sample(now - s[0], *s[1:]) for s in self._timeline)
            return self._mirror.session.replace(objects=self._mirror.records(), history=history)

    def catch_up(self) -> None:
        """Have in it what this process has done so far: a cell that deletes a variable may show a
        view in the next line."""
        until = time.monotonic() + self.timing.looked
        if not self._have_looked_here():
            for _ in range(2):
                self._settle()
                self._have_looked(until)
            self._have_looked_here()  # the thread may have left meanwhile: no page is there

    def _have_looked_here(self) -> bool:
        """Look in this thread; False if there is one for that."""
        with self._lock:
            if self._thread is not None or self.is_over:
                return self._thread is None
            self._take_in(0.0)  # what has been on its way since it was asked for last
            # Twice: the first answer may be of half of what was done, the rest on its way.
            for _ in range(2):
                self._take_in(0.0)  # asks anew
                self._settle()
                self._changes.hurry()
                self._take_in(0.0)
            if self._difference():
                self.seq += 1
            return True

    @property
    def is_late(self) -> bool:
        """Whether a look that `catch_up` waited for is still not there."""
        return self._thread is not None and self._looks < self._awaited

    def _have_looked(self, until: float) -> None:
        """Wait until the thread has looked once more, from now on; or until that time."""
        with self._looked:
            looks = self._awaited = self._looks + 2  # the one under way has begun before
            while True:
                if self._looks >= looks or self._thread is None or time.monotonic() >= until:
                    return
                self._changes.hurry()
                self._hurry.set()
                self._looked.wait(self.timing.pace)

    def _settle(self) -> None:
        with contextlib.suppress(WorkbenchError):  # it ended, or doesn't answer
            self.engine.ask(CaughtUp())

    def shown(self, view: Audience, on: bool, page: str = "", seq: int = -1) -> bool:
        """A page shows this view, of which it knows all up to that difference; or not any more.

        Returns whether it has shown it before.
        """
        with self._lock:
            before = (view, page) in self._audience
            heard = max(self._audience.values(), default=0.0)
            if on:
                if not before and seq not in (-1, self.seq):
                    view.tell(self.world())
                self._audience[view, page] = time.monotonic()
            else:
                self._audience.pop((view, page), None)
            if self.is_over:
                self._tell(self._difference())  # the end, if nobody has looked since
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
        """A cell has ended: variables may hold other objects than before."""
        if self._thread is not None:
            self._changes.interrupt()

    def look(self) -> None:
        """Something was done by a button: look at once. Any thread; doesn't wait for it."""
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
        """Until nobody looks, or the session is over."""
        try:
            if self._speed is None:
                with contextlib.suppress(RuntimeError, MemoryError):  # it is ending; or too full
                    self._speed = self.engine.ask(CopySpeed())
            while self._update():
                pass
        finally:
            with self._lock:
                self._leave()  # should it have failed: who looks then starts another one

    def _update(self) -> bool:
        """Tell what comes next, and pause; False if nobody is there to be told more."""
        self._take_in()
        began, cpu = time.monotonic(), time.thread_time()
        with self._lock:
            self._tell(self._difference())
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

    def _leave(self) -> None:
        """This thread is the one that feeds no longer."""
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
        """Nobody has looked for long: changes are noted for others alone."""
        with self._lock:
            if self._ending is threading.current_thread():
                self._ending, self._is_asleep = None, True
                self._changes.close()

    def _pause(self, until: float) -> None:
        """Let time pass; much of it, if nobody has said for long that they look."""
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
        """Wait for something to change, and note all that has; with a timeout, what comes soon.

        Also when it is interrupted.
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
            # Of a change in pieces each next one is on its way.
            patience = self.timing.first if timeout is None else max(until - time.monotonic(), 0.0)
            change = self._changes.next(patience) if change.left else None
        if self._mirror.is_thin and time.monotonic() >= self._anew:
            with contextlib.suppress(SessionError):  # it has just ended
                began = time.monotonic()
                self._begin_anew()
                self._anew = time.monotonic() + SHARE * (time.monotonic() - began)

    def _begin_anew(self) -> None:
        """Hear of everything again, and then forget what was known. Others needn't wait for it."""
        changes, mirror = self.engine.changes(), Mirror(self._most)
        change = changes.next(self.timing.first)
        while change is not None:
            mirror.apply(change)
            with self._lock:  # of the past, all but how it is now has been told before
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
            # One that was long on its way seems to be of later than it is, and than the next.
            last = max(last, round(session.taken - s.age, 2))
            samples.append((last, s.live, s.spilled, s.puts, s.frees, s.spills))
        if self._timeline and samples and samples[-1][1:] == self._timeline[-1][1:]:
            samples.pop()  # as it was
        self._timeline.extend(samples)
        self._fresh += samples
        horizon = session.taken - HISTORY_SECONDS
        while len(self._timeline) > 1 and self._timeline[1][0] < horizon:
            self._timeline.popleft()

    def _difference(self) -> Message:
        """What has changed since the last one: what a `page.Diff` has beside number and time."""
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
            ended=self.engine.ended,
            speed=self._speed,
            bins={id: parts for id, parts in bins.items() if any(parts)},
            rest=[Rest(*kind) for kind in self._mirror.kinds()],
            hues=self._coloured(),
        )

    def _coloured(self) -> dict[str, dict[str, int]]:
        """Who has which colour: as before, as far as they are still there."""
        for by, sizes in (("type", Counter[str]()), ("owner", Counter[str]())):
            for row in self._rows.values():
                if row.len:
                    label = row.kind if by == "type" else row.owner
                    sizes[label or UNKNOWN] += row.len
            self._hues[by] = hues(sizes, self._hues.get(by, {}))
        return dict(self._hues)

    def _tell(self, diff: Message) -> None:
        if diff:
            self.seq += 1
            message = {"kind": "diff", "seq": self.seq, "now": time.time(), **diff}
            for view in dict.fromkeys(view for view, _ in self._audience):
                view.tell(message)


def feed_of(of: Any = None) -> Feed:
    """That of the current session, or of the one that ``of`` stands for: see `api.observing`."""
    if of is None:
        api.engine()
        return context.companion(Feed)
    return context.beside(of, lambda: Feed(api.observed(of)), lambda feed: feed.is_over)

"""What live views of one session are fed: the world once, then differences, while anybody looks.

One thread a session, which asks for changes at most four times a second, and takes at most one
part in thirty of the time for what it does with them. `world`, `shown` and `nudge` come in other
threads: the kernel's main one, or a subshell's.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import Any, Protocol

from IPython.core.getipython import get_ipython

from workbench import api, context
from workbench.core.snapshot import Sample as Past
from workbench.core.snapshot import Snapshot
from workbench.engines.base import Observed
from workbench.errors import SessionError
from workbench.widgets.mirror import Mirror
from workbench.widgets.rows import Place, Row, Words, here, key_of, session_of
from workbench.widgets.words import variables

PACE = 0.25
"""Seconds between two updates, at least."""

SHARE = 30
"""An update that took a second is followed by so many without one."""

FIRST = 0.5
"""Seconds that a first view waits to have something to show; of very much, it waits no longer."""

GLANCE = 0.05
"""Seconds that another one waits to hear what is new, if anything is."""

SPAN = 120.0
"""Seconds of the past that are shown."""

UNSEEN = 60.0
"""A page says every 20 seconds that it is looked at. If none has for so long, it may be gone, or
can't be heard while a cell is busy: then it gets one update in `SLOW` seconds."""

SLOW = 10.0

FORGOTTEN = 600.0
"""Then it gets none any more, until it is heard again."""

PARTS = 128
"""Into so many a segment is divided to say where the objects without a row are."""


Sample = tuple[float, int, int | None, int, int, int | None]
"""Time (seconds since 1970), bytes in memory and on disk, objects that came, went, were spilled."""


class Audience(Protocol):
    """A view, as far as a feed knows it."""

    def tell(self, message: Row) -> None:
        """Send this to all pages that show it."""
        ...


class Feed:
    """See the module.

    Parameters
    ----------
    engine : Observed
        The session.

    Attributes
    ----------
    held : dict of int → tuple of str
        By object, the variables of this process that hold it.
    """

    def __init__(self, engine: Observed) -> None:
        self.engine = engine
        self._lock = threading.RLock()  # guards all below
        self._audience: dict[tuple[Audience, str], float] = {}  # view and page → heard when
        self._mirror = Mirror()
        self._rows: dict[int, Row] = {}
        self._owners: dict[int, str | None] = {}  # by segment
        self.held: dict[int, tuple[str, ...]] = {}
        self._places: dict[int, tuple[Place, ...]] = {}  # the same, with what each holds
        self._rest: Row = {}  # the world but for its objects and its timeline
        self._timeline: deque[Sample] = deque()
        self._fresh: list[Sample] = []  # of the timeline, not told yet
        self._seq = 0
        self._anew = 0.0  # from when on everything may be heard again
        self._looked = 0.0  # when it last took in what had changed
        self._speed: float | None = None
        self._changes = engine.changes()
        self._thread: threading.Thread | None = None
        self._hurry = threading.Event()  # ends a pause
        self._take_in(FIRST)
        self._difference()
        shell = get_ipython()
        self._events = None if shell is None else shell.events

    @property
    def is_over(self) -> bool:
        """Whether its session is."""
        return self.engine.ended is not None

    # -- in any thread -----------------------------------------------------------------------------

    def world(self) -> Row:
        """All there is, as it is now."""
        with self._lock:
            return {
                "seq": self._seq,
                "now": time.time(),
                "session": self.engine.session,
                **self._rest,
                "ended": self.engine.ended,
                "objects": {row["id"]: row for row in self._rows.values()},
                "timeline": list(self._timeline),
            }

    def snapshot(self) -> Snapshot:
        """The same for those who draw it once: what is listed, and how much there is besides.

        Raises
        ------
        SessionError
            If nothing was ever heard of the session.
        """
        with self._lock:
            if self._mirror.session is None:
                return self.engine.snapshot()
            now = self._mirror.session.taken
            history = tuple(Past(now - s[0], *s[1:]) for s in self._timeline)
            return self._mirror.session.having(self._mirror.records(), history)

    @property
    def seq(self) -> int:
        """Of the last difference."""
        return self._seq

    def catch_up(self) -> None:
        """Take in what has happened while nobody looked."""
        with self._lock:
            late = time.monotonic() - self._looked > GLANCE
            if late and self._thread is None and not self.is_over:
                self._take_in(0.0)  # what has been on its way since it was asked for last
                self._take_in(GLANCE)
                if self._difference():
                    self._seq += 1

    def shown(self, view: Audience, on: bool, page: str = "", seq: int = -1) -> bool:
        """A page shows this view, of which it knows all up to that difference; or not any more.

        Returns whether it has shown it before.
        """
        with self._lock:
            before = (view, page) in self._audience
            heard = max(self._audience.values(), default=0.0)
            if on:
                if not before and seq not in (-1, self._seq):
                    view.tell({"kind": "world", **self.world()})
                self._audience[view, page] = time.monotonic()
            else:
                self._audience.pop((view, page), None)
            if self.is_over:
                self._tell(self._difference())  # the end, if nobody has looked since
            elif on and self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="workbench-views", daemon=True
                )
                self._thread.start()
                if self._events is not None:
                    self._events.register("post_run_cell", self.nudge)
            if self._thread is not None:
                self._changes.interrupt()
                if time.monotonic() - heard > UNSEEN:
                    self._hurry.set()
        return before

    def nudge(self, *_: object) -> None:
        """A cell has ended: variables may hold other objects than before."""
        if self._thread is not None:
            self._changes.interrupt()

    def close(self) -> None:
        """Nobody is fed any more."""
        with self._lock:
            self._audience.clear()
            thread = self._thread
        self._changes.close()
        self._hurry.set()
        if thread is not None:
            thread.join(FIRST)

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        """Until nobody looks, or the session is over."""
        try:
            if self._speed is None:
                with contextlib.suppress(RuntimeError, MemoryError):  # it is ending; or too full
                    self._speed = self.engine.copy_speed()
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
            if not self._audience or self.is_over:
                self._leave()
                return False
        self._pause(began + max(PACE, SHARE * (time.thread_time() - cpu)))
        return True

    def _leave(self) -> None:
        """This thread is the one that feeds no longer."""
        if self._thread is threading.current_thread():
            self._thread = None
            if self._events is not None:
                self._events.unregister("post_run_cell", self.nudge)

    def _pause(self, until: float) -> None:
        """Let time pass; much of it, if nobody has said for long that they look."""
        with self._lock:
            now = time.monotonic()
            for who, heard in list(self._audience.items()):
                if now - heard > FORGOTTEN:
                    del self._audience[who]
            if now - max(self._audience.values(), default=0.0) > UNSEEN:
                until += SLOW
        self._hurry.wait(max(until - time.monotonic(), 0.0))
        self._hurry.clear()

    def _take_in(self, timeout: float | None = None) -> None:
        """Wait for something to change, and note all that has; with a timeout, what comes soon.

        Also when it is roused.
        """
        change = self._changes.next(timeout)
        until = time.monotonic() + FIRST
        while change is not None:
            with self._lock:
                self._mirror.apply(change)
                self._note(change.session)
            # Of a change in pieces each next one is on its way.
            patience = FIRST if timeout is None else max(until - time.monotonic(), 0.0)
            change = self._changes.next(patience) if change.left else None
        if self._mirror.is_thin and time.monotonic() >= self._anew:
            with contextlib.suppress(SessionError):  # it has just ended
                began = time.monotonic()
                self._begin_anew()
                self._anew = time.monotonic() + SHARE * (time.monotonic() - began)
        self._looked = time.monotonic()

    def _begin_anew(self) -> None:
        """Hear of everything again, and then forget what was known. Others needn't wait for it."""
        changes, mirror = self.engine.changes(), Mirror()
        change = changes.next(FIRST)
        while change is not None:
            mirror.apply(change)
            with self._lock:  # of the past, all but how it is now has been told before
                self._note(change.session.having((), (change.session.history or ())[-1:]))
            change = changes.next(FIRST) if change.left else None
        with self._lock:
            mirror.changed.update(self._rows)
            former, self._changes, self._mirror = self._changes, changes, mirror
        former.close()

    def _note(self, session: Snapshot) -> None:
        samples = [
            (round(session.taken - s.age, 2), s.live, s.spilled, s.puts, s.frees, s.spills)
            for s in session.history or ()
        ]
        if self._timeline and samples and samples[-1][1:] == self._timeline[-1][1:]:
            samples.pop()  # as it was
        self._timeline.extend(samples)
        self._fresh += samples
        while len(self._timeline) > 1 and self._timeline[1][0] < session.taken - SPAN:
            self._timeline.popleft()

    def _difference(self) -> Row:
        """What has changed since the last one."""
        diff: Row = {"ended": self.engine.ended}
        if self._mirror.session is not None:
            diff |= self._objects(self._mirror.session) | self._others(self._mirror.session)
        keep = {k: v for k, v in diff.items() if k not in ("objects", "gone")}
        changed = {k: v for k, v in keep.items() if k not in self._rest or self._rest[k] != v}
        self._rest |= keep
        for key in ("objects", "gone"):
            if diff.get(key):
                changed[key] = diff[key]
        if self._fresh:
            changed["timeline"], self._fresh = self._fresh, []
        return changed

    def _objects(self, session: Snapshot) -> Row:
        """The rows that aren't as they were."""
        mirror, words, before = self._mirror, Words(session), self._places
        self._places = held = self.engine.held()
        self.held = variables(held)
        owners = {segment.id: words.owner(segment.id) for segment in session.segments or ()}
        moved = {id for id in owners if owners[id] != self._owners.get(id)}
        mirror.changed.update(id for id in {*before, *held} if before.get(id) != held.get(id))
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
            row = words.row(record, mirror.born[id], held.get(id, ()))
            if row != self._rows.get(id):
                self._rows[id] = objects[row["id"]] = row
        mirror.changed.clear()
        return {"objects": objects, "gone": gone}

    def _others(self, session: Snapshot) -> Row:
        """All but the rows."""
        bins = {
            key_of(segment.id): self._mirror.bins(segment.id, segment.end, PARTS)
            for segment in session.segments or ()
        }
        return {
            **session_of(session),
            "here": here(session),
            "speed": self._speed,
            "bins": {id: parts for id, parts in bins.items() if any(parts)},
            "rest": [
                {"kind": kind, "count": n, "bytes": size} for kind, n, size in self._mirror.kinds()
            ],
        }

    def _tell(self, diff: Row) -> None:
        if diff:
            self._seq += 1
            message = {"kind": "diff", "seq": self._seq, "now": time.time(), **diff}
            for view in dict.fromkeys(view for view, _ in self._audience):
                view.tell(message)


def feed_of(of: Any = None) -> Feed:
    """That of the current session, or of the one that ``of`` stands for: see `api.snapshot`."""
    if of is None:
        api.engine()
        return context.companion(Feed)
    return context.beside(of, lambda: Feed(api.observed(of)), lambda feed: feed.is_over)

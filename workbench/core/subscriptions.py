"""Who watches the session, and what each has yet to be told. A desk of the session's.

A watcher is told of changes when it asks, and not again before it asks again: so it sets the pace,
and what happens meanwhile adds up to one change. Nothing is kept or compared for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.snapshot import Change
from workbench.core.snapshots import object_record, take_snapshot

if TYPE_CHECKING:
    from workbench.core.session import Client, Session

MOST = 1_000
"""Objects in one change: a message that keeps nobody waiting for long. The rest comes next."""

QUIET = (ev.Ask, ev.Explained, ev.Measured, ev.Tick, ev.Subscribe)
"""After these alone the session is as it was."""


@dataclass(slots=True)
class Subscriber:
    """One, by client and its own number. ``pending``: what changed since it was told, and whether
    that is new to it."""

    pending: dict[int, bool] = field(default_factory=dict)
    is_new: bool = True
    waits: bool = True
    stirred: bool = True  # something else than objects has changed
    told: float = 0.0  # when
    in_use: set[int] = field(default_factory=set)  # as it was told


class Subscriptions:
    """See the module. Methods named like an event handle it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._watchers: dict[tuple[int, int], Subscriber] = {}

    def watch(self, client: Client, event: ev.Subscribe) -> None:
        """It asks for what has changed; the first time everything has."""
        key, catalog = (client.number, event.request), self._session.catalog
        watcher = self._watchers.get(key)
        if not event.on:
            self._watchers.pop(key, None)
            if not self._watchers:
                catalog.touched = None
        elif watcher is not None:
            watcher.waits = True
        else:
            self._watchers[key] = Subscriber()
            if catalog.touched is None:
                catalog.touched = {}

    def left(self, number: int) -> None:
        """A client is gone."""
        for client, request in [key for key in self._watchers if key[0] == number]:
            del self._watchers[client, request]
        if not self._watchers:
            self._session.catalog.touched = None

    @property
    def is_open(self) -> bool:
        """Whether anybody watches."""
        return bool(self._watchers)

    def settle(self, events: Iterable[ev.Event]) -> None:
        """Take note of what this batch changed, and tell who waits for it."""
        catalog = self._session.catalog
        touched, catalog.touched = catalog.touched or {}, {}
        stirred = bool(touched) or any(not isinstance(event, QUIET) for event in events)
        for (client, request), watcher in self._watchers.items():
            watcher.stirred |= stirred
            if watcher.is_new:
                watcher.is_new = False
                watcher.pending = {entry.id: True for entry in catalog.entries()}
            else:
                for id, is_new in touched.items():
                    if watcher.pending.setdefault(id, is_new) and id not in catalog:
                        del watcher.pending[id]  # it came and went, and nobody need know
            if watcher.waits and watcher.stirred:
                self._session.send(client, do.Changed(request, self._change(watcher)))

    def _change(self, watcher: Subscriber) -> Change:
        session, pending = self._session, watcher.pending
        in_use = session.spilling.in_use()
        for id in in_use ^ watcher.in_use:
            if id in session.catalog:
                pending.setdefault(id, False)
        objects, gone = [], []
        for id in list(islice(pending, MOST)):
            del pending[id]
            entry = session.catalog.get(id)
            if entry is None:
                gone.append(id)
            else:
                objects.append(object_record(entry, session.now, in_use))
        rest = take_snapshot(session, entries=(), since=watcher.told)
        watcher.waits, watcher.stirred = False, bool(pending)
        watcher.told, watcher.in_use = session.now, in_use
        return Change(rest, tuple(objects), tuple(gone), len(pending))

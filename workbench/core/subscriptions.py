"""Component: who subscribes to changes of the session, and what each has yet to be told.

A subscriber is told of changes when it asks, and not again before it asks again: so it sets the
pace, and what happens meanwhile adds up to one change. No bookkeeping while nobody subscribes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.snapshot import Change
from workbench.core.snapshots import object_record, take_snapshot
from workbench.core.state import ClientState, State

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
    changed: bool = True  # something else than objects has changed
    told: float = 0.0  # when
    in_use: set[int] = field(default_factory=set)  # as it was told


class Subscriptions:
    """See the module. Methods named like an event handle it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._subscribers: dict[tuple[int, int], Subscriber] = {}

    def subscribe(self, client: ClientState, event: ev.Subscribe) -> None:
        """It asks for what has changed; the first time everything has."""
        key, catalog = (client.number, event.request), self._state.catalog
        subscriber = self._subscribers.get(key)
        if not event.on:
            self._subscribers.pop(key, None)
            if not self._subscribers:
                catalog.touched = None
        elif subscriber is not None:
            subscriber.waits = True
        else:
            self._subscribers[key] = Subscriber()
            if catalog.touched is None:
                catalog.touched = {}

    def left(self, number: int) -> None:
        """A client is gone."""
        for client, request in [key for key in self._subscribers if key[0] == number]:
            del self._subscribers[client, request]
        if not self._subscribers:
            self._state.catalog.touched = None

    @property
    def is_open(self) -> bool:
        """Whether anybody subscribes."""
        return bool(self._subscribers)

    def settle(self, events: Iterable[ev.Event]) -> None:
        """Take note of what this batch changed, and tell who waits for it."""
        catalog = self._state.catalog
        touched, catalog.touched = catalog.touched or {}, {}
        changed = bool(touched) or any(not isinstance(event, QUIET) for event in events)
        for (client, request), subscriber in self._subscribers.items():
            subscriber.changed |= changed
            if subscriber.is_new:
                subscriber.is_new = False
                subscriber.pending = {entry.id: True for entry in catalog.entries()}
            else:
                for id, is_new in touched.items():
                    if subscriber.pending.setdefault(id, is_new) and id not in catalog:
                        del subscriber.pending[id]  # it came and went, and nobody need know
            if subscriber.waits and subscriber.changed:
                self._state.send(client, do.Changed(request, self._change(subscriber)))

    def _change(self, subscriber: Subscriber) -> Change:
        state, pending = self._state, subscriber.pending
        in_use = state.in_use()
        for id in in_use ^ subscriber.in_use:
            if id in state.catalog:
                pending.setdefault(id, False)
        objects, gone = [], []
        for id in list(islice(pending, MOST)):
            del pending[id]
            entry = state.catalog.get(id)
            if entry is None:
                gone.append(id)
            else:
                objects.append(object_record(entry, state.now, in_use))
        rest = take_snapshot(state, entries=(), since=subscriber.told)
        subscriber.waits, subscriber.changed = False, bool(pending)
        subscriber.told, subscriber.in_use = state.now, in_use
        return Change(rest, tuple(objects), tuple(gone), len(pending))

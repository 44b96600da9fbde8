"""Component: subscribers to changes of the session, and what each hasn't been told yet.

A subscriber gets one message of changes each time it asks: so it sets the pace, and all changes in
between go into one message. No bookkeeping while nobody subscribes. Existing objects are sent in
parts, so that a million of them don't hold up the server.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import Measured, Tick
from workbench.core.snapshot import Change, ObjectRecord
from workbench.core.snapshot_builder import first_of, object_record, take_snapshot
from workbench.core.state import ClientState, State

MOST = 1_000
"""Most objects in one message, so that it delays nobody for long. The rest comes next."""

SEARCHED = 20_000
"""Most objects searched at a time, for the same reason."""

QUIET = (ev.Ask, ev.CellNote, ev.Explained, Measured, Tick, ev.Subscribe)
"""Events that don't change the session."""


@dataclass(slots=True)
class Subscriber:
    """One subscriber. ``first``: objects that existed when it came and weren't sent yet, the next
    at the end. ``pending``: objects changed since → True if they are new to it."""

    first: list[int] = field(default_factory=list)
    pending: dict[int, bool] = field(default_factory=dict)
    is_new: bool = True
    waits: bool = True
    changed: bool = True  # there is something to tell
    told_at: float = 0.0
    in_use: set[int] = field(default_factory=set)  # as sent last


class Subscriptions:
    def __init__(self, state: State) -> None:
        self._state = state
        self.subscribers: dict[tuple[int, int], Subscriber] = {}
        self.looks: dict[tuple[int, int], list[int]] = {}  # ids to send, the next at the end
        self.searched = SEARCHED

    def subscribe(self, client: ClientState, event: ev.Subscribe) -> None:
        key, catalog = (client.number, event.request), self._state.catalog
        subscriber = self.subscribers.get(key)
        if not event.on:
            self.looks.pop(key, None)
            self.subscribers.pop(key, None)
            if not self.subscribers:
                catalog.touched = None
        elif event.once:
            self._look(key, event.search)
        elif subscriber is not None:
            subscriber.waits = True
        else:
            self.subscribers[key] = Subscriber()
            if catalog.touched is None:
                catalog.touched = {}

    def on_client_left(self, number: int) -> None:
        for keyed in (self.subscribers, self.looks):
            for key in [key for key in keyed if key[0] == number]:
                del keyed[key]
        if not self.subscribers:
            self._state.catalog.touched = None

    def end_batch(self, events: Iterable[ev.Event]) -> None:
        catalog = self._state.catalog
        touched, catalog.touched = catalog.touched or {}, {}
        changed = bool(touched) or any(not isinstance(event, QUIET) for event in events)
        for (client, request), subscriber in self.subscribers.items():
            subscriber.changed |= changed
            if subscriber.is_new:
                subscriber.is_new = False
                subscriber.first = catalog.ids()
            else:
                for id, is_new in touched.items():
                    if subscriber.pending.setdefault(id, is_new) and id not in catalog:
                        del subscriber.pending[id]  # made and freed before it was told
            if subscriber.waits and subscriber.changed:
                self._state.send(client, do.Changed(request, self._change(subscriber)))

    def _change(self, subscriber: Subscriber) -> Change:
        state, pending = self._state, subscriber.pending
        in_use = state.in_use()
        for id in in_use ^ subscriber.in_use:
            if id in state.catalog:
                pending.setdefault(id, False)
        told = _cut(subscriber.first, MOST)
        for id in told:
            pending.pop(id, None)
        changed = list(islice(pending, MOST - len(told)))
        gone = [id for id in changed if id not in state.catalog]
        objects = self._records((*told, *changed), in_use)
        for id in changed:
            del pending[id]
        rest = take_snapshot(state, entries=(), since=subscriber.told_at)
        left = len(subscriber.first) + len(pending)
        subscriber.waits, subscriber.changed = False, left > 0
        subscriber.told_at, subscriber.in_use = state.now, in_use
        return Change(rest, objects, tuple(gone), left)

    def _look(self, key: tuple[int, int], search: ev.Search | None) -> None:
        """Send the next part of all objects; of a search, the first matches in this part."""
        state = self._state
        ids = self.looks.pop(key, None)
        if ids is None:
            ids = state.catalog.ids()
        part = _cut(ids, MOST if search is None else self.searched)
        others = size = 0
        if search is not None:
            part, others, size = first_of(filter(None, map(state.catalog.get, part)), search)
        if ids:
            self.looks[key] = ids
        rest = take_snapshot(state, entries=())
        objects = self._records(part, state.in_use())
        change = Change(rest, objects, left=len(ids), others=others, others_size=size)
        self._state.send(key[0], do.Changed(key[1], change))

    def _records(self, ids: Iterable[int], in_use: set[int]) -> tuple[ObjectRecord, ...]:
        state = self._state
        entries = filter(None, map(state.catalog.get, ids))
        return tuple(object_record(state, entry, in_use) for entry in entries)


def _cut(ids: list[int], count: int) -> list[int]:
    """Remove the last ``count`` ids from the list; return them, the last first."""
    cut = ids[-count:]
    del ids[-count:]
    cut.reverse()
    return cut

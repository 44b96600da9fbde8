"""Component: who subscribes to changes of the session, and what each has yet to be told.

A subscriber is told of changes when it asks, and not again before it asks again: so it sets the
pace, and what happens meanwhile adds up to one change. No bookkeeping while nobody subscribes.
What is there is told in parts, so that the server isn't held up by a million objects.
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
"""Objects in one change: a message that keeps nobody waiting for long. The rest comes next."""

SEARCHED = 20_000
"""Objects looked through at a time, for as long."""

QUIET = (ev.Ask, ev.Explained, Measured, Tick, ev.Subscribe)
"""After these alone the session is as it was."""


@dataclass(slots=True)
class Subscriber:
    """One, by client and its own number. ``first``: what was there when it came and it wasn't told
    yet, the next at the end. ``pending``: what changed since, and whether that is new to it."""

    first: list[int] = field(default_factory=list)
    pending: dict[int, bool] = field(default_factory=dict)
    is_new: bool = True
    waits: bool = True
    changed: bool = True  # something else than objects has changed
    told: float = 0.0  # when
    in_use: set[int] = field(default_factory=set)  # as it was told


class Subscriptions:
    def __init__(self, state: State) -> None:
        self._state = state
        self.subscribers: dict[tuple[int, int], Subscriber] = {}
        self.looks: dict[tuple[int, int], list[int]] = {}  # ids to be told, the next at the end
        self.searched = SEARCHED

    def subscribe(self, client: ClientState, event: ev.Subscribe) -> None:
        """Begin, ask for the next change, look once, or end: as the message says."""
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

    def left(self, number: int) -> None:
        for keyed in (self.subscribers, self.looks):
            for key in [key for key in keyed if key[0] == number]:
                del keyed[key]
        if not self.subscribers:
            self._state.catalog.touched = None

    def settle(self, events: Iterable[ev.Event]) -> None:
        """Take note of what this batch changed, and tell who waits for it."""
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
                        del subscriber.pending[id]  # it came and went, and nobody need know
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
        rest = take_snapshot(state, entries=(), since=subscriber.told)
        left = len(subscriber.first) + len(pending)
        subscriber.waits, subscriber.changed = False, left > 0
        subscriber.told, subscriber.in_use = state.now, in_use
        return Change(rest, objects, tuple(gone), left)

    def _look(self, key: tuple[int, int], search: ev.Search | None) -> None:
        """Tell the next part of all there is; of a search what comes first in it."""
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
        """Of those that are still there."""
        state = self._state
        entries = filter(None, map(state.catalog.get, ids))
        return tuple(object_record(state, entry, in_use) for entry in entries)


def _cut(ids: list[int], count: int) -> list[int]:
    """The last ``count``, from the end, which are in the list no longer."""
    cut = ids[-count:]
    del ids[-count:]
    cut.reverse()
    return cut

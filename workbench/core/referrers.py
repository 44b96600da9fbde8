"""Component: finds out what keeps an object, by asking every process that holds it.

The core knows which process holds which object; only the process can find the variables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.descriptions import Account, PinRecord
from workbench.core.entry import Entry
from workbench.core.snapshot_builder import (
    actor_record,
    client_record,
    object_record,
    pins_of,
    worker_record,
)
from workbench.core.state import ClientState, State

PATIENCE = 10.0
"""Seconds that another process than the asker's may say nothing: neither answer nor tell how many
objects it has looked at. Then it is listed without places. The asker's own process searches as
long as it needs: it can be interrupted."""


@dataclass(slots=True)
class Inquiry:
    """One question, until all processes have answered."""

    asker: int
    request: int
    object: int
    waiting: dict[int, float]  # by client, when it has been silent too long
    answers: dict[int, ev.Explained] = field(default_factory=dict)


class Referrers:
    def __init__(self, state: State) -> None:
        self._state = state
        self.inquiries: dict[int, Inquiry] = {}
        self._numbers = 0

    def ask(self, client: ClientState, event: ev.Ask) -> None:
        """Have all processes that hold or show the object look for what refers to it."""
        catalog = self._state.catalog
        entry = catalog.named(event.name) if event.name else catalog.get(event.object)
        if entry is None:
            return self._state.send(client.number, do.Answer(event.request))
        self._numbers += 1
        holders = {*entry.holds, *entry.viewers} & self._state.clients.keys()
        waiting = dict.fromkeys(holders, self._state.now + PATIENCE)
        if client.number in holders:
            waiting[client.number] = math.inf
        inquiry = Inquiry(client.number, event.request, entry.id, waiting)
        self.inquiries[self._numbers] = inquiry
        for number in holders:
            self._state.send(number, do.Explain(self._numbers, entry.id, event.deep))
        return None

    def explained(self, client: ClientState, event: ev.Explained) -> None:
        inquiry = self.inquiries.get(event.inquiry)
        if inquiry is not None and client.number in inquiry.waiting:
            inquiry.answers[client.number] = event
            if event.done:
                del inquiry.waiting[client.number]
            elif client.number != inquiry.asker:
                inquiry.waiting[client.number] = self._state.now + PATIENCE

    def on_client_left(self, number: int) -> None:
        """Drop a client that left: it neither answers nor asks any more."""
        for key, inquiry in list(self.inquiries.items()):
            inquiry.waiting.pop(number, None)
            if inquiry.asker == number:
                del self.inquiries[key]

    def deadline(self) -> float | None:
        """Return when the next question is answered with what is known by then."""
        silent = [max(each.waiting.values(), default=0.0) for each in self.inquiries.values()]
        return min((until for until in silent if until < math.inf), default=None)

    def end_batch(self) -> None:
        """Answer the questions that all processes have answered, but for silent ones."""
        for key, inquiry in list(self.inquiries.items()):
            if self._state.now >= max(inquiry.waiting.values(), default=0.0):
                del self.inquiries[key]
                entry = self._state.catalog.get(inquiry.object)
                account = None if entry is None else self._account(entry, inquiry)
                answer = do.Answer(inquiry.request, account=account)
                self._state.send(inquiry.asker, answer)

    def _account(self, entry: Entry, inquiry: Inquiry) -> Account:
        pins = [_found(pin, inquiry) for pin in pins_of(self._state, entry)]
        record = object_record(self._state, entry, self._state.in_use())
        scheduler = self._state.scheduler
        return Account(
            record,
            tuple(pins),
            tuple(map(client_record, self._state.clients.values())),
            tuple(map(worker_record, scheduler.workers.values())),
            tuple(actor_record(self._state, actor) for actor in scheduler.actors.values()),
        )


def _found(pin: PinRecord, inquiry: Inquiry) -> PinRecord:
    if pin.reason not in ("ref", "view"):
        return pin
    answer = inquiry.answers.get(pin.client)
    if answer is None or not answer.done:
        seen = answer.seen if answer else 0
        return PinRecord(pin.reason, pin.client, complete=False, seen=seen, answered=False)
    places = tuple(place for place in answer.places if place.kind == pin.reason)
    complete, seen = answer.complete, answer.seen
    return PinRecord(pin.reason, pin.client, places=places, complete=complete, seen=seen)

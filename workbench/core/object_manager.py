"""Component: handles clients' messages on objects (put, hold, view, name, free), and results.

The catalog decides which pins keep an object alive.
"""

from __future__ import annotations

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.entry import FREED, PENDING, READY, Entry
from workbench.core.spilling import Spilling
from workbench.core.state import ClientState, State
from workbench.system.sizes import round_up


class ObjectManager:
    def __init__(self, state: State, spilling: Spilling) -> None:
        self._state = state
        self._catalog = state.catalog
        self._spilling = spilling

    def sealed(self, client: ClientState, event: ev.Sealed) -> None:
        state, catalog = self._state, self._catalog
        if not state.owns(client, event.object):
            return None
        if not state.budget.admits(client.number, (event.value,)):
            return state.hang_up(client.number, "an extent that is not its own")
        if catalog.get(event.object) is not None:
            return state.hang_up(client.number, "an object sealed twice")
        entry = catalog.make(event.object)
        catalog.hold(entry, client.number)
        if event.value.segment:
            client.segments.add(event.value.segment)
        self.seal(entry, event.value, event.about)
        if event.name:
            catalog.bind(event.name, entry)
        return None

    def seal(self, entry: Entry, value: ev.Value, about: ev.About | None = None) -> None:
        """Make an object ready: tell clients that wait for it; queue or fail tasks that do."""
        if value.segment:
            self._state.budget.seal(value.segment, value.offset, value.length)
        self._catalog.seal(entry, value, about)
        if value.segment and entry.state is READY:
            self._spilling.on_rest(entry)
        self._state.scheduler.waits.on_object_ready(entry.id, value.failed)
        clients, entry.waiting_clients = entry.waiting_clients, ()
        for client in clients:
            self._tell(client, entry)
        tasks, entry.waiting_tasks = entry.waiting_tasks, None
        for task in tasks or ():
            if value.failed:
                self._state.fail(task, value)
            else:
                self._state.scheduler.dependency_ready(task)

    def result(self, id: int, value: ev.Value, about: ev.About | None = None) -> None:
        """Seal a task's result; if the object was freed meanwhile, give its bytes back."""
        entry = self._catalog.get(id)
        if entry is not None and entry.state is PENDING:
            self.seal(entry, value, about)
        elif value.segment:
            self._state.budget.seal(value.segment, value.offset, value.length)
            self._state.vacate(value.segment, value.offset)

    def _tell(self, number: int, entry: Entry) -> None:
        if entry.state is READY:
            assert entry.value is not None
            if entry.value.segment:
                self._state.share(number, entry.value)
            self._state.send(number, do.Ready(entry.id, entry.value))
        else:
            self._state.send(number, do.Ready(entry.id, ev.freed_value(entry.id)))

    def want(self, client: ClientState, event: ev.Want) -> None:
        for id in event.objects:
            entry = self._catalog.get(id)
            if entry is None:
                text = "This session has no such object: nothing holds it any more. Put it again."
                self._state.send(client.number, do.Ready(id, ev.error_value("unknown", text)))
            elif entry.state is not PENDING:
                self._tell(client.number, entry)
            else:
                self._catalog.add_waiting_client(entry, client.number)

    def hold(self, client: ClientState, event: ev.Hold) -> None:
        for entry in filter(None, map(self._catalog.get, event.objects)):
            self._catalog.hold(entry, client.number)

    def drop(self, client: ClientState, event: ev.Drop) -> None:
        for entry in filter(None, map(self._catalog.get, event.objects)):
            self._catalog.drop(entry, client.number)

    def view(self, client: ClientState, event: ev.View) -> None:
        entry = self._state.stale_copies.viewed(event.object, event.segment, client.number)
        if entry is not None:
            self._spilling.on_used(entry)

    def unview(self, client: ClientState, event: ev.Unview) -> None:
        for id, segment in event.views:
            self._state.stale_copies.unviewed(id, segment, client.number)

    def noted(self, client: ClientState, event: ev.Noted) -> None:
        self._state.stale_copies.noted(event.object, client.number)

    def free(self, client: ClientState, event: ev.Free) -> None:
        forget: dict[int, list[int]] = {}  # by holder
        for id in event.objects:
            entry = self._catalog.get(id)
            if entry is None or entry.state is FREED:
                continue
            holders, clients, tasks = entry.holds, entry.waiting_clients, entry.waiting_tasks
            entry.waiting_clients, entry.waiting_tasks = (), None
            self._catalog.free(entry)
            self._state.scheduler.waits.on_object_ready(id, True)
            for holder in holders:
                forget.setdefault(holder, []).append(id)
            for number in clients:
                self._tell(number, entry)
            why = ev.freed_value(id, argument=True)
            for task in tasks or ():
                self._state.fail(task, why)
        for holder, ids in forget.items():
            self._state.send(holder, do.Forget(tuple(ids)))

    def escape(self, client: ClientState, event: ev.Escape) -> None:
        entry = self._catalog.get(event.object)
        if entry is not None:
            self._catalog.escape(entry, event.site)

    def pin(self, client: ClientState, event: ev.Pin) -> None:
        entry = self._catalog.get(event.object)
        if entry is not None:
            self._catalog.pin(entry, (event.site or "somewhere") if event.on else "")
            if event.on:
                self._spilling.on_used(entry, force=True)

    def loaded(self, client: ClientState, event: ev.Loaded) -> None:
        for id, seconds in zip(event.objects, event.seconds, strict=False):
            entry = self._catalog.get(id)
            if entry is not None:
                self._catalog.loaded(entry, seconds)

    def find(self, client: ClientState, event: ev.Find) -> None:
        entry = self._catalog.named(event.name)
        if entry is None:
            self._state.send(client.number, do.Found(event.request, 0))
        else:
            self._catalog.hold(entry, client.number)
            self._state.send(client.number, do.Found(event.request, entry.id))

    def bind(self, client: ClientState, event: ev.Bind) -> None:
        entry = self._catalog.get(event.object)
        if not event.object:
            self._catalog.bind(event.name, None)
        elif entry is not None and entry.state is not FREED:
            self._catalog.bind(event.name, entry)

    def opened(self, client: ClientState, event: ev.Opened) -> None:
        """Take in a segment that a client made: its one arena, or a file for one object."""
        if not self._state.owns(client, event.segment):
            return
        if event.segment in self._state.budget.arenas:
            self._state.hang_up(client.number, "a segment opened twice")
        elif event.disk and self._spilling.enabled:
            self._state.budget.open_file(client.number, event.segment, event.size)
            client.segments.add(event.segment)
        elif self._state.budget.open(client.number, event.segment, event.size):
            client.segments.add(event.segment)
        else:
            self._state.hang_up(client.number, "a second arena")

    def reshare(self, client: ClientState, event: ev.Reshare) -> None:
        arena, text = self._state.budget.arenas.get(event.segment), ""
        if arena is not None and event.segment in client.segments:
            self._state.send(client.number, do.Shared(arena.segment, arena.size))
        else:
            text = "The object's bytes have moved."
        self._state.send(client.number, do.Answer(event.request, text=text))

    def vacated(self, value: ev.Value) -> None:
        """Give back the place where an object was before it moved.

        If another client waits for memory, it goes back to the machine, else to its arena.
        """
        budget = self._state.budget
        owner, length = budget.arenas[value.segment].owner, round_up(value.length)
        others_wait = bool(budget.requests) and not budget.credit_waiting_owner(owner, length)
        self._state.vacate(value.segment, value.offset, cold=others_wait)

"""Component: decides which objects move to disk or back, and when.

An object moves by a copy to one of the server's segments; then clients that may know the old place
are told, and `relocation` keeps that until it is unused (`StaleCopy`). Objects with a pin by a
person or a view, and those that a worker was sent for a task, don't move.
"""

from __future__ import annotations

import msgspec

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.budget import SERVER, GrowRequest
from workbench.core.entry import FREED, READY, Entry
from workbench.core.loop_events import Copied
from workbench.core.relocation import Move, StaleCopy
from workbench.core.state import ClientState, State
from workbench.core.tasks import Line
from workbench.format import human_bytes
from workbench.system.sizes import round_up

HIGH, LOW = 0.9, 0.8
"""Shares of the capacity in use: above HIGH, objects move to disk until it is LOW."""

FULL = 0.7
"""Share of the capacity above which processes are asked to collect garbage: what that frees needn't
move to disk. As in Ray."""

COLLECT_EVERY = 30.0
"""Minimum seconds between two such requests."""

PATIENCE = 2.0
"""Seconds in which clients must answer Moved, and workers must say which lent objects they still
read: a stopped process mustn't keep all others waiting for memory."""

MUCH = 1 << 20
"""Bytes of arguments above which a put that finds no room tells of them."""

RESPITE = 5.0
"""Seconds before the disk is tried again after it failed."""

MOMENT, MOST_MOMENTS = 0.2, 10
"""Seconds before a retry if only a descriptor was missing, and how many such failures in a row a
request for memory waits for."""


class Spilling:
    """See the module. ``enabled``: there is a directory on disk to move objects to."""

    def __init__(self, state: State, enabled: bool) -> None:
        self._state = state
        self._catalog = state.catalog
        self._stale_copies = state.stale_copies
        self._moves = state.moves
        self.enabled = enabled
        self.broken_until = 0.0
        self._moments = 0  # failures in a row for lack of a descriptor
        # Candidates to move: in memory and without views, the least recently used first.
        self.resting: dict[Entry, None] = {}
        self._copied: set[int] = set()  # objects whose copy is made
        self._wanted_in_memory: dict[int, bool] = {}  # on disk and in use → True: others make room
        self._asked: set[int] = set()  # of those: memory was asked for
        self.grown = False  # objects came since `end_batch` last checked the capacity
        self._collect_at = 0.0  # the next request to collect garbage, at the earliest

    def on_rest(self, entry: Entry) -> None:
        """Make an object without views the most recently used candidate for a move."""
        value = entry.value
        if value is not None and value.segment and not value.digest:
            self._rests(entry)
            self.grown = True

    def on_used(self, entry: Entry, force: bool = False) -> None:
        """Note that an object is about to be read: from disk it comes back if there is room.

        ``force``: even if others have to make room for it.
        """
        value, move = entry.value, self._moves.get(entry.id)
        if value is None or not value.segment:
            return
        if move is not None and force:
            move.unwanted = move.disk  # a move to disk is undone
        if value.digest:
            self._wanted_in_memory[entry.id] = force or self._wanted_in_memory.get(entry.id, False)
        elif entry in self.resting:
            self._rests(entry)

    def _rests(self, entry: Entry) -> None:
        self.resting.pop(entry, None)
        self.resting[entry] = None

    def on_freed(self, entry: Entry) -> None:
        self.resting.pop(entry, None)
        self._wanted_in_memory.pop(entry.id, None)

    def spill(self, client: ClientState, event: ev.Ask) -> None:
        entry = self._catalog.get(event.object)
        text = self._obstacle(entry)
        move = self._moves.get(event.object)
        if not text and entry is not None:
            if move is not None and not move.disk:
                move.unwanted = True  # it stays on disk
            elif move is None and not (entry.value and entry.value.digest):
                move = self._start(entry, disk=True)
            if move is not None and move.disk:
                move.asked_by.append((client.number, event.request))
                return
        self._state.send(client.number, do.Answer(event.request, text=text))

    def copied(self, event: Copied) -> None:
        move = self._moves[event.object]
        if event.error:
            if move.disk:
                self._state.spill_error = event.error
                self._failed(event.passing)
            self._give_up(event.object, event.error)
        elif not move.disk and event.digest != move.source.digest:
            self._give_up(event.object, "")  # a reader's own check will report it
        else:
            self._moments = 0
            move.digest = event.digest
            self._copied.add(event.object)

    def _failed(self, passing: bool) -> None:
        now = self._state.now
        if not passing:
            self._moments, self.broken_until = MOST_MOMENTS, now + RESPITE
        elif now >= self.broken_until:  # of several failures at once, one counts
            self._moments += 1
            self.broken_until = now + MOMENT
            if self._moments < MOST_MOMENTS:
                self._state.copies_at = self.broken_until

    def make_room(self, nbytes: int) -> bool:
        """Start moves to disk that free so many bytes. False if too few objects can move, and no
        memory is about to be freed."""
        coming = self._coming()
        if coming >= nbytes:
            return True
        if not self.enabled or self._state.now < self.broken_until:
            return coming > 0 or self._state.now < self._state.copies_at
        victims = self.victims(nbytes - coming)
        if coming + sum(_size(v) for v in victims) >= nbytes:
            for victim in victims:
                self._start(victim, disk=True)
            return True
        return coming > 0

    def bring(self, id: int, granted: bool) -> None:
        self._asked.discard(id)
        entry = self._catalog.get(id)
        if granted and entry is not None and self._may_return(entry):
            self._start(entry, disk=False)

    @property
    def is_busy(self) -> bool:
        return bool(self._copied or self._wanted_in_memory or self.grown)

    def end_batch(self) -> None:
        """Finish moves whose copies are made, start moves back to memory, and keep below `HIGH`."""
        catalog, budget = self._catalog, self._state.budget
        if self._copied:
            cached, sent = self._state.cached_functions(), self._state.sent_objects()
            withheld = self._withheld()
            for id in list(self._copied):
                if id in cached:
                    self._give_up(id, "a worker has begun to use it as a function")
                elif self._moves[id].unwanted:
                    self._give_up(id, "it was pinned meanwhile")
                elif id in withheld:
                    self._give_up(id, "a worker that may read it doesn't answer")
                elif id not in sent and id not in self._catalog.lent:
                    self._arrive(id)
        low = int(budget.capacity * LOW)
        wanted, self._wanted_in_memory = self._wanted_in_memory, {}
        for id, force in wanted.items():
            entry = catalog.get(id)
            if entry is None or entry.state is not READY:
                continue
            if id in self._asked or id in self._stale_copies:
                if force:  # later: an answer or a Noted is due
                    self._wanted_in_memory[id] = True
            elif not self._may_return(entry):
                continue
            elif force or budget.live + _size(entry) <= low:
                self._asked.add(id)
                budget.ask(GrowRequest(SERVER, id, _size(entry), force))
        if self.grown:
            self.grown = False
            if self._state.now >= self._collect_at and budget.live > budget.capacity * FULL:
                self._collect_at = self._state.now + COLLECT_EVERY
                for client in self._state.clients.values():
                    if client.role != "admin":
                        self._state.send(client.number, do.CollectGarbage())
            high = int(budget.capacity * HIGH)
            over = budget.live - self._coming() - high
            if self.enabled and over > 0 and budget.let_go(over + high - low):
                over = budget.live - self._coming() - high
            if self.enabled and over > 0 and self._state.now >= self.broken_until:
                newest = next(reversed(self.resting), None)
                for victim in self.victims(over + high - low):
                    if victim is not newest:  # it was just put or read
                        self._start(victim, disk=True)

    def deadline(self) -> float | None:
        """Return when the next late answer to Moved or TakeBack is given up, or a copy is
        retried."""
        stale_copies = self._stale_copies.values()
        times = [g.since + PATIENCE for g in stale_copies if not self._is_late(g)]
        asked = [line.asked_at for line in self._lending() if line.asked_at is not None]
        times += [at + PATIENCE for at in asked if self._state.now < at + PATIENCE]
        if self._state.now < self._state.copies_at:
            times.append(self._state.copies_at)
        return min(times, default=None)

    def explain(self) -> str:
        """Return why nothing more can move to disk, for the person whose put found no room."""
        arguments = self._catalog.argument_bytes
        waiting = f" Arguments of tasks take {human_bytes(arguments)}." if arguments > MUCH else ""
        if not self.enabled:
            return (
                "This session moves nothing to disk: it was started without a `spill_dir`."
                f"{waiting}"
            )
        if self._state.now < self.broken_until:
            return f"Nothing could be moved to disk: {self._state.spill_error}."
        return (
            "What is left can't move to disk: arrays show it, it is pinned, small, being read by a "
            f"task, or held by a process that doesn't answer.{waiting}"
        )

    def _coming(self) -> int:
        """Return bytes of memory that moves under way, and lines being returned, will free."""
        moving = sum(
            move.nbytes for id, move in self._moves.items() if move.disk and id not in self._copied
        )
        return (moving + self._returning()) + sum(
            round_up(stale.value.length)
            for stale in self._stale_copies.values()
            if not stale.value.digest and not stale.viewers and not self._is_late(stale)
        )

    def _returning(self) -> int:
        """Return bytes of dropped or copied objects that only lines still keep in place."""
        lent = [entry for id in self._catalog.lent if self._leaves(entry := self._catalog[id])]
        stay = self._state.sent_objects() | self._withheld() if lent else set()
        return sum(_size(e) for e in lent if e.id not in stay and e.value and e.value.segment)

    def _leaves(self, entry: Entry) -> bool:
        """True if an object's bytes are free as soon as no line keeps them in place."""
        gone = entry.state is FREED and not entry.tasks
        gone = gone or (entry.id in self._copied and self._moves[entry.id].disk)
        return gone and not entry.viewers

    def _lending(self) -> list[Line]:
        """Return lines with lent objects whose workers haven't said which they still read."""
        lending = self._state.lending.values()
        return [line for line in lending if line.lent and not line.is_kept]

    def _withheld(self) -> set[int]:
        """Return objects lent to workers that don't answer TakeBack in time."""
        now, found = self._state.now, set[int]()
        for line in self._lending():
            if line.asked_at is not None and now >= line.asked_at + PATIENCE:
                found |= line.lent
        return found

    def victims(self, nbytes: int) -> list[Entry]:
        """Return the least recently used objects that can move, ``nbytes`` of them or all."""
        chosen, others = list[Entry](), list[Entry]()
        total, late = 0, self._late()
        busy = self._state.in_use() | self._withheld()
        for entry in self.resting:
            if total >= nbytes:
                break
            if entry.state is not READY or entry.viewers or entry.pinned or entry.id in self._moves:
                others.append(entry)
            elif (
                entry.id not in busy
                and entry.id not in self._stale_copies
                and late.isdisjoint(entry.holds)
            ):
                chosen.append(entry)
                total += _size(entry)
        for entry in others:
            del self.resting[entry]  # `on_rest` adds it again
        return chosen

    def _may_return(self, entry: Entry) -> bool:
        return (
            entry.state is READY
            and entry.value is not None
            and entry.value.digest != 0
            and entry.id not in self._moves
            and entry.id not in self._stale_copies
        )

    def _late(self) -> set[int]:
        """Return clients that didn't answer Moved in time: moving what they hold frees nothing."""
        stale_copies = self._stale_copies.values()
        return {client for stale in stale_copies if self._is_late(stale) for client in stale.owed}

    def _is_late(self, stale: StaleCopy) -> bool:
        return self._state.now >= stale.since + PATIENCE

    def _obstacle(self, entry: Entry | None) -> str:
        """Return why an object can't move to disk when a person asks for it; '' if it can."""
        if entry is None or entry.state is FREED:
            return "it has been freed"
        value = entry.value
        if value is None:
            return "it isn't there yet: a task will make it"
        if not value.segment:
            return f"its {human_bytes(len(value.header))} are too small for shared memory"
        if not self.enabled:
            return "this session was started without a `spill_dir`"
        if entry.pinned:
            return "it is pinned, which keeps it in memory: unpin it first"
        if value.digest or entry.id in self._moves:
            return ""
        if entry.viewers:
            return "arrays show it, and so keep it in memory: let go of them first"
        if entry.id in self._state.cached_functions():
            return "workers have it as a function"
        if entry.id in self._state.sent_objects() or entry.id in self._stale_copies:
            return "it is being read: try again when the task that reads it is done"
        return ""

    def _start(self, entry: Entry, disk: bool) -> Move:
        value = entry.value
        assert value is not None
        target = self._state.budget.reserve(value.length, disk)
        move = self._moves[entry.id] = Move(value, target, disk)
        self.resting.pop(entry, None)
        if entry.id in self._catalog.lent:
            self._catalog.on_lent(entry.id)
        size = self._state.budget.arenas[target[0]].size
        source = (value.segment, value.offset)
        self._state.out.append(do.Copy(entry.id, source, target, value.length, size, disk))
        return move

    def _give_up(self, id: int, error: str) -> None:
        move = self._moves.pop(id)
        self._copied.discard(id)
        self._state.vacate(*move.target)
        for client, request in move.asked_by:
            self._state.send(client, do.Answer(request, text=error))
        entry = self._catalog.get(id)
        if entry is not None and entry.value is move.source:
            self.on_rest(entry)

    def _arrive(self, id: int) -> None:
        """Finish a move: the copy is the object's place from now on."""
        move = self._moves[id]
        entry = self._catalog.get(id)
        if entry is None or entry.state is not READY:
            self._give_up(id, "it was freed meanwhile")
            return
        del self._moves[id]
        self._copied.discard(id)
        segment, offset = move.target
        value = msgspec.structs.replace(
            move.source, segment=segment, offset=offset, digest=move.digest if move.disk else 0
        )
        self._state.spills += move.disk
        for holder in self._stale_copies.move(entry, value):
            self._state.share(holder, value)
            self._state.send(holder, do.Moved(id, value))
        self.on_rest(entry)
        for client, request in move.asked_by:
            self._state.send(client, do.Answer(request))


def _size(entry: Entry) -> int:
    assert entry.value is not None
    return round_up(entry.value.length)

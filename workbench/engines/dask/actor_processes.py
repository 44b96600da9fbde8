"""The actors that live at one worker of Dask's: found, called, skipped, ended. What one of them is
is in `actors`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from workbench.engines.dask.actors import (
    ActorGone,
    ActorProcess,
    CallStopped,
    Heard,
    Outcome,
    has_failed,
)
from workbench.engines.dask.channel import RunHead
from workbench.engines.dask.slots import ChildSeen, SlotChild, Slots

MOST_ENDED = 10_000
"""Actors that are over, of which is known why."""


class ActorCalled(Protocol):
    """What is needed of a `calls.HeadCall` here."""

    @property
    def actor(self) -> int: ...
    @property
    def reply_to(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def task(self) -> int: ...


class ActorProcesses:
    """The actors of one worker. Any thread."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._actors: dict[int, ActorProcess] = {}
        self._making: dict[int, ActorProcess] = {}
        self._ended: dict[int, ActorGone] = {}
        self._old: set[int] = set()  # that ended before those
        self._waiting: set[int] = set()  # calls that haven't begun
        self._early: dict[int, list[tuple[int, int]]] = {}  # skipped before their actor was there
        self._departed: set[int] = set()
        self._changed = threading.Condition()  # a lock that its own thread may take again

    def run(self, call: ActorCalled, message: RunHead, fds: Sequence[int], heard: Heard) -> Outcome:
        """Make an actor, or call one. ActorGone, ChildDied, CallStopped."""
        if message.shape is not None:
            return self._create(call.actor, message, fds, heard)
        self._waiting.add(call.task)
        try:
            try:
                found = self._found(call)
            except CallStopped:
                self.skip(call.actor, call.reply_to, call.number)
                raise
            return found.call(
                call.reply_to, call.number, message, fds, heard, lambda: call.task in self._waiting
            )
        finally:
            self._waiting.discard(call.task)

    def _found(self, call: ActorCalled) -> ActorProcess:
        """Once it is made: its calls may be here before it is, and that may take long."""

        def is_known() -> bool:
            known = (self._actors, self._ended, self._old)
            return any(call.actor in each for each in known) or call.task not in self._waiting

        with self._changed:
            self._changed.wait_for(is_known)
            found = self._actors.get(call.actor)
            if found is not None:
                return found
            if call.actor not in self._ended and call.actor not in self._old:
                raise CallStopped
            raise self._ended.get(call.actor, ActorGone("has ended.")).again()

    def _create(self, id: int, message: RunHead, fds: Sequence[int], heard: Heard) -> Outcome:
        if id in self._ended:
            raise self._ended[id].again()
        actor = ActorProcess(self._slots, message, fds)
        with self._changed:
            self._making[id] = actor
            for submitter, number in self._early.pop(id, ()):
                actor.skip(submitter, number)
            for submitter in self._departed:
                actor.departed(submitter)
        made = False
        gone = ActorGone("died while it was made.")
        try:
            done = actor.create(heard)
            if has_failed(done):
                gone = ActorGone("could not be made.", *done[0].values[:1])
            made = not has_failed(done) and not actor.is_gone
            return done
        finally:
            with self._changed:
                del self._making[id]
                if made and id not in self._ended:
                    self._actors[id] = actor
                    self._changed.notify_all()
                else:
                    self._over(id, gone)
                    actor.kill(restart=False)

    def _over(self, id: int, gone: ActorGone) -> None:
        with self._changed:
            self._actors.pop(id, None)
            self._early.pop(id, None)
            self._ended.setdefault(id, gone)
            while len(self._ended) > MOST_ENDED:
                oldest = next(iter(self._ended))
                del self._ended[oldest]
                self._old.add(oldest)
            self._changed.notify_all()

    def _all(self) -> list[ActorProcess]:
        return [*self._making.copy().values(), *self._actors.copy().values()]

    def skip(self, actor: int, submitter: int, number: int) -> None:
        with self._changed:
            found = self._actors.get(actor) or self._making.get(actor)
            if found is None:
                if actor not in self._ended and actor not in self._old:
                    self._early.setdefault(actor, []).append((submitter, number))
                return
        found.skip(submitter, number)

    def departed(self, submitter: int) -> None:
        """A process that submitted calls is gone."""
        with self._changed:
            self._departed.add(submitter)
            actors = self._all()
        for actor in actors:
            actor.departed(submitter)

    def stop(self, task: int, force: bool) -> bool:
        """Stop a call; whether it runs in one of them, or waits for its turn."""
        if any(actor.stop(task, force) for actor in self._all()):
            return True
        if task not in self._waiting:
            return False
        self._waiting.discard(task)
        with self._changed:
            self._changed.notify_all()
        for actor in self._all():
            actor.wake()
        return True

    def running(self) -> int:
        """Calls that are at work."""
        return sum(actor.running for actor in self._all())

    def children(self) -> list[SlotChild]:
        """Their processes."""
        return [actor.child for actor in self._all() if actor.child is not None]

    def processes(self) -> list[ChildSeen]:
        """The same as they are told of."""
        return [
            actor.child.seen(actor.calls, actor.actor)
            for actor in self._all()
            if actor.child is not None
        ]

    def tell(self, task: int, message: object) -> None:
        for actor in self._all():
            actor.tell(task, message)

    def kill(self, actor: int, restart: bool) -> None:
        found = self._actors.get(actor) or self._making.get(actor)
        if not restart:
            self._over(actor, ActorGone("was ended by kill()."))
        if found is not None:
            found.kill(restart)

    def close(self) -> None:
        for actor in self._all():
            actor.kill(restart=False, why="died with its Dask worker.")
        with self._changed:
            self._actors.clear()
            self._waiting.clear()
            self._changed.notify_all()

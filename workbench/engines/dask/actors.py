"""Actors on Dask: each is a child of a worker's own, in which its instance lives; made again when
that dies, if it may. Dask's own actors aren't: those share one thread, and nobody can stop them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec

from workbench.engines.dask.channel import HeadDone, RunHead
from workbench.engines.dask.packed import PackedValue, close_all
from workbench.engines.dask.slots import ChildDied, SlotChild, Slots

TURN = 60.0
"""Seconds after which a call no longer waits for those submitted before it: they were lost."""

MOST_ENDED = 10_000
"""Actors that are over, of which is known why."""

Outcome = tuple[HeadDone, list[int]]
Heard = Callable[[SlotChild, Any, list[int]], None]


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


class ActorGone(Exception):  # noqa: N818 - it is told to people in other words
    """The actor has ended, or died for good. ``value``: what its calls give, if that is known."""

    def __init__(self, why: str, value: PackedValue | None = None) -> None:
        super().__init__(why)
        self.why, self.value = why, value


class ActorProcess:
    """One actor. Calls come in threads of Dask's; a thread of its own reads what its child says."""

    def __init__(self, slots: Slots, creation: RunHead, fds: Sequence[int]) -> None:
        assert creation.shape is not None
        self._slots = slots
        self._creation = creation
        self._fds = [os.dup(fd) for fd in fds]
        self._left = creation.shape.restarts
        self._in_order = creation.shape.in_order
        self._lock = threading.Condition()
        self._calls: dict[int, tuple[Future[Outcome], Heard]] = {}  # by task
        self._next: dict[int, int] = {}  # submitter → number of its next call
        self._skipped: set[tuple[int, int]] = set()
        self._child: SlotChild | None = None
        self._gone = ""
        self.made = False

    def create(self, heard: Heard) -> Outcome:
        """Make the instance; ChildDied if that kills its process."""
        with self._lock:
            child = self._child = self._slots.lease()
            self._slots.own(child)
            future = self._sent(child, self._creation, self._fds, heard)
        name = f"workbench-actor-{self._creation.task:x}"
        threading.Thread(target=self._read, args=(child,), name=name, daemon=True).start()
        done = future.result()
        self.made = not self._gone and not any(value.failed for value in done[0].values)
        return done

    def call(
        self, submitter: int, number: int, message: RunHead, fds: Sequence[int], heard: Heard
    ) -> Outcome:
        """One call: those of one submitter begin in their order. ActorGone, ChildDied."""
        with self._lock:
            self._wait_turn(submitter, number)
            self._pass_turn(submitter, number)
            if self._gone or self._child is None:
                raise ActorGone(self._gone)
            future = self._sent(self._child, message, fds, heard)
        return future.result()

    def _wait_turn(self, submitter: int, number: int) -> None:
        until = time.monotonic() + TURN
        while self._in_order and self._next.get(submitter, 1) < number and not self._gone:
            if not self._lock.wait(until - time.monotonic()):
                return

    def _pass_turn(self, submitter: int, number: int) -> None:
        following = max(self._next.get(submitter, 1), number + 1)
        while (submitter, following) in self._skipped:
            self._skipped.discard((submitter, following))
            following += 1
        self._next[submitter] = following
        self._lock.notify_all()

    def skip(self, submitter: int, number: int) -> None:
        """That call won't come."""
        with self._lock:
            if self._next.get(submitter, 1) == number:
                self._pass_turn(submitter, number)
            else:
                self._skipped.add((submitter, number))

    def _sent(
        self, child: SlotChild, message: RunHead, fds: Sequence[int], heard: Heard
    ) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        self._calls[message.task] = future, heard
        try:
            child.begin(message, fds)
        except OSError:  # it has just died: the reader says so
            pass
        return future

    def _read(self, child: SlotChild) -> None:
        """A thread's life: while this child lives."""
        while True:
            try:
                said, fds = child.hear()
            except ChildDied as died:
                self._died(child, died)
                return
            if type(said) is HeadDone:
                future, _ = self._calls.pop(said.task)
                if said.leaves:
                    self._end("It has left by itself.")
                future.set_result((said, fds))
                if said.leaves:
                    child.close()
                    return
            else:
                task = getattr(said, "task", 0)
                _, heard = self._calls.get(task) or next(iter(self._calls.values()), (None, _drop))
                heard(child, said, fds)

    def _died(self, child: SlotChild, died: ChildDied) -> None:
        with self._lock:
            calls, self._calls = list(self._calls.values()), {}
            again = self.made and self._left != 0 and not self._gone
            self._left -= again
            if not again:
                self._gone = self._gone or "Its process has died."
                self._close()
            self._lock.notify_all()
        heard = next((heard for _, heard in calls), _drop)
        if again:
            self.made = False
            self._creation = msgspec.structs.replace(self._creation, restarted=True)
            try:
                self.create(heard)
            except (ChildDied, RuntimeError):
                self._end("It could not be made again.")
        self._slots.free_number(child)
        for future, _ in calls:
            future.set_exception(died)

    def _end(self, why: str) -> None:
        with self._lock:
            self._gone = self._gone or why
            self._lock.notify_all()

    def kill(self, restart: bool, why: str = "It was killed.") -> None:
        """End its process; without ``restart`` for good."""
        if not restart:
            self._end(why)
        child = self._child
        if child is not None:
            child.kill()

    def stop(self, task: int, force: bool) -> bool:
        child = self._child
        if task not in self._calls or child is None:
            return False
        child.stop(task, force)
        return True

    def tell(self, task: int, message: Any) -> None:
        if task in self._calls and self._child is not None:
            self._child.tell(message)

    @property
    def is_gone(self) -> bool:
        return bool(self._gone)

    def _close(self) -> None:
        close_all(self._fds)
        self._fds = []


def _drop(child: SlotChild, said: Any, fds: list[int]) -> None:
    close_all(fds)


class ActorProcesses:
    """The actors of one worker. Any thread."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._actors: dict[int, ActorProcess] = {}
        self._ended: dict[int, ActorGone] = {}
        self._changed = threading.Condition()  # a lock that its own thread may take again

    def run(self, call: ActorCalled, message: RunHead, fds: Sequence[int], heard: Heard) -> Outcome:
        """Make an actor, or call one. ActorGone, ChildDied."""
        if message.shape is not None:
            return self._create(call.actor, message, fds, heard)
        with self._changed:  # its calls may be here before it is made
            self._changed.wait_for(
                lambda: call.actor in self._actors or call.actor in self._ended, TURN
            )
        found = self._actors.get(call.actor)
        if found is None:
            raise self._ended.get(call.actor) or ActorGone("It has ended.")
        return found.call(call.reply_to, call.number, message, fds, heard)

    def _create(self, id: int, message: RunHead, fds: Sequence[int], heard: Heard) -> Outcome:
        if id in self._ended:
            raise self._ended[id]
        actor = ActorProcess(self._slots, message, fds)
        gone = ActorGone("Its process died while it was made.")
        try:
            done = actor.create(heard)
            if not actor.made:
                gone = ActorGone("It could not be made.", *done[0].values[:1])
            return done
        finally:
            with self._changed:
                if actor.made and id not in self._ended:
                    self._actors[id] = actor
                    self._changed.notify_all()
                else:
                    self._over(id, gone)
                    actor.kill(restart=False)

    def _over(self, id: int, gone: ActorGone) -> None:
        with self._changed:
            self._actors.pop(id, None)
            self._ended.setdefault(id, gone)
            while len(self._ended) > MOST_ENDED:
                del self._ended[next(iter(self._ended))]
            self._changed.notify_all()

    def skip(self, actor: int, submitter: int, number: int) -> None:
        found = self._actors.get(actor)
        if found is not None:
            found.skip(submitter, number)

    def stop(self, task: int, force: bool) -> bool:
        """Stop a call; whether it runs in one of them."""
        return any(actor.stop(task, force) for actor in list(self._actors.values()))

    def tell(self, task: int, message: Any) -> None:
        for actor in list(self._actors.values()):
            actor.tell(task, message)

    def kill(self, actor: int, restart: bool) -> None:
        found = self._actors.get(actor)
        if not restart:
            self._over(actor, ActorGone("It was killed."))
        if found is not None:
            found.kill(restart)

    def close(self) -> None:
        for actor in list(self._actors.values()):
            actor.kill(restart=False, why="Its worker has ended.")
        with self._changed:
            self._actors.clear()
            self._changed.notify_all()

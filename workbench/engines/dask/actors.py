"""Actors on Dask: each is a child of a worker's own, in which its instance lives; made again when
that dies, if it may. Dask's own actors aren't: those share one thread, and nobody can stop them."""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from workbench.engines.dask.channel import HeadDone, RunHead
from workbench.engines.dask.packed import PackedValue, close_all
from workbench.engines.dask.slots import ChildDied, SlotChild, Slots

Outcome = tuple[HeadDone, list[int]]
Heard = Callable[[SlotChild, Any, list[int]], None]


class ActorGone(Exception):  # noqa: N818 - it is told to people in other words
    """The actor has ended, or died for good. ``why``: what it did, said behind its class's name;
    ``value``: what its calls give, if that is known."""

    def __init__(self, why: str, value: PackedValue | None = None) -> None:
        super().__init__(why)
        self.why, self.value = why, value

    def again(self) -> ActorGone:
        """The same to be raised: one that was raised twice keeps both frames."""
        return ActorGone(self.why, self.value)


class CallStopped(Exception):  # noqa: N818 - the same
    """A call was stopped while it waited for its turn."""


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
        # Written without that lock, which the worker's event loop takes: a child that is busy
        # doesn't read, and then who writes waits.
        self._outgoing: deque[tuple[SlotChild, RunHead, Sequence[int]]] = deque()
        self._writing = threading.Lock()
        self._calls: dict[int, tuple[Future[Outcome], Heard]] = {}  # by task
        self._next: dict[int, int] = {}  # submitter → number of its next call
        self._skipped: set[tuple[int, int]] = set()
        self._departed: set[int] = set()  # submitters from which not all calls will come
        self._child: SlotChild | None = None
        self._gone: ActorGone | None = None
        self._is_made = False

    def create(self, heard: Heard) -> Outcome:
        """Make the instance; ChildDied if that kills its process, ActorGone if it was killed."""
        child = self._slots.lease()  # without the lock: it may have to be started
        self._slots.own(child)
        child.whose_output = lambda: next(iter(list(self._calls)), 0)  # the call that came first
        with self._lock:
            if self._gone is not None:
                child.close(0.0)
                self._slots.free_number(child)
                raise self._gone.again()
            self._child = child
            future = self._queued(child, self._creation, self._fds, heard)
            self._lock.notify_all()
        self._write()
        name = f"workbench-actor-{self._creation.task:x}"
        threading.Thread(target=self._read, args=(child,), name=name, daemon=True).start()
        done = future.result()
        with self._lock:
            self._is_made = child is self._child and not has_failed(done)
            self._lock.notify_all()
        return done

    def call(
        self, submitter: int, number: int, message: RunHead, fds: Sequence[int], heard: Heard,
        is_wanted: Callable[[], bool],
    ) -> Outcome:  # fmt: skip
        """One call: those of one submitter begin in their order. ActorGone, ChildDied.

        CallStopped if it isn't wanted any more: see `wake`.
        """
        with self._lock:
            self._lock.wait_for(lambda: self._may_begin(submitter, number) or not is_wanted())
            self._pass_turn(submitter, number)
            if not is_wanted():
                raise CallStopped
            if self._gone is not None or self._child is None:
                raise (self._gone or ActorGone("has ended.")).again()
            future = self._queued(self._child, message, fds, heard)
        self._write()
        return future.result()

    def _may_begin(self, submitter: int, number: int) -> bool:
        if self._gone is not None:
            return True
        is_next = self._next.get(submitter, 1) >= number or submitter in self._departed
        return self._is_made and (is_next or not self._in_order)

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
            following = self._next.get(submitter, 1)
            if following == number:
                self._pass_turn(submitter, number)
            elif following < number:
                self._skipped.add((submitter, number))

    def departed(self, submitter: int) -> None:
        """Its process is gone: of what it called, some may never come."""
        with self._lock:
            self._departed.add(submitter)
            self._lock.notify_all()

    def wake(self) -> None:
        """Have calls that wait see whether they are wanted."""
        with self._lock:
            self._lock.notify_all()

    def _queued(
        self, child: SlotChild, message: RunHead, fds: Sequence[int], heard: Heard
    ) -> Future[Outcome]:
        """With the lock: its place among those that are written."""
        future: Future[Outcome] = Future()
        self._calls[message.task] = future, heard
        self._outgoing.append((child, message, fds))
        return future

    def _write(self) -> None:
        """When this returns, what this thread has queued is written: by it, or by another."""
        with self._writing:
            while self._outgoing:
                child, message, fds = self._outgoing.popleft()
                with contextlib.suppress(OSError):  # it has just died: the reader says so
                    child.begin(message, fds)

    def _read(self, child: SlotChild) -> None:
        """A thread's life: while this child lives."""
        try:
            while self._heard(child):
                pass
        except ChildDied as died:
            self._died(child, died)
        except BaseException as error:  # nobody could read what it says from now on
            traceback.print_exc()
            child.kill()
            child.close(0.0)
            self._died(child, ChildDied(-9, f"{type(error).__name__}: {error}", True))

    def _heard(self, child: SlotChild) -> bool:
        """Read one message; False after the last one."""
        said, fds = child.hear()
        if type(said) is not HeadDone:
            task = getattr(said, "task", 0)
            found = self._calls.get(task) or next(iter(self._calls.values()), None)
            future, heard = found or (None, _drop)
            try:
                heard(child, said, fds)
            except Exception as error:  # of the worker: that call's, and nobody else's
                if future is not None and not future.done():
                    future.set_exception(error)
            return True
        future, _ = self._calls.pop(said.task, (None, _drop))
        if said.leaves:
            self._end("has ended itself.")
        if future is not None and not future.done():
            future.set_result((said, fds))
        else:
            close_all(fds)
        if said.leaves:
            child.close()
        return not said.leaves

    def _died(self, child: SlotChild, died: ChildDied) -> None:
        with self._lock:
            calls, self._calls = list(self._calls.values()), {}
            again = self._is_made and self._left != 0 and self._gone is None
            self._left -= again
            self._child, self._is_made = None, False
            if not again:
                self._end("died: its process has ended.")
                self._close()
        try:
            if again:
                self._make_again(next((heard for _, heard in calls), _drop))
        finally:
            self._slots.free_number(child)
            for future, _ in calls:
                if not future.done():
                    future.set_exception(died)

    def _make_again(self, heard: Heard) -> None:
        self._creation = msgspec.structs.replace(self._creation, restarted=True)
        why, value = "could not be made again.", None
        try:
            done, fds = self.create(heard)
            close_all(fds)
            value = next(iter(done.values), None)
            if not has_failed((done, fds)):
                return
        except Exception as error:
            if not isinstance(error, ChildDied | ActorGone):
                why += f" {error}"
        self._end(why, value)
        child = self._child
        if child is not None:
            child.kill()
        self._close()

    def _end(self, why: str, value: PackedValue | None = None) -> None:
        with self._lock:
            self._gone = self._gone or ActorGone(why, value)
            self._lock.notify_all()

    def kill(self, restart: bool, why: str = "was ended by kill().") -> None:
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

    @property
    def running(self) -> int:
        """Calls that are at work in it."""
        shape = self._creation.shape
        assert shape is not None
        most = shape.concurrency + sum(size for _, size in shape.groups)
        return min(len(self._calls), most)

    def tell(self, task: int, message: Any) -> None:
        if task in self._calls and self._child is not None:
            self._child.tell(message)

    @property
    def actor(self) -> int:
        """Its id."""
        return self._creation.task

    @property
    def calls(self) -> list[int]:
        """Those that were sent to it and aren't over."""
        return list(self._calls)

    @property
    def child(self) -> SlotChild | None:
        """The process in which it lives now."""
        return self._child

    @property
    def is_gone(self) -> bool:
        return self._gone is not None

    def _close(self) -> None:
        with self._lock:
            close_all(self._fds)
            self._fds = []


def has_failed(done: Outcome) -> bool:
    """Whether what was made is an error."""
    return any(value.failed for value in done[0].values)


def _drop(child: SlotChild, said: Any, fds: list[int]) -> None:
    close_all(fds)

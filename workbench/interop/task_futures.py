"""Futures of tasks, and the thread that settles those of one executor."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from workbench.engine.base import Arrivals, Engine
from workbench.engine.lending_future import LendingFuture
from workbench.engine.lending_future import waiting as lent_while
from workbench.engine.queries import Describe, Withdraw
from workbench.engine.tally import CallTally
from workbench.errors import (
    OutOfMemoryError,
    SessionError,
    TaskCancelledError,
    WorkerCrashedError,
)
from workbench.interop import calls
from workbench.interop.person_frames import without_ours
from workbench.ref import ObjectRef

T = TypeVar("T")

LINGER = 0.05
"""Seconds that the thread waits for more futures before it ends. A script's exit waits for it."""


class TaskFuture(LendingFuture[T]):
    """The future of a task. It is resolved once, by the executor's thread or by `cancel`.

    A task that waits for it, in any way, lets others run in its place.
    """

    def __init__(self, engine: Engine, ref: ObjectRef) -> None:
        ids = (ref.id,)
        super().__init__(engine.lending, lambda: ids)
        self.engine = engine
        self.ref = ref
        self.tally: CallTally | None = None  # counts its calls when it is over
        self.calls = 1  # how many it stands for
        self._unresolved = threading.Lock()  # whoever gets it resolves the future; never released
        self._pid = os.getpid()

    def cancel(self) -> bool:
        """Cancel the call if it hasn't begun.

        Returns
        -------
        bool
            True if it will never run.
        """
        self.awaited_no_more()
        if not self.is_over():
            try:
                withdrawn = self.engine.ask(Withdraw(self.ref.id))
            except SessionError:  # the settler is about to fail it
                withdrawn = False
            if withdrawn and not self._resolve_cancelled():
                with contextlib.suppress(futures.CancelledError):
                    futures.Future.exception(self)  # wait: the executor's thread is resolving it
        return self.cancelled()

    def running(self) -> bool:
        """Return True if the call was sent to a worker and isn't over.

        Returns
        -------
        bool
        """
        if self.is_over():
            return False
        found = self.engine.ask(Describe(self.ref.id, patient=True))
        task = None if found is None else found.task
        return task is not None and (task.worker > 0 or task.state == "running")

    def result(self, timeout: float | None = None) -> T:
        """Wait for the call and return its result.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        object
        """
        self._check_process()
        try:
            return super().result(timeout)
        except BaseException as error:
            without_ours(error)
            raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the call and return what it raised, or None.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        BaseException or None
        """
        self._check_process()
        return super().exception(timeout)

    def _check_process(self) -> None:
        if self._pid != os.getpid() and not self.is_over():
            raise BrokenProcessPool("This future is another process's, which forked this one.")

    def _resolve_cancelled(self) -> bool:
        """Resolve it as cancelled; False if another thread resolves it."""
        if not self._unresolved.acquire(blocking=False):
            return False
        futures.Future.cancel(self)
        self.set_running_or_notify_cancel()
        return True

    def resolve(self, break_executor: Callable[[str], object]) -> None:
        """Resolve it with the task's outcome, which is known. Any thread but the reading one.

        ``break_executor`` is called with the reason if no other call can succeed any more.
        """
        try:
            value = self.engine.get([self.ref], None, False)[0]
        except TaskCancelledError:
            self._resolve_cancelled()
        except calls.SetupError as error:
            break_executor(str(error))
            self.fail(BrokenProcessPool(str(error)), error)
        except (WorkerCrashedError, OutOfMemoryError, SessionError) as error:
            self.fail(BrokenProcessPool(str(error)), error)
        except BaseException as error:
            self.fail(error, error.__cause__)
        else:
            if self._claim():
                self.set_result(value)

    def fail(self, error: BaseException, cause: BaseException | None) -> None:
        if self._claim():
            error.__cause__ = cause
            self.set_exception(without_ours(error))

    def _claim(self) -> bool:
        """True if the caller has to set the outcome; False if another thread resolves it."""
        if not self._unresolved.acquire(blocking=False):
            return False
        if self.tally is not None:  # before a waiting thread goes on
            self.tally.count(self.calls)
        return self.set_running_or_notify_cancel()


def stop(calls: Iterable[futures.Future[Any]], begun: bool = True) -> None:
    """Cancel calls of an executor, with ``begun`` also those that run. By one message, so that an
    interrupt can't come between two of them; nobody waits."""
    # A copy first, in one step: the resolver's thread may change what it came from.
    left = [each for each in list(calls) if isinstance(each, TaskFuture) and not each.is_over()]
    for each in left:
        each.awaited_no_more()
    if left:
        with contextlib.suppress(SessionError):
            left[0].engine.cancel([each.ref for each in left], begun=begun)


def waiting(
    calls: Iterable[futures.Future[Any]], some: bool = False
) -> AbstractContextManager[None]:
    """Return a context for code that waits for all calls, or with ``some`` for one: a task lends
    its slot there."""
    left = [each for each in calls if isinstance(each, TaskFuture) and not each.is_over()]
    if not left:
        return nullcontext()
    ids = [each.ref.id for each in left]
    return lent_while(left[0].engine.lending, lambda: ids, 1 if some else 0)


class FutureResolver:
    """The thread that resolves an executor's futures, and runs their callbacks.

    It runs while futures are pending. It isn't a daemon: a script's exit waits for it.
    """

    def __init__(self, engine: Engine, idle: Callable[[], None]) -> None:
        self._engine = engine
        self._idle = idle  # called when no future is pending any more
        self._arrivals: Arrivals = engine.arrivals(())
        self._pending: dict[int, TaskFuture[Any]] = {}
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()  # guards all of the above
        self.broken = ""  # why no call can succeed any more

    def add(self, future: TaskFuture[Any]) -> None:
        with self._changed:
            if self.broken:
                raise BrokenProcessPool(self.broken)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="workbench-executor")
                thread.start()  # it waits for the lock that we hold
                self._thread = thread
            self._pending[future.ref.id] = future
            self._arrivals.add([future.ref])
            if len(self._pending) == 1:
                self._changed.notify_all()

    def close(self, cancel: bool, wait: bool) -> None:
        with self._changed:
            pending, thread = list(self._pending.values()), self._thread
            self._changed.notify_all()
        if cancel:
            stop(pending, begun=False)
        if wait and thread is not None and thread is not threading.current_thread():
            with lent_while(self._engine.lending):
                thread.join()

    @property
    def pending(self) -> int:
        """Number of calls that aren't over."""
        return len(self._pending)

    def _break(self, reason: str) -> None:
        with self._changed:
            self.broken = reason

    def _run(self) -> None:
        try:
            while self._has_more():
                ref = self._arrivals.next()
                while ref is not None:
                    future = self._pending.pop(ref.id)
                    try:
                        future.resolve(self._break)
                    except BaseException:  # a callback failed: our thread goes on
                        threading.excepthook(threading.ExceptHookArgs([*sys.exc_info(), None]))
                    del future, ref  # only the caller holds the result now
                    ref = self._arrivals.take()
        except SessionError as error:
            with self._changed:
                self.broken = str(error)
                left = list(self._pending.values())
                self._pending.clear()
            for future in left:
                future.fail(BrokenProcessPool(self.broken), error)

    def _has_more(self) -> bool:
        with self._changed:
            if not self._pending:
                self._changed.wait(LINGER)
            if not self._pending:
                self._thread = None
                self._idle()
            return bool(self._pending)

"""Futures of tasks, and the thread that settles those of one executor."""

from __future__ import annotations

import contextlib
import threading
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from workbench.engines.base import Arrivals, Engine
from workbench.errors import (
    OutOfMemoryError,
    SessionError,
    TaskCancelledError,
    WorkerCrashedError,
)
from workbench.interop import calls
from workbench.ref import ObjectRef

T = TypeVar("T")

LINGER = 0.05
"""Seconds that the thread waits for more to do before it ends. A script's exit waits for it."""


class TaskFuture(futures.Future[T]):
    """The future of a task. It is settled once, by the executor's thread or by `cancel`.

    Parameters
    ----------
    engine : Engine
        That runs the task.
    ref : ObjectRef
        Its result.
    """

    def __init__(self, engine: Engine, ref: ObjectRef) -> None:
        super().__init__()
        self.engine = engine
        self.ref = ref
        self._unsettled = threading.Lock()  # whoever gets it settles; never given back

    def cancel(self) -> bool:
        """Cancel the call if it hasn't begun.

        Returns
        -------
        bool
            Whether it will never run.
        """
        if not self.done():
            try:
                withdrawn = self.engine.withdraw(self.ref)
            except SessionError:  # its end is on its way
                withdrawn = False
            if withdrawn:
                self.withdraw()
        return self.cancelled()

    def running(self) -> bool:
        """Whether the call was sent to a worker, and isn't over.

        Returns
        -------
        bool
        """
        if self.done():
            return False
        try:
            return self.engine.has_begun(self.ref) and not self.done()
        except SessionError:
            return False

    def result(self, timeout: float | None = None) -> T:
        """What the call returns. In a task, others run in its place while this waits.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        object
        """
        if self.done():
            return super().result(timeout)
        with self.engine.waiting([self.ref]):
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the call raised, or None. In a task, others run in its place while this waits.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        BaseException or None
        """
        if self.done():
            return super().exception(timeout)
        with self.engine.waiting([self.ref]):
            return super().exception(timeout)

    def withdraw(self) -> None:
        """It was cancelled."""
        if self._unsettled.acquire(blocking=False):
            super().cancel()
            self.set_running_or_notify_cancel()

    def settle(self) -> None:
        """It is known what came of it: any thread but the one that reads."""
        try:
            value = self.engine.get([self.ref], None, False)[0]
        except TaskCancelledError:
            self.withdraw()
        except calls.SetupError as error:
            self.fail(BrokenProcessPool(str(error)), error)
        except (WorkerCrashedError, OutOfMemoryError, SessionError) as error:
            self.fail(BrokenProcessPool(str(error)), error)
        except BaseException as error:
            self.fail(error, error.__cause__)
        else:
            if self._unsettled.acquire(blocking=False):
                self.set_running_or_notify_cancel()
                self.set_result(value)

    def fail(self, error: BaseException, cause: BaseException | None) -> None:
        """It has no value."""
        if self._unsettled.acquire(blocking=False):
            error.__cause__ = cause
            self.set_running_or_notify_cancel()
            self.set_exception(error)


def stop(future: futures.Future[Any]) -> None:
    """Cancel a call of an executor, or have it interrupted if it runs."""
    if isinstance(future, TaskFuture) and not future.cancel() and not future.done():
        with contextlib.suppress(SessionError):
            future.engine.cancel(future.ref, False, True)


class Settler:
    """The thread that settles an executor's futures, and runs their callbacks.

    It lives while there is something to wait for. It is no daemon: a script's exit waits for it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._arrivals: Arrivals = engine.arrivals(())
        self._pending: dict[int, TaskFuture[Any]] = {}
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()  # guards all of the above
        self.broken = ""  # why it settles no more

    def add(self, future: TaskFuture[Any]) -> None:
        with self._changed:
            self._pending[future.ref.id] = future
            self._arrivals.add([future.ref])
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="workbench-executor")
                self._thread.start()
            elif len(self._pending) == 1:
                self._changed.notify_all()

    def close(self, cancel: bool, wait: bool) -> None:
        with self._changed:
            pending, thread = list(self._pending.values()), self._thread
            self._changed.notify_all()
        if cancel:
            for future in reversed(pending):  # so that none begins meanwhile
                future.cancel()
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        try:
            while self._has_more():
                ref = self._arrivals.next()
                while ref is not None:
                    future = self._pending.pop(ref.id)
                    future.settle()
                    del future, ref  # the result is the caller's now
                    ref = self._arrivals.take()
        except SessionError as error:
            self.broken = str(error)
            for future in list(self._pending.values()):
                future.fail(BrokenProcessPool(self.broken), error)
            self._pending.clear()

    def _has_more(self) -> bool:
        with self._changed:
            if not self._pending:
                self._changed.wait(LINGER)
            if not self._pending:
                self._thread = None
            return bool(self._pending)

"""Keys that a process of a session holds at Dask's scheduler, and its client of that. Any thread.

Dask's own future says when a key is there, or is gone. How a task of ours ends is told before that,
behind all that it showed and with its results if they are small: nobody asks for those."""

from __future__ import annotations

import pickle
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent import futures
from contextlib import suppress
from functools import partial
from typing import Any

from workbench.engines.cluster.work_thread import WorkThread
from workbench.engines.dask.keys import ANSWERS, DaskRef, TaskFailed, TaskValues
from workbench.errors import ObjectLostError, SessionError, WorkbenchError, WorkerCrashedError

LOST = "The connection to the Dask scheduler was lost: the session is over."


class KeyHold(futures.Future[None]):
    """One key: while this lives, Dask keeps it for this process, by its own ``future``. It is done
    when that is there, or never will be. ``found``: what of that is here; at least a task's end."""

    def __init__(self, key: str, future: Any = None, found: TaskValues | None = None) -> None:
        super().__init__()
        self.key, self.future, self.found = key, future, found
        if future is None:
            self.settle()
        else:
            future.add_done_callback(partial(_is_done, weakref.ref(self)))

    def settle(self, error: WorkbenchError | None = None) -> None:
        """The first who says so counts."""
        with suppress(futures.InvalidStateError):
            self.set_result(None) if error is None else self.set_exception(error)


def _is_done(weak: weakref.ref[KeyHold], future: Any) -> None:
    """In Dask's thread for callbacks."""
    hold = weak()
    why: WorkbenchError | None = None
    if hold is None:
        return
    error = future.exception() if future.status == "error" else None
    if isinstance(error, TaskFailed):  # its own, or that of what it would be made from
        hold.found = hold.found or error.so
    elif error is not None:
        why = WorkerCrashedError(f"Dask gave the task up: {type(error).__name__}: {error}")
    elif future.status != "finished":  # Dask cancels all if it has lost the scheduler
        is_running = future.client.status == "running"
        why = lost(hold.key) if is_running else SessionError(LOST)
    hold.settle(why)


def lost(key: str) -> ObjectLostError:
    """Why somebody who holds a key has nothing."""
    name = key.rpartition("-")[0]
    what = "A stored value" if name == "put" else f"The result of `{name}`"
    why = "was freed, or is gone with the Dask worker that had it. Make it again."
    return ObjectLostError(f"{what} {why}")


class SchedulerLink:
    """``connect`` gives a distributed.Client once that is needed: most tasks ask nothing. ``heard``
    is told what our plugin says, in a thread; ``found`` values on the client's event loop before.
    """

    def __init__(
        self, connect: Callable[[], Any], session: str, heard: Callable[..., object]
    ) -> None:
        self._connect, self._session, self._heard = connect, session, heard
        self._why: str | None = None
        self._lock = threading.Lock()
        self._client: Any = None
        self._holds: weakref.WeakSet[KeyHold] = weakref.WeakSet()
        self._news = WorkThread("workbench-dask")

    @property
    def client(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
                self._client.subscribe_topic(ANSWERS, self._came)
            return self._client

    def hold(self, key: str, future: Any) -> KeyHold:
        hold = KeyHold(key, future)
        self._holds.add(hold)
        if self._why is not None:
            hold.settle(SessionError(self._why))
        return hold

    def of(self, ref: DaskRef) -> KeyHold:
        """Return what holds a native here: from now on, if nothing did."""
        if ref.hold is None:
            client = self.client
            from distributed import Future

            ref.hold = self.hold(ref.key, Future(ref.key, client))
            self.ask("want", ref.key)
        found: KeyHold = ref.hold
        return found

    def ask(self, question: str, *args: Any, timeout: float | None = None) -> Any:
        """Ask our plugin's session, or its keeper, by a method's name. SessionError: it is over."""
        from workbench.engines.dask.scheduler import called

        asked = self._session, self.client.id, pickle.dumps((question, args))
        try:
            is_right, found = self.client.run_on_scheduler(called, "ask", asked)
        except Exception as error:
            said = f"Dask's scheduler doesn't answer: {type(error).__name__}: {error}"
            raise SessionError(self.why or said) from error
        if not is_right:
            raise found
        return found

    def _came(self, event: tuple[float, Sequence[Any]]) -> None:
        kind, *rest = event[1]
        if kind == "end":
            self._heard("found", *rest)
        self._news.do(partial(self._hear, *event[1]))

    def _hear(self, *message: Any) -> None:
        with suppress(Exception):  # of who is told: others are told all the same
            self._heard(*message)

    @property
    def why(self) -> str | None:
        """Why the session is over for this process; None while it isn't."""
        if self._why is None and self._client is not None and self._client.status != "running":
            self.end(LOST)
        return self._why

    def end(self, why: str) -> None:
        """Nothing comes any more. The first reason counts."""
        self._why = self._why or why
        for hold in list(self._holds):
            hold.settle(SessionError(self._why))

    def leave(self, goodbye: bool, close: bool) -> None:
        """Say so, and close the client if it is ours to ``close``."""
        if self._client is None:
            return
        if self.why is None:
            with suppress(Exception):
                self.ask("leaves", goodbye)
        self.end("This process has left the session.")
        self._news.close()
        if close:
            self._client.close()

"""An actor in its worker: the instance, and how its calls run: in turn, in threads, on a loop."""

from __future__ import annotations

import asyncio
import inspect
import selectors
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn, cast

from workbench.api.actors import BUILT_IN, Blueprint
from workbench.client.connection import Connection
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.errors import ActorExit
from workbench.host.cells import Namespace
from workbench.system.spin_poll import SpinThenPoll


class SpinningSelector(selectors.EpollSelector):
    def __init__(self) -> None:
        super().__init__()
        self._poll: Any = SpinThenPoll(super().select)  # type: ignore[arg-type]

    def select(self, timeout: float | None = None) -> Any:
        return self._poll(timeout)


def _leave() -> NoReturn:
    raise ActorExit


class ActorHost:
    """`make` runs as the actor's first task; then, unless it is plain, `serve`.

    ``connection`` is read and written by the loop itself, if there is one: another thread would
    have to wake it. ``next_call`` takes the first call out of the queue; ``run`` and ``run_async``
    run one, in this thread or on the loop.
    """

    def __init__(
        self,
        id: int,
        namespace: str,
        is_restarted: bool,
        blueprint: Blueprint,
        connection: Connection,
        next_call: Callable[[], do.Run | None],
        run: Callable[[do.Run], None],
        run_async: Callable[[do.Run], Coroutine[Any, Any, None]],
    ) -> None:
        self.id = id
        self.namespace = namespace
        self.is_restarted = is_restarted
        self._blueprint = blueprint
        self._connection = connection
        self._next_call = next_call
        self._run = run
        self._run_async = run_async
        self._instance: Any = None
        self._threads: ThreadPoolExecutor | None = None
        self._calls: dict[int, asyncio.Task[None]] = {}  # those that run on the loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0  # the loop's
        self._flushing = False  # at the end of this round of the loop
        self._over: asyncio.Event | None = None  # of the loop's
        self.leaves = False  # no other call shall begin

    @property
    def is_plain(self) -> bool:
        """One call at a time, in the main thread."""
        return self._blueprint.concurrency == 1 and not self._blueprint.is_async

    @property
    def is_async(self) -> bool:
        return self._blueprint.is_async

    @property
    def is_namespace(self) -> bool:
        """What background cells run in: an exit there is a cell's error, and nothing is lost."""
        return isinstance(self._instance, Namespace)

    def make(self, /, *args: Any, **kwargs: Any) -> None:
        self._instance = self._blueprint.cls(*args, **kwargs)

    @property
    def variables(self) -> dict[str, Any]:
        """What the actor keeps, under a name that a person knows."""
        if isinstance(self._instance, Namespace):
            return dict(self._instance.variables)
        return {self._blueprint.cls.__name__: self._instance}

    def method(self, name: str) -> Callable[..., Any]:
        """One of the instance's, or of `actors.BUILT_IN`."""
        if name in BUILT_IN:
            own: dict[str, Callable[..., Any]] = {
                "__ray_ready__": lambda: True,
                "__ray_call__": self._call,
                "__ray_terminate__": _leave,
            }
            return own[name]
        instance = self._instance
        found: Any = getattr(instance, name)
        if name in getattr(instance, "__dict__", ()):  # hidden from Python only
            found = inspect.getattr_static(type(instance), name, found)
            if hasattr(found, "__get__"):
                found = found.__get__(instance, type(instance))
        return cast(Callable[..., Any], found)

    def _call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return function(self._instance, *args, **kwargs)

    def serve(self) -> None:
        if self.is_async:
            with asyncio.Runner(
                loop_factory=lambda: asyncio.SelectorEventLoop(SpinningSelector())
            ) as runner:
                runner.run(self._serve())
        else:
            self._connection.wait_for(lambda: False)

    def notify(self) -> None:
        """A call has come, and is in the queue. Whoever reads: mostly the loop itself.

        Each stays there until its turn, so that it can be cancelled without having begun.
        """
        if self._loop is not None and threading.get_ident() == self._thread:
            self._begin()
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(self._begin)
        elif not (self.is_plain or self.is_async):
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._blueprint.concurrency, "workbench-actor")
            self._threads.submit(self._run_next)

    # -- threads ----------------------------------------------------------------------------------

    def _run_next(self) -> None:
        run = None if self.leaves else self._next_call()
        if run is not None:
            self._run(run)

    # -- a loop: the main thread ------------------------------------------------------------------

    async def _serve(self) -> None:
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._connection, self._connection.readable)
        self._over = asyncio.Event()
        self._begin()  # what came before
        await self._over.wait()

    def stop(self) -> None:
        """Nobody will call any more. The reading thread."""
        if self._loop is not None and self._over is not None:
            self._loop.call_soon_threadsafe(self._over.set)

    def leave(self) -> None:
        """It ends itself. Where the call runs that says so."""
        self.leaves = True
        self.stop()

    def send(self, done: ev.Done) -> None:
        """Send it with all others of this round of the loop."""
        assert self._loop is not None
        self._connection.put(done)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        self._connection.push()

    def _begin(self) -> None:
        while len(self._calls) < self._blueprint.concurrency and not self.leaves:
            run = self._next_call()
            if run is None:
                return
            task = self._calls[run.task] = asyncio.create_task(self._run_async(run))
            task.add_done_callback(partial(self._ended, run.task))

    def _ended(self, id: int, call: asyncio.Task[None]) -> None:
        if self._calls.get(id) is call:  # else it is being tried again
            del self._calls[id]
        self._begin()

    def cancel(self, task: int) -> None:
        """Cancel a call, if it runs on the loop. The reading thread."""
        call = self._calls.get(task)
        if call is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(call.cancel)

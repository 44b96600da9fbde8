"""An actor in its worker: the instance, and how its calls run: in turn, in threads, on a loop."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from workbench.actors import Blueprint
from workbench.client.connection import Connection
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.polling import BriskPoll

if TYPE_CHECKING:
    from workbench.worker.executor import Executor


class BriskSelector(selectors.EpollSelector):
    """A loop's selector that looks a few times more before it sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self._poll: Any = BriskPoll(super().select)  # type: ignore[arg-type]

    def select(self, timeout: float | None = None) -> Any:
        """As its base's."""
        return self._poll(timeout)


class Host:
    """See the module. `make` runs as the actor's first task; then `serve` or `start` take over.

    Parameters
    ----------
    executor : Executor
        Runs what this decides to run now.
    connection : Connection
        Read and written by the loop itself, if there is one: another thread would have to wake it.
    """

    def __init__(self, executor: Executor, connection: Connection, blueprint: Blueprint) -> None:
        self._executor = executor
        self._connection = connection
        self._blueprint = blueprint
        self._instance: Any = None
        self._threads: ThreadPoolExecutor | None = None
        self._gate: asyncio.Semaphore | None = None
        self._calls: dict[int, asyncio.Task[None]] = {}
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0  # the loop's
        self._flushing = False  # at the end of this round of the loop

    @property
    def is_plain(self) -> bool:
        """One call at a time, in the main thread."""
        return self._blueprint.concurrency == 1 and not self._blueprint.is_async

    @property
    def is_async(self) -> bool:
        """Its calls run on a loop."""
        return self._blueprint.is_async

    def make(self, *args: Any, **kwargs: Any) -> None:
        """Make the instance."""
        self._instance = self._blueprint.cls(*args, **kwargs)

    @property
    def variables(self) -> dict[str, Any]:
        """What the actor keeps, under a name that a person knows."""
        return {self._blueprint.cls.__name__: self._instance}

    def method(self, name: str) -> Callable[..., Any]:
        """A method of the instance."""
        return getattr(self._instance, name)  # type: ignore[no-any-return]

    # -- threads ----------------------------------------------------------------------------------

    def start(self, run: do.Run) -> None:
        """Run a call in the next thread that is free."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._blueprint.concurrency, "workbench-actor")
        self._threads.submit(self._executor.run, run)

    # -- a loop: the main thread ------------------------------------------------------------------

    def serve(self) -> None:
        """Run calls as they come, until the process ends."""
        with asyncio.Runner(
            loop_factory=lambda: asyncio.SelectorEventLoop(BriskSelector())
        ) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._gate = asyncio.Semaphore(self._blueprint.concurrency)
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.loop.add_reader(self._connection, self._connection.readable)
        for run in self._executor.take_all():
            self.begin(run)
        await asyncio.Event().wait()

    def add(self, run: do.Run) -> None:
        """A call has come. Whoever reads: mostly the loop itself."""
        assert self.loop is not None
        if threading.get_ident() == self._thread:
            self.begin(run)
        else:
            self.loop.call_soon_threadsafe(self.begin, run)

    def send(self, done: ev.Done) -> None:
        """Send it with all others of this round of the loop."""
        assert self.loop is not None
        self._connection.put(done)
        if not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if not self._connection.flush():
            self._connection.wake()  # the thread sends the rest

    def begin(self, run: do.Run) -> None:
        """Start a call; those beyond the limit wait their turn."""
        task = asyncio.create_task(self._call(run))
        self._calls[run.task] = task
        task.add_done_callback(lambda _: self._calls.pop(run.task, None))

    async def _call(self, run: do.Run) -> None:
        assert self._gate is not None
        async with self._gate:
            await self._executor.run_async(run)

    def cancel(self, task: int) -> bool:
        """Cancel a call on the loop; False if it isn't there. The reading thread."""
        call = self._calls.get(task)
        if call is None or self.loop is None:
            return False
        self.loop.call_soon_threadsafe(call.cancel)
        return True

"""An actor in its worker: the instance, and running its calls: in turn, in threads, on loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass
from functools import partial
from typing import Any

from workbench.client.connection import Connection
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.engine.records import Blueprint
from workbench.host.actor_instance import made_on_loop, method_of, variables_of
from workbench.host.cells import Namespace
from workbench.worker.call_loop import CallLoop
from workbench.worker.run_queue import RunQueue, group_of


@dataclass(eq=False)
class ActorHost:
    """An actor. `make` runs as its first task, its ``creation``; then, unless it is plain, `serve`.

    A loop in the main thread reads and writes ``_connection`` itself: another thread would have to
    wake it. ``_queue`` has the calls that haven't begun; ``_run``, ``_run_async`` run one, here or
    on its loop. Each concurrency group, with the default one, has its own threads, or a
    loop in its own thread. ``is_plain``: one call at a time, in the main thread; ``is_loop``: calls
    run on a loop in the main thread.
    """

    creation: InitVar[do.Run]
    _blueprint: Blueprint
    _connection: Connection
    _queue: RunQueue
    _run: Callable[[do.Run], None]
    _run_async: Callable[[do.Run], Coroutine[Any, Any, None]]

    def __post_init__(self, creation: do.Run) -> None:
        blueprint = self._blueprint
        self.id = creation.task
        self.namespace = "" if creation.spec is None else creation.spec.namespace
        self.is_restarted = creation.made > 0
        # Attributes, as each call reads them some ten times.
        self.is_async = blueprint.is_async
        self.is_plain = blueprint.concurrency == 1 and not (blueprint.is_async or blueprint.groups)
        self.is_loop = blueprint.is_async and not blueprint.groups
        self._instance: Any = None
        self._threads: dict[str, ThreadPoolExecutor] = {}  # by group
        self._loops: dict[str, CallLoop] = {}
        self._flushes: dict[Callable[[], object], None] = {}  # at the end of this round of the loop
        self.leaves = False  # no other call may begin

    @property
    def is_namespace(self) -> bool:
        """True if background cells run in it: then `exit` is a cell's error and doesn't end it."""
        return isinstance(self._instance, Namespace)

    def make(self, /, *args: Any, **kwargs: Any) -> None:
        """Make the instance. The actor's first call."""
        if self.is_loop:
            most = self._blueprint.concurrency
            self._loops[""] = CallLoop(most, partial(self._next, None), self._run_async, spins=True)
            self._loops[""].run(self._make_on_loop(args, kwargs))
            return
        for group, most in (("", self._blueprint.concurrency), *self._blueprint.groups):
            name = f"workbench-actor {group}".rstrip()
            if not self.is_async:
                self._threads[group] = ThreadPoolExecutor(most, name)
                continue
            loop = CallLoop(most, partial(self._next, group), self._run_async)
            self._loops[group] = loop
            threading.Thread(target=loop.serve, name=name, daemon=True).start()
        if self.is_async:
            making = self._make_on_loop(args, kwargs)
            asyncio.run_coroutine_threadsafe(making, self._loops[""].loop).result()
        else:
            self._instance = self._blueprint.cls(*args, **kwargs)

    async def _make_on_loop(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._instance = await made_on_loop(self._blueprint.cls, args, kwargs)

    def _next(self, group: str | None) -> do.Run | None:
        return None if self.leaves else self._queue.next(group)

    @property
    def variables(self) -> dict[str, Any]:
        return variables_of(self._instance, self._blueprint.cls)

    def method(self, name: str) -> Callable[..., Any]:
        return method_of(self._instance, name)

    def serve(self) -> None:
        """Run calls in the main thread until the actor ends."""
        if self.is_loop:
            self._loops[""].serve(self._connection)
        else:
            self._connection.wait_for(lambda: False)

    def notify(self, run: do.Run) -> None:
        """Note a queued call of an actor that isn't plain. Runs in the reading thread, mostly the
        loop's.

        Calls stay in the queue until their turn, so that they can be cancelled before they begin.
        """
        group = "" if self.is_loop else group_of(run)
        if self.is_async:
            self._loops[group].notify()
        else:
            self._threads[group].submit(self._run_next, group)

    def _run_next(self, group: str) -> None:
        run = self._next(group)
        if run is not None:
            self._run(run)

    def stop(self) -> None:
        """End the loops: no more calls come. Runs in the reading thread."""
        for loop in self._loops.values():
            loop.stop()

    def leave(self) -> None:
        """End the actor on its own request. Runs where that call runs."""
        self.leaves = True
        self.stop()

    def send(self, done: ev.Done) -> None:
        """Send the result of a call on a loop, together with others of this iteration."""
        if not self.is_loop:
            self._connection.send(done)
            return
        self._connection.put(done)
        if not self.at_end_of_round(self._connection.push):
            self._connection.push()

    def at_end_of_round(self, flush: Callable[[], object]) -> bool:
        """Call ``flush`` once the loop has run what it can run now. False in other threads, and if
        there is no other call: then waiting would bring nothing."""
        loop = self._loops[""]
        if not loop.is_here or (loop.runs_one and not self._queue):
            return False
        if not self._flushes:
            loop.loop.call_soon(self._flush)
        self._flushes[flush] = None
        return True

    def _flush(self) -> None:
        flushes, self._flushes = self._flushes, {}
        for flush in flushes:
            flush()

    def cancel(self, task: int) -> None:
        """Cancel a call, if it runs on a loop. Runs in the reading thread."""
        for loop in self._loops.values():
            loop.cancel(task)

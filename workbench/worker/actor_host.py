"""An actor in its worker: the instance, and how its calls run: in turn, in threads, on loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
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


class ActorHost:
    """`make` runs as the actor's first task, its ``creation``; then, unless it is plain, `serve`.

    ``connection`` is read and written by the loop itself, if there is one: another thread would
    have to wake it. ``queue`` has the calls that haven't begun; ``run`` and ``run_async`` run one,
    in this thread or on its loop. Each concurrency group has threads of its own, or a loop in one;
    the default group then, too. ``is_plain``: one call at a time, in the main thread; ``is_loop``:
    calls run on a loop in the main thread, which reads the connection, too.
    """

    def __init__(
        self,
        creation: do.Run,
        blueprint: Blueprint,
        connection: Connection,
        queue: RunQueue,
        run: Callable[[do.Run], None],
        run_async: Callable[[do.Run], Coroutine[Any, Any, None]],
    ) -> None:
        self.id = creation.task
        self.namespace = "" if creation.spec is None else creation.spec.namespace
        self.is_restarted = creation.made > 0
        self._blueprint = blueprint
        # Attributes, for they are asked some ten times a call.
        self.is_async = blueprint.is_async
        self.is_plain = blueprint.concurrency == 1 and not (blueprint.is_async or blueprint.groups)
        self.is_loop = blueprint.is_async and not blueprint.groups
        self._connection = connection
        self._queue = queue
        self._run = run
        self._run_async = run_async
        self._instance: Any = None
        self._threads: dict[str, ThreadPoolExecutor] = {}  # by group
        self._loops: dict[str, CallLoop] = {}
        self._flushes: dict[Callable[[], object], None] = {}  # at the end of this round of the loop
        self.leaves = False  # no other call shall begin

    @property
    def is_namespace(self) -> bool:
        """What background cells run in: an exit there is a cell's error, and nothing is lost."""
        return isinstance(self._instance, Namespace)

    def make(self, /, *args: Any, **kwargs: Any) -> None:
        """Make the instance: the actor's first call."""
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
        """So that it may start tasks there, and be ``async def __init__``."""
        self._instance = await made_on_loop(self._blueprint.cls, args, kwargs)

    def _next(self, group: str | None) -> do.Run | None:
        return None if self.leaves else self._queue.next(group)

    @property
    def variables(self) -> dict[str, Any]:
        """What the actor keeps, under a name that a person knows."""
        return variables_of(self._instance, self._blueprint.cls)

    def method(self, name: str) -> Callable[..., Any]:
        """One of the instance's, or of `actors.BUILT_IN`."""
        return method_of(self._instance, name)

    def serve(self) -> None:
        """Run calls in the main thread until the actor ends."""
        if self.is_loop:
            self._loops[""].serve(self._connection)
        else:
            self._connection.wait_for(lambda: False)

    def notify(self, run: do.Run) -> None:
        """A call has come, and is in the queue, of an actor that isn't plain. Whoever reads: mostly
        the loop itself.

        Each stays there until its turn, so that it can be cancelled without having begun.
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
        """Nobody will call any more. The reading thread."""
        for loop in self._loops.values():
            loop.stop()

    def leave(self) -> None:
        """It ends itself. Where the call runs that says so."""
        self.leaves = True
        self.stop()

    def send(self, done: ev.Done) -> None:
        """Of a call on a loop: send it with all others of this round of the loop."""
        if not self.is_loop:
            self._connection.send(done)
            return
        self._connection.put(done)
        if not self.at_end_of_round(self._connection.push):
            self._connection.push()

    def at_end_of_round(self, flush: Callable[[], object]) -> bool:
        """Have it called once, when the loop has run what it can run now. False in other threads,
        and if there is no other call: nothing would come of a round more."""
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
        """Cancel a call, if it runs on a loop. The reading thread."""
        for loop in self._loops.values():
            loop.cancel(task)

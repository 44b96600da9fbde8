"""What a Dask worker gets for our tasks: slots with children, its part in its node's store, and the
handlers by which tasks are stopped."""

from __future__ import annotations

import asyncio
import os
import pickle
import platform
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from distributed.diagnostics.plugin import WorkerPlugin

from workbench.engines.dask.actor_processes import ActorProcesses
from workbench.engines.dask.channel import (
    HeadDone,
    MadeItem,
    RunHead,
    SlotBack,
    TookItems,
)
from workbench.engines.dask.fetching import READ, Fetcher, reader
from workbench.engines.dask.node_store import this_process
from workbench.engines.dask.packed import Bundle
from workbench.engines.dask.slots import ChildSeen, SlotChild, Slots
from workbench.engines.dask.topics import item_key
from workbench.options import Variables

NAME = "workbench"

NUMBERS = 1000
"""Numbers that a worker has for its processes, at most."""

OVER = ("memory", "error", "released", "forgotten")
"""States of Dask's tasks that no thread has."""

Heard = Callable[[SlotChild, Any, list[int]], None]


class HeadCalled(Protocol):
    """What is needed of a `calls.HeadCall` here."""

    @property
    def key(self) -> str: ...
    @property
    def session(self) -> str: ...
    @property
    def reply_to(self) -> int: ...
    @property
    def task(self) -> int: ...
    @property
    def actor(self) -> int: ...
    @property
    def number(self) -> int: ...


class WorkerSide:
    """What our code in a worker's threads has to do with the worker. Any thread."""

    def __init__(self, worker: Any, first_number: int, variables: Variables = ()) -> None:
        self._worker = worker
        self.scheduler: str = worker.scheduler.address
        self.ended: dict[str, dict[str, Any]] = {}
        """By key, what the scheduler is told of tasks that have just ended."""
        self.begun: set[str] = set()
        """Keys that a thread of this worker has, or whose end is on its way."""
        security = pickle.dumps(worker.security) if self.scheduler.startswith("tls") else b""
        self.slots = Slots(worker.state.nthreads, first_number, security, variables)
        self.actors = ActorProcesses(self.slots)

    @staticmethod
    def here() -> WorkerSide:
        """Of the worker whose task this thread runs."""
        from distributed import get_worker

        side = get_worker().plugins[NAME].side
        assert isinstance(side, WorkerSide)
        return side

    def run(
        self, call: HeadCalled, message: RunHead, fds: Sequence[int], heard: Heard
    ) -> tuple[HeadDone, list[int]]:
        """Run a task in a child: in one of the slots, or in its actor's."""
        if call.actor:
            from distributed import secede

            secede()  # an actor has no slot, and its calls wait for each other
            return self.actors.run(call, message, fds, heard)
        return self.slots.run(message, fds, heard)

    def lend(self, child: SlotChild, on: bool) -> None:
        """The task that this thread runs waits, or wants to go on: others run meanwhile."""
        from distributed import rejoin, secede
        from distributed.threadpoolexecutor import thread_state

        child.is_lent = on
        if on:
            if getattr(thread_state, "proceed", False):
                secede()
        else:
            if not getattr(thread_state, "proceed", True):
                rejoin()
            child.say(SlotBack())

    def shown(self, session: str, batch: bytes) -> None:
        """Send what a task shows to the scheduler: at once, and in order."""
        message = {"op": "workbench_shown", "session": session, "batch": batch}
        self._worker.loop.add_callback(self._worker.batched_send, message)

    def ends(self, call: HeadCalled, end: list[Any]) -> None:
        """How this thread's task ended; it is sent with its result: see `WorkbenchWorker`."""
        self.ended[call.key] = {
            "op": "workbench_ended",
            "session": call.session,
            "reply_to": call.reply_to,
            "end": end,
        }

    def contains(self, key: str, inside: Sequence[str]) -> None:
        """An object of the worker's refers to these: they live as long as it."""
        message = {"op": "workbench_contains", "key": key, "inside": list(inside)}
        self._worker.loop.add_callback(self._worker.batched_send, message)

    def store_item(self, call: HeadCalled, item: MadeItem, fds: list[int]) -> None:
        """Keep an item of a stream under a key of its own, and tell its reader."""
        from distributed.utils import sync

        key = item_key(call.key, item.number)
        bundle = Bundle.of(key, b"", [item.value], fds)
        sync(self._worker.loop, self._stored, call, key, bundle)
        if item.value.natives:
            self.contains(key, [native[0] for native in item.value.natives])

    async def _stored(self, call: HeadCalled, key: str, bundle: Bundle) -> None:
        self._worker.update_data(data={key: bundle})
        await self._worker.scheduler.workbench_item(
            session=call.session, reply_to=call.reply_to, stream=call.key, key=key,
            address=self._worker.address, nbytes=bundle.__sizeof__(),
            failed=bundle.values[0].failed,
        )  # fmt: skip

    # -- on the event loop -------------------------------------------------------------------------

    def stop(
        self, key: str, session: str, task: int, force: bool, actor: int, submitter: int,
        number: int,
    ) -> None:  # fmt: skip
        """Stop a task that was sent here. One that hasn't begun is the scheduler's to drop."""
        stopped = self.actors.stop(task, force) or self.slots.stop(task, force)
        if not stopped and key not in self.begun:
            if number:
                self.actors.skip(actor, submitter, number)
            message = {"op": "workbench_unbegun", "key": key, "session": session, "task": task}
            self._worker.batched_send(message)

    def abandon(self, task: int) -> None:
        """Nobody wants its result any more."""
        if not self.actors.stop(task, force=False):
            self.slots.abandon(task)

    def took(self, task: int, taken: int) -> None:
        self.slots.tell(task, TookItems(task, taken))
        self.actors.tell(task, TookItems(task, taken))

    def kill_actor(self, actor: int, restart: bool) -> None:
        self.actors.kill(actor, restart)

    def skip(self, actor: int, submitter: int, number: int) -> None:
        self.actors.skip(actor, submitter, number)

    def seen(self) -> tuple[int, list[ChildSeen]]:
        """How many tasks and calls of ours are at work; and all our processes."""
        running = self.slots.running() + self.actors.running()
        return running, [*self.slots.processes(), *self.actors.processes()]

    async def explain(
        self, session: str, question: bytes, seconds: float
    ) -> tuple[list[bytes], list[str]]:
        """Ask each of the processes: see `Backend.explain`."""
        children = [*self.slots.children(), *self.actors.children()]
        asked = (
            asyncio.to_thread(child.ask_holder, session, question, seconds) for child in children
        )
        answers = await asyncio.gather(*asked)
        silent = [
            f"worker {child.number}"
            for child, answer in zip(children, answers, strict=True)
            if answer is None
        ]
        return [answer for answer in answers if answer], silent

    def departed(self, submitter: int) -> None:
        self.actors.departed(submitter)

    def close(self) -> None:
        self.actors.close()
        self.slots.close()


class WorkbenchWorker(WorkerPlugin):  # type: ignore[misc]
    """Registered by each driver; the first one's stays. ``variables`` are those of all tasks."""

    name = NAME
    idempotent = True
    side: WorkerSide

    def __init__(self, variables: Variables = ()) -> None:
        self._variables = variables

    async def setup(self, worker: Any) -> None:
        store = this_process()
        store.address, store.lends = worker.address, True
        fetcher = Fetcher(worker, store)
        store.fetch = fetcher.fetch
        number = await worker.scheduler.workbench_enroll(
            address=worker.address, pid=os.getpid(), node=store.node, host=platform.node()
        )
        self._worker = worker
        self.side = side = WorkerSide(worker, number, self._variables)
        worker.handlers[READ] = reader(store, fetcher)
        worker.handlers["workbench_seen"] = side.seen
        worker.handlers["workbench_explain"] = side.explain
        worker.stream_handlers["workbench_stop"] = side.stop
        worker.stream_handlers["workbench_abandon"] = side.abandon
        worker.stream_handlers["workbench_took"] = side.took
        worker.stream_handlers["workbench_kill_actor"] = side.kill_actor
        worker.stream_handlers["workbench_skip"] = side.skip
        worker.stream_handlers["workbench_departed"] = side.departed

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """On the event loop, when a task's result is here: no other wake-up is needed."""
        if finish in OVER:
            self.side.begun.discard(key)
        message = self.side.ended.pop(key, None) if self.side.ended else None
        if message is not None:
            self._worker.batched_send(message)

    async def teardown(self, worker: Any) -> None:
        if hasattr(self, "side"):
            await asyncio.get_running_loop().run_in_executor(None, self.side.close)

"""The supervisor of a session on Ray: a detached actor, found by the session's name.

It keeps what outlives the kernel (objects die with their owner on Ray, so it submits and owns what
has a name and what runs in the background), passes what tasks show to drivers that ask for it, and
has an agent on each node.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import time
from collections.abc import Coroutine, Sequence
from typing import Any

import ray
from msgspec.structs import replace
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from workbench.core.snapshot import INCARNATION, WorkerRecord
from workbench.engines.cluster.backend import Launch, Native, StoredValue, TaskEnd
from workbench.engines.cluster.freeing import told
from workbench.engines.cluster.keeper import Keeper
from workbench.engines.cluster.keeper import encode as encode_batch
from workbench.engines.cluster.kept_jobs import end_of as decode_end
from workbench.engines.cluster.parcels import again
from workbench.engines.ray import calls
from workbench.engines.ray.node import NodeAgent, place_of
from workbench.engines.ray.owning import own_address, owned
from workbench.engines.ray.slim import slim
from workbench.engines.ray.system import NAMESPACE, actors_of, name_of
from workbench.errors import SessionError

POLL = 10.0
"""Seconds after which a driver that waits for news is told that there is none."""

AGAIN = 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0
"""Seconds after which those are looked for that were to be stopped and didn't run yet."""

LOOK = 2.0
"""Seconds after which Ray is asked again whose kernel was killed."""


class Supervisor:
    """See the module. All its methods run on one loop."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._keeper = Keeper(time.monotonic, self._woken)
        self._news: dict[int, asyncio.Event] = {}
        self._sent: dict[int, tuple[int, bytes]] = {}  # what each driver was sent last
        self._agents: dict[str, Any] = {}
        self._owned: dict[int, Native] = {}  # first natives of tasks that it submitted
        self._stopped: set[int] = set()  # of these
        self._watches: set[asyncio.Task[None]] = set()
        self._look_for_nodes()
        self._follows = self._ends = False

    async def session(self) -> str:
        """Its unique name."""
        return self._session

    async def ask(self, question: str, args: Sequence[Any]) -> Any:
        """A method of the keeper."""
        if question == "join" and self._ends:
            raise SessionError(f"Session {self._session!r} has just ended.")
        return self._keeper.ask(question, *args)

    # -- the channel ----------------------------------------------------------------------------

    async def poll(self, audience: int, number: int, at_once: bool) -> bytes:
        """What is there for a driver: ``at_once``, or as soon as there is something. ``number``
        counts what it got: what was lost on the way is sent again."""
        sent = self._sent.get(audience)
        if sent is not None and sent[0] == number:
            return sent[1]
        if not self._follows:  # there was no loop when it was made
            self._follows = True
            self._keep(self._follow_drivers())
        event = self._news.setdefault(audience, asyncio.Event())
        if not at_once:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), POLL)
        event.clear()
        found = self._keeper.take(audience)
        if audience in self._keeper.processes():  # or it has left meanwhile
            self._sent[audience] = number, found
        return found

    def _woken(self, audience: int) -> None:
        if audience in self._keeper.processes():
            self._news.setdefault(audience, asyncio.Event()).set()

    async def _follow_drivers(self) -> None:
        """Who has gone without a word, Ray knows: one that is silent may only be slow."""
        while True:
            await asyncio.sleep(LOOK)
            if self._is_due():
                await self._end()
                return
            drivers = self._keeper.processes()
            living = await asyncio.to_thread(_living) if drivers else None
            if living is not None:
                for audience, process in drivers.items():
                    if process and process not in living:
                        self._forget(audience)

    def _forget(self, audience: int) -> int:
        self._sent.pop(audience, None)
        event = self._news.pop(audience, None)
        if event is not None:
            event.set()
        return self._keeper.leave(audience)

    async def leave(self, audience: int, goodbye: bool) -> bool:
        """A driver goes; whether the session ends with that: who leaves sees to it."""
        self._ends = not self._forget(audience) and (goodbye or self._is_due())
        return self._ends

    def _is_due(self) -> bool:
        left = self._keeper.seconds_left()
        return left is not None and left <= 0

    async def _end(self) -> None:
        """Nobody is there who would do it."""
        self._ends = True
        await self.close()
        me = await asyncio.to_thread(
            ray.get_actor, name_of(self._session.partition(INCARNATION)[0]), NAMESPACE
        )
        ray.kill(me)

    # -- what it owns ---------------------------------------------------------------------------

    async def put(self, stored: StoredValue) -> list[Native]:
        """Store a value that outlives its maker."""
        return [ray.put(slim(again(stored)))]

    async def outlive(
        self, natives: Sequence[Native], there: Sequence[bool]
    ) -> tuple[bytes, list[Native]]:
        """Its address as an owner, and the same objects as its own. Those that aren't ``there`` yet
        are so when they have come."""
        copies: dict[Native, Native] = {}
        return own_address(), [
            await owned(native, copies) if is_there else calls.copy.remote(native)
            for native, is_there in zip(natives, there, strict=True)
        ]

    async def free(self, ids: Sequence[int], audience: int) -> None:
        """Have all processes of the session but that driver let go of these."""
        drivers = [each for each in self._keeper.processes() if each != audience]
        self._keeper.push(encode_batch(told(drivers, ids)))
        self._look_for_nodes()
        for agent in self._agents.values():
            agent.let_go.remote(list(ids))

    async def submit(
        self, head: bytes, deps: Sequence[Native], inside: Sequence[Native], launch: Launch
    ) -> list[Native]:
        """Submit a task that outlives who asks for it, and has announced it."""
        return self._submitted(launch, calls.submit(head, deps, inside, launch))

    async def call(
        self, actor: Any, head: bytes, deps: Sequence[Native], inside: Sequence[Native],
        launch: Launch,
    ) -> list[Native]:  # fmt: skip
        """The same of an actor's method."""
        return self._submitted(launch, calls.call(actor, head, deps, inside, launch))

    def _submitted(self, launch: Launch, made: list[Native]) -> list[Native]:
        self._owned[launch.task] = made[0]
        self._keeper.ask("made", launch.task, tuple(made))  # or who asked may end first
        self._keep(self._watch(launch.task, made[0]))
        return made

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it beside the rest."""
        watch = asyncio.ensure_future(work)
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _watch(self, task: int, native: Native) -> None:
        """Whoever runs it says how it ends, unless it dies: before it could, or just after."""
        try:
            end = decode_end(await native)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            cancelled = isinstance(error, ray.exceptions.TaskCancelledError)
            how = "stopped" if cancelled or task in self._stopped else "failed"
            end = TaskEnd(task, how, 0.0)
        self._owned.pop(task, None)
        self._stopped.discard(task)
        self._keeper.ended(end)

    # -- stopping -------------------------------------------------------------------------------

    async def stop(self, tasks: Sequence[int], force: bool) -> list[int]:
        """Stop tasks that run somewhere, or are its own; returns those that their submitters have
        to withdraw: they are queued, or would be tried again."""
        tasks = self._keeper.unfinished(tasks)
        self._look_for_nodes()
        running = await self.running()
        for task in tasks:
            if task in self._owned:
                self._stopped.add(task)
                if task not in running:  # before others end, and it begins in their place
                    ray.cancel(self._owned[task], force=False)
        told = set(await self._tell_agents(tasks, force))
        for task in told & self._owned.keys() if force else ():
            ray.cancel(self._owned[task], force=False)  # or it would be tried again
        others = [task for task in tasks if task not in self._owned]
        self._keep(self._insist([task for task in tasks if task not in told], force))
        return others if force else [task for task in others if task not in told]

    async def _tell_agents(self, tasks: Sequence[int], force: bool) -> list[int]:
        """Stop those that run; returns which."""
        told: list[int] = []
        answers = [agent.stop.remote(list(tasks), force) for agent in self._agents.values()]
        for answer in answers:
            with contextlib.suppress(ray.exceptions.RayError):
                told += await answer
        return told

    async def _insist(self, tasks: list[int], force: bool) -> None:
        """Of tasks that weren't found running some may have begun just then: Ray's own word doesn't
        end a sleep."""
        for seconds in AGAIN:
            if not tasks:
                return
            await asyncio.sleep(seconds)
            told = await self._tell_agents(tasks, force)
            tasks = [task for task in tasks if task not in told]

    async def running(self) -> dict[int, tuple[str, int]]:
        """The tasks that run, with their nodes and processes."""
        found: dict[int, tuple[str, int]] = {}
        for node, agent in self._agents.items():
            with contextlib.suppress(ray.exceptions.RayError):
                here = await agent.running.remote()
                found.update((task, (node, pid)) for task, pid in here.items())
        return found

    async def workers(self) -> tuple[WorkerRecord, ...]:
        """The processes that have run something of the session and live."""
        found: dict[tuple[str, int], int] = {}
        for node, agent in self._agents.items():
            with contextlib.suppress(ray.exceptions.RayError):
                here = await agent.processes.remote()
                found.update(((node, pid), count) for pid, count in here.items())
        return tuple(
            replace(record, state="busy" if found[place] else "idle")
            for record in self._keeper.workers()
            if (place := (self._keeper.nodes[record.number], record.pid)) in found
        )

    async def explain(self, question: bytes, seconds: float) -> tuple[list[bytes], list[str]]:
        """Have all processes of the session's asked: see `Backend.explain`."""
        processes: dict[str, dict[int, int]] = {node: {} for node in self._agents}
        for each in self._keeper.workers():
            processes.get(self._keeper.nodes[each.number], {})[each.pid] = each.number
        asked = [
            (processes[node], agent.explain.remote(question, list(processes[node]), seconds))
            for node, agent in self._agents.items()
            if processes[node]
        ]
        answers: list[bytes] = []
        silent: list[str] = []
        for numbers, coming in asked:
            try:
                here, missing = await asyncio.wait_for(coming, seconds + 1.0)
            except (ray.exceptions.RayError, TimeoutError):
                here, missing = [], list(numbers)
            answers += here
            silent += [f"worker {numbers[pid]}" for pid in missing]
        return answers, silent

    def _look_for_nodes(self) -> None:
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        for node in alive - self._agents.keys():
            place = NodeAffinitySchedulingStrategy(node, soft=False)
            remote: Any = ray.remote(NodeAgent)
            self._agents[node] = remote.options(num_cpus=0, scheduling_strategy=place).remote(
                place_of(self._session, node)
            )
        for node in self._agents.keys() - alive:
            del self._agents[node]

    async def close(self) -> None:
        """The session ends: nothing of it stays."""
        for native in self._owned.values():
            with contextlib.suppress(Exception):
                ray.cancel(native, force=True)
        for agent in self._agents.values():
            with contextlib.suppress(ray.exceptions.RayError):
                await agent.close.remote()
                ray.kill(agent)
        await asyncio.to_thread(self._kill_named)

    def _kill_named(self) -> None:
        for name in actors_of(self._session):
            with contextlib.suppress(ValueError):
                ray.kill(ray.get_actor(f"{self._session}/{name}", namespace=NAMESPACE))


def _living() -> set[str] | None:
    """Ray's jobs (its word for what a driver does) that aren't over; None: Ray doesn't say."""
    try:  # its public API asks the dashboard, which may not be there
        jobs = importlib.import_module("ray._private.state").jobs()
    except Exception:
        return None
    return {job["JobID"] for job in jobs if not job["IsDead"]}

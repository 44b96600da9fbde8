"""The supervisor of a session on Ray: a detached actor, found by the session's name.

It keeps what outlives the kernel (objects die with their owner on Ray, so it submits and owns what
has a name and what runs in the background), and passes on what tasks show, and what is to be
stopped, to drivers and workers that ask for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import time
from collections.abc import Coroutine, Sequence
from typing import Any

import ray

from workbench.engines.cluster.backend import Launch, Native, StoredValue, TaskEnd
from workbench.engines.cluster.keeper import Keeper
from workbench.engines.cluster.kept_jobs import end_of as decode_end
from workbench.engines.cluster.parcels import again
from workbench.engines.ray import calls
from workbench.engines.ray.system import NAMESPACE, actors_of, cancel, name_of
from workbench.errors import SessionError

POLL = 2.0
"""Seconds after which who waits for news is told that there is none. So often one that
listens is heard of."""

LOOK = 2.0
"""Seconds after which Ray is asked again whose kernel was killed."""

SOON, LOOK_AGAIN = 0.5, 0.01
"""Seconds within which a process says what it runs, and after which it is looked whether all
have."""


class Supervisor:
    """See the module. All its methods run on one loop."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._keeper = Keeper(time.monotonic, self._woken)
        self._news: dict[int, asyncio.Event] = {}
        self._sent: dict[int, tuple[int, bytes]] = {}  # what each listener was sent last
        self._mine: set[str] = set()  # objects that it owns, by Ray's names of them
        self._owned: dict[int, Native] = {}  # first natives of tasks that it submitted
        self._stopped: set[int] = set()  # of these
        self._watches: set[asyncio.Task[None]] = set()
        self._follows = self._ends = False

    async def session(self) -> str:
        return self._session

    async def ask(self, question: str, args: Sequence[Any]) -> Any:
        """A method of the keeper."""
        if question == "join" and self._ends:
            raise SessionError(f"Session {self._session!r} has just ended.")
        return self._keeper.ask(question, *args)

    # -- the channel ----------------------------------------------------------------------------

    async def poll(self, audience: int, number: int, at_once: bool, tasks: Sequence[int]) -> bytes:
        """What is there for who listens, and runs these ``tasks``: ``at_once``, or as soon as there
        is something. ``number`` counts what it got: what was lost on the way is sent again."""
        self._keeper.listens_now(audience, tasks)
        sent = self._sent.get(audience)
        if sent is not None and sent[0] == number:
            return sent[1]
        if not self._follows:  # there was no loop when it was made
            self._follows = True
            self._keep(self._follow_drivers())
        event = self._news.setdefault(audience, asyncio.Event())
        found = self._keeper.take(audience)
        if not found and not at_once:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), POLL)
            found = self._keeper.take(audience)
        event.clear()
        if self._keeper.listens(audience):  # or it has left meanwhile
            self._sent[audience] = number, found
        return found

    def _woken(self, audience: int) -> None:
        if self._keeper.listens(audience):
            self._news.setdefault(audience, asyncio.Event()).set()

    async def running(self) -> tuple[set[int], dict[int, tuple[str, int]]]:
        """The tasks that processes run now, as they say; and those that don't say: see `busy`."""
        began, silent = time.monotonic(), self._keeper.busy()
        for prefix in silent:
            self._woken(prefix)  # it listens anew, and says what it runs
        told: dict[int, Sequence[int]] = {}
        while silent and time.monotonic() < began + SOON:
            await asyncio.sleep(LOOK_AGAIN)
            told = self._keeper.running(began)
            silent = {prefix: at for prefix, at in silent.items() if prefix not in told}
        return {task for tasks in told.values() for task in tasks}, silent

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

    async def leave(self, audience: int, goodbye: bool) -> None:
        """A driver goes, and the session may end with that: then this process does."""
        if not self._forget(audience) and (goodbye or self._is_due()):
            await self._end()

    def _is_due(self) -> bool:
        left = self._keeper.seconds_left()
        return left is not None and left <= 0

    async def _end(self) -> None:
        """Nothing of the session stays, this process neither."""
        self._ends = True
        for native in self._owned.values():
            cancel(native, True)
        await asyncio.to_thread(self._kill_named)

    # -- what it owns ---------------------------------------------------------------------------

    async def put(self, stored: StoredValue) -> list[Native]:
        """Store a value that outlives its maker."""
        return self._noted([ray.put(again(stored))])

    def _noted(self, made: list[Native]) -> list[Native]:
        self._mine.update(each.hex() for each in made)
        return made

    async def outlive(self, natives: Sequence[Native], there: Sequence[bool]) -> list[Native]:
        """The same objects as its own: they die with their owner, and can't be given to another.
        Those that aren't ``there`` yet are copied when they have come."""
        copies: dict[Native, Native] = {}
        for native, is_there in zip(natives, there, strict=True):
            if not is_there and native.hex() not in self._mine:
                (copies[native],) = self._noted([calls.copy.remote(native)])
        return [await self._own(native, copies) for native in natives]

    async def _own(self, native: Native, copies: dict[Native, Native]) -> Native:
        """Itself, or a copy, in which what it refers to is its own too. ``copies`` are those made
        by now. What is lost already stays as it is: reading it says so."""
        if type(native) is tuple:  # an actor, which nobody owns a copy of, and its description
            return native[0], await self._own(native[1], copies)
        if native.hex() in self._mine:
            return native
        if native not in copies:
            try:
                stored = await native
            except ray.exceptions.RayError:
                return native
            inside = [await self._own(each, copies) for each in stored.natives]
            (copies[native],) = await self.put(stored._replace(natives=tuple(inside)))
        return copies[native]

    async def submit(self, launch: Launch) -> list[Native]:
        """Submit a task that outlives who asks for it, and has announced it."""
        task, made = launch.head.task, self._noted(calls.submit(launch))
        self._owned[task] = made[0]
        self._keeper.ask("made", task, tuple(made))  # or who asked may end first
        self._keep(self._watch(task, made[0]))
        return made

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
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
            end = TaskEnd(task, how)
        self._owned.pop(task, None)
        self._stopped.discard(task)
        self._keeper.ended(end)

    async def drop(self, tasks: Sequence[int], force: bool) -> None:
        """Have Ray drop those of these that are its own: see `cancel`."""
        for task in self._owned.keys() & set(tasks):
            self._stopped.add(task)
            cancel(self._owned[task], force)

    def _kill_named(self) -> None:
        mine = [f"{self._session}/{name}" for name in actors_of(self._session)]
        for name in (*mine, name_of(self._session)):
            with contextlib.suppress(ValueError):
                ray.kill(ray.get_actor(name, namespace=NAMESPACE))


def _living() -> set[str] | None:
    """Ray's jobs (its word for what a driver does) that aren't over; None: Ray doesn't say."""
    try:  # its public API asks the dashboard, which may not be there
        jobs = importlib.import_module("ray._private.state").jobs()
    except Exception:
        return None
    return {job["JobID"] for job in jobs if not job["IsDead"]}

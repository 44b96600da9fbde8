"""The state of one session, which its components read and change, and the messages they send.

Components (`object_manager`, `task_manager`, `spilling`, ...) hold this, and perhaps some other
components: never the session, which routes events to them. Methods named like an event handle it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.core import instructions as do
from workbench.core.budget import Budget
from workbench.core.catalog import Catalog
from workbench.core.events import ID_BITS, CellNote, Hello, Value
from workbench.core.history import History, Levels
from workbench.core.pool import WorkerPool
from workbench.core.relocation import Move, StaleCopies
from workbench.core.scheduler import Scheduler
from workbench.core.snapshot import DeathRecord, JobRecord
from workbench.core.tasks import Line, Task, TaskGroup, Worker


@dataclass(slots=True)
class ClientState:
    """One connection after its Hello."""

    number: int
    hello: Hello
    segments: set[int] = field(default_factory=set)  # whose descriptors it has
    note: CellNote = field(default_factory=CellNote)
    noted: float = 0.0  # time of the note
    said_bye: bool = False
    graceful: bool = False
    final: bool = False

    @property
    def worker(self) -> int:
        return self.hello.worker

    @property
    def role(self) -> str:
        """Worker, driver or admin. An admin keeps nothing alive."""
        return "worker" if self.worker else "admin" if self.hello.admin else "driver"


Handler = Callable[[ClientState, Any], None]
"""Method of a component that handles an event of a client."""


class State:
    """See the module, and `Session` for the arguments."""

    def __init__(self, name: str, workers: int, capacity: int) -> None:
        self.name = name
        self.now = 0.0  # the time of this batch
        self.linger = 0.0  # seconds that the session outlives a last driver that left without Bye
        self.clients: dict[int, ClientState] = {}
        self.deaths: dict[str, tuple[float, DeathRecord]] = {}  # by label, with the time
        self.showing: set[int] = set()  # clients that left; their arrays still show objects
        self.catalog = Catalog()
        self.stale_copies = StaleCopies(self.catalog)
        self.budget = Budget(capacity, self.catalog)
        self.scheduler = Scheduler(workers)
        self.pool = WorkerPool(workers, self.scheduler)
        self.history = History()
        self.functions: dict[int, set[int]] = {}  # function id → worker clients that cache it
        self.failing: deque[tuple[Task, Value]] = deque()  # see `fail`
        self.jobs: dict[int, TaskGroup] = {}  # by id, in order, over or not
        self.job_records: Callable[[], tuple[JobRecord, ...]] = tuple  # for snapshots
        self.lending: dict[int, Line] = {}  # by number: their workers may read objects for them
        self.moves: dict[int, Move] = {}  # by object
        self.spill_error = ""  # the disk's last error
        self.copies_at = 0.0  # when copies are retried that failed for lack of a descriptor
        self.spills = 0  # objects that have moved to disk since the beginning
        self.out: list[do.Anything] = []  # instructions of this batch, in order
        self.releases: dict[tuple[int, bool], list[tuple[int, int]]] = {}  # by (owner, cold)

    def send(self, number: int, message: do.Message) -> None:
        """Queue a message, if the client is still there."""
        if number in self.clients:
            self.out.append(do.Send(number, message))

    def hang_up(self, number: int, reason: str) -> None:
        """Close the connection of a client that breaks the protocol."""
        self.out.append(do.Hangup(number, reason))

    def dismiss(self, worker: Worker, reason: str) -> None:
        """Close the connection of a worker that has done nothing wrong, so that it ends."""
        assert worker.client is not None
        self.out.append(do.Hangup(worker.client, reason, is_fault=False))

    def owns(self, client: ClientState, id: int) -> bool:
        """True if ``client`` may make this id. Hangs up if not."""
        good = id >> ID_BITS == client.hello.prefix
        if not good:
            self.hang_up(client.number, "an id that is not its own")
        return good

    def share(self, number: int, value: Value) -> None:
        """Send the client the segment's descriptor, once, before it hears of an extent in it."""
        client = self.clients.get(number)
        if client is not None and value.segment and value.segment not in client.segments:
            client.segments.add(value.segment)
            arena = self.budget.arenas[value.segment]
            self.send(number, do.Shared(value.segment, arena.size))

    def fail(self, task: Task, value: Value) -> None:
        """Queue a task to fail: all its results become ``value``, an inline exception.

        `TaskManager.fail_all` does so after the current event. The first value counts.
        """
        self.failing.append((task, value))

    def repeatable(self, tasks: Sequence[Task]) -> list[Task]:
        """Fail those that were told to stop or lack an argument; return the others."""
        for task in tasks:
            why = task.final_value or task.broken
            if why is not None:
                self.fail(task, why)
        return [task for task in tasks if not (task.final_value or task.broken)]

    def vacate(self, segment: int, offset: int, cold: bool = False) -> None:
        """Give an extent that no object uses any more back to its arena.

        ``cold``: only as address space; its memory goes back to the machine.
        """
        arena, length = self.budget.release(segment, offset, cold)
        extent = (offset, length)
        if arena.owner is None and not arena.extents:
            self.close_arena(segment)
            return
        if arena.owner is None or cold:
            self.out.append(do.Punch(segment, (extent,)))
        if arena.owner is not None:
            self.releases.setdefault((arena.owner, cold), []).append(extent)

    def close_arena(self, segment: int) -> None:
        self.budget.close(segment)
        self.out.append(do.Discard(segment))
        for client in self.clients.values():
            if segment in client.segments:
                client.segments.discard(segment)
                self.send(client.number, do.Unshare(segment))

    def sent_objects(self) -> set[int]:
        """Return the objects whose place workers were told, for tasks that aren't done."""
        workers = self.scheduler.workers.values()
        sent = [t for w in workers for t in w.sent.values()]
        kept = [line.lent for line in self.lending.values() if line.is_kept]
        given = {id for task in sent for id in (*task.submit.deps, task.submit.function)}
        return given.union(*kept)

    def cached_functions(self) -> set[int]:
        """Return the functions that some worker caches, which pins them."""
        return {id for id, caching in self.functions.items() if caching}

    def in_use(self) -> set[int]:
        """Return the objects that workers may read at any moment, so that they can't move."""
        return self.sent_objects() | self.cached_functions()

    def levels(self) -> Levels:
        budget, catalog = self.budget, self.catalog
        return budget.live, budget.spilled, catalog.sealed, catalog.objects_freed, self.spills

"""The machine: one session's whole state, a batch of events in, a list of instructions out.

It routes, and keeps clients and objects: who holds what is the catalog's business, memory the
budget's, order the scheduler's; its components are `task_manager` (tasks and workers),
`actor_manager` (actors), `generators`, `jobs` (background cells), `spilling` (what lies on disk),
`memory_monitor` (the machine's memory), `referrers` (why is this here?), `subscriptions` (who
looks on) and `history`. The clock comes in with each batch; `deadline` says when to come back
without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core import invariants
from workbench.core.budget import SERVER, Budget, Request
from workbench.core.catalog import Catalog, Entry, State
from workbench.core.generators import Generators
from workbench.core.history import History
from workbench.core.jobs import Jobs
from workbench.core.memory_monitor import MemoryMonitor
from workbench.core.pool import Pool
from workbench.core.referrers import Referrers
from workbench.core.scheduler import Scheduler
from workbench.core.snapshots import (
    describe,
    holders_table,
    names_with,
    some_named,
    take_snapshot,
)
from workbench.core.spilling import Spilling
from workbench.core.subscriptions import Subscriptions
from workbench.core.task_manager import TaskManager
from workbench.units import round_up

STARTER = 1
"""The first connection: of whoever started the session, who connects before there is a server."""

ALONE_AT_START = 30.0
"""Seconds a new session waits for its first driver before it gives up."""


@dataclass(slots=True)
class Client:
    """One connection after its Hello. ``worker`` is 0 for a driver."""

    number: int
    hello: ev.Hello
    segments: set[int] = field(default_factory=set)  # descriptors it has been sent
    graceful: bool = False

    @property
    def worker(self) -> int:
        """Its worker number, 0 in a driver."""
        return self.hello.worker

    @property
    def role(self) -> str:
        """What it is: a worker, a driver, or a visitor, on whose account nothing lives."""
        return "worker" if self.worker else "visitor" if self.hello.visitor else "driver"


class Session:
    """See the module.

    Parameters
    ----------
    name : str
        For people; shown in Welcome and snapshots.
    workers : int
        How many workers shall have a slot at any time.
    capacity : int
        Bytes the store may hold.
    headroom : int
        Bytes of the machine's memory that shall stay free: before they are taken, a task is ended.
    spills : bool
        Whether objects may move to disk.
    """

    def __init__(
        self, name: str, workers: int, capacity: int, headroom: int = 0, spills: bool = False
    ) -> None:
        self.name = name
        self.spilling = Spilling(self, spills)
        self.catalog = Catalog(self._released, self._unused, self._vacated, self.spilling.rested)
        self.budget = Budget(capacity, lambda: self.catalog.inline_bytes, self.spilling.make_room)
        self.scheduler = Scheduler(workers)
        self.pool = Pool(workers, self.scheduler)
        self.clients: dict[int, Client] = {}
        self._out: list[do.Anything] = []
        self.now = 0.0
        self._prefixes: set[int] = set()
        self.linger = 0.0  # seconds from a last driver that doesn't say goodbye to the end
        self._exit_at: float | None = None
        self._started = False
        self._releases: dict[tuple[int, bool], list[tuple[int, int]]] = {}  # by owner, and cold
        self.task_manager = TaskManager(self)
        self.generators = Generators(self)
        self.jobs = Jobs(self)
        self.memory_monitor = MemoryMonitor(self, headroom)
        self.referrers = Referrers(self)
        self.history = History(self)
        self.subscriptions = Subscriptions(self)
        self._serializers: dict[int, bytes] = {}  # custom ones, for workers: opaque
        self._showing: set[int] = set()  # who has left, and whose arrays still show objects
        self._orphaned: dict[int, int] = {}  # drivers that left, with their prefix
        self._unread: list[int] = []  # streams whose reader dropped them
        self._handlers: dict[type, Callable[[Client, Any], None]] = {
            ev.Bye: self._bye,
            ev.Opened: self._opened,
            ev.Sealed: self._sealed,
            ev.Want: self._want,
            ev.Hold: self._hold,
            ev.Drop: self._drop,
            ev.View: self._view,
            ev.Unview: self._unview,
            ev.Free: self._free,
            ev.Find: self._find,
            ev.Bind: self._bind,
            ev.Grow: self._grow,
            ev.Trimmed: self._trimmed,
            ev.Submit: self.task_manager.submit,
            ev.Done: self.task_manager.done,
            ev.Output: self.task_manager.output,
            ev.GaveBack: self.task_manager.gave_back,
            ev.Blocked: self.task_manager.blocked,
            ev.Unblocked: self.task_manager.unblocked,
            ev.Ask: self._ask,
            ev.Register: self._register,
            ev.Escape: self._escape,
            ev.Loaded: self._loaded,
            ev.Create: self.task_manager.actor_manager.create,
            ev.KillActor: self.task_manager.actor_manager.kill_actor,
            ev.Leave: self.task_manager.actor_manager.leave,
            ev.Cancel: self.task_manager.cancel,
            ev.Yielded: self.generators.yielded,
            ev.Took: self.generators.took,
            ev.Refresh: self._refresh,
            ev.Pin: self._pin,
            ev.Explained: self.referrers.explained,
            ev.Noted: self._noted,
            ev.End: self._end,
            ev.Left: self._left,
            ev.Keep: self._keep,
            ev.Collect: self.jobs.collect,
            ev.Interrupt: self.task_manager.interrupt,
            ev.Subscribe: self.subscriptions.watch,
        }

    # -- the two ways in ----------------------------------------------------------------------

    def handle(self, batch: Sequence[tuple[int, ev.Event]], now: float) -> list[do.Anything]:
        """Take in what happened, decide once at the end, return what to do, in order.

        ``now`` is any clock that only goes forward, in seconds. The number beside each event is
        the connection it came from (0 for the loop's own events).
        """
        if now >= self.history.due:
            self.history.note(now)
        self.now = self.catalog.now = now
        if not self._started:
            self._started = True
            self._exit_at = now + ALONE_AT_START
        for number, event in batch:
            client = self.clients.get(number)
            if client is not None:
                handler = self._handlers.get(type(event))
                if handler is not None:
                    handler(client, event)
                else:
                    self.hang_up(number, f"unexpected {type(event).__name__}")
            else:
                self._outside(number, event)
        self._settle()
        if self.subscriptions.is_open:
            self.subscriptions.settle(event for _, event in batch)
        out, self._out = self._out, []
        return out

    def deadline(self) -> float | None:
        """When `handle` must be called again even if nothing happens."""
        when = self._exit_at
        for time in (
            None if self.pool.steady else self.pool.deadline(),
            self.memory_monitor.due,
            self.task_manager.deadline() if self.scheduler.limits else None,
            self.referrers.deadline() if self.referrers.is_open else None,
            self.budget.deadline() if self.budget.is_asked else None,
            self.spilling.deadline() if self.budget.is_asked else None,
        ):
            if time is not None and (when is None or time < when):
                when = time
        return when

    def check(self) -> None:
        """Raise AssertionError unless the books agree. To be called between batches."""
        invariants.check(self)

    def _settle(self) -> None:
        """Decide what the whole batch changed: who runs, who grows, who comes, who goes."""
        scheduler = self.scheduler
        if self._unread:
            self._stop_unread()
        if scheduler.limits:
            self.task_manager.stop_overdue()
        if scheduler.queue.size and self.pool.hopeless:
            self.task_manager.give_up()
        if scheduler.has_work:
            for worker, task in scheduler.assign(self.now):
                assert worker.client is not None
                self.task_manager.run(worker.client, task)
        if self.task_manager.interrupts:
            self.task_manager.answer_interrupts()
        if len(scheduler.tasks) > 1:
            for worker, count in scheduler.recall():
                assert worker.client is not None
                self.send(worker.client, do.Recall(count))
        if self._orphaned:
            self._drop_serializers()
        if self.spilling.is_busy:
            self.spilling.settle()
        if self._releases:
            for (client, cold), extents in self._releases.items():
                self.send(client, do.Release(tuple(extents), cold))
            self._releases.clear()
        if self.budget.is_asked:
            self._settle_memory()
        if self.memory_monitor.due is None or self.now >= self.memory_monitor.due:
            self.memory_monitor.settle()
        if self.referrers.is_open:
            self.referrers.settle()
        if scheduler.queue.size or not self.pool.steady:
            for number in self.pool.wanted():
                self._out.append(do.Fork(number))
            for worker in self.pool.surplus(self.now):
                assert worker.client is not None
                self._out.append(do.Hangup(worker.client, "not needed any more"))
        if self._exit_at is not None and self.now >= self._exit_at:
            self._out.append(do.Exit())

    def _settle_memory(self) -> None:
        for what, client, request, nbytes in self.budget.settle(self.now):
            if client == SERVER:
                self.spilling.bring(request, what == "grant")
            elif what == "grant":
                self.send(client, do.Granted(request, nbytes))
            elif what == "trim":
                self.send(client, do.Trim(nbytes))
            else:
                table = holders_table(self.catalog, self.budget)
                self.send(client, do.Granted(request, 0, f"{table}\n{self.spilling.explain()}"))

    # -- clients ------------------------------------------------------------------------------

    def _outside(self, number: int, event: ev.Event) -> None:
        """An event from the loop itself, or the first one of a client."""
        match event:
            case ev.Hello():
                self._hello(number, event)
            case ev.Left() if number in self._showing:
                self._showing.discard(number)
                self.catalog.forget_client(number)
            case ev.Unview() if number in self._showing:
                for id, segment in event.views:
                    self.catalog.unviewed(id, segment, number)
            case _ if number in self._showing:
                pass  # what it said behind its goodbye
            case ev.WorkerForked(worker, pid):
                self.pool.forked(worker, pid)
            case ev.WorkerExited():
                self.task_manager.worker_exited(event)
            case ev.Measured():
                self.memory_monitor.measured(event)
            case ev.Copied():
                self.spilling.copied(event)
            case ev.Left() if number == STARTER and not self._prefixes:
                self._exit_at = self.now  # killed before its Hello: nobody will come
            case ev.Tick() | ev.Left():
                pass
            case _:
                self.hang_up(number, f"{type(event).__name__} before Hello")

    def _hello(self, number: int, hello: ev.Hello) -> None:
        if hello.prefix in self._prefixes:
            return self.hang_up(number, "prefix taken")
        if hello.worker:
            if self.scheduler.arrived(hello.worker, number, self.now) is None:
                return self.hang_up(number, "no such worker was asked for")
            self.pool.startup_failures = 0
        elif not hello.visitor:
            self._exit_at = None
            self.linger = max(self.linger, hello.linger)
        self._prefixes.add(hello.prefix)
        self.clients[number] = Client(number, hello)
        self.send(number, do.Welcome(self.name, self.pool.target, self.budget.capacity))
        if hello.worker:
            self.catalog.follow(number)
            for serializer, payload in self._serializers.items():
                self.send(number, do.Registered(serializer, payload))
        return None

    def _bye(self, client: Client, event: ev.Bye) -> None:
        client.graceful = not event.lingers
        if event.shows and not client.worker:
            self._showing.add(client.number)
            self._depart(client)

    def _left(self, client: Client, event: ev.Left) -> None:
        self._depart(client)

    def _depart(self, client: Client) -> None:
        """It is nobody's counterpart any more; its views may live on (`_showing`)."""
        del self.clients[client.number]
        if client.hello.visitor:
            self._prefixes.discard(client.hello.prefix)  # it made no ids
        for cached in self.task_manager.functions.values():
            cached.discard(client.number)
        self.jobs.left(client.number)
        self.catalog.forget_client(client.number, views=client.number not in self._showing)
        self.referrers.left(client.number)
        self.subscriptions.left(client.number)
        if not self.scheduler.owners.keys() <= self.clients.keys():
            self.task_manager.abandon(list(self.scheduler.tasks.values()))
            self.generators.abandon(client.number)
        prefix = client.hello.prefix
        if not client.worker and any(s >> ev.ID_BITS == prefix for s in self._serializers):
            self._orphaned[client.number] = prefix
        for arena, gaps in list(self.budget.orphan(client.number)):
            if arena.extents:
                self._out.append(do.Punch(arena.segment, gaps))
            else:
                self._close_arena(arena.segment)
        if client.worker:
            worker = self.scheduler.disconnected(client.number)
            if worker is not None:
                self.pool.block(worker)  # takes no more tasks while it goes
            self._out.append(do.Kill(client.worker))  # its WorkerExited tells the rest
        elif client.role == "driver" and all(c.role != "driver" for c in self.clients.values()):
            self._exit_at = self.now + (0.0 if client.graceful else self.linger)

    def _keep(self, client: Client, event: ev.Keep) -> None:
        self.linger = event.linger

    def _end(self, client: Client, event: ev.End) -> None:
        for number, other in self.clients.items():
            if other.role == "driver":
                self.send(number, do.Ended(event.reason))
        self._out.append(do.Exit())

    def instruct(self, instruction: do.Anything) -> None:
        """What this batch asks to be done, in order."""
        self._out.append(instruction)

    def hang_up(self, number: int, reason: str) -> None:
        """End this client's connection."""
        self._out.append(do.Hangup(number, reason))

    def send(self, number: int, message: do.Message) -> None:
        """Have a message sent, if the client is still there."""
        if number in self.clients:
            self._out.append(do.Send(number, message))

    def owns(self, client: Client, id: int) -> bool:
        """Whether ``client`` may make this id. Hangs up if not."""
        good = id >> ev.ID_BITS == client.hello.prefix
        if not good:
            self.hang_up(client.number, "an id that is not its own")
        return good

    # -- objects ------------------------------------------------------------------------------

    def _sealed(self, client: Client, event: ev.Sealed) -> None:
        if not self.owns(client, event.object):
            return None
        if not self.budget.admits(client.number, (event.value,)):
            return self.hang_up(client.number, "an extent that is not its own")
        if self.catalog.get(event.object) is not None:
            return self.hang_up(client.number, "an object sealed twice")
        entry = self.catalog.expect(event.object)
        self.catalog.hold(entry, client.number)
        if event.value.segment:
            client.segments.add(event.value.segment)
        self.seal(entry, event.value, event.about)
        if event.name:
            self.catalog.bind(event.name, entry)
        return None

    def seal(self, entry: Entry, value: ev.Value, about: ev.About | None = None) -> None:
        """The object is complete: tell who waits, start what waits."""
        if value.segment:
            self.budget.seal(value.segment, value.offset, value.length)
        self.catalog.seal(entry, value, about)
        if value.segment and entry.state is State.READY:
            self.spilling.rested(entry)
        watchers, entry.watchers = entry.watchers, ()
        for watcher in watchers:
            self._tell(watcher, entry)
        waiting, entry.waiting = entry.waiting, None
        for task in waiting or ():
            if value.failed:
                self.task_manager.fail(task, value)
            else:
                self.scheduler.dependency_ready(task)

    def _tell(self, number: int, entry: Entry) -> None:
        """Send the client what there is to know about a ready or freed object."""
        if entry.state is State.READY:
            assert entry.value is not None
            self.share(number, entry.value)
            self.send(number, do.Ready(entry.id, entry.value))
        else:
            text = "The object was freed while this ref was still held. Put it again, or keep it."
            self.send(number, do.Ready(entry.id, ev.error_value("freed", text)))

    def share(self, number: int, value: ev.Value) -> None:
        """Make sure the client has the segment before it is told of an extent in it."""
        client = self.clients.get(number)
        if client is not None and value.segment and value.segment not in client.segments:
            client.segments.add(value.segment)
            arena = self.budget.arenas[value.segment]
            self.send(number, do.Shared(value.segment, arena.size))

    def _want(self, client: Client, event: ev.Want) -> None:
        for id in event.objects:
            entry = self.catalog.get(id)
            if entry is None:
                text = "This session has no such object: nothing holds it any more. Put it again."
                self.send(client.number, do.Ready(id, ev.error_value("unknown", text)))
            elif entry.state is not State.PENDING:
                self._tell(client.number, entry)
            else:
                self.catalog.watch(entry, client.number)

    def _hold(self, client: Client, event: ev.Hold) -> None:
        for id in event.objects:
            entry = self.catalog.get(id)
            if entry is not None:
                self.catalog.hold(entry, client.number)

    def _drop(self, client: Client, event: ev.Drop) -> None:
        for id in event.objects:
            entry = self.catalog.get(id)
            if entry is not None:
                self.catalog.drop(entry, client.number)

    def _view(self, client: Client, event: ev.View) -> None:
        entry = self.catalog.viewed(event.object, event.segment, client.number)
        if entry is not None:
            self.spilling.used(entry)

    def _unview(self, client: Client, event: ev.Unview) -> None:
        for id, segment in event.views:
            self.catalog.unviewed(id, segment, client.number)

    def _noted(self, client: Client, event: ev.Noted) -> None:
        self.catalog.noted(event.object, client.number)

    def _free(self, client: Client, event: ev.Free) -> None:
        for id in event.objects:
            entry = self.catalog.get(id)
            if entry is None or entry.state is State.FREED:
                continue
            holders, watchers, waiting = tuple(entry.holds), entry.watchers, entry.waiting
            entry.watchers, entry.waiting = (), None
            self.catalog.free(entry)
            for holder in holders:
                self.send(holder, do.Forget((id,)))
            for watcher in watchers:
                self._tell(watcher, entry)
            for task in waiting or ():
                self.task_manager.fail(
                    task, ev.error_value("freed", "An argument of the task was freed.")
                )

    def _escape(self, client: Client, event: ev.Escape) -> None:
        entry = self.catalog.get(event.object)
        if entry is not None:
            self.catalog.escape(entry, event.site)

    def _pin(self, client: Client, event: ev.Pin) -> None:
        entry = self.catalog.get(event.object)
        if entry is not None:
            self.catalog.pin(entry, (event.site or "somewhere") if event.on else "")
            if event.on:
                self.spilling.used(entry, force=True)

    def _loaded(self, client: Client, event: ev.Loaded) -> None:
        for id, seconds in zip(event.objects, event.seconds, strict=False):
            entry = self.catalog.get(id)
            if entry is not None:
                self.catalog.loaded(entry, seconds)

    def _find(self, client: Client, event: ev.Find) -> None:
        entry = self.catalog.named(event.name)
        if entry is None:
            self.send(client.number, do.Found(event.request, 0))
        else:
            self.catalog.hold(entry, client.number)
            self.send(client.number, do.Found(event.request, entry.id))

    def _bind(self, client: Client, event: ev.Bind) -> None:
        entry = self.catalog.get(event.object)
        if not event.object:
            self.catalog.bind(event.name, None)
        elif entry is not None and entry.state is not State.FREED:
            self.catalog.bind(event.name, entry)

    def _unused(self, entry: Entry) -> None:
        """The catalog's word that no task reads this freed object: workers drop it as a function.

        What they made of it may hold views of its bytes, so they are asked before the release.
        """
        if entry.id in self.scheduler.tasks:
            self._unread.append(entry.id)
        cached = self.task_manager.functions.pop(entry.id, None)
        if cached is not None:
            self.scheduler.forget_function(entry.id)
            for number in cached:
                self.catalog.view(entry, number)  # until it has answered with Unview
                self.send(number, do.Forget((entry.id,), unused=True))

    def _stop_unread(self) -> None:
        """Streams go on as long as somebody reads them; what other tasks do, they do to the end."""
        unread, self._unread = self._unread, []
        for id in unread:
            task = self.scheduler.tasks.get(id)
            if task is not None and task.terms.ahead and task.final_value is None:
                self.task_manager.stop(task)

    def _released(self, entry: Entry, value: ev.Value) -> None:
        """The catalog's word that nobody needs these bytes."""
        if entry.id in self.scheduler.actors:
            self.task_manager.actor_manager.retire(self.scheduler.actors[entry.id])
        self.spilling.gone(entry)
        if value.segment:
            self.vacate(value.segment, value.offset)

    def _vacated(self, value: ev.Value) -> None:
        """The catalog's word that nobody needs the place where an object was.

        If somebody else waits for memory, it goes back to the machine; its arena keeps it warm.
        """
        owner, length = self.budget.arenas[value.segment].owner, round_up(value.length)
        others_wait = self.budget.is_asked and not self.budget.returns(owner, length)
        self.vacate(value.segment, value.offset, cold=others_wait)

    def vacate(self, segment: int, offset: int, cold: bool = False) -> None:
        """These bytes are nobody's any more: their arena may use them again.

        ``cold``: as address space; their memory goes back to the machine.
        """
        arena, length = self.budget.release(segment, offset, cold)
        extent = (offset, length)
        if arena.owner is None and not arena.extents:
            self._close_arena(segment)
            return
        if arena.owner is None or cold:
            self._out.append(do.Punch(segment, (extent,)))
        if arena.owner is not None:
            self._releases.setdefault((arena.owner, cold), []).append(extent)

    # -- memory -------------------------------------------------------------------------------

    def _opened(self, client: Client, event: ev.Opened) -> None:
        if not self.owns(client, event.segment):
            return
        if self.budget.open(client.number, event.segment, event.size):
            client.segments.add(event.segment)
        else:
            self.hang_up(client.number, "a second arena")

    def _close_arena(self, segment: int) -> None:
        self.budget.close(segment)
        self._out.append(do.Discard(segment))
        for client in self.clients.values():
            if segment in client.segments:
                client.segments.discard(segment)
                self.send(client.number, do.Unshare(segment))

    def _grow(self, client: Client, event: ev.Grow) -> None:
        self.budget.ask(Request(client.number, event.request, event.nbytes, event.spill))

    def _trimmed(self, client: Client, event: ev.Trimmed) -> None:
        self.budget.trimmed(client.number, event.nbytes, event.answer)

    def _refresh(self, client: Client, event: ev.Refresh) -> None:
        """Before any task that is submitted after it."""
        for number in self.scheduler.by_client:
            self.send(number, event)

    def _register(self, client: Client, event: ev.Register) -> None:
        """Workers learn of it before any task that is submitted after it."""
        if not self.owns(client, event.serializer):
            return
        self._serializers.pop(event.serializer, None)
        if event.payload:
            self._serializers[event.serializer] = event.payload
        for number in self.scheduler.by_client:
            if number != client.number:
                self.send(number, do.Registered(event.serializer, event.payload))

    def _drop_serializers(self) -> None:
        """Those of a driver that has left go when the last of its tasks has."""
        for number in [n for n in self._orphaned if n not in self.scheduler.owners]:
            prefix = self._orphaned.pop(number)
            for serializer in [s for s in self._serializers if s >> ev.ID_BITS == prefix]:
                del self._serializers[serializer]
                for worker in self.scheduler.by_client:
                    self.send(worker, do.Registered(serializer, b""))

    # -- questions ----------------------------------------------------------------------------

    def _ask(self, client: Client, event: ev.Ask) -> None:
        if event.what == "why":
            object = self.catalog.names.get(event.name, 0) if event.name else event.object
            return self.referrers.ask(client, ev.Ask(event.request, "why", object))
        if event.what == "spill":
            return self.spilling.spill(client, event)
        answer = do.Answer(event.request)
        if event.what == "overview":
            answer = do.Answer(event.request, snapshot=take_snapshot(self, some_named(self)))
        elif event.what == "describe":
            answer = do.Answer(event.request, description=describe(self, event.object))
        elif event.what == "names":
            answer = do.Answer(event.request, names=names_with(self, event.name))
        self.send(client.number, answer)
        return None

"""The machine: one session's whole state, a batch of events in, a list of instructions out.

It only routes: who holds what is the catalog's business, memory the budget's, order the
schedule's. The clock comes in with each batch; `deadline` says when to come back without one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from workbench.core import audit
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.actors import Actor, Life
from workbench.core.budget import Budget, Request
from workbench.core.catalog import Catalog, Entry, State
from workbench.core.pool import MOST, Pool
from workbench.core.report import holders_table, take_snapshot
from workbench.core.schedule import Schedule, Task

ID_BITS = 32
"""An id is the maker's prefix, then this many bits of the maker's own counter."""

ALONE_AT_START = 30.0
"""Seconds a new session waits for its first driver before it gives up."""


@dataclass(slots=True)
class Client:
    """One connection after its Hello. ``worker`` is 0 for a driver."""

    number: int
    hello: ev.Hello
    segments: set[int] = field(default_factory=set)  # descriptors it has been sent
    polite: bool = False

    @property
    def worker(self) -> int:
        """Its worker number, 0 in a driver."""
        return self.hello.worker


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
    """

    def __init__(self, name: str, workers: int, capacity: int) -> None:
        self.name = name
        self.catalog = Catalog(self._released, self._unused)
        self.budget = Budget(capacity, lambda: self.catalog.inline_bytes)
        self.schedule = Schedule()
        self.pool = Pool(workers, self.schedule)
        self.clients: dict[int, Client] = {}
        self._out: list[do.Anything] = []
        self._now = 0.0
        self._prefixes: set[int] = set()
        self._exit_at: float | None = None
        self._started = False
        self._releases: dict[int, list[tuple[int, int]]] = {}
        self._failing: deque[tuple[Task, ev.Value]] = deque()
        self._functions: dict[int, set[int]] = {}  # function id → worker clients that cache it
        self._serializers: dict[int, bytes] = {}  # custom ones, for workers: opaque
        self._orphaned: dict[int, int] = {}  # drivers that left, with their prefix
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
            ev.Submit: self._submit,
            ev.Done: self._done,
            ev.Output: self._output,
            ev.GaveBack: self._gave_back,
            ev.Blocked: self._blocked,
            ev.Unblocked: self._unblocked,
            ev.Ask: self._ask,
            ev.Register: self._register,
            ev.Escape: self._escape,
            ev.Loaded: self._loaded,
            ev.Create: self._create,
            ev.Dismiss: self._dismiss,
            ev.Leave: self._leave,
            ev.Cancel: self._cancel,
            ev.Left: self._left,
        }

    # -- the two ways in ----------------------------------------------------------------------

    def handle(self, batch: Iterable[tuple[int, ev.Event]], now: float) -> list[do.Anything]:
        """Take in what happened, decide once at the end, return what to do, in order.

        ``now`` is any clock that only goes forward, in seconds. The number beside each event is
        the connection it came from (0 for the loop's own events).
        """
        self._now = now
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
                    self._hang_up(number, f"unexpected {type(event).__name__}")
            else:
                self._outside(number, event)
        self._settle()
        out, self._out = self._out, []
        return out

    def deadline(self) -> float | None:
        """When `handle` must be called again even if nothing happens."""
        spare = self.pool.deadline()
        if spare is None or self._exit_at is None:
            return self._exit_at if spare is None else spare
        return min(self._exit_at, spare)

    def check(self) -> None:
        """Raise AssertionError unless the books agree. To be called between batches."""
        audit.check(self)

    def _settle(self) -> None:
        """Decide what the whole batch changed: who runs, who grows, who comes, who goes."""
        schedule = self.schedule
        if schedule.queue and self.pool.hopeless:
            self._give_up()
        if schedule.restless:
            for worker, task in schedule.assign():
                assert worker.client is not None
                self._run(worker.client, task)
        if len(schedule.tasks) > 1:
            for worker, count in schedule.recall():
                assert worker.client is not None
                self._send(worker.client, do.Recall(count))
        if self._orphaned:
            self._drop_serializers()
        for client, extents in self._releases.items():
            self._send(client, do.Release(tuple(extents)))
        self._releases.clear()
        self._settle_memory()
        if not self.pool.at_rest:
            for number in self.pool.wanted():
                self._out.append(do.Fork(number))
            for worker in self.pool.surplus(self._now):
                assert worker.client is not None
                self._out.append(do.Hangup(worker.client, "not needed any more"))
        if self._exit_at is not None and self._now >= self._exit_at:
            self._out.append(do.Exit())

    def _settle_memory(self) -> None:
        for what, client, request, nbytes in self.budget.settle():
            if what == "grant":
                self._send(client, do.Granted(request, nbytes))
            elif what == "trim":
                self._send(client, do.Trim(nbytes))
            else:
                text = holders_table(self.catalog, self.budget)
                self._send(client, do.Granted(request, 0, text))

    # -- clients ------------------------------------------------------------------------------

    def _outside(self, number: int, event: ev.Event) -> None:
        """An event from the loop itself, or the first one of a client."""
        match event:
            case ev.Hello():
                self._hello(number, event)
            case ev.WorkerForked(worker, pid):
                self.pool.forked(worker, pid)
            case ev.WorkerExited():
                self._worker_exited(event)
            case ev.Tick() | ev.Left():
                pass
            case _:
                self._hang_up(number, f"{type(event).__name__} before Hello")

    def _hello(self, number: int, hello: ev.Hello) -> None:
        if hello.prefix in self._prefixes:
            return self._hang_up(number, "prefix taken")
        if hello.worker:
            if self.schedule.arrived(hello.worker, number, self._now) is None:
                return self._hang_up(number, "no such worker was asked for")
            self.pool.stillborn = 0
        else:
            self._exit_at = None
        self._prefixes.add(hello.prefix)
        self.clients[number] = Client(number, hello)
        self._send(number, do.Welcome(self.name, self.pool.target, self.budget.capacity))
        if hello.worker:
            for serializer, payload in self._serializers.items():
                self._send(number, do.Registered(serializer, payload))
        return None

    def _bye(self, client: Client, event: ev.Bye) -> None:
        client.polite = True

    def _left(self, client: Client, event: ev.Left) -> None:
        del self.clients[client.number]
        for cached in self._functions.values():
            cached.discard(client.number)
        self.catalog.forget_client(client.number)
        self._abandon(list(self.schedule.tasks.values()))
        prefix = client.hello.prefix
        if not client.worker and any(s >> ID_BITS == prefix for s in self._serializers):
            self._orphaned[client.number] = prefix
        for arena, gaps in list(self.budget.orphan(client.number)):
            if arena.extents:
                self._out.append(do.Punch(arena.segment, gaps))
            else:
                self._close_arena(arena.segment)
        if client.worker:
            worker = self.schedule.disconnected(client.number)
            if worker is not None:
                self.pool.block(worker)  # takes no more tasks while it goes
            self._out.append(do.Kill(client.worker))  # its WorkerExited tells the rest
        elif all(c.worker for c in self.clients.values()):
            self._exit_at = self._now + (0.0 if client.polite else client.hello.linger)

    def _hang_up(self, number: int, reason: str) -> None:
        self._out.append(do.Hangup(number, reason))

    def _send(self, number: int, message: do.Message) -> None:
        if number in self.clients:
            self._out.append(do.Send(number, message))

    def _owns(self, client: Client, id: int) -> bool:
        """Whether ``client`` may make this id. Hangs up if not."""
        good = id >> ID_BITS == client.hello.prefix
        if not good:
            self._hang_up(client.number, "an id that is not its own")
        return good

    # -- objects ------------------------------------------------------------------------------

    def _sealed(self, client: Client, event: ev.Sealed) -> None:
        if not self._owns(client, event.object):
            return None
        if not self.budget.admits(client.number, (event.value,)):
            return self._hang_up(client.number, "an extent that is not its own")
        if self.catalog.get(event.object) is not None:
            return self._hang_up(client.number, "an object sealed twice")
        entry = self.catalog.expect(event.object)
        self.catalog.hold(entry, client.number)
        if event.value.segment:
            client.segments.add(event.value.segment)
        self._seal(entry, event.value, event.about)
        if event.name:
            self.catalog.bind(event.name, entry)
        return None

    def _seal(self, entry: Entry, value: ev.Value, about: ev.About | None = None) -> None:
        if value.segment:
            self.budget.seal(value.segment, value.offset, value.length)
        self.catalog.seal(entry, value, about)
        watchers, entry.watchers = entry.watchers, ()
        for watcher in watchers:
            self._tell(watcher, entry)
        waiting, entry.waiting = entry.waiting, ()
        for task in waiting:
            if value.failed:
                self._fail(task, value)
            else:
                self.schedule.supplied(task)

    def _tell(self, number: int, entry: Entry) -> None:
        """Send the client what there is to know about a ready or freed object."""
        if entry.state is State.READY:
            assert entry.value is not None
            self._share(number, entry.value)
            self._send(number, do.Ready(entry.id, entry.value))
        else:
            text = "The object was freed while this ref was still held. Put it again, or keep it."
            self._send(number, do.Ready(entry.id, ev.refusal("freed", text)))

    def _share(self, number: int, value: ev.Value) -> None:
        """Make sure the client has the segment before it is told of an extent in it."""
        client = self.clients.get(number)
        if client is not None and value.segment and value.segment not in client.segments:
            client.segments.add(value.segment)
            arena = self.budget.arenas[value.segment]
            self._send(number, do.Shared(value.segment, arena.size))

    def _want(self, client: Client, event: ev.Want) -> None:
        for id in event.objects:
            entry = self.catalog.get(id)
            if entry is None:
                text = "This session has no such object: nothing holds it any more. Put it again."
                self._send(client.number, do.Ready(id, ev.refusal("unknown", text)))
            elif entry.state is not State.PENDING:
                self._tell(client.number, entry)
            elif client.number not in entry.watchers:
                entry.watchers += (client.number,)

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
        entry = self.catalog.get(event.object)
        if entry is not None:
            self.catalog.view(entry, client.number)

    def _unview(self, client: Client, event: ev.Unview) -> None:
        for id in event.objects:
            entry = self.catalog.get(id)
            if entry is not None:
                self.catalog.unview(entry, client.number)

    def _free(self, client: Client, event: ev.Free) -> None:
        for id in event.objects:
            entry = self.catalog.get(id)
            if entry is None or entry.state is State.FREED:
                continue
            holders, watchers, waiting = tuple(entry.holds), entry.watchers, entry.waiting
            entry.watchers = entry.waiting = ()
            self.catalog.free(entry)
            for holder in holders:
                self._send(holder, do.Forget((id,)))
            for watcher in watchers:
                self._tell(watcher, entry)
            for task in waiting:
                self._fail(task, ev.refusal("freed", "An argument of the task was freed."))

    def _escape(self, client: Client, event: ev.Escape) -> None:
        entry = self.catalog.get(event.object)
        if entry is not None:
            self.catalog.escape(entry, event.site)

    def _loaded(self, client: Client, event: ev.Loaded) -> None:
        for id, seconds in zip(event.objects, event.seconds, strict=False):
            entry = self.catalog.get(id)
            if entry is not None:
                self.catalog.loaded(entry, seconds)

    def _find(self, client: Client, event: ev.Find) -> None:
        entry = self.catalog.named(event.name)
        if entry is None:
            names = tuple(sorted(self.catalog.names))[:100]
            self._send(client.number, do.Found(event.request, 0, names))
        else:
            self.catalog.hold(entry, client.number)
            self._send(client.number, do.Found(event.request, entry.id))

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
        cached = self._functions.pop(entry.id, None)
        if cached is not None:
            self.schedule.forget_function(entry.id)
            for number in cached:
                self.catalog.view(entry, number)  # until it has answered with Unview
                self._send(number, do.Forget((entry.id,), unused=True))

    def _released(self, entry: Entry, value: ev.Value) -> None:
        """The catalog's word that nobody needs these bytes."""
        if entry.id in self.schedule.actors:
            self._retire(self.schedule.actors[entry.id])
        if value.segment:
            self._release(value)

    def _release(self, value: ev.Value) -> None:
        arena = self.budget.release(value.segment, value.offset)
        extent = (value.offset, value.length)
        if arena.owner is not None:
            self._releases.setdefault(arena.owner, []).append(extent)
        elif arena.extents:
            self._out.append(do.Punch(arena.segment, (extent,)))
        else:
            self._close_arena(arena.segment)

    # -- memory -------------------------------------------------------------------------------

    def _opened(self, client: Client, event: ev.Opened) -> None:
        if self._owns(client, event.segment) and event.segment not in self.budget.arenas:
            self.budget.open(client.number, event.segment, event.size)
            client.segments.add(event.segment)

    def _close_arena(self, segment: int) -> None:
        self.budget.close(segment)
        self._out.append(do.Discard(segment))

    def _grow(self, client: Client, event: ev.Grow) -> None:
        self.budget.ask(Request(client.number, event.request, event.nbytes))

    def _trimmed(self, client: Client, event: ev.Trimmed) -> None:
        self.budget.trimmed(client.number, event.nbytes, event.answer)

    # -- tasks --------------------------------------------------------------------------------

    def _submit(self, client: Client, event: ev.Submit) -> None:
        task = Task(event, client.number, self._audience(client), self._running_in(client))
        results = task.results
        if not self._owns(client, event.task):
            return None
        if event.returns > 1 and not self._owns(client, results[-1]):
            return None
        find = self.catalog.get
        if event.task in self.schedule.tasks or any(map(find, results)):
            return self._hang_up(client.number, "a task submitted twice")
        why: ev.Value | None = None
        if event.actor:
            why = self._pin_actor(task)
        why = self._pin_arguments(task) or why
        for id in results:  # last: no task can wait for itself
            self.catalog.promise(id, client.number)
        task.actor = self.schedule.actors.get(event.actor)
        if task.actor is not None or not event.actor:
            self.schedule.add(task)
            if why is not None:
                self._fail(task, why)
        else:
            self._refuse(task, why)
        return None

    def _pin_arguments(self, task: Task) -> ev.Value | None:
        """What the task needs lives as long as it; the value it fails with if that can't be."""
        event = task.submit
        failed: ev.Value | None = None
        lost = ""
        for id in (*((event.function,) if event.function else ()), *event.deps):
            entry = self.catalog.get(id)
            if entry is None or entry.state is State.FREED:
                lost = lost or ("unknown" if entry is None else "freed")
                continue
            if entry.state is State.PENDING:
                entry.waiting += (task,)
                task.missing += 1
            elif entry.value is not None and entry.value.failed:
                failed = failed or entry.value
            self._pin(task, entry)
        for id in event.contains:
            entry = self.catalog.get(id)
            if entry is not None:
                self._pin(task, entry)
        if lost:
            text = "An argument of the task is not in the store any more. Put it again."
            return ev.refusal(lost, text)
        return failed

    def _audience(self, client: Client) -> int:
        """Who sees the output of what this client submits: of a task's tasks, who sees its own."""
        running = self._running_in(client)
        return client.number if running is None else running.audience

    def _running_in(self, client: Client) -> Task | None:
        """The task that runs in this client, if it is a worker and has one."""
        worker = self.schedule.by_client.get(client.number)
        return next(iter(worker.sent.values()), None) if worker is not None else None

    def _pin(self, task: Task, entry: Entry) -> None:
        self.catalog.need(entry)
        task.pins.append(entry.id)

    def _run(self, number: int, task: Task) -> None:
        submit = task.submit
        values = []
        for id in submit.deps:
            entry = self.catalog.get(id)
            assert entry is not None
            assert entry.value is not None
            self._share(number, entry.value)
            values.append(entry.value)
        if submit.function and number not in self._functions.setdefault(submit.function, set()):
            self._functions[submit.function].add(number)
            entry = self.catalog.get(submit.function)
            assert entry is not None
            assert entry.value is not None
            self._share(number, entry.value)
            values.append(entry.value)
        self._out.append(
            do.Send(
                number,
                do.Run(
                    submit.task, submit.function, submit.args, submit.deps,
                    tuple(values), submit.returns, submit.name, submit.origin, submit.method,
                ),
            )
        )  # fmt: skip

    def _done(self, client: Client, event: ev.Done) -> None:
        worker = self.schedule.by_client.get(client.number)
        task = worker.sent.get(event.task) if worker is not None else None
        if worker is None or task is None or len(event.values) != self._owed(task):
            return self._hang_up(client.number, "done with a task it was not given")
        abouts = event.abouts or (None,) * len(event.values)
        if len(abouts) != len(event.values):
            return self._hang_up(client.number, "results it says too little of")
        if not self.budget.admits(client.number, event.values):
            return self._hang_up(client.number, "an extent that is not its own")
        self.schedule.finish(task, event.seconds)
        if not worker.sent:
            worker.since = self._now
        if worker.actor is not None and task is worker.actor.birth:
            self._born(worker.actor, event.values[0])
            return None
        for id, value, about in zip(task.results, event.values, abouts, strict=True):
            self._result(id, value, about)
        self._unpin(task)
        return None

    @staticmethod
    def _owed(task: Task) -> int:
        """How many values its Done has: of an actor's creation one, which says how it went."""
        return 1 if task.submit.task == task.submit.actor else task.submit.returns

    def _result(self, id: int, value: ev.Value, about: ev.About | None = None) -> None:
        entry = self.catalog.get(id)
        if entry is not None and entry.state is State.PENDING:
            self._seal(entry, value, about)
        elif value.segment:  # nobody waits for it any more
            self.budget.seal(value.segment, value.offset, value.length)
            self._release(value)

    def _unpin(self, task: Task) -> None:
        for id in task.pins:
            entry = self.catalog.get(id)
            assert entry is not None
            self.catalog.unneed(entry)

    def _fail(self, task: Task, value: ev.Value) -> None:
        """It can't run, or not again: all its results are ``value``, an inline exception.

        Tasks that wait for those results fail in turn. A loop, not recursion: such a chain can
        be longer than the stack; only the outermost call runs it.
        """
        self._failing.append((task, value))
        if len(self._failing) > 1:
            return
        while self._failing:
            task, value = self._failing[0]
            if task.actor is not None and task is task.actor.birth:
                self._dies(task.actor, value)
                self._send_home(task.actor)
            elif task in self.schedule:
                self.schedule.finish(task)
                self._unpin(task)
                for id in task.results:
                    self._result(id, value)
            self._failing.popleft()

    def _abandon(self, tasks: list[Task]) -> None:
        """Drop those that haven't begun, whose submitter is gone and whose results nobody wants.

        From the last to the first: what one waits for was submitted before it.
        """
        for task in reversed(tasks):
            if task.worker is None and task.owner not in self.clients:
                results = map(self.catalog.get, task.results)
                if not any(e is not None and e.state is State.PENDING for e in results):
                    self.schedule.finish(task)
                    self._unpin(task)

    def _give_up(self) -> None:
        """Nobody will ever run what is queued."""
        text = f"No worker can be started: {self.pool.last_words} before it said a word."
        for task in list(self.schedule.queue):
            self._fail(task, ev.refusal("crashed", text))

    def _output(self, client: Client, event: ev.Output) -> None:
        task = self.schedule.tasks.get(event.task)
        if task is not None:
            origin = task.submit.origin
            self._send(task.audience, ev.Output(event.task, event.kind, event.data, origin))

    # -- cancelling ---------------------------------------------------------------------------

    def _cancel(self, client: Client, event: ev.Cancel) -> None:
        task = self.schedule.maker(event.object)
        if task is not None:
            self._stop(task, event.force, event.recursive)

    def _stop(self, task: Task, force: bool, recursive: bool) -> None:
        """Nobody wants its results: drop it, or have it interrupted. Its getters hear of it."""
        tasks = self.schedule.tasks.values() if recursive else ()
        children = [t for t in tasks if t.parent is task]
        worker = task.worker
        if worker is None:
            self._fail(task, _cancelled(task))
        elif worker.client is not None:
            task.cancelled = True
            if force and worker.actor is None and task is next(iter(worker.sent.values())):
                self._out.append(do.Kill(worker.number))
            else:
                self._send(worker.client, do.Stop(task.submit.task))
        for child in children:
            if child in self.schedule:
                self._stop(child, force, recursive)

    # -- actors -------------------------------------------------------------------------------

    def _create(self, client: Client, event: ev.Create) -> None:
        submit = event.creation
        entry = self.catalog.get(submit.actor)
        if submit.task != submit.actor or submit.returns or not self._owns(client, submit.actor):
            return self._hang_up(client.number, "an actor that is not its own")
        if entry is None or submit.task in self.schedule.actors:
            return self._hang_up(client.number, "an actor without an object, or made twice")
        birth = Task(submit, client.number, self._audience(client), self._running_in(client))
        actor = birth.actor = self.schedule.actors[submit.actor] = Actor(event, birth)
        why = self._pin_arguments(birth)
        if event.name and self.catalog.named(event.name) is not None:
            why = ev.refusal("actor", f"There is another actor of the name of {actor.name}.")
        elif event.name:
            self.catalog.bind(event.name, entry)
        self.schedule.add(birth)
        if why is not None:
            self._dies(actor, why)
        else:
            self._hire(actor)
        return None

    def _hire(self, actor: Actor) -> None:
        """Have a worker of its own made for it."""
        if self.pool.broken or len(self.schedule.workers) >= MOST:
            why = self.pool.last_words or f"there are {MOST} workers already"
            text = f"No worker could be started for {actor.name}: {why}."
            self._dies(actor, ev.refusal("actor", text))
        else:
            self._out.append(do.Fork(self.pool.hire(actor)))

    def _pin_actor(self, task: Task) -> ev.Value | None:
        """A call keeps its actor alive; the value it fails with if that is dead."""
        actor = self.schedule.actors.get(task.submit.actor)
        entry = self.catalog.get(task.submit.actor)
        if actor is None or entry is None or entry.state is State.FREED:
            return ev.refusal("actor", "There is no such actor: its last handle was gone.")
        self._pin(task, entry)
        return actor.why

    def _refuse(self, task: Task, why: ev.Value | None) -> None:
        """A call of an actor nobody knows."""
        assert why is not None
        self._unpin(task)
        for id in task.results:
            self._result(id, why)

    def _born(self, actor: Actor, value: ev.Value) -> None:
        """Its instance was made, or not."""
        if value.failed:
            self._dies(actor, value)
            self._send_home(actor)
        elif actor.life is Life.BEING_MADE:
            actor.life = Life.ALIVE
            self.schedule.stir(actor)

    def _actor_lost(self, actor: Actor, tasks: list[Task], crash: str, words: str) -> None:
        """Its worker is gone: make it again, or let it be dead."""
        if actor.life is Life.DEAD:
            assert actor.why is not None
            for task in tasks:
                self._fail(task, actor.why)
            return
        if not actor.restarts:
            while_it = f" while it ran `{tasks[0].submit.name}`" if tasks else ""
            text = f"{actor.name} died: {crash}{while_it}.{words}"
            self._dies(actor, ev.refusal("actor", text), tasks)
            return
        actor.restarts -= actor.restarts > 0
        actor.life = Life.BEING_MADE
        again, over = actor.lost(tasks)
        for task in over:
            text = f"{crash} while it ran `{task.submit.name}`; {actor.name} is made again.{words}"
            self._fail(task, ev.refusal("actor", text))
        if self.schedule.actors.get(actor.id) is actor:  # else those were its last calls
            actor.put_back(again)
            self.schedule.tasks[actor.id] = actor.birth
            self._hire(actor)

    def _dismiss(self, client: Client, event: ev.Dismiss) -> None:
        actor = self.schedule.actors.get(event.actor)
        if actor is None or actor.life is Life.DEAD:
            return
        worker = actor.worker
        if not (event.restart and actor.restarts):
            text = f"{actor.name} was ended by kill()."
            self._dies(actor, ev.refusal("actor", text))
        if worker is not None:
            self._out.append(do.Kill(worker.number))

    def _leave(self, client: Client, event: ev.Leave) -> None:
        worker = self.schedule.by_client.get(client.number)
        if worker is not None and worker.actor is not None:
            text = f"{worker.actor.name} left by exit_actor()."
            self._dies(worker.actor, ev.refusal("actor", text))

    def _dies(self, actor: Actor, why: ev.Value, tasks: Iterable[Task] = ()) -> None:
        """It will never run a call again."""
        if actor.life is Life.DEAD:
            return
        actor.life, actor.why = Life.DEAD, why
        worker = actor.worker
        calls = [*tasks, *(worker.sent.values() if worker is not None else ()), *actor.calls]
        if actor.birth in self.schedule:
            self.schedule.finish(actor.birth)
        self._unpin(actor.birth)
        actor.birth.pins.clear()
        entry = self.catalog.get(actor.id)
        for name in entry.names if entry is not None else ():
            self.catalog.bind(name, None)
        for task in calls:  # with the last of them the actor itself may be forgotten
            if task in self.schedule and task is not actor.birth:
                self._fail(task, why)

    def _retire(self, actor: Actor) -> None:
        """No handle is left, and no call."""
        del self.schedule.actors[actor.id]
        self._dies(actor, ev.refusal("actor", "Its last handle is gone."))
        self._send_home(actor)

    def _send_home(self, actor: Actor) -> None:
        worker = actor.worker
        if worker is not None and worker.client is not None:
            self._hang_up(worker.client, "its actor has ended")
        elif worker is not None:
            self._out.append(do.Kill(worker.number))

    # -- workers ------------------------------------------------------------------------------

    def _gave_back(self, client: Client, event: ev.GaveBack) -> None:
        worker = self.schedule.by_client.get(client.number)
        if worker is None:
            return
        if event.asked:
            worker.recalled = False
        tasks = [worker.sent[id] for id in dict.fromkeys(event.tasks) if id in worker.sent]
        self.schedule.give_back(tasks)
        self._abandon(tasks)

    def _blocked(self, client: Client, event: ev.Blocked) -> None:
        worker = self.schedule.by_client.get(client.number)
        if worker is not None:
            self.pool.block(worker)

    def _unblocked(self, client: Client, event: ev.Unblocked) -> None:
        worker = self.schedule.by_client.get(client.number)
        if worker is not None:
            self.pool.unblock(worker)

    def _worker_exited(self, event: ev.WorkerExited) -> None:
        worker, crash = self.pool.exited(event.worker, event.status)
        if worker is None:
            return
        tasks = self.schedule.lost(worker)
        if worker.actor is not None:
            self._actor_lost(worker.actor, tasks, crash, _last_words(event))
            return
        if tasks and tasks[0].cancelled:
            task = tasks.pop(0)
            self._fail(task, _cancelled(task))
        elif tasks:  # the first one was running; the others had not begun
            first = tasks[0]
            first.attempts += 1
            if first.attempts > first.submit.retries:
                text = f"{crash} while it ran `{first.submit.name}`.{_last_words(event)}"
                self._fail(tasks.pop(0), ev.refusal("crashed", text))
        self.schedule.give_back(tasks)
        self._abandon(tasks)

    def _register(self, client: Client, event: ev.Register) -> None:
        """Workers learn of it before any task that is submitted after it."""
        if not self._owns(client, event.serializer):
            return
        self._serializers.pop(event.serializer, None)
        if event.payload:
            self._serializers[event.serializer] = event.payload
        for number in self.schedule.by_client:
            if number != client.number:
                self._send(number, do.Registered(event.serializer, event.payload))

    def _drop_serializers(self) -> None:
        """Those of a driver that has left go when the last of its tasks has."""
        owners = {task.owner for task in self.schedule.tasks.values()}
        for number in [number for number in self._orphaned if number not in owners]:
            prefix = self._orphaned.pop(number)
            for serializer in [s for s in self._serializers if s >> ID_BITS == prefix]:
                del self._serializers[serializer]
                for worker in self.schedule.by_client:
                    self._send(worker, do.Registered(serializer, b""))

    # -- questions ----------------------------------------------------------------------------

    def _ask(self, client: Client, event: ev.Ask) -> None:
        snapshot = take_snapshot(self) if event.what == "snapshot" else None
        self._send(client.number, do.Answer(event.request, snapshot))


def _last_words(event: ev.WorkerExited) -> str:
    return f"\nThe last it wrote to stderr:\n{event.stderr}" if event.stderr else ""


def _cancelled(task: Task) -> ev.Value:
    return ev.refusal("cancelled", f"`{task.submit.name}` was cancelled.")

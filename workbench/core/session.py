"""The session: a batch of events in, a list of instructions out. Routes events to components.

All data is in its `state`. Each batch brings the time; `deadline` says when the next is due.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core import loop_events as loop
from workbench.core.actor_manager import ActorManager
from workbench.core.blocking import Blocking
from workbench.core.budget import SERVER, GrowRequest
from workbench.core.entry import Entry
from workbench.core.generators import GeneratorManager
from workbench.core.job_manager import JobManager
from workbench.core.leases import LeaseManager
from workbench.core.lifetime import Lifetime
from workbench.core.lines import LineManager
from workbench.core.memory_monitor import MemoryMonitor
from workbench.core.object_manager import ObjectManager
from workbench.core.referrers import Referrers
from workbench.core.serializers import Serializers
from workbench.core.snapshot_builder import describe, largest, names_with, some_named, take_snapshot
from workbench.core.spilling import Spilling
from workbench.core.state import ClientState, Handler, State
from workbench.core.subscriptions import Subscriptions
from workbench.core.task_manager import TaskManager
from workbench.core.task_output import TaskOutput
from workbench.core.time_limits import TimeLimits
from workbench.format import human_bytes

STARTER = 1
"""Connection 1 belongs to the process that launched the server: it connects before that."""


class Session:
    """See the module. ``workers``: how many have a slot at any time. ``capacity``: bytes that the
    store may hold. A worker is killed when less than ``headroom`` bytes of the machine's memory are
    left. ``spills``: objects may move to disk. After ``idle`` seconds without use, workers end and
    free memory is given back; 0: never.
    """

    def __init__(
        self,
        name: str,
        workers: int,
        capacity: int,
        headroom: int = 0,
        spills: bool = False,
        idle: float = 0.0,
    ) -> None:
        self.state = state = State(name, workers, capacity)
        self.spill_dir = ""  # for clients: where to write objects that are larger than the store
        self._prefixes: set[int] = set()  # of all clients so far; an admin's is dropped
        # Each component holds the state, and perhaps some components above it.
        self.spilling = Spilling(state, spills)
        self.objects = ObjectManager(state, self.spilling)
        self.jobs = JobManager(state)
        self.lines = LineManager(state, self.objects)
        self.leases = LeaseManager(state, self.lines)
        self.actors = ActorManager(state, self.objects, self.lines)
        self.output = TaskOutput(state, self.jobs, self.lines)
        self.tasks = TaskManager(
            state,
            self.objects,
            self.spilling,
            self.jobs,
            self.actors,
            self.lines,
            self.leases,
            self.output,
        )
        self.time_limits = TimeLimits(state, self.tasks)
        self.generators = GeneratorManager(state, self.objects, self.tasks)
        blocking = Blocking(state, self.lines)
        self.memory_monitor = MemoryMonitor(state, headroom)
        self.lifetime = Lifetime(state, self.jobs, self.leases, self.memory_monitor, idle)
        self.serializers = Serializers(state)
        self.referrers = Referrers(state)
        self.subscriptions = Subscriptions(state)
        state.budget.measures = headroom > 0
        self._connect()
        self._handlers = self._routes(blocking)
        self._answers = self._questions()

    def _connect(self) -> None:
        state = self.state
        state.catalog.on_release = self._released
        state.catalog.on_unused = self._unused
        state.catalog.on_rest = self.spilling.on_rest
        state.catalog.on_forgotten = self._forgotten
        state.stale_copies.on_vacated = self.objects.vacated
        state.budget.make_room = self.spilling.make_room
        state.budget.let_go = self.jobs.make_room
        state.budget.callers = self.lines.callers
        state.job_records = self.jobs.last_records

    def _routes(self, blocking: Blocking) -> dict[type, Handler]:
        routes: dict[type, Handler] = {
            ev.Bye: self._bye,
            loop.Left: self._left,
            ev.Keep: self.lifetime.keep,
            ev.CellNote: self.lifetime.noted,
            ev.EndSession: self.lifetime.end,
            ev.Ask: self._ask,
            ev.Grow: self._grow,
            ev.Trimmed: self._trimmed,
            ev.Opened: self.objects.opened,
            ev.Reshare: self.objects.reshare,
            ev.Sealed: self.objects.sealed,
            ev.Want: self.objects.want,
            ev.Hold: self.objects.hold,
            ev.Drop: self.objects.drop,
            ev.View: self.objects.view,
            ev.Unview: self.objects.unview,
            ev.Noted: self.objects.noted,
            ev.Free: self.objects.free,
            ev.Find: self.objects.find,
            ev.Bind: self.objects.bind,
            ev.Escape: self.objects.escape,
            ev.Pin: self.objects.pin,
            ev.Loaded: self.objects.loaded,
            ev.Submit: self.tasks.submit,
            ev.SubmitCalls: self.tasks.submit_calls,
            ev.Done: self.tasks.done,
            ev.Output: self.output.output,
            ev.GaveBack: self.tasks.gave_back,
            ev.Blocked: blocking.blocked,
            ev.Unblocked: blocking.unblocked,
            ev.Cancel: self.tasks.cancel,
            ev.Interrupt: self.tasks.interrupt,
            ev.Refresh: self.tasks.refresh,
            ev.Attached: self.lines.attached,
            ev.SettledCalls: self.tasks.on_settled_calls,
            ev.Settled: self.lines.settled,
            ev.Unheard: self.lines.unheard,
            ev.LineClosed: self.lines.closed,
            ev.Returned: self.lines.returned,
            ev.Relay: self.lines.relay,
            ev.Create: self.actors.create,
            ev.KillActor: self.actors.kill_actor,
            ev.Leave: self.actors.leave,
            ev.Yielded: self.generators.yielded,
            ev.Took: self.generators.took,
            ev.Collect: self.jobs.collect,
            ev.Register: self.serializers.register,
            ev.Explained: self.referrers.explained,
            ev.Subscribe: self.subscriptions.subscribe,
        }
        return self.leases.wrap_handlers(routes)

    def _questions(self) -> dict[str, Handler]:
        """Return the handler of each kind of Ask that a component answers."""
        return {
            "why": self.referrers.ask,
            "spill": self.spilling.spill,
            "withdraw": self.tasks.withdraw,
            "log": self.jobs.log,
            "jobs": self.jobs.records,
        }

    def handle(self, batch: Sequence[tuple[int, ev.Event]], now: float) -> list[do.Anything]:
        """Handle a batch of events, decide once for all of them, and return instructions in order.

        Each event comes with its connection's number, 0 for the loop's own. ``now``: seconds of any
        monotonic clock.
        """
        state = self.state
        if now >= state.history.due:
            state.history.add_sample(now, state.now, state.levels())
        state.now = state.catalog.now = now
        state.catalog.backlog.begin()
        self.lifetime.begin_batch(batch)
        clients, handlers, failing = state.clients, self._handlers, state.failing
        for number, event in batch:
            client = clients.get(number)
            if client is not None:
                handler = handlers.get(type(event))
                if handler is not None:
                    handler(client, event)
                else:
                    state.hang_up(number, f"unexpected {type(event).__name__}")
            else:
                self._outside(number, event)
            if failing:
                self.tasks.fail_all()
        self._end_batch()
        if self.subscriptions.subscribers:
            self.subscriptions.end_batch(event for _, event in batch)
        out, state.out = state.out, []
        return out

    def deadline(self) -> float | None:
        """Return when `handle` must be called again even without events; None: never."""
        state = self.state
        if state.catalog.backlog.work:
            return state.now
        when = self.lifetime.due
        for time in (
            state.pool.deadline(),
            self.memory_monitor.due,
            self.lifetime.rests_at,
            self.time_limits.due if state.scheduler.limits else None,
            self.referrers.deadline() if self.referrers.inquiries else None,
            state.budget.deadline(),
            self.spilling.deadline() if state.budget.requests or self.spilling.is_busy else None,
        ):
            if time is not None and (when is None or time < when):
                when = time
        return when

    def _end_batch(self) -> None:
        """Decide after a batch: what runs, whose arena grows, which workers start and end."""
        state, monitor = self.state, self.memory_monitor
        scheduler, backlog, budget = state.scheduler, state.catalog.backlog, state.budget
        if backlog.work:
            backlog.proceed()
        if self.generators.unread:
            self.generators.stop_unread()
        if scheduler.limits:
            self.time_limits.end_batch()
        if scheduler.queue.size and state.pool.hopeless:
            self.tasks.give_up()
        if scheduler.queue.size and not scheduler.working and state.pool.is_stuck:
            self.tasks.give_up_one()
        if state.failing or self.actors.has_work:
            self.tasks.end_batch()
        if scheduler.queue.size or scheduler.notified:
            for worker, task in scheduler.assign(state.now):
                assert worker.client is not None
                self.tasks.run(worker.client, task)
        if self.leases.has_work:
            self.leases.end_batch()
        if scheduler.may_use_lines or self.lines.to_report:
            self.lines.end_batch()
        if self.tasks.interrupts:
            self.tasks.answer_interrupts()
        if len(scheduler.tasks) > 1:
            for worker, count in scheduler.recall():
                assert worker.client is not None
                state.send(worker.client, do.Recall(count))
        if self.serializers.orphaned:
            self.serializers.end_batch()
        if self.spilling.is_busy:
            self.spilling.end_batch()
        if state.releases:
            self._send_releases()
        if budget.has_work:
            self._serve_memory()
        if monitor.headroom and (monitor.due is None or state.now >= monitor.due):
            monitor.end_batch()
        if self.referrers.inquiries:
            self.referrers.end_batch()
        self.lifetime.rest()
        pool = state.pool
        if scheduler.queue.size or scheduler.working != pool.target or pool.retry_at is not None:
            for number in pool.wanted(state.now):
                state.out.append(do.Fork(number))
            for worker in pool.surplus(state.now):
                state.dismiss(worker, "not needed any more")
        self.lifetime.end_batch()

    def _send_releases(self) -> None:
        state = self.state
        for (client, cold), extents in state.releases.items():
            state.send(client, do.Release(tuple(extents), cold))
        state.releases.clear()

    def _serve_memory(self) -> None:
        state = self.state
        if state.budget.room is None:
            self.memory_monitor.request_measurement()
        for what, client, request, nbytes in state.budget.serve_requests(
            state.now, more_to_come=bool(state.catalog.backlog.work)
        ):
            self._send_releases()  # tell an arena's owner what is free before asking it to trim
            if client == SERVER:
                self.spilling.bring(request, what == "grant")
            elif what == "grant":
                state.send(client, do.Grown(request, nbytes))
            elif what == "trim":
                state.send(client, do.Trim(nbytes))
            elif what == "deny":
                state.send(client, do.Grown(request, 0, "It takes more than what nobody uses."))
            else:
                found = take_snapshot(state, largest(state))
                why = self.memory_monitor.explain() or self.spilling.explain() + self._withheld()
                state.send(client, do.Grown(request, 0, why, found))
        self._send_releases()

    def _withheld(self) -> str:
        """Return sentences on stopped processes that keep free memory, for a put without room."""
        state = self.state
        return "".join(
            f" Process {state.clients[client].hello.pid} has {human_bytes(nbytes)} of free memory "
            "that it doesn't give back: it doesn't answer. It may be stopped (`kill -CONT` lets it "
            "go on)."
            for client, nbytes in state.budget.withheld().items()
        )

    def _outside(self, number: int, event: ev.Event) -> None:
        state = self.state
        match event:
            case ev.Hello():
                self._hello(number, event)
            case loop.Left() if number in state.showing:
                state.showing.discard(number)
                self._forget(number)
            case ev.Unview() if number in state.showing:
                for id, segment in event.views:
                    state.stale_copies.unviewed(id, segment, number)
            case _ if number in state.showing:
                pass  # sent after its Bye
            case loop.WorkerForked(worker, pid):
                state.pool.forked(worker, pid)
            case loop.WorkerExited():
                self.tasks.worker_exited(event)
            case loop.DriverExited():
                self.lifetime.driver_exited(event)
            case loop.Measured():
                self.memory_monitor.measured(event)
            case loop.Copied():
                self.spilling.copied(event)
            case loop.Left() if number == STARTER and not self._prefixes:
                self.lifetime.give_up()
            case loop.Tick() | loop.Left():
                pass
            case _:
                state.hang_up(number, f"{type(event).__name__} before Hello")

    def _hello(self, number: int, hello: ev.Hello) -> None:
        state = self.state
        if hello.prefix in self._prefixes:
            return state.hang_up(number, "prefix taken")
        if hello.worker:
            if state.scheduler.connect_worker(hello.worker, number, state.now) is None:
                return state.hang_up(number, "no such worker was asked for")
            state.pool.on_worker_hello()
        elif not hello.admin:
            self.lifetime.on_driver_joined(hello)
            state.out.append(do.WatchDriver(number))
        self._prefixes.add(hello.prefix)
        state.clients[number] = ClientState(number, hello)
        state.send(
            number, do.Welcome(state.name, state.pool.target, state.budget.capacity, self.spill_dir)
        )
        if hello.worker:
            state.catalog.follow(number)
            self.serializers.tell_all(number)
            self.tasks.worker_arrived(number)
        return None

    def _bye(self, client: ClientState, event: ev.Bye) -> None:
        client.said_bye, client.graceful, client.final = True, not event.lingers, event.final
        if event.shows and not client.worker:
            self.state.showing.add(client.number)
            self._left(client, event)

    def _left(self, client: ClientState, event: loop.Left | ev.Bye) -> None:
        """Remove a client; its views may live on (`State.showing`)."""
        state, number = self.state, client.number
        del state.clients[number]
        if client.hello.admin:
            self._prefixes.discard(client.hello.prefix)  # it made no ids
        for cached in state.functions.values():
            cached.discard(number)
        self.jobs.on_client_left(client)
        self._forget(number)
        self.lines.on_client_left(number)
        self.leases.on_client_left(number)
        self.referrers.on_client_left(number)
        self.subscriptions.on_client_left(number)
        self.serializers.on_client_left(client)
        self.memory_monitor.on_client_left(number)
        for arena, gaps in list(state.budget.orphan(number)):
            if arena.extents:
                state.out.append(do.Punch(arena.segment, gaps))
            else:
                state.close_arena(arena.segment)
        if client.worker:
            worker = state.scheduler.disconnected(number)
            if worker is not None:
                state.scheduler.send_no_more(worker)
            # It ends by itself, in order if nothing runs. Its WorkerExited does the rest.
            state.out.append(do.Kill(client.worker, grace=True))
        elif client.role == "driver":
            self.lifetime.on_client_left(client)

    def _forget(self, number: int) -> None:
        """Remove a client's holds, and its views unless they live on."""
        views = number not in self.state.showing
        self.state.stale_copies.forget_client(number, views)
        self.state.catalog.forget_client(number, views)

    def _forgotten(self, number: int) -> None:
        """Drop tasks that nobody wants, now that all holds of a client that left are removed."""
        state = self.state
        if not state.scheduler.tasks.owners.keys() <= state.clients.keys():
            self.tasks.abandon(list(state.scheduler.tasks.values()))
            self.generators.abandon(number)

    def _released(self, entry: Entry, value: ev.Value) -> None:
        actor = self.state.scheduler.actors.get(entry.id)
        if actor is not None:
            self.actors.retire(actor)
        if value.segment:
            self.spilling.on_freed(entry)
            self.state.vacate(value.segment, value.offset)

    def _unused(self, entry: Entry) -> None:
        if entry.id in self.state.scheduler.tasks:
            self.generators.unread.append(entry.id)
        if entry.id in self.state.functions:
            self.tasks.unused(entry)

    def _grow(self, client: ClientState, event: ev.Grow) -> None:
        request = GrowRequest(client.number, event.request, event.nbytes, event.spill)
        self.state.budget.ask(request)

    def _trimmed(self, client: ClientState, event: ev.Trimmed) -> None:
        self.state.budget.trimmed(client.number, event.nbytes, event.answer)

    def _ask(self, client: ClientState, event: ev.Ask) -> None:
        answers = self._answers.get(event.what)
        if answers is not None:
            return answers(client, event)
        state = self.state
        answer = do.Answer(event.request)
        if event.what == "overview":
            answer = do.Answer(event.request, snapshot=take_snapshot(state, some_named(state)))
        elif event.what == "describe":
            answer = do.Answer(event.request, description=describe(state, event.object))
        elif event.what == "inline":
            allowed = state.budget.allow_inline(client.number)
            answer = do.Answer(event.request, text="" if allowed else "no room")
        elif event.what == "names":
            answer = do.Answer(event.request, names=names_with(state, event.name))
        state.send(client.number, answer)
        return None

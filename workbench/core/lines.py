"""Component: lines, by which calls go straight to a worker: who gets one, and how it ends.

The caller reports a call that goes by a line late, in the order of its messages: usually when it is
over, a run of calls at a time (`SettledCalls`), else with `Submit.line` and later `Settled`. Nobody
else can know of a call that its caller hasn't reported; a reported one is treated as any other call
that was sent to the worker.

Order. A caller uses its line only while none of its other calls of that actor is unfinished
(`Grant`). And a worker reads its lines before it handles `Run`, `Stop` and `Report`.

The end. When the worker is gone, the caller reads what is left in the line and closes it
(`LineClosed`). Only then are calls without an answer retried or failed; until then the caller's
other calls of that actor wait. The worker's note of which call began last outlives it
(`worker.remains`), and the caller says which calls came after that. When the caller is gone, the
worker runs what it has (`Detach`). If a call is reported before its end, its worker reports the
result, too (`Report`), so that dependents don't wait for the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import WorkerExited
from workbench.core.object_manager import ObjectManager
from workbench.core.state import ClientState, State
from workbench.core.tasks import Actor, ActorState, Line, Task, Worker

MOST_LINES = 64
"""Lines of one client: each takes a descriptor in its process."""


class LineManager:
    """See the module. When a line's worker is gone and its caller has read all, ``on_closed`` is
    called with it; with a lease ``on_lease_closed``."""

    on_closed: Callable[[Line], None]
    on_lease_closed: Callable[[Line], None]

    def __init__(self, state: State, objects: ObjectManager) -> None:
        self._state = state
        self._objects = objects
        self._scheduler = state.scheduler
        self._lines: dict[int, Line] = {}
        self._counts: Counter[int] = Counter()  # of lines, by caller
        self.leases: dict[int, Line] = {}  # by caller
        self._numbers = 0
        self.to_report: list[Task] = []  # calls that were reported in this batch

    # -- making lines -----------------------------------------------------------------------------

    def end_batch(self) -> None:
        """Let callers without unfinished calls use their line, or make one; send Reports."""
        callers = self._scheduler.may_use_lines
        while callers:
            self._grant_or_connect(*callers.pop())
        tasks, self.to_report = self.to_report, []
        for task in tasks:
            worker = task.worker
            if not task.is_over and worker is not None and worker.client is not None:
                self._report(worker, task)

    def _report(self, worker: Worker, task: Task) -> None:
        assert worker.client is not None
        if task.line is not None:
            worker.reported.add(task.submit.task)
            self._state.send(worker.client, do.Report(task.line.number, task.submit.task))

    def _grant_or_connect(self, actor: Actor, caller: int) -> None:
        worker, client = actor.worker, self._state.clients.get(caller)
        line = actor.lines.get(caller)
        if client is None or caller in actor.unfinished or actor.state is not ActorState.ALIVE:
            return
        if line is not None:
            if line.is_open and not line.has_ended and line.asked_at is None:
                last, objects = actor.last.get(caller, 0), tuple(line.objects)
                self._state.send(caller, do.Grant(line.number, last, objects))
        elif (
            actor.takes_lines
            and worker is not None
            and worker.client is not None
            and not worker.leaving
            and client.role != "admin"
            and worker.client != caller
            and self.has_room(caller)
        ):
            actor.lines[caller] = self.connect(actor, worker, caller)

    def has_room(self, caller: int) -> bool:
        return self._counts[caller] < MOST_LINES

    def connect(
        self,
        actor: Actor | None,
        worker: Worker,
        caller: int,
        functions: Iterable[int] = (),
        objects: Mapping[int, ev.Value] | None = None,
    ) -> Line:
        """Make a line from the caller to an actor's worker, or for tasks of these functions. The
        worker is told of ``objects``, which are lent with it, before any call."""
        assert worker.client is not None
        self._numbers += 1
        line = Line(self._numbers, actor, worker, caller, frozenset(functions))
        self._lines[line.number] = worker.lines[line.number] = line
        self._counts[caller] += 1
        if objects:  # first: known before any task can come
            self.lend(line, objects)
        self._state.out.append(do.Connect(line.number, worker.client))
        return line

    def lend(self, line: Line, objects: Mapping[int, ev.Value]) -> None:
        """Allow these objects as arguments of calls by the line: see `core.leases`."""
        state, client = self._state, line.worker.client
        assert client is not None
        for id, value in objects.items():
            line.lent.add(id)
            state.catalog.lend(id)
            state.share(client, value)
        line.objects.update(objects)
        state.lending[line.number] = line
        state.send(client, do.Lent(line.number, tuple(objects), tuple(objects.values())))

    def attached(self, client: ClientState, event: ev.Attached) -> None:
        """Handle Attached: the worker gets its end first, then the caller."""
        line = self._lines.get(event.line)
        if line is None:
            return None  # it was closed meanwhile
        if client.number == line.worker.client and not line.is_offered:
            if not event.good:
                self._refused(line)
                return self._forget(line)
            line.is_offered = True
            lent = (0, tuple(line.functions), line.last, tuple(line.objects))
            whose = lent if line.actor is None else (line.actor.id,)
            return self._state.send(line.caller, do.Offer(line.number, *whose))
        if client.number != line.caller or not line.is_offered or line.is_open:
            return self._state.hang_up(client.number, "a line that isn't its own")
        self._state.out.append(do.Disconnect(line.number))
        if event.good:
            line.is_open = True
            if line.has_ended and not line.is_returned:
                self._state.send(line.caller, do.LineEnded(line.number, line.begun))
            elif line.actor is not None:
                self._scheduler.may_use_lines.append((line.actor, line.caller))
        elif line.has_ended:
            self._forget(line)
        else:
            self._detach(line)
        return None

    def _refused(self, line: Line) -> None:
        if line.actor is not None:
            line.actor.takes_lines = False
        else:
            line.is_returned = True
            self._all_unlent(line)
            self._scheduler.update_slot(line.worker)

    # -- calls by lines ---------------------------------------------------------------------------

    def line_for(self, client: ClientState, submit: ev.Submit) -> Line | None:
        """Return the line that a call says it went by. If that can't be: hang up, return None."""
        line = self._lines.get(submit.line)
        usual = not (submit.contains or submit.spec) and submit.returns == 1
        good = line is not None and line.is_open and line.caller == client.number
        if line is None or not (good and usual and line.objects.issuperset(submit.deps)):
            self._state.hang_up(client.number, "a call by a line that isn't its own")
        elif line.actor is None and (submit.actor or submit.function not in line.functions):
            self._state.hang_up(client.number, "a task by a line that isn't for it")
        elif line.actor is not None and (submit.function or line.actor.id != submit.actor):
            self._state.hang_up(client.number, "a call by another actor's line")
        else:
            return line
        return None

    def settled(self, client: ClientState, event: ev.Settled) -> None:
        """Finish a reported call, whose result its caller got by the line."""
        state, task, value = self._state, self._scheduler.tasks.get(event.task), event.value
        if task is None and event.task >> ev.ID_BITS == client.hello.prefix:
            return None  # its worker has reported the result before
        if task is None or task.owner != client.number or task.line is None:
            return state.hang_up(client.number, "a result that isn't its own to tell")
        if not self._may_tell(client, task.line, (value,)):
            return None
        if task.final_value is not None and value.header.startswith(b"!cancelled"):
            value = task.final_value
        self._scheduler.finish(task)
        state.catalog.unpin_all(task)
        return self._objects.result(event.task, value)

    def on_settled_calls(self, client: ClientState, event: ev.SettledCalls) -> Line | None:
        """Seal results of calls that their caller reports only now that they are over: they never
        become tasks. Return their line; if the message can't be right, hang up and return None."""
        state, catalog = self._state, self._state.catalog
        line, values = self._lines.get(event.line), event.values
        if line is None or line.caller != client.number or not line.is_open:
            state.hang_up(client.number, "results of a line that isn't its own")
            return None
        known = self._scheduler.tasks
        if len(event.tasks) != len(values) or len(set(event.tasks)) < len(values):
            state.hang_up(client.number, "a run of calls that it says too little of")
            return None
        for task in event.tasks:
            if not state.owns(client, task):
                return None
            if task in known or catalog.get(task) is not None:
                state.hang_up(client.number, "a task submitted twice")
                return None
        if not self._may_tell(client, line, values):
            return None
        for task, value in zip(event.tasks, values, strict=True):
            catalog.hold(entry := catalog.make(task), client.number)
            catalog.seal(entry, value)
        return line

    def _may_tell(self, client: ClientState, line: Line, values: Sequence[ev.Value]) -> bool:
        """True if a caller may report these results of calls by the line. Hangs up if not."""
        sizes = [len(value.header) for value in values if not value.failed]
        if any(value.segment or value.contains or value.digest for value in values):
            self._state.hang_up(client.number, "a result that its worker has to tell")
        elif not self._admits(line, sum(size for size in sizes if size > 1)):
            self._state.hang_up(client.number, "more results than there can be")
        else:
            return True
        return False

    def unheard(self, client: ClientState, event: ev.Unheard) -> None:
        """Count results of calls that were never reported, because nobody wants them."""
        line = self._lines.get(event.line)
        if line is None or line.caller != client.number or not line.is_open:
            self._state.hang_up(client.number, "results of a line that isn't its own")
        elif not self._admits(line, event.nbytes):
            self._state.hang_up(client.number, "more results than there can be")

    def _admits(self, line: Line, nbytes: int) -> bool:
        """True if the line's worker may send so many bytes in messages; they count."""
        worker = line.worker.client
        gone = worker is None or worker not in self._state.clients
        return gone or self._state.budget.admits_inline(worker or 0, nbytes)

    def is_already_reported(self, worker: Worker, done: ev.Done) -> bool:
        """True if the caller has reported, or will report, the result: Done is then ignored."""
        if not done.values and done.task in worker.reported:  # the caller reports it, or has
            worker.reported.discard(done.task)
            return True
        if done.task not in worker.reported or done.task in worker.sent:
            worker.reported.discard(done.task)
            return False
        worker.reported.discard(done.task)
        assert worker.client is not None
        placed = [value for value in done.values if value.segment]  # `settled` counted others
        if not self._state.budget.admits(worker.client, placed):
            self._state.hang_up(worker.client, "an extent that is not its own")
        else:
            for value in done.values:
                self._objects.result(0, value)  # drop it: the result is known
        return True

    def relay(self, client: ClientState, event: ev.Relay) -> None:
        """Forward to a line's caller what must arrive after the worker's other messages."""
        line = self._lines.get(event.line)
        if line is not None and line.worker.client == client.number:
            self._state.send(line.caller, event)

    def task(self, client: ClientState, submit: ev.Submit) -> Task:
        """Return a new task with its parent, which may have come by a line and not be known yet."""
        scheduler, number = self._scheduler, client.number
        worker = scheduler.by_client.get(number)
        if not client.worker or worker is None:
            return Task(submit, number)
        parent = scheduler.tasks.get(submit.parent)
        if parent is not None and parent.worker is worker:
            return Task(submit, number, parent)
        line = self.that_brought(worker, submit.parent) if submit.parent else None
        if line is None:
            return Task(submit, number, worker.running)
        task = Task(submit, number, scheduler.tasks.get(submit.root))
        task.parent, task.parent_id = None, submit.parent
        if submit.root and task.audience == number:
            prefix = submit.root >> ev.ID_BITS
            clients = self._state.clients.values()
            task.audience = next((c.number for c in clients if c.hello.prefix == prefix), number)
        elif not submit.root:
            task.audience = line.caller
        return task

    def that_brought(self, worker: Worker, task: int) -> Line | None:
        """Return the worker's line that a call came by that isn't known yet, if there is one."""
        for line in worker.lines.values():
            caller = self._state.clients.get(line.caller)
            if caller and task >> ev.ID_BITS == caller.hello.prefix:
                return line
        return None

    def callers(self, client: int) -> list[int]:
        """Return the clients whose calls may run in this client without being known yet."""
        worker = self._scheduler.by_client.get(client)
        lines = {} if worker is None else worker.lines
        return [line.caller for line in lines.values() if line.is_open]

    # -- closing lines ----------------------------------------------------------------------------

    def on_worker_lost(self, worker: Worker, crash: str, words: str, event: WorkerExited) -> None:
        """End the lines of a dead worker, and ask their callers what they have heard."""
        for line in [line for line in self._state.lending.values() if line.worker is worker]:
            self._all_unlent(line)
        begun = dict(event.begun)
        for line in list(worker.lines.values()):
            line.has_ended, line.crash = True, (crash, words, event.running)
            line.begun = begun.get(line.number, -1)
            if not (line.is_offered and line.caller in self._state.clients):
                self._forget(line)
            elif line.is_open and not line.is_returned:
                self._state.send(line.caller, do.LineEnded(line.number, line.begun))
            # Otherwise the caller is told when it sends Attached (it may use a lease before that
            # arrives), or was told that the line is returned, and will send LineClosed.

    def is_in_use(self, line: Line) -> bool:
        """True if calls may come by the line: it is open, and its caller connected."""
        return line.is_open and line.caller in self._state.clients

    def closed(self, client: ClientState, event: ev.LineClosed) -> None:
        """Close an ended or returned line that its caller has read to the end."""
        line = self._lines.get(event.line)
        if line is None or line.caller != client.number or not (line.has_ended or line.is_returned):
            self._state.hang_up(client.number, "a line closed that hasn't ended")
        elif line.has_ended:
            line.unbegun = _behind(line, event.unbegun)
            self._forget(line)
        else:
            self._detach(line)

    def returned(self, client: ClientState, event: ev.Returned) -> None:
        """Handle a worker's answer to TakeBack. See `core.leases`."""
        worker = self._scheduler.by_client.get(client.number)
        line = self._state.lending.get(event.line) or (None if worker is None else worker.lease)
        if line is None or line.number != event.line or line.worker is not worker:
            return self._state.hang_up(client.number, "a line returned that isn't its own")
        if not event.is_over:
            return self._unlend(line, frozenset(event.kept))
        line.is_returned = True
        worker.since = self._state.now  # it was busy until now: its results may be wanted
        self._all_unlent(line)
        if line.number in self._lines:
            self._state.send(line.caller, do.LineEnded(line.number))
        return self._scheduler.update_slot(worker)

    def _unlend(self, line: Line, kept: frozenset[int] = frozenset()) -> None:
        """Take back the objects lent with a line, except those that its worker still reads."""
        given, line.lent = line.lent - kept, line.lent & kept
        line.is_kept = True
        for id in given:
            self._state.catalog.unlend(id)

    def _all_unlent(self, line: Line) -> None:
        self._unlend(line)
        self._state.lending.pop(line.number, None)

    def on_client_left(self, number: int) -> None:
        for line in [line for line in self._lines.values() if line.caller == number]:
            if line.has_ended:
                self._forget(line)
            else:
                self._detach(line)
        del self._counts[number]
        for actor in self._scheduler.actors.values():
            actor.last.pop(number, None)
            actor.needed.pop(number, None)

    def _detach(self, line: Line) -> None:
        """Have a line's worker close it. The results of its reported calls come from the worker."""
        if line.asked_at is None:
            line.asked_at = self._state.now
        if line.worker.client is not None:
            for task in line.tasks.values():
                if task.submit.task not in line.worker.reported:
                    self._report(line.worker, task)
            self._state.send(line.worker.client, do.Detach(line.number))
        for task in list(line.tasks.values()):
            line.detach_call(task)
        self._forget(line)

    def _forget(self, line: Line) -> None:
        del self._lines[line.number], line.worker.lines[line.number]
        self._counts[line.caller] -= 1
        if not line.is_open:
            self._state.out.append(do.Disconnect(line.number))
        if line.actor is None:
            self.leases.pop(line.caller, None)
            if line.has_ended:
                self.on_lease_closed(line)
            return
        if line.has_ended:
            self.on_closed(line)
        line.actor.closed(line)


def _behind(line: Line, first: int) -> set[Task]:
    """Return the call ``first`` and those after it: by the line; if calls run in turn, all."""
    in_turn = line.actor is not None and line.actor.in_order and line.actor.at_a_time == 1
    own = [t for t in line.tasks.values() if in_turn or t.submit.line == line.number]
    place = next((n for n, t in enumerate(own) if t.submit.task == first), len(own))
    return set(own[place:])

"""Component: actor lifecycle: create, restart, kill. `tasks.Actor` decides which call is next."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.entry import FREED
from workbench.core.lines import LineManager
from workbench.core.loop_events import WorkerExited
from workbench.core.object_manager import ObjectManager
from workbench.core.state import ClientState, State
from workbench.core.tasks import Actor, ActorState, Line, Task, Worker


class ActorManager:
    def __init__(self, state: State, objects: ObjectManager, lines: LineManager) -> None:
        self._state = state
        self._objects = objects
        self._lines = lines
        lines.on_closed = self._on_line_closed
        self._catalog = state.catalog
        self._scheduler = state.scheduler
        self.without_worker: list[Actor] = []  # get one when this batch settles
        self._waiting: deque[Actor] = deque()  # wait for processors

    def create(self, client: ClientState, event: ev.Create) -> None:
        state, submit = self._state, event.creation
        entry = self._catalog.get(submit.actor)
        is_own = submit.task == submit.actor and not submit.returns
        if not is_own or not state.owns(client, submit.actor):
            return state.hang_up(client.number, "an actor that is not its own")
        if entry is None or submit.task in self._scheduler.actors:
            return state.hang_up(client.number, "an actor without an object, or made twice")
        if not state.budget.admits_inline(client.number, len(submit.args)):
            return state.hang_up(client.number, "more arguments than it may send")
        task = self._lines.task(client, submit)
        limits = event.restarts, event.concurrency, event.in_order
        actor = Actor(submit.actor, submit.name, task, *limits, dict(event.groups))
        task.actor = self._scheduler.actors[actor.id] = actor
        why = self._catalog.pin_arguments(task)
        state.pool.try_again()
        if event.name and self._catalog.named(event.name) is not None:
            why = died_error(actor.id, f"There is another actor of the name of {actor.name}.")
        elif event.name and event.detached:
            self._catalog.bind(event.name, entry)
        elif event.name:
            self._catalog.bind_loosely(event.name, entry)
        self._scheduler.add(task)
        if why is not None:
            self.dies(actor, why)
        else:
            self._needs_worker(actor)
        if event.name:
            self._objects.find(client, ev.Find(event.request, event.name))
        return None

    def start_workers(self) -> None:
        """Fork a worker for each actor that has none and for which there is room."""
        pool, actors = self._state.pool, self.without_worker
        if pool.waits(self._state.now) and not pool.broken:
            return
        self.without_worker = []
        for actor in chain(actors, self._next_waiting()):
            if actor.state is ActorState.DEAD:
                continue  # it died meanwhile
            if pool.broken or len(self._scheduler.workers) >= pool.most:
                why = pool.last_words or f"there are {pool.most} workers already."
                text = f"No worker could be started for {actor.name}: {why}"
                self.dies(actor, died_error(actor.id, text))
            else:
                self._state.out.append(do.Fork(pool.spawn(actor)))

    @property
    def has_work(self) -> bool:
        return bool(self.without_worker or self._waiting)

    def _needs_worker(self, actor: Actor) -> None:
        (self._waiting if actor.cpus else self.without_worker).append(actor)

    def _next_waiting(self) -> Iterator[Actor]:
        """Yield waiting actors, in order, while there are processors. Those that tasks use count as
        free: tasks end, and no new ones start meanwhile."""
        scheduler, waiting = self._scheduler, self._waiting
        while waiting and (
            waiting[0].state is ActorState.DEAD
            or scheduler.actor_cpus + min(waiting[0].cpus, scheduler.cpus) <= scheduler.cpus
        ):
            yield waiting.popleft()

    def pin_actor(self, task: Task) -> ev.Value | None:
        """Have a call keep its actor alive; return the value that it fails with if that is dead."""
        actor = self._scheduler.actors.get(task.submit.actor)
        entry = self._catalog.get(task.submit.actor)
        if actor is None or entry is None or entry.state is FREED:
            text = "There is no such actor: its last handle was gone."
            return died_error(task.submit.actor, text)
        self._catalog.pin_for_task(entry, task)
        return actor.why

    def on_created(self, actor: Actor, value: ev.Value) -> None:
        if value.failed:
            self.dies(actor, value)
            self.release(actor)
        elif actor.state is ActorState.STARTING:
            actor.state = ActorState.ALIVE
            self._scheduler.notify(actor)

    def on_worker_lost(
        self, actor: Actor, worker: Worker, tasks: list[Task], crash: str, event: WorkerExited
    ) -> None:
        """Handle the death of an actor's worker. Calls that a line may still answer come later."""
        others = self._without_joined(actor, worker, tasks)
        words, last = last_words(event), place_of(event.running, others)
        if actor.state is ActorState.DEAD:
            assert actor.why is not None
            for task in others:
                self._state.fail(task, actor.why)
        elif event.unforked and not self._state.pool.broken:  # never began: not a restart
            self._begin_again(actor)
        elif not actor.restarts:
            ran = next((t.submit.name for t in tasks if t.submit.task == event.running), "")
            if not ran and others and len(others) == len(tasks):
                ran = others[0].submit.name  # as far as is known
            self.dies(actor, crash_error(actor, crash, ran, words), others)
        else:
            actor.restarts -= actor.restarts > 0
            actor.creation_task.made += 1
            actor.state = ActorState.STARTING
            # Calls by lines whose callers are gone: begun before another caller's, which ran last.
            begun = {t for t in others if t.submit.task in worker.reported}
            if any(t.submit.task == event.running for t in others):
                begun.clear()  # none after that one had begun
            self._restarted(actor, others, last, crash, words, begun=begun)
            self._begin_again(actor)
        self._lines.on_worker_lost(worker, crash, words, event)

    def _begin_again(self, actor: Actor) -> None:
        self._scheduler.restart(actor)
        self._needs_worker(actor)

    def _without_joined(self, actor: Actor, worker: Worker, tasks: list[Task]) -> list[Task]:
        """Add lost calls to those of their callers' lines, if these may still be in use. Return the
        others."""
        others = []
        for task in tasks:
            line = actor.lines.get(task.owner)
            if line is not None and line.worker is worker and self._lines.is_in_use(line):
                line.join(task)
            else:
                others.append(task)
        for line in actor.lines.values():
            if line.worker is worker and self._lines.is_in_use(line):
                actor.hold_back(line.caller)
        return others

    def _on_line_closed(self, line: Line) -> None:
        """Retry or fail the calls of a closed line whose results its caller hasn't heard.

        A call that may have begun counts as begun; if calls run in turn, none after the one that
        began last. Those before it may have results that weren't sent.
        """
        actor, tasks, (crash, words, running) = line.actor, list(line.tasks.values()), line.crash
        assert actor is not None
        for task in tasks:
            line.detach_call(task)
        if actor.state is ActorState.DEAD:
            ran = next((t.submit.name for t in tasks if t.submit.task == running), "")
            if ran and actor.why == crash_error(actor, crash, "", words):  # now the call is known
                actor.why = crash_error(actor, crash, ran, words)
            assert actor.why is not None
            place = place_of(running, tasks) if actor.at_a_time == 1 else 0
            for number, task in enumerate(tasks):
                why = not_begun_error(actor.why, task) if task in line.unbegun else actor.why
                if number < place:
                    what = b"had ended, but what it returned was not handed over yet"
                    why = _with(why, task, what)
                self._state.fail(task, why)
            return
        last = next((n for n, t in enumerate(tasks) if t.submit.task == running), len(tasks))
        self._restarted(actor, tasks, last, crash, words, line.unbegun)
        self._scheduler.notify(actor)

    def _restarted(
        self,
        actor: Actor,
        tasks: list[Task],
        last: int,
        crash: str,
        words: str,
        unbegun: Collection[Task] = (),
        begun: Collection[Task] = (),
    ) -> None:
        """Retry or fail the calls that were lost with an actor's worker. ``last`` is the index of
        the one that began last; if that isn't known, any except the ``unbegun`` may have begun.
        Calls in ``begun`` had begun wherever they are."""
        again: list[Task] = []
        for number, task in enumerate(t for t in tasks if t is not actor.creation_task):
            # Those after the last one had not begun.
            may_have = task not in unbegun and number < last + actor.at_a_time
            may_have = may_have or task in begun
            task.attempts += may_have
            if not may_have or task.attempts <= task.submit.retries:
                again.append(task)
                continue
            name = task.submit.name
            when = (
                f" while it ran `{name}`"
                if last < len(tasks)
                else f", perhaps while it ran `{name}`"
            )
            if actor.at_a_time == 1 and last < len(tasks) and task in tasks[:last]:
                when = f" before it had handed over what `{name}` returned"
            text = f"{crash}{when}; {actor.name} is made again.{words}"
            self._state.fail(task, died_error(actor.id, text, "unavailable"))
        actor.put_back(self._state.repeatable(again))

    def kill_actor(self, client: ClientState, event: ev.KillActor) -> None:
        actor = self._scheduler.actors.get(event.actor)
        if actor is None or actor.state is ActorState.DEAD:
            return
        worker = actor.worker
        if not (event.restart and actor.restarts):
            text = f"{actor.name} was ended by kill()."
            self.dies(actor, died_error(actor.id, text))
        if worker is not None:
            self._scheduler.send_no_more(worker)  # later calls are for the next worker
            self._state.out.append(do.Kill(worker.number))

    def leave(self, client: ClientState, event: ev.Leave) -> None:
        """End an actor whose own code has called ``exit_actor()``."""
        worker = self._scheduler.by_client.get(client.number)
        if worker is not None and worker.actor is not None:
            text = f"{worker.actor.name} left by exit_actor()."
            self.dies(worker.actor, died_error(worker.actor.id, text))
            self.release(worker.actor)

    def dies(self, actor: Actor, why: ev.Value, tasks: Iterable[Task] = ()) -> None:
        """Mark an actor dead: its unfinished calls fail, and ``tasks``."""
        if actor.state is ActorState.DEAD:
            return
        actor.state, actor.why = ActorState.DEAD, why
        worker = actor.worker
        calls = [*tasks, *(worker.sent.values() if worker is not None else ())]
        for task in calls:  # callers may have results of calls by lines
            if not task.is_creation and task.line is None:
                self._state.fail(task, why)
        for task in actor.calls:
            self._state.fail(task, not_begun_error(why, task))
        if not actor.creation_task.is_over:
            self._scheduler.finish(actor.creation_task)
        self._catalog.unpin_all(actor.creation_task)
        entry = self._catalog.get(actor.id)
        for name in self._catalog.names_of(entry) if entry is not None else ():
            self._catalog.bind(name, None)

    def retire(self, actor: Actor) -> None:
        del self._scheduler.actors[actor.id]
        self.dies(actor, died_error(actor.id, "Its last handle is gone."))
        self.release(actor)
        actor.creation_task.actor = None  # breaks a cycle: the server runs no garbage collector

    def release(self, actor: Actor) -> None:
        """End the actor's worker, in order if it is connected."""
        worker = actor.worker
        if worker is not None and worker.client is not None:
            self._state.dismiss(worker, "its actor has ended")
        elif worker is not None:
            self._state.out.append(do.Kill(worker.number))


def crash_error(actor: Actor, crash: str, ran: str, words: str) -> ev.Value:
    """Return the error value for calls of an actor whose worker died; ``ran``: its running call."""
    while_it = f" while it ran `{ran}`" if ran else ""
    return died_error(actor.id, f"{actor.name} died: {crash}{while_it}.{words}")


def not_begun_error(why: ev.Value, task: Task) -> ev.Value:
    """Return the error value for a call that had not begun when its actor died of ``why``."""
    return why if task.attempts else _with(why, task, b"had not begun")  # it may have earlier


def _with(why: ev.Value, task: Task, what: bytes) -> ev.Value:
    if not why.header.startswith(b"!actor"):
        return why  # its creation failed
    code, text, *rest = why.header.split(b"\n")
    told = b"%b `%b` %b." % (text, task.submit.name.encode(), what)
    return ev.Value(b"\n".join([code, told, *rest]), failed=True)


def died_error(actor: int, text: str, code: str = "actor") -> ev.Value:
    return ev.error_value(f"{code} {actor:016x}", text)


def place_of(running: int, tasks: list[Task]) -> int:
    """Return the index of the running task among those sent to a worker; 0 if unknown."""
    return next((n for n, task in enumerate(tasks) if task.submit.task == running), 0)


def last_words(event: WorkerExited) -> str:
    """Return a clause with the end of a worker's stderr; '' if there is none."""
    return f"\nThe last it wrote to stderr:\n{event.stderr}" if event.stderr else ""

"""Tasks from their Submit to their results, and the workers' part in it. A desk of the session's.

Order is the schedule's business; what becomes of actors is that of `actor_manager`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from msgspec.structs import replace

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.actor_manager import ActorManager, last_words, place_of
from workbench.core.catalog import Entry, State
from workbench.core.scheduler import Task, Worker

if TYPE_CHECKING:
    from workbench.core.session import Client, Session


ADVICE = " Give it less at a time, or let fewer run beside it: `num_cpus=2` takes the room of two."
"""For a task that took too much memory."""

PATIENCE = 1.0
"""Seconds for which a task that has overrun its time may go on once it was told to stop."""


class TaskManager:
    """See the module. Methods named like an event handle it.

    Parameters
    ----------
    session : Session
        Whose books it keeps, and who sends what it decides.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.catalog = session.catalog
        self.budget = session.budget
        self.scheduler = session.scheduler
        self.pool = session.pool
        self.actor_manager = ActorManager(session, self)
        self.functions: dict[int, set[int]] = {}  # function id → worker clients that cache it
        self.failing: deque[tuple[Task, ev.Value]] = deque()
        self.interrupts: list[tuple[int, int, set[int]]] = []  # (client, request, tasks not over)

    def submit(self, client: Client, event: ev.Submit) -> None:
        """A new task, or a call of an actor."""
        task = Task(event, client.number, self.audience(client), self.running_in(client))
        results = task.results
        if not self._session.owns(client, event.task):
            return None
        if event.returns > 1 and not self._session.owns(client, results[-1]):
            return None
        find = self.catalog.get
        if event.task in self.scheduler.tasks or any(map(find, results)):
            return self._session.hang_up(client.number, "a task submitted twice")
        why: ev.Value | None = None
        if event.actor:
            why = self.actor_manager.pin(task)
        why = self.pin_arguments(task) or why
        for id in results:  # last: no task can wait for itself
            self.catalog.create_pending(id, client.number)
        task.actor = self.scheduler.actors.get(event.actor)
        is_call = task.actor is not None or not event.actor
        is_job = event.terms is not None and event.terms.job and not client.worker and is_call
        if is_job and not self._session.jobs.enter(task):
            why = why or cancelled(task)
        if task.actor is not None or not event.actor:
            self.scheduler.add(task)
            if why is not None:
                self.fail(task, why)
        else:
            self.actor_manager.refuse(task, why)
        return None

    def pin_arguments(self, task: Task) -> ev.Value | None:
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
                self.catalog.await_by(entry, task)
                task.pending_dependencies += 1
            elif entry.value is not None and entry.value.failed:
                failed = failed or entry.value
            self.pin(task, entry)
        for id in event.contains:
            entry = self.catalog.get(id)
            if entry is not None:
                self.pin(task, entry)
        if lost:
            text = "An argument of the task is not in the store any more. Put it again."
            return ev.error_value(lost, text)
        return failed

    def audience(self, client: Client) -> int:
        """Who sees the output of what this client submits: of a task's tasks, who sees its own."""
        running = self.running_in(client)
        return client.number if running is None else running.audience

    def running_in(self, client: Client) -> Task | None:
        """The task that runs in this client, if it is a worker and has one."""
        worker = self.scheduler.by_client.get(client.number)
        return next(iter(worker.sent.values()), None) if worker is not None else None

    def pin(self, task: Task, entry: Entry) -> None:
        """The object lives as long as the task."""
        self.catalog.need(entry)
        task.pins.append(entry.id)

    def run(self, number: int, task: Task) -> None:
        """Send the task with all it needs that the worker hasn't got."""
        submit = task.submit
        values = []
        for id in submit.deps:
            entry = self.catalog.get(id)
            assert entry is not None
            assert entry.value is not None
            self._session.share(number, entry.value)
            self._session.spilling.used(entry)
            values.append(entry.value)
        if submit.function and number not in self.functions.setdefault(submit.function, set()):
            self.functions[submit.function].add(number)
            entry = self.catalog.get(submit.function)
            assert entry is not None
            assert entry.value is not None
            self._session.share(number, entry.value)
            values.append(entry.value)
        self._session.instruct(
            do.Send(
                number,
                do.Run(
                    submit.task, submit.function, submit.args, submit.deps,
                    tuple(values), submit.returns, submit.name, submit.origin, submit.method,
                    task.attempts >= submit.retries, submit.terms, task.made, task.taken,
                ),
            )
        )  # fmt: skip
        if task.job is not None:
            self._session.jobs.began(task)

    def done(self, client: Client, event: ev.Done) -> None:
        """It is over: its results are what they are."""
        worker = self.scheduler.by_client.get(client.number)
        task = worker.sent.get(event.task) if worker is not None else None
        if worker is None or task is None or len(event.values) != self._owed(task):
            return self._session.hang_up(client.number, "done with a task it was not given")
        abouts = event.abouts or (None,) * len(event.values)
        if len(abouts) != len(event.values):
            return self._session.hang_up(client.number, "results it says too little of")
        if not self.budget.admits(client.number, event.values):
            return self._session.hang_up(client.number, "an extent that is not its own")
        if event.again and task.final_value is None and task.attempts < task.submit.retries:
            task.attempts += 1
            self._again(worker, task)
            return None
        self.scheduler.finish(task, event.seconds)
        if not worker.sent:
            worker.since = self._session.now
        if worker.actor is not None and task is worker.actor.creation_task:
            self.actor_manager.born(worker.actor, event.values[0])
            return None
        for id, value, about in zip(task.results, event.values, abouts, strict=True):
            if task.final_value is not None and value.header.startswith(b"!cancelled"):
                value = task.final_value  # it stopped because it was told to: this is why
            self.result(id, value, about)
        self.unpin(task)
        if task.job is not None and event.values:
            self._session.jobs.ended(task, event.values[0])
        return None

    def _again(self, worker: Worker, task: Task) -> None:
        """It failed, and may be tried again: before all that wait."""
        if worker.actor is not None:
            self.scheduler.recover(task, worker.actor)
        else:
            self._give_back([task])

    def _give_back(self, tasks: list[Task]) -> None:
        """Sent, but not run to the end: in the queue again, if they are still to run."""
        self.scheduler.give_back(tasks)
        self.stop_stopped(tasks)
        self.abandon([task for task in tasks if task in self.scheduler])

    def stop_stopped(self, tasks: list[Task]) -> None:
        """Those that were told to stop won't be sent again."""
        for task in tasks:
            if task.final_value is not None:
                self.fail(task, task.final_value)

    @staticmethod
    def _owed(task: Task) -> int:
        """How many values its Done has: of an actor's creation one, which says how it went."""
        return 1 if task.submit.task == task.submit.actor else task.submit.returns

    def result(self, id: int, value: ev.Value, about: ev.About | None = None) -> None:
        """One result is there."""
        entry = self.catalog.get(id)
        if entry is not None and entry.state is State.PENDING:
            self._session.seal(entry, value, about)
        elif value.segment:  # nobody waits for it any more
            self.budget.seal(value.segment, value.offset, value.length)
            self._session.vacate(value.segment, value.offset)

    def unpin(self, task: Task) -> None:
        """The task needs nothing any more."""
        for id in task.pins:
            entry = self.catalog.get(id)
            assert entry is not None
            self.catalog.unneed(entry)

    def fail(self, task: Task, value: ev.Value) -> None:
        """It can't run, or not again: all its results are ``value``, an inline exception.

        Tasks that wait for those results fail in turn. A loop, not recursion: such a chain can
        be longer than the stack; only the outermost call runs it.
        """
        self.failing.append((task, value))
        if len(self.failing) > 1:
            return
        while self.failing:
            task, value = self.failing[0]
            if task.actor is not None and task is task.actor.creation_task:
                self.actor_manager.dies(task.actor, value)
                self.actor_manager.release(task.actor)
            elif task in self.scheduler:
                self.scheduler.finish(task)
                self.unpin(task)
                for id in task.results:
                    self.result(id, value)
                if task.job is not None:
                    self._session.jobs.ended(task, value)
            self.failing.popleft()

    def abandon(self, tasks: list[Task]) -> None:
        """Drop those that haven't begun, whose submitter is gone and whose results nobody wants.

        Background cells are wanted for what they show. Births of actors are left: others may hold
        them, and with the last call an actor goes by itself. From the last to the first: what one
        waits for was submitted before it.
        """
        for task in reversed(tasks):
            if task.actor is not None and task is task.actor.creation_task:
                continue
            gone = task.owner not in self._session.clients
            if task.worker is None and gone and task not in self._session.jobs:
                results = map(self.catalog.get, task.results)
                if not any(e is not None and e.state is State.PENDING for e in results):
                    self.scheduler.finish(task)
                    self.unpin(task)

    def give_up(self) -> None:
        """Nobody will ever run what is queued."""
        text = f"No worker can be started: {self.pool.last_words} before it said a word."
        for task in list(self.scheduler.queue):
            self.fail(task, ev.error_value("crashed", text))

    def output(self, client: Client, event: ev.Output) -> None:
        """Pass on what a task shows."""
        task = self.scheduler.tasks.get(event.task)
        if task is not None and task.job is not None:
            self._session.jobs.output(task.job, replace(event, worker=client.worker))
        elif task is not None:
            origin, worker = task.submit.origin, client.worker
            output = ev.Output(event.task, event.kind, event.data, origin, worker)
            self._session.send(task.audience, output)

    def cancel(self, client: Client, event: ev.Cancel) -> None:
        """Somebody doesn't want an object any more."""
        tasks = self._session.jobs.cancelled(event.object)
        maker = self.scheduler.maker(event.object)
        if not tasks and maker is not None:
            tasks = [maker]
        for task in tasks:
            self._stop_again(task, event.force, event.recursive)

    def interrupt(self, client: Client, event: ev.Interrupt) -> None:
        """A person doesn't want what a cell began; they wait until it is over."""
        tasks = [task for job in event.jobs for task in self._session.jobs.cancelled(job)]
        tasks += [
            task
            for task in self.scheduler.tasks.values()
            if task.owner == client.number and task.submit.origin == event.origin
            and task.job is None and (task.actor is None or task is not task.actor.creation_task)
        ]  # fmt: skip
        self.interrupts.append((client.number, event.request, {t.submit.task for t in tasks}))
        for task in tasks:
            self._stop_again(task, event.force)

    def _stop_again(self, task: Task, force: bool = False, recursive: bool = True) -> None:
        """As `stop`, of one that may be over by now: it went with another."""
        if task in self.scheduler:
            self.stop(task, force, recursive)

    def answer_interrupts(self) -> None:
        """Tell those who wait that what they have stopped is over."""
        left = []
        for number, request, tasks in self.interrupts:
            tasks &= self.scheduler.tasks.keys()
            if tasks:
                left.append((number, request, tasks))
            else:
                self._session.send(number, do.Answer(request))
        self.interrupts = left

    def deadline(self) -> float | None:
        """When `stop_overdue` may have something to stop."""
        return min(self.scheduler.limits.values(), default=None)

    def stop_overdue(self) -> None:
        """Tasks that have run for too long are told to stop; who doesn't hear that is killed."""
        now = self._session.now
        for task in [task for task, end in self.scheduler.limits.items() if end <= now]:
            worker = task.worker
            assert worker is not None
            if task.final_value is None:
                limit = f"{task.terms.timeout:g} s"
                text = f"`{task.submit.name}` ran longer than its timeout, {limit}."
                self.stop(task, why=ev.error_value("timeout", text))
                self.scheduler.limits[task] = now + PATIENCE
            else:
                del self.scheduler.limits[task]
                if worker.actor is None:  # an actor would lose all it has
                    self._session.instruct(do.Kill(worker.number))

    def stop(
        self,
        task: Task,
        force: bool = False,
        recursive: bool = True,
        why: ev.Value | None = None,
    ) -> None:
        """Nobody wants its results: drop it, or have it interrupted. Its getters hear of it."""
        children = self.scheduler.children(task) if recursive else []
        worker = task.worker
        why = why or cancelled(task)
        if worker is None:
            self.fail(task, why)
        elif worker.client is not None:
            task.final_value = why
            if force and worker.actor is None and task is next(iter(worker.sent.values())):
                self._session.instruct(do.Kill(worker.number))
            else:
                self._session.send(worker.client, do.Stop(task.submit.task))
        for child in children:
            if child in self.scheduler:
                self.stop(child, force, recursive)

    def gave_back(self, client: Client, event: ev.GaveBack) -> None:
        """A worker won't begin these."""
        worker = self.scheduler.by_client.get(client.number)
        if worker is None:
            return
        if event.asked:
            worker.recalled = False
        tasks = [worker.sent[id] for id in dict.fromkeys(event.tasks) if id in worker.sent]
        self._give_back(tasks)

    def blocked(self, client: Client, event: ev.Blocked) -> None:
        """A worker's task waits for others."""
        worker = self.scheduler.by_client.get(client.number)
        if worker is not None:
            self.pool.block(worker)

    def unblocked(self, client: Client, event: ev.Unblocked) -> None:
        """It goes on."""
        worker = self.scheduler.by_client.get(client.number)
        if worker is not None:
            self.pool.unblock(worker)

    def worker_exited(self, event: ev.WorkerExited) -> None:
        """A process is gone: try again what it ran, move on what was behind."""
        worker, crash = self.pool.exited(event.worker, event.status)
        if worker is None:
            return
        tasks = self.scheduler.lost(worker)
        if worker.actor is not None:
            self.actor_manager.lost(worker.actor, tasks, crash, event)
            return
        # Those after the running one had not begun. Those before it are over, but their results
        # were not handed over: they count as run, too.
        last = place_of(event.running, tasks)
        words = ADVICE if worker.kill_reason else last_words(event)
        for task in tasks[: last + 1]:
            task.attempts += 1
            final = task.attempts > task.submit.retries or (worker.alone and task is tasks[last])
            if final and task.final_value is None:
                text = f"{crash} while it ran `{tasks[last].submit.name}`"
                if task is not tasks[last]:
                    text += f", before it had handed over what `{task.submit.name}` returned"
                code = "memory" if worker.kill_reason else "crashed"
                self.fail(task, ev.error_value(code, f"{text}.{words}"))
        self._give_back([task for task in tasks if task in self.scheduler])


def cancelled(task: Task) -> ev.Value:
    """What the results of a task are that somebody cancelled."""
    return ev.error_value("cancelled", f"`{task.submit.name}` was stopped.")

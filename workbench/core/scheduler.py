"""Tasks and workers: which task runs where, and when. Knows object ids, not objects.

Short tasks are sent to a worker in batches, so that it never waits for the next one; a task whose
function isn't known to be short is sent only to a worker with nothing else to do, so that nobody
queues behind it. Whatever was sent too early is recalled as soon as a worker is idle.

The queue's first task is always the next: one that needs many processors waits until they are
free, and nobody overtakes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from workbench.core.actors import Actor
from workbench.core.events import USUAL, Submit, TaskSpec, Value
from workbench.core.jobs import Job
from workbench.core.queue import Queue

BATCH_SECONDS = 0.002
"""A worker is sent up to this much expected work ahead: some ten round trips' worth."""

BATCH_TASKS = 128
"""... and never more tasks than this."""

RECENT = 0.2
"""Weight of the newest run in a function's expected seconds."""

ONE = USUAL.cpus
"""One processor, in the unit of `TaskSpec.cpus`."""


class Task:
    """One task. ``missing`` counts the dependencies that aren't ready."""

    __slots__ = (
        "actor",
        "attempts",
        "audience",
        "cpus",
        "final_value",
        "job",
        "made",
        "owner",
        "parent",
        "pending_dependencies",
        "pins",
        "queued",
        "seconds",
        "submit",
        "taken",
        "worker",
    )

    def __init__(
        self, submit: Submit, owner: int, audience: int, parent: Task | None = None
    ) -> None:
        self.submit = submit
        self.owner = owner
        self.audience = audience  # the client that sees its output: a task's own isn't its worker
        self.parent = parent  # the task that submitted it
        self.job: Job | None = None if parent is None else parent.job  # that it is, or belongs to
        self.actor: Actor | None = None  # whose call it is, or whose birth
        self.cpus = ONE if submit.terms is None else submit.terms.cpus
        self.final_value: Value | None = None  # it was told to stop; what its results are then
        self.made = 0  # items, if it is a stream
        self.taken = 0  # those that its reader took
        self.pins: list[int] = []  # objects that live as long as it does, one entry per pin
        self.pending_dependencies = 0
        self.attempts = 0
        self.seconds = 0.0  # what was expected of it when it was sent
        self.queued = False
        self.worker: Worker | None = None

    @property
    def terms(self) -> TaskSpec:
        """What it asks for."""
        return self.submit.terms or USUAL

    @property
    def results(self) -> range:
        """The objects it makes."""
        return range(self.submit.task, self.submit.task + self.submit.returns)


class Worker:
    """One worker process, from its fork to its end. ``number`` is the pool's, never reused."""

    __slots__ = (
        "actor",
        "alone",
        "blocked",
        "client",
        "cpus",
        "kill_reason",
        "load",
        "number",
        "pid",
        "recalled",
        "sent",
        "since",
        "used",
    )  # fmt: skip

    def __init__(self, number: int, actor: Actor | None = None) -> None:
        self.number = number
        self.actor = actor  # whose it is, for ever; None in the pool
        self.pid = 0
        self.client: int | None = None  # None until its Hello
        self.sent: dict[int, Task] = {}  # in order; the first one runs
        self.load = 0.0  # expected seconds of what was sent
        self.cpus = ONE  # what each of those needs
        self.used = 0  # what is counted for it in `Scheduler.used`
        self.blocked = 0  # its task waits for others (nested waits count)
        self.recalled = False  # a GaveBack is due
        self.since = 0.0  # idle, or busy, since this time
        self.kill_reason = ""  # why we killed it: a clause
        self.alone = False  # nobody else worked then

    @property
    def idle(self) -> bool:
        """Ready for any task."""
        return self.client is not None and not self.sent and not self.blocked and self.actor is None


class Scheduler:
    """All tasks that aren't done, and all workers.

    Parameters
    ----------
    processors : int
        What the pool's tasks may use at a time.
    """

    def __init__(self, processors: int) -> None:
        self.cpus = processors * ONE
        self.used = 0  # of those, by the pool's workers that are busy and don't wait
        self.tasks: dict[int, Task] = {}
        self.workers: dict[int, Worker] = {}  # by number
        self.by_client: dict[int, Worker] = {}
        self.pool: dict[int, Worker] = {}  # by client, without those of actors
        self.idle: dict[int, Worker] = {}  # by client, who has been idle for longest first
        self._accepting: dict[int, Worker] = {}  # not found full since they last had less to do
        self._ahead: dict[int, Worker] = {}  # sent more than they can run now
        self.working = 0  # the pool's workers that have, or will have, a slot: not blocked
        self.pooled = 0  # all workers but those of actors
        self.actors: dict[int, Actor] = {}
        self.limits: dict[Task, float] = {}  # when those with a time limit must have ended
        self._notified: dict[int, Actor] = {}  # may have calls to send
        self.queue = Queue()  # all dependencies ready
        self.owners: dict[int, int] = {}  # client → how many tasks of its aren't done
        self._several: dict[int, Task] = {}  # by each result but the first
        self._children: dict[int, dict[int, Task]] = {}  # by who submitted them
        self._seconds: dict[int, float] = {}  # function id → expected seconds

    # -- tasks --------------------------------------------------------------------------------

    def __contains__(self, task: Task) -> bool:
        return self.tasks.get(task.submit.task) is task

    def maker(self, object: int) -> Task | None:
        """The task that is to make this object."""
        return self.tasks.get(object) or self._several.get(object)

    def children(self, task: Task) -> list[Task]:
        """Those it has submitted."""
        return list(self._children.get(task.submit.task, {}).values())

    def add(self, task: Task) -> None:
        """A new task; in the queue at once unless it waits for something."""
        self.enter(task)
        task.cpus = min(task.cpus, self.cpus)
        actor = task.actor
        if actor is not None:
            if task is not actor.creation_task:
                actor.add(task)
            self.notify(actor)
        elif not task.pending_dependencies:
            self.queue.append(task)

    def enter(self, task: Task) -> None:
        """It is one that isn't done: a new one, or a birth that is needed once more."""
        self.tasks[task.submit.task] = task
        self.owners[task.owner] = self.owners.get(task.owner, 0) + 1
        if task.submit.returns > 1:
            self._several.update(dict.fromkeys(task.results[1:], task))
        if task.parent is not None:
            self._children.setdefault(task.parent.submit.task, {})[task.submit.task] = task

    def dependency_ready(self, task: Task) -> None:
        """One dependency of the task is ready."""
        if task in self:
            task.pending_dependencies -= 1
            actor = task.actor
            if actor is not None:
                actor.advance(task.owner)
                self.notify(actor)
            elif not task.pending_dependencies:
                self.queue.append(task)

    def notify(self, actor: Actor) -> None:
        """It may have calls to send."""
        self._notified[actor.id] = actor

    def finish(self, task: Task, seconds: float | None = None) -> None:
        """It is over: done after ``seconds``, or given up."""
        del self.tasks[task.submit.task]
        self.owners[task.owner] -= 1
        if not self.owners[task.owner]:
            del self.owners[task.owner]
        if task.submit.returns > 1:
            for id in task.results[1:]:
                del self._several[id]
        if task.parent is not None:
            siblings = self._children[task.parent.submit.task]
            del siblings[task.submit.task]
            if not siblings:
                del self._children[task.parent.submit.task]
        worker = task.worker
        actor = task.actor
        if worker is not None:
            self._unsend(worker, task)
        elif task.queued:
            self.queue.remove(task)
        elif actor is not None and task is not actor.creation_task:
            actor.remove(task)
        if actor is not None:
            self.notify(actor)
        elif seconds is not None:
            known = self._seconds.get(task.submit.function, seconds)
            self._seconds[task.submit.function] = known + RECENT * (seconds - known)

    def give_back(self, tasks: list[Task]) -> None:
        """Sent, but not started: first in the queue again, in the order they had."""
        for task in reversed([task for task in tasks if not task.submit.actor]):
            if task.worker is not None:
                self._unsend(task.worker, task)
            self.queue.appendleft(task)

    def recover(self, task: Task, actor: Actor) -> None:
        """A call to be sent again, before all that wait."""
        if task.worker is not None:
            self._unsend(task.worker, task)
        actor.put_back([task])
        self.notify(actor)

    def forget_function(self, id: int) -> None:
        """The function's object is gone."""
        self._seconds.pop(id, None)

    def _unsend(self, worker: Worker, task: Task) -> None:
        del worker.sent[task.submit.task]
        worker.load = worker.load - task.seconds if worker.sent else 0.0
        task.worker = None
        if self.limits:
            self.limits.pop(task, None)
        self._note(worker)

    # -- workers ------------------------------------------------------------------------------

    def new_worker(self, number: int, actor: Actor | None = None) -> Worker:
        """One more process was asked for: for the pool, or for an actor."""
        worker = self.workers[number] = Worker(number, actor)
        if actor is not None:
            actor.worker = worker
        else:
            self.pooled += 1
            self.working += 1
        return worker

    def arrived(self, number: int, client: int, now: float) -> Worker | None:
        """Its Hello came. None: nobody asked for such a worker."""
        worker = self.workers.get(number)
        if worker is None or worker.client is not None:
            return None
        worker.client = client
        worker.since = now
        self.by_client[client] = worker
        if worker.actor is None:
            self.pool[client] = worker
            self._note(worker)
        else:
            self.notify(worker.actor)
        return worker

    def lost(self, worker: Worker) -> list[Task]:
        """It is gone; returns what had been sent to it, the running one first."""
        if self.workers.pop(worker.number, None) is not None and worker.actor is None:
            self.pooled -= 1
            self.working -= not worker.blocked
        if worker.client is not None:
            self.disconnected(worker.client)
        if worker.actor is not None and worker.actor.worker is worker:
            worker.actor.worker = None
        tasks = list(worker.sent.values())
        for task in tasks:
            self._unsend(worker, task)
        return tasks

    def disconnected(self, client: int) -> Worker | None:
        """Its connection is gone; the process will follow."""
        for book in (self.pool, self.idle, self._accepting, self._ahead):
            book.pop(client, None)
        return self.by_client.pop(client, None)

    def block(self, worker: Worker) -> None:
        """Its task waits for others (perhaps once more): its slot is free."""
        self.working -= not worker.blocked and worker.actor is None
        worker.blocked += 1
        self._note(worker)

    def unblock(self, worker: Worker) -> None:
        """One of its waits is over."""
        worker.blocked -= 1
        self.working += not worker.blocked and worker.actor is None
        self._note(worker)

    def _note(self, worker: Worker) -> None:
        """It has more to do, or less, than before."""
        if worker.actor is not None:
            return
        sent, free, client = len(worker.sent), not worker.blocked, worker.client
        used = worker.cpus if sent and free else 0
        self.used += used - worker.used
        worker.used = used
        if client not in self.pool:
            return
        if sent or not free:
            self.idle.pop(client, None)
        elif client not in self.idle:
            self.idle[client] = worker
        if sent > 1:
            self._ahead[client] = worker
        else:
            self._ahead.pop(client, None)
        if free:
            self._accepting[client] = worker
        else:
            self._accepting.pop(client, None)

    @property
    def has_work(self) -> bool:
        """Whether there may be anything to send."""
        return bool(self.queue.size or self._notified)

    # -- decisions ----------------------------------------------------------------------------

    def assign(self, now: float) -> Iterator[tuple[Worker, Task]]:
        """Sends queued tasks to workers; yields each pair."""
        if self._notified:
            yield from self._assign_to_actors(now)
        queue = self.queue
        sent = True
        while queue.size and sent:
            # First, one for each who has nothing: the warmest first.
            while queue.size and self.idle and self.has_room:
                worker = next(reversed(self.idle.values()))
                yield worker, self._send(worker, now)
            if not queue.size:
                return
            sent = False
            for worker, task in self._assign_ahead(now):
                yield worker, task
                sent = True  # and the next one may need no room

    def _assign_ahead(self, now: float) -> Iterator[tuple[Worker, Task]]:
        """Sends short tasks to those who have something to do already."""
        queue = self.queue
        while queue.size and self._expected(queue.first) <= BATCH_SECONDS:
            room = self._with_room()
            if not room:
                return
            share = min(max(queue.size // len(room), 1), 16)
            for worker in room:
                for _ in range(share):
                    if not self._fits(worker):
                        break
                    yield worker, self._send(worker, now)

    def _with_room(self) -> list[Worker]:
        """Who may be sent the next task ahead. Whoever is full isn't asked again until it has
        less to do: it is never long until then, or too long for anything behind it."""
        full = [client for client, worker in self._accepting.items() if not self._fits(worker)]
        for client in full:
            del self._accepting[client]
        return list(self._accepting.values())

    @property
    def has_room(self) -> bool:
        """Whether the processors that the next task needs are free."""
        return self.used + self.queue.first.cpus <= self.cpus

    def startable(self, most: int) -> int:
        """How many of the next tasks could start now if there were workers enough."""
        room, count = self.cpus - self.used, 0
        for task in islice(self.queue, most):
            room -= task.cpus
            if room < 0:
                break
            count += 1
        return count

    def _assign_to_actors(self, now: float) -> Iterator[tuple[Worker, Task]]:
        stirred, self._notified = self._notified, {}
        for actor in stirred.values():
            for worker, task in actor.next():
                self._note_sent(worker, task, now)
                yield worker, task

    def _fits(self, worker: Worker) -> bool:
        """Whether the next task in the queue is known to be short enough to wait there."""
        if not self.queue.size or not 0 < len(worker.sent) < BATCH_TASKS or worker.cpus != ONE:
            return False
        return worker.load + self._expected(self.queue.first) <= BATCH_SECONDS

    def _expected(self, task: Task) -> float:
        """How long it will run. What isn't usual, or unknown, counts as long: nobody waits there.

        A task with a time limit must begin when it is sent, and so must a background cell, which a
        person watches; one that needs more or less than a processor has a worker to itself.
        """
        terms = task.submit.terms
        unusual = terms is not None and (terms.timeout or terms.ahead or terms.job)
        if unusual or task.cpus != ONE:
            return 2 * BATCH_SECONDS
        return self._seconds.get(task.submit.function, 2 * BATCH_SECONDS)

    def recall(self) -> Iterator[tuple[Worker, int]]:
        """Whom to ask for how many tasks back, because somebody has nothing to do."""
        if self.queue.size or not self.idle or not self._ahead or self.used + ONE > self.cpus:
            return
        victim = max(self._ahead.values(), key=lambda w: len(w.sent))
        if not victim.recalled:
            victim.recalled = True
            yield victim, len(victim.sent) // 2

    def check(self) -> None:
        """Raise AssertionError unless each task waits, is queued, or was sent to one worker."""
        queued = [task.submit.task for task in self.queue]
        sent = [id for worker in self.workers.values() for id in worker.sent]
        calls = [task.submit.task for actor in self.actors.values() for task in actor.calls]
        waiting = [
            id
            for id, task in self.tasks.items()
            if task.pending_dependencies and not task.submit.actor
        ]
        births = [id for id, actor in self.actors.items() if id in self.tasks and id not in sent]
        assert len(queued) == len(self.queue)
        assert sorted([*queued, *sent, *waiting, *calls, *births]) == sorted(self.tasks)
        for id, actor in self.actors.items():
            assert actor.id == id
            actor.check()
        for id, task in self.tasks.items():
            assert task.submit.task == id
            assert task.pending_dependencies >= 0
            assert task.queued == (id in queued)
            assert (task.worker is None) == (id not in sent)
        for number, worker in self.workers.items():
            assert worker.number == number
            assert worker.blocked >= 0
            assert all(task.worker is worker for task in worker.sent.values())
            assert abs(worker.load - sum(t.seconds for t in worker.sent.values())) < 1e-6
            assert not worker.sent or worker.client is not None
        pooled = [worker for worker in self.workers.values() if worker.actor is None]
        assert self.pooled == len(pooled)
        assert self.working == sum(1 for worker in pooled if not worker.blocked)
        assert self.idle == {c: w for c, w in self.pool.items() if w.idle}
        assert self._ahead == {c: w for c, w in self.pool.items() if len(w.sent) > 1}
        assert self._accepting.keys() <= {c for c, w in self.pool.items() if not w.blocked}
        assert self.owners == Counter(task.owner for task in self.tasks.values())
        several = {id: t for t in self.tasks.values() for id in t.results[1:]}
        assert self._several == several
        children = [id for siblings in self._children.values() for id in siblings]
        assert sorted(children) == sorted(i for i, t in self.tasks.items() if t.parent is not None)
        assert self.used == sum(
            w.cpus for w in self.workers.values() if w.sent and not w.blocked and not w.actor
        )
        assert self.limits.keys() <= {
            t for w in self.workers.values() for t in w.sent.values() if t.terms.timeout
        }
        for client, worker in self.by_client.items():
            assert worker.client == client
            assert self.workers[worker.number] is worker

    def _send(self, worker: Worker, now: float) -> Task:
        task = self.queue.popleft()
        task.seconds = self._expected(task)
        worker.cpus = task.cpus
        self._note_sent(worker, task, now)
        return task

    def _note_sent(self, worker: Worker, task: Task, now: float) -> None:
        if not worker.sent:
            worker.since = now
        task.worker = worker
        worker.sent[task.submit.task] = task
        worker.load += task.seconds
        terms = task.submit.terms
        if terms is not None and terms.timeout:
            self.limits[task] = now + terms.timeout
        self._note(worker)

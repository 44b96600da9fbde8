"""The scheduler: which task is sent to which worker, and when. Knows object ids, not objects.

Short tasks are sent to a worker in batches, so that it never waits for the next one; a task whose
function isn't known to be short is sent only to a worker with nothing else to do, so that nobody
queues behind it. Whatever was sent too early is recalled as soon as a worker is idle.

Drivers take turns (`core.queue`), and fewer tasks are sent ahead while they do. The queue's first
task is always the next: one that needs many processors waits until they are free, and nobody
overtakes it. A task that waits lends its slot (`waits`), first of all to what it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from workbench.core.durations import BATCH_SECONDS, Durations
from workbench.core.executor_limits import ExecutorLimits
from workbench.core.open_tasks import OpenTasks
from workbench.core.queue import TaskQueue
from workbench.core.task_states import DONE, LOST, QUEUED, SENT, WAITING
from workbench.core.tasks import ONE, Actor, Line, Task, Worker
from workbench.core.waits import Waits

BATCH_TASKS = 128
"""... and never more tasks than this."""

SHARED_BATCH_TASKS = 16
"""... or than this while drivers take turns: the next one's task waits behind them."""


class Scheduler:
    """All tasks that aren't done, and all workers; the pool's may use so many ``processors``."""

    def __init__(self, processors: int) -> None:
        self.cpus = processors * ONE
        self.used = 0  # of those, by the pool's workers that are busy and don't wait, and by actors
        self.held = 0  # of those, by actors
        self.tasks = OpenTasks()
        self.workers: dict[int, Worker] = {}  # by number
        self.by_client: dict[int, Worker] = {}
        self.pool: dict[int, Worker] = {}  # by client, without those of actors
        self.idle: dict[int, Worker] = {}  # by client, who has been idle for longest first
        self._accepting: dict[int, Worker] = {}  # not found full since they last had less to do
        self.ahead: dict[int, Worker] = {}  # sent more than they can run now
        self.working = 0  # the pool's workers that have, or will have, a slot: not blocked
        self.pooled = 0  # all workers but those of actors
        self.actors: dict[int, Actor] = {}
        self.limits: dict[Task, float] = {}  # when those with a time limit must have ended
        self.notified: dict[int, Actor] = {}  # may have calls to send
        self.clear: list[tuple[Actor, int]] = []  # all calls of that caller are over
        self.queue = TaskQueue()  # all dependencies ready
        self.executors = ExecutorLimits()
        self.waits = Waits(self.look)
        self.durations = Durations()

    # -- tasks --------------------------------------------------------------------------------

    def add(self, task: Task) -> None:
        """A new task, or an actor's creation that is needed once more; queued unless it waits."""
        self.tasks.add(task)
        task.cpus = min(task.cpus, self.cpus)
        actor = task.actor
        if task.line is not None:  # its worker has it
            if task.line.add(task):
                self._note(task.line.worker)
        elif actor is not None and task is not actor.creation_task:
            actor.add(task)
            self.notify(actor)
        elif not task.pending_dependencies:
            self._enqueue(task)

    def dependency_ready(self, task: Task) -> None:
        if task.state is DONE:
            return
        task.pending_dependencies -= 1
        actor = task.actor
        if actor is not None and task is not actor.creation_task:
            actor.arguments_came(task)
            self.notify(actor)
        elif not task.pending_dependencies:
            self._enqueue(task)

    def _enqueue(self, task: Task) -> None:
        spec = task.submit.spec
        if task.actor is not None:
            task.to(QUEUED)
            self.notify(task.actor)
        elif spec is not None and spec.max_workers:
            for each in self.executors.ready(task):
                self.queue.append(each)
        else:
            self.queue.append(task)

    def restart(self, actor: Actor) -> None:
        """The actor's worker died: its creation is needed once more, unless it still waits."""
        creation = actor.creation_task
        if creation.is_over:
            self.add(creation)
        elif creation.state is LOST:
            self._enqueue(creation)

    def notify(self, actor: Actor) -> None:
        """It may have calls to send."""
        self.notified[actor.id] = actor

    def finish(self, task: Task, seconds: float | None = None) -> None:
        """It is over: done after ``seconds``, or given up."""
        was = task.state
        task.to(DONE)
        self.tasks.remove(task)
        actor = task.actor
        if actor is not None and not task.is_creation and actor.forget(task):
            self.clear.append((actor, task.owner))
        elif actor is None and task.line is not None:
            task.line.leave(task)
        if task.worker is not None:
            self._unsend(task.worker, task)
        elif actor is None and was is QUEUED:
            self.queue.left(task)
        elif actor is not None and task is not actor.creation_task and was is not LOST:
            actor.remove(task)
        spec = task.submit.spec
        if spec is not None and spec.max_workers:
            for each in self.executors.over(task):
                self.queue.append(each)
        if actor is not None:
            self.notify(actor)
        elif seconds is not None:
            self.durations.ran(task.submit.function, seconds)

    def finish_usual(self, task: Task, worker: Worker, seconds: float) -> None:
        """The same of one that `core.usual_tasks` says is usual, and that a worker of the pool had
        been sent."""
        task.to(DONE)
        task.worker = None
        self.tasks.remove(task)
        del worker.sent[task.submit.task]
        worker.load = worker.load - task.seconds if worker.sent else 0.0
        self.durations.ran(task.submit.function, seconds)
        self._note(worker)

    def give_back(self, tasks: list[Task]) -> None:
        """Sent, but not done: first in the queue again."""
        for task in tasks:
            if task.worker is not None:
                self._unsend(task.worker, task)
        for task in reversed(tasks):
            if task.actor is None:
                self.queue.appendleft(task)
            else:
                task.actor.put_back([task])
                self.notify(task.actor)

    def _unsend(self, worker: Worker, task: Task) -> None:
        # A worker that is lent says itself that a wait is over: which task runs isn't known here.
        waited = worker.waits and worker.running is task and worker.lease is None
        if waited:
            self.waits.end_all(worker)
        del worker.sent[task.submit.task]
        worker.load = worker.load - task.seconds if worker.sent else 0.0
        task.worker = None
        if self.limits:
            self.limits.pop(task, None)
        if waited:
            self.look(worker)
        else:
            self._note(worker)

    # -- workers ------------------------------------------------------------------------------

    def new_worker(self, number: int, actor: Actor | None) -> Worker:
        worker = self.workers[number] = Worker(number, actor)
        if actor is not None:
            actor.worker = worker
            self._hold(worker, min(actor.cpus, self.cpus))  # in a session without workers: none
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
        """It is gone; returns what had been sent to it, now LOST, the running one first."""
        self.leave(worker)
        if self.workers.pop(worker.number, None) is not None and worker.actor is None:
            self.pooled -= 1
        if worker.client is not None:
            self.disconnected(worker.client)
        if worker.actor is not None:
            self._hold(worker, 0)
            if worker.actor.worker is worker:
                worker.actor.worker = None
        tasks = list(worker.sent.values())
        self.waits.end_all(worker)
        for task in tasks:
            task.to(LOST)
            self._unsend(worker, task)
        return tasks

    def disconnected(self, client: int) -> Worker | None:
        """Its connection is gone; the process will follow."""
        for workers in (self.pool, self.idle, self._accepting, self.ahead):
            workers.pop(client, None)
        return self.by_client.pop(client, None)

    def leave(self, worker: Worker) -> None:
        """It takes no more tasks, and has no slot, while it goes."""
        worker.leaving = True
        self.look(worker)

    def lend(self, worker: Worker, line: Line) -> None:
        """It takes no tasks from here, but counts as busy, until it was given back."""
        worker.lease, worker.cpus = line, ONE
        self.look(worker)

    # -- waits --------------------------------------------------------------------------------

    def need(self, objects: Iterable[int]) -> None:
        """A task that has begun waits for these: what makes them comes first, and what that
        takes as arguments."""
        queued: list[Task] = []
        left = list(objects)
        left.reverse()
        while left:
            task = self.tasks.maker(left.pop())
            if task is None or task.urgent:
                continue
            if task.state is QUEUED and task.actor is None:
                queued.append(task)
            else:
                task.urgent = True
                if task.state is WAITING:
                    left += reversed(task.submit.deps)
        if queued:
            self.queue.hurry(dict.fromkeys(queued))

    # -- workers' loads -----------------------------------------------------------------------

    def look(self, worker: Worker) -> None:
        """Whether it has a slot, now that it waits or not."""
        blocked = worker.leaving or (bool(worker.waits) and not worker.waits_over)
        if blocked != worker.blocked:
            worker.blocked = blocked
            if worker.actor is None:
                self.working += -1 if blocked else 1
        self._note(worker)

    def _note(self, worker: Worker) -> None:
        """It has more to do, or less, than before."""
        if worker.actor is not None:
            return
        sent, free, client = len(worker.sent), not worker.blocked, worker.client or 0
        if sent > 1 and free and client in self.ahead and not (worker.waits or worker.lease):
            self._accepting[client] = worker
            return  # as in a burst: all else is as it was
        if worker.lease is not None and worker.lease.is_returned and not sent:
            worker.lease = None
        lent = worker.lease is not None
        used = worker.cpus if (sent or lent) and free else 0
        self.used += used - worker.used
        worker.used = used
        if client not in self.pool:
            return
        if sent or lent or not free:
            self.idle.pop(client, None)
        elif client not in self.idle:
            self.idle[client] = worker
        if sent > 1 and not lent:
            self.ahead[client] = worker
        else:
            self.ahead.pop(client, None)
        if free and not worker.waits and not lent:
            self._accepting[client] = worker
        else:
            self._accepting.pop(client, None)

    def _hold(self, worker: Worker, cpus: int) -> None:
        """An actor takes so many processors from tasks."""
        self.held += cpus - worker.used
        self.used += cpus - worker.used
        worker.used = cpus

    # -- decisions ----------------------------------------------------------------------------

    def assign(self, now: float) -> Iterator[tuple[Worker, Task]]:
        """Sends queued tasks to workers; yields each pair."""
        if self.notified:
            yield from self._assign_to_actors(now)
        queue = self.queue
        sent = True
        while queue.size and sent:
            # First, one for each who has nothing: the warmest first.
            while queue.size and self.idle and self.has_room:
                worker = next(reversed(self.idle.values()))
                yield worker, self._send(worker, now, self.durations.expected(queue.first))
            if not queue.size:
                return
            sent = False
            for worker, task in self._assign_ahead(now):
                yield worker, task
                sent = True  # and the next one may need no room

    def _assign_ahead(self, now: float) -> Iterator[tuple[Worker, Task]]:
        """Sends short tasks to those who have something to do already.

        While slots are lent, only such as are needed: whoever is done with what somebody waits
        for shall not begin something else when that one has its slot again.
        """
        queue, lent = self.queue, self.pooled > self.working
        while queue.size:
            seconds = self.durations.expected(queue.first)
            if seconds > BATCH_SECONDS or not (room := self._with_room(seconds)):
                return
            share = min(max(queue.size // len(room), 1), 16)
            for worker in room:
                for _ in range(share):
                    if lent and not queue.first.urgent:
                        return
                    if not self._fits(worker, seconds):
                        break
                    yield worker, self._send(worker, now, seconds)
                    if not queue.size:
                        return
                    seconds = self.durations.expected(queue.first)

    def _with_room(self, seconds: float) -> list[Worker]:
        """Who may be sent a task of so many seconds ahead. Whoever is full isn't asked again until
        it has less to do: it is never long until then, or too long for anything behind it."""
        accepting = self._accepting
        full = [client for client, w in accepting.items() if not self._fits(w, seconds)]
        for client in full:
            del accepting[client]
        return list(accepting.values())

    @property
    def has_room(self) -> bool:
        """Whether the processors that the next task needs are free. Actors never have them all:
        one task runs in any case."""
        return self.used == self.held or self.used + self.queue.first.cpus <= self.cpus

    def startable(self, most: int) -> int:
        """How many of the next tasks could start now if there were workers enough."""
        room, count = self.cpus - self.used, 0
        for task in islice(self.queue, most):
            room -= task.cpus
            if room < 0 and (count or self.used > self.held):
                break
            count += 1
        return count

    def _assign_to_actors(self, now: float) -> Iterator[tuple[Worker, Task]]:
        notified, self.notified = self.notified, {}
        for actor in notified.values():
            for worker, task in actor.next():
                self._note_sent(worker, task, now)
                yield worker, task

    def _fits(self, worker: Worker, seconds: float) -> bool:
        """Whether the next task in the queue is known to be short enough to wait there."""
        most = SHARED_BATCH_TASKS if self.queue.is_shared else BATCH_TASKS
        if not 0 < len(worker.sent) < most or worker.cpus != ONE:
            return False
        return worker.load + seconds <= BATCH_SECONDS

    def recall(self) -> Iterator[tuple[Worker, int]]:
        """Whom to ask for how many tasks back, because somebody has nothing to do."""
        if self.queue.size or not self.idle or not self.ahead or self.used + ONE > self.cpus:
            return
        victim = max(self.ahead.values(), key=lambda w: len(w.sent))
        if not victim.recalled:
            victim.recalled = True
            yield victim, len(victim.sent) // 2

    def _send(self, worker: Worker, now: float, seconds: float) -> Task:
        """The next one, which is expected to take so long."""
        task = self.queue.popleft()
        task.seconds = seconds
        worker.cpus = task.cpus
        self._note_sent(worker, task, now)
        return task

    def _note_sent(self, worker: Worker, task: Task, now: float) -> None:
        if not worker.sent:
            worker.since = now
        task.to(SENT)
        task.worker = worker
        worker.sent[task.submit.task] = task
        worker.load += task.seconds
        spec = task.submit.spec
        if spec is not None and spec.timeout:
            self.limits[task] = now + spec.timeout
        self._note(worker)

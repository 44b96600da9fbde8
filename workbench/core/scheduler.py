"""The scheduler: decides which task is sent to which worker, and when. Knows object ids only.

Short tasks are sent to a worker in batches, so that it never waits for the next one. A task whose
function isn't known to be short is sent only to an idle worker, so that nothing queues behind it.
Tasks that were sent ahead are recalled as soon as a worker is idle.

Drivers take turns (`core.queue`); then fewer tasks are sent ahead. The queue's first task is always
the next: one that needs many processors waits until they are free, and no other overtakes it. A
task that waits lends its slot (`waits`), preferably to what it waits for.
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
"""Most tasks that a worker may have been sent."""

SHARED_BATCH_TASKS = 16
"""The same while drivers take turns: another driver's task waits behind them."""


class Scheduler:
    """All tasks that aren't done, and all workers. ``processors``: how many the pool may use."""

    def __init__(self, processors: int) -> None:
        self.cpus = processors * ONE
        self.used = 0  # of `cpus`: by busy workers of the pool that don't wait, and by actors
        self.actor_cpus = 0  # of `cpus`: by actors
        self.tasks = OpenTasks()
        self.workers: dict[int, Worker] = {}  # by number
        self.by_client: dict[int, Worker] = {}
        self.pool: dict[int, Worker] = {}  # by client, without those of actors
        self.idle: dict[int, Worker] = {}  # by client, the longest idle first
        self._accepting: dict[int, Worker] = {}  # may have room for tasks ahead
        self.ahead: dict[int, Worker] = {}  # have more tasks than they run
        self.working = 0  # the pool's workers that have, or will have, a slot
        self.pooled = 0  # all workers except actors'
        self.actors: dict[int, Actor] = {}
        self.limits: dict[Task, float] = {}  # task → end of its time limit
        self.notified: dict[int, Actor] = {}  # they may have calls to send
        self.may_use_lines: list[tuple[Actor, int]] = []  # callers without unfinished calls
        self.queue = TaskQueue()  # all dependencies ready
        self.executors = ExecutorLimits()
        self.waits = Waits(self.update_slot)
        self.durations = Durations()

    # -- tasks --------------------------------------------------------------------------------

    def add(self, task: Task) -> None:
        """Add a new task, or an actor's creation that runs again; queue it unless it waits."""
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
            for each in self.executors.add_ready(task):
                self.queue.append(each)
        else:
            self.queue.append(task)

    def restart(self, actor: Actor) -> None:
        """Run an actor's creation again after its worker died, unless it still waits."""
        creation = actor.creation_task
        if creation.is_over:
            self.add(creation)
        elif creation.state is LOST:
            self._enqueue(creation)

    def notify(self, actor: Actor) -> None:
        """Have `assign` look for calls to send to the actor."""
        self.notified[actor.id] = actor

    def finish(self, task: Task, seconds: float | None = None) -> None:
        """Remove a task that is over: done after ``seconds``, or failed or dropped."""
        was = task.state
        task.to(DONE)
        self.tasks.remove(task)
        actor = task.actor
        if actor is not None and not task.is_creation and actor.forget(task):
            self.may_use_lines.append((actor, task.owner))
        elif actor is None and task.line is not None:
            task.line.detach_call(task)
        if task.worker is not None:
            self._unsend(task.worker, task)
        elif actor is None and was is QUEUED:
            self.queue.on_task_left(task)
        elif actor is not None and task is not actor.creation_task and was is not LOST:
            actor.remove(task)
        spec = task.submit.spec
        if spec is not None and spec.max_workers:
            for each in self.executors.remove(task):
                self.queue.append(each)
        if actor is not None:
            self.notify(actor)
        elif seconds is not None:
            self.durations.record_run(task.submit.function, seconds)

    def finish_usual(self, task: Task, worker: Worker, seconds: float) -> None:
        """Do the same for a task of `core.fast_path` that a worker of the pool was sent."""
        task.to(DONE)
        task.worker = None
        self.tasks.remove(task)
        del worker.sent[task.submit.task]
        worker.load = worker.load - task.seconds if worker.sent else 0.0
        self.durations.record_run(task.submit.function, seconds)
        self._note(worker)

    def give_back(self, tasks: list[Task]) -> None:
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
        # A lent worker reports itself that a wait is over: which task runs isn't known here.
        waited = worker.waits and worker.running is task and worker.lease is None
        if waited:
            self.waits.end_all(worker)
        del worker.sent[task.submit.task]
        worker.load = worker.load - task.seconds if worker.sent else 0.0
        task.worker = None
        if self.limits:
            self.limits.pop(task, None)
        if waited:
            self.update_slot(worker)
        else:
            self._note(worker)

    # -- workers ------------------------------------------------------------------------------

    def new_worker(self, number: int, actor: Actor | None) -> Worker:
        worker = self.workers[number] = Worker(number, actor)
        if actor is not None:
            actor.worker = worker
            self._hold(worker, min(actor.cpus, self.cpus))  # none in a session without workers
        else:
            self.pooled += 1
            self.working += 1
        return worker

    def connect_worker(self, number: int, client: int, now: float) -> Worker | None:
        """Take in a worker's Hello. None if no such worker was forked."""
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

    def remove_dead_worker(self, worker: Worker) -> list[Task]:
        """Remove a dead worker; return the tasks sent to it, now LOST, the running one first."""
        self.send_no_more(worker)
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
        """Remove a worker's connection; its process ends next."""
        for workers in (self.pool, self.idle, self._accepting, self.ahead):
            workers.pop(client, None)
        return self.by_client.pop(client, None)

    def send_no_more(self, worker: Worker) -> None:
        """Send no more tasks to a worker that is about to end, and take its slot."""
        worker.leaving = True
        self.update_slot(worker)

    def lend(self, worker: Worker, line: Line) -> None:
        """Lend a worker to a line: it gets no tasks from here and counts as busy until returned."""
        worker.lease, worker.cpus = line, ONE
        self.update_slot(worker)

    def make_urgent(self, objects: Iterable[int]) -> None:
        """Make tasks urgent that make these objects or their arguments: a running task waits."""
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

    def update_slot(self, worker: Worker) -> None:
        """Update whether a worker has a slot, after its waits changed."""
        blocked = worker.leaving or (bool(worker.waits) and not worker.waits_over)
        if blocked != worker.blocked:
            worker.blocked = blocked
            if worker.actor is None:
                self.working += -1 if blocked else 1
        self._note(worker)

    def _note(self, worker: Worker) -> None:
        """Update the counts and tables of workers after one's tasks, slot or lease changed."""
        if worker.actor is not None:
            return
        sent, free, client = len(worker.sent), not worker.blocked, worker.client or 0
        if sent > 1 and free and client in self.ahead and not (worker.waits or worker.lease):
            self._accepting[client] = worker
            return  # as in a burst: nothing else changes
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
        """Set how many processors an actor's worker takes from tasks."""
        self.actor_cpus += cpus - worker.used
        self.used += cpus - worker.used
        worker.used = cpus

    # -- decisions ----------------------------------------------------------------------------

    def assign(self, now: float) -> Iterator[tuple[Worker, Task]]:
        if self.notified:
            yield from self._assign_to_actors(now)
        queue = self.queue
        sent = True
        while queue.size and sent:
            # First, one for each idle worker, the last used first: its caches are warm.
            while queue.size and self.idle and self.has_room:
                worker = next(reversed(self.idle.values()))
                yield worker, self._send(worker, now, self.durations.expected(queue.first))
            if not queue.size:
                return
            sent = False
            for worker, task in self._assign_ahead(now):
                yield worker, task
                sent = True  # perhaps the next task fits now

    def _assign_ahead(self, now: float) -> Iterator[tuple[Worker, Task]]:
        """Send short tasks ahead to workers that have tasks already.

        While slots are lent, only urgent ones: when a worker finishes what another waits for, the
        other has its slot again, and the first one shouldn't begin anything else.
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
        """Return workers that may be sent a task of this length ahead. A full worker is skipped
        until it has less to do: that is soon, or it takes too long for anything to wait behind
        it."""
        accepting = self._accepting
        full = [client for client, w in accepting.items() if not self._fits(w, seconds)]
        for client in full:
            del accepting[client]
        return list(accepting.values())

    @property
    def has_room(self) -> bool:
        """True if the next task's processors are free, or no task runs: actors never block all
        tasks."""
        return self.used == self.actor_cpus or self.used + self.queue.first.cpus <= self.cpus

    def startable(self, most: int) -> int:
        """Return how many of the next tasks could start now, given enough workers."""
        room, count = self.cpus - self.used, 0
        for task in islice(self.queue, most):
            room -= task.cpus
            if room < 0 and (count or self.used > self.actor_cpus):
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
        """True if a task that takes ``seconds`` may wait at this worker."""
        most = SHARED_BATCH_TASKS if self.queue.is_shared else BATCH_TASKS
        if not 0 < len(worker.sent) < most or worker.cpus != ONE:
            return False
        return worker.load + seconds <= BATCH_SECONDS

    def recall(self) -> Iterator[tuple[Worker, int]]:
        """Yield the worker to ask for tasks back, and how many, if another one is idle."""
        if self.queue.size or not self.idle or not self.ahead or self.used + ONE > self.cpus:
            return
        victim = max(self.ahead.values(), key=lambda w: len(w.sent))
        if not victim.recalled:
            victim.recalled = True
            yield victim, len(victim.sent) // 2

    def _send(self, worker: Worker, now: float, seconds: float) -> Task:
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

"""Tasks and workers: which task runs where, and when. Knows object ids, not objects.

Short tasks are sent to a worker in batches, so that it never waits for the next one; a task whose
function isn't known to be short is sent only to a worker with nothing else to do, so that nobody
queues behind it. Whatever was sent too early is recalled as soon as a worker is idle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from workbench.core.actors import Actor
from workbench.core.events import Submit

BATCH_SECONDS = 0.002
"""A worker is sent up to this much expected work ahead: some ten round trips' worth."""

BATCH_TASKS = 128
"""... and never more tasks than this."""

RECENT = 0.2
"""Weight of the newest run in a function's expected seconds."""


class Task:
    """One task. ``missing`` counts the dependencies that aren't ready."""

    __slots__ = (
        "actor",
        "attempts",
        "audience",
        "cancelled",
        "missing",
        "owner",
        "parent",
        "pins",
        "queued",
        "seconds",
        "submit",
        "worker",
    )

    def __init__(
        self, submit: Submit, owner: int, audience: int, parent: Task | None = None
    ) -> None:
        self.submit = submit
        self.owner = owner
        self.audience = audience  # the client that sees its output: a task's own isn't its worker
        self.parent = parent  # the task that submitted it
        self.actor: Actor | None = None  # whose call it is, or whose birth
        self.cancelled = False  # whoever runs it has been told to stop
        self.pins: list[int] = []  # objects that live as long as it does, one entry per pin
        self.missing = 0
        self.attempts = 0
        self.seconds = 0.0  # what was expected of it when it was sent
        self.queued = False
        self.worker: Worker | None = None

    @property
    def results(self) -> range:
        """The objects it makes."""
        return range(self.submit.task, self.submit.task + self.submit.returns)


class Worker:
    """One worker process, from its fork to its end. ``number`` is the pool's, never reused."""

    __slots__ = (
        "actor", "blocked", "client", "load", "number", "pid", "recalled", "sent", "since",
    )  # fmt: skip

    def __init__(self, number: int, actor: Actor | None = None) -> None:
        self.number = number
        self.actor = actor  # whose it is, for ever; None in the pool
        self.pid = 0
        self.client: int | None = None  # None until its Hello
        self.sent: dict[int, Task] = {}  # in order; the first one runs
        self.load = 0.0  # expected seconds of what was sent
        self.blocked = 0  # its task waits for others (nested waits count)
        self.recalled = False  # a GaveBack is due
        self.since = 0.0  # idle since this time

    @property
    def idle(self) -> bool:
        """Ready for any task."""
        return (
            self.client is not None and not self.sent and not self.blocked and self.actor is None
        )


class Schedule:
    """All tasks that aren't done, and all workers."""

    def __init__(self) -> None:
        self.tasks: dict[int, Task] = {}
        self.workers: dict[int, Worker] = {}  # by number
        self.by_client: dict[int, Worker] = {}
        self.pool: dict[int, Worker] = {}  # by client, without those of actors
        self.actors: dict[int, Actor] = {}
        self._stirred: dict[int, Actor] = {}  # may have calls to send
        self.queue: deque[Task] = deque()  # all dependencies ready
        self._seconds: dict[int, float] = {}  # function id → expected seconds

    # -- tasks --------------------------------------------------------------------------------

    def __contains__(self, task: Task) -> bool:
        return self.tasks.get(task.submit.task) is task

    def maker(self, object: int) -> Task | None:
        """The task that is to make this object."""
        task = self.tasks.get(object)
        if task is None:
            several = (t for t in self.tasks.values() if t.submit.returns > 1)
            task = next((t for t in several if object in t.results), None)
        return task

    def add(self, task: Task) -> None:
        """A new task; in the queue at once unless it waits for something."""
        self.tasks[task.submit.task] = task
        actor = task.actor
        if actor is not None:
            if task is not actor.birth:
                actor.add(task)
            self.stir(actor)
        elif not task.missing:
            self._enqueue(task)

    def supplied(self, task: Task) -> None:
        """One dependency of the task is ready."""
        if task in self:
            task.missing -= 1
            actor = task.actor
            if actor is not None:
                actor.advance(task.owner)
                self.stir(actor)
            elif not task.missing:
                self._enqueue(task)

    def stir(self, actor: Actor) -> None:
        """It may have calls to send."""
        self._stirred[actor.id] = actor

    def finish(self, task: Task, seconds: float | None = None) -> None:
        """It is over: done after ``seconds``, or given up."""
        del self.tasks[task.submit.task]
        worker = task.worker
        actor = task.actor
        if worker is not None:
            self._unsend(worker, task)
        elif task.queued:
            self.queue.remove(task)
        elif actor is not None and task is not actor.birth:
            actor.remove(task)
        if actor is not None:
            self.stir(actor)
        elif seconds is not None:
            known = self._seconds.get(task.submit.function, seconds)
            self._seconds[task.submit.function] = known + RECENT * (seconds - known)

    def give_back(self, tasks: list[Task]) -> None:
        """Sent, but not started: first in the queue again, in the order they had."""
        for task in reversed([task for task in tasks if not task.submit.actor]):
            if task.worker is not None:
                self._unsend(task.worker, task)
            task.queued = True
            self.queue.appendleft(task)

    def forget_function(self, id: int) -> None:
        """The function's object is gone."""
        self._seconds.pop(id, None)

    def _enqueue(self, task: Task) -> None:
        task.queued = True
        self.queue.append(task)

    @staticmethod
    def _unsend(worker: Worker, task: Task) -> None:
        del worker.sent[task.submit.task]
        worker.load = worker.load - task.seconds if worker.sent else 0.0
        task.worker = None

    # -- workers ------------------------------------------------------------------------------

    def new_worker(self, number: int, actor: Actor | None = None) -> Worker:
        """One more process was asked for: for the pool, or for an actor."""
        worker = self.workers[number] = Worker(number, actor)
        if actor is not None:
            actor.worker = worker
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
        else:
            self.stir(worker.actor)
        return worker

    def lost(self, worker: Worker) -> list[Task]:
        """It is gone; returns what had been sent to it, the running one first."""
        self.workers.pop(worker.number, None)
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
        self.pool.pop(client, None)
        return self.by_client.pop(client, None)

    @property
    def working(self) -> int:
        """The pool's workers that have, or will have, a slot: all but the blocked ones."""
        return sum(1 for w in self.workers.values() if not w.blocked and w.actor is None)

    @property
    def pooled(self) -> int:
        """All workers but those of actors."""
        return sum(1 for w in self.workers.values() if w.actor is None)

    @property
    def restless(self) -> bool:
        """Whether there may be anything to send."""
        return bool(self.queue or self._stirred)

    # -- decisions ----------------------------------------------------------------------------

    def assign(self) -> Iterator[tuple[Worker, Task]]:
        """Sends queued tasks to workers; yields each pair."""
        if self._stirred:
            yield from self._assign_to_actors()
        if not self.queue:
            return
        for worker in self.pool.values():  # first, one for each who has nothing
            if worker.idle and self.queue:
                yield worker, self._send(worker)
        room = [w for w in self.pool.values() if not w.blocked]
        while room := [w for w in room if self._fits(w)]:  # then in turn, if it is short
            share = min(max(len(self.queue) // len(room), 1), 16)
            for worker in room:
                for _ in range(share):
                    if not self._fits(worker):
                        break
                    yield worker, self._send(worker)

    def _assign_to_actors(self) -> Iterator[tuple[Worker, Task]]:
        stirred, self._stirred = self._stirred, {}
        for actor in stirred.values():
            for worker, task in actor.next():
                self._note_sent(worker, task)
                yield worker, task

    def _fits(self, worker: Worker) -> bool:
        """Whether the next task in the queue is known to be short enough to wait there."""
        if not self.queue or len(worker.sent) >= BATCH_TASKS:
            return False
        expected = self._seconds.get(self.queue[0].submit.function)
        return expected is not None and worker.load + expected <= BATCH_SECONDS

    def recall(self) -> Iterator[tuple[Worker, int]]:
        """Whom to ask for how many tasks back, because somebody has nothing to do."""
        if self.queue or not any(w.idle for w in self.pool.values()):
            return
        victim = max(self.pool.values(), key=lambda w: len(w.sent), default=None)
        if victim is not None and len(victim.sent) > 1 and not victim.recalled:
            victim.recalled = True
            yield victim, len(victim.sent) // 2

    def check(self) -> None:
        """Raise AssertionError unless each task waits, is queued, or was sent to one worker."""
        queued = [task.submit.task for task in self.queue]
        sent = [id for worker in self.workers.values() for id in worker.sent]
        calls = [task.submit.task for actor in self.actors.values() for task in actor.calls]
        waiting = [
            id for id, task in self.tasks.items() if task.missing and not task.submit.actor
        ]
        births = [
            id for id, actor in self.actors.items() if id in self.tasks and id not in sent
        ]
        assert sorted([*queued, *sent, *waiting, *calls, *births]) == sorted(self.tasks)
        for id, actor in self.actors.items():
            assert actor.id == id
            actor.check()
        for id, task in self.tasks.items():
            assert task.submit.task == id
            assert task.missing >= 0
            assert task.queued == (task in self.queue)
            assert (task.worker is None) == (id not in sent)
        for number, worker in self.workers.items():
            assert worker.number == number
            assert worker.blocked >= 0
            assert all(task.worker is worker for task in worker.sent.values())
            assert abs(worker.load - sum(t.seconds for t in worker.sent.values())) < 1e-6
            assert not worker.sent or worker.client is not None
        for client, worker in self.by_client.items():
            assert worker.client == client
            assert self.workers[worker.number] is worker

    def _send(self, worker: Worker) -> Task:
        task = self.queue.popleft()
        task.queued = False
        # An unknown function counts as long: nothing is queued behind it.
        task.seconds = self._seconds.get(task.submit.function, BATCH_SECONDS * 2)
        self._note_sent(worker, task)
        return task

    @staticmethod
    def _note_sent(worker: Worker, task: Task) -> None:
        task.worker = worker
        worker.sent[task.submit.task] = task
        worker.load += task.seconds

"""Component: task lifecycle. Submit, dispatch, finish, retry, stop; messages from workers.

The scheduler decides which task is sent where; `actor_manager` has the lifecycle of actors.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core import events as ev
from workbench.core import fast_path
from workbench.core import instructions as do
from workbench.core.actor_manager import ActorManager, last_words, place_of
from workbench.core.entry import PENDING, Entry
from workbench.core.job_manager import JobManager
from workbench.core.leases import LeaseManager
from workbench.core.lines import LineManager
from workbench.core.loop_events import WorkerExited
from workbench.core.object_manager import ObjectManager
from workbench.core.spilling import Spilling
from workbench.core.state import ClientState, State
from workbench.core.task_output import TaskOutput
from workbench.core.task_states import DONE, SENT, STOPPING
from workbench.core.tasks import Line, Task, Worker

ADVICE = (
    " Give it less at a time, let fewer run beside it (`num_cpus=2` takes the room of two), or "
    "shut down notebooks that you don't need."
)
"""Advice for a person whose task was killed because memory ran short."""


@dataclass(eq=False)
class TaskManager:
    _state: State
    _objects: ObjectManager
    _spilling: Spilling
    _jobs: JobManager
    _actors: ActorManager
    _lines: LineManager
    _leases: LeaseManager
    _output: TaskOutput

    def __post_init__(self) -> None:
        self._lines.on_lease_closed = self._lease_closed
        self._catalog = self._state.catalog
        self._scheduler = self._state.scheduler
        self._refreshed: ev.Refresh | None = None  # the last one; None before
        self.interrupts: list[tuple[int, int, set[int]]] = []  # (client, request, tasks not over)

    def submit(self, client: ClientState, event: ev.Submit) -> None:
        state = self._state
        if fast_path.takes_submit(state, client, event):
            self._leases.last[client.number] = event.task
            return fast_path.submit(state, client, event)
        task = self._lines.task(client, event)
        results = task.results
        if not state.owns(client, event.task):
            return None
        line = self._lines.line_for(client, event) if event.line else None
        if event.line and line is None:
            return None
        if event.returns > 1 and not state.owns(client, results[-1]):
            return None
        if event.task in self._scheduler.tasks or not self._catalog.keys().isdisjoint(results):
            return state.hang_up(client.number, "a task submitted twice")
        if not state.budget.admits_inline(client.number, len(event.args)):
            return state.hang_up(client.number, "more arguments than it may send")
        why: ev.Value | None = None
        if event.actor:
            why = self._actors.pin_actor(task)
        why = self._catalog.pin_arguments(task) or why
        for id in results:  # after its arguments: no task can wait for itself
            self._catalog.create_pending(id, client.number)
        task.actor = self._scheduler.actors.get(event.actor)
        if line is not None:
            task.line, task.actor, task.broken = line, line.actor, why
            self._scheduler.add(task)
            self._output.on_call_reported(task)
            self._lines.to_report.append(task)
            if task.parent is not None and task.parent.stops_children:
                self.stop(task)  # it may have been called before its parent was stopped
            return None
        if event.spec is None and not (event.actor or client.worker):
            self._leases.last[client.number] = event.task
        if event.actor and task.actor is None:  # a call of an unknown actor
            assert why is not None
            task.to(DONE)
            self._set_results(task, why)
            return None
        if state.pool.startup_failures:
            state.pool.try_again()
        is_job = event.spec is not None and event.spec.job and not client.worker
        if is_job and not self._jobs.enter(task):
            why = why or cancelled(task)
        self._scheduler.add(task)
        if why is not None:
            state.fail(task, why)
        return None

    def submit_calls(self, client: ClientState, event: ev.SubmitCalls) -> None:
        state = self._state
        if len(event.tasks) != len(event.args):
            return state.hang_up(client.number, "calls without arguments")
        if fast_path.takes_calls(state, client, event):
            self._leases.last[client.number] = event.tasks[-1]
            for submit in event.submits():
                fast_path.submit(state, client, submit)
            return None
        for submit in event.submits():
            self.submit(client, submit)
            if state.failing:  # before the next one, as for separate Submits
                self.fail_all()
        return None

    def _set_results(self, task: Task, value: ev.Value) -> None:
        self._catalog.unpin_all(task)
        for id in task.results:
            self._objects.result(id, value)

    def run(self, number: int, task: Task) -> None:
        submit = task.submit
        if submit.deps and task.actor is not None:
            self._leases.lend_arguments(task, task.actor)
        values = []
        for id in submit.deps:
            entry = self._catalog[id]
            assert entry.value is not None
            self._state.share(number, entry.value)
            self._spilling.on_used(entry)
            values.append(entry.value)
        functions = self._state.functions
        if submit.function and number not in functions.get(submit.function, ()):
            functions.setdefault(submit.function, set()).add(number)
            entry = self._catalog[submit.function]
            assert entry.value is not None
            self._state.share(number, entry.value)
            values.append(entry.value)
        run = do.Run(
            submit.task, submit.function, submit.args, submit.deps, tuple(values), submit.returns,
            submit.name, submit.origin, submit.method, task.attempts >= submit.retries,
            submit.spec, task.made, task.taken,
        )  # fmt: skip
        self._state.send(number, run)
        if task.job is not None:
            self._jobs.began(task)

    def on_settled_calls(self, client: ClientState, event: ev.SettledCalls) -> None:
        line = self._lines.on_settled_calls(client, event)
        if line is not None and line.unsent:
            self._output.on_settled_calls(line, event)

    def done(self, client: ClientState, event: ev.Done) -> None:
        state = self._state
        worker = self._scheduler.by_client.get(client.number)
        task = worker.sent.get(event.task) if worker is not None else None
        if worker and worker.reported and self._lines.is_already_reported(worker, event):
            return None
        if worker and task and fast_path.takes_done(state, worker, task, event):
            if not state.budget.admits_inline(client.number, len(event.values[0].header)):
                return state.hang_up(client.number, "larger results than it may send")
            fast_path.finish(state, worker, task, event)
            if self._leases.last.get(task.owner) == event.task:
                self._leases.finished(task, worker)
            return None
        if worker is None or task is None or len(event.values) != _owed(task):
            return state.hang_up(client.number, "done with a task it was not given")
        if event.abouts and len(event.abouts) != len(event.values):
            return state.hang_up(client.number, "results it says too little of")
        if not state.budget.admits(client.number, event.values):
            return state.hang_up(client.number, "an extent that is not its own")
        may_retry = task.attempts < task.submit.retries and not task.is_creation
        if event.again and task.final_value is None and may_retry:
            task.attempts += 1
            self._give_back([task])
            return None
        self._scheduler.finish(task, event.seconds)
        if event.threads:
            worker.keep(task)
        if not worker.sent:
            worker.since = state.now
        if self._leases.last.get(task.owner) == event.task:
            self._leases.finished(task, worker)
        if worker.actor is not None and task.is_creation:
            self._actors.on_created(worker.actor, event.values[0])
            return None
        # The first result, which tells the end, is sealed last: clients then know the others.
        for number in range(len(event.values) - 1, -1, -1):
            value = event.values[number]
            if task.final_value is not None and value.header.startswith(b"!cancelled"):
                value = task.final_value  # it was told to stop: the reason
            about = event.abouts[number] if event.abouts else None
            self._objects.result(event.task + number, value, about)
        if task.submit.line and self._catalog.get(event.task) is None:
            # Its caller has dropped the result, but counts its unfinished calls.
            gone = ev.error_value("unknown", "This session has no such object: nothing holds it.")
            state.send(task.owner, do.Ready(event.task, gone))
        self._catalog.unpin_all(task)
        if task.job is not None and event.values:
            self._jobs.on_task_ended(task, event.values[0])
        if task.spec.max_calls and worker.actor is None:
            self._count(worker, task)
        return None

    def _count(self, worker: Worker, task: Task) -> None:
        worker.calls[task.submit.function] += 1
        if worker.calls[task.submit.function] >= task.spec.max_calls:
            self._scheduler.send_no_more(worker)
            self._state.dismiss(worker, "it has run as many calls as it shall")

    def _give_back(self, tasks: list[Task]) -> None:
        """Put tasks that were sent but not run to the end back, first, if they are still wanted."""
        tasks = self._state.repeatable(tasks)
        self._scheduler.give_back(tasks)
        self.abandon(tasks)

    def end_batch(self) -> None:
        """Fail tasks and start actors' workers, until neither leads to more of it."""
        self.fail_all()
        if self._actors.has_work:
            self._actors.start_workers()
            self.fail_all()

    def fail_all(self) -> None:
        """Carry out `State.fail`. Tasks that wait for the results fail in turn."""
        failing = self._state.failing
        while failing:
            task, value = failing.popleft()
            if task.is_over:
                continue
            if task.actor is not None and task.is_creation:
                self._actors.dies(task.actor, value)
                self._actors.release(task.actor)
                continue
            self._scheduler.finish(task)
            self._set_results(task, value)
            if task.job is not None:
                self._jobs.on_task_ended(task, value)

    def abandon(self, tasks: list[Task]) -> None:
        """Drop tasks that haven't begun, whose submitter is gone and whose results nobody wants.

        Background cells are kept for their output. Creations of actors are kept: other clients may
        hold the actor, which ends by itself after its last call. The last task is dropped first,
        because a task waits only for earlier ones.
        """
        for task in reversed(tasks):
            if task.is_over:
                continue  # meanwhile: an actor ended with its last call, and its creation with it
            gone = task.owner not in self._state.clients
            if gone and task.worker is None and not task.is_creation and task not in self._jobs:
                results = map(self._catalog.get, task.results)
                if not any(e is not None and e.state is PENDING for e in results):
                    self._scheduler.finish(task)
                    self._catalog.unpin_all(task)

    def give_up(self) -> None:
        text = f"No worker can be started: {self._state.pool.last_words}"
        for task in list(self._scheduler.queue):
            self._state.fail(task, ev.error_value("crashed", text))

    def give_up_one(self) -> None:
        """Fail one task, because every worker waits for tasks: those that wait for it go on."""
        task, count = self._scheduler.queue.first_that_is_waited_for, len(self._scheduler.pool)
        text = (
            f"`{task.submit.name}` can't begin: {count} tasks have begun, and each waits for "
            "another one, so no worker is left. Let tasks return refs instead of waiting for "
            "them, or wait for fewer, one inside another."
        )
        self._state.fail(task, ev.error_value("nested", text))

    def cancel(self, client: ClientState, event: ev.Cancel) -> None:
        for object in reversed(event.objects):
            tasks = self._jobs.cancelled(object)
            maker = self._scheduler.tasks.maker(object)
            if not tasks and maker is not None and (event.begun or maker.worker is None):
                tasks = [maker]
            self._stop_all(tasks, event.force, event.recursive)

    def withdraw(self, client: ClientState, event: ev.Ask) -> None:
        """Drop a task if it wasn't sent, and answer where it was."""
        task = self._scheduler.tasks.maker(event.object)
        where = "over" if task is None else "waiting" if task.worker is None else "sent"
        if task is not None and where == "waiting":
            self._state.fail(task, cancelled(task))
        self._state.send(client.number, do.Answer(event.request, text=where))

    def interrupt(self, client: ClientState, event: ev.Interrupt) -> None:
        tasks = [task for job in event.jobs for task in self._jobs.cancelled(job)]
        tasks += [
            task
            for task in self._scheduler.tasks.values()
            if task.owner == client.number
            and task.submit.origin == event.origin
            and task.job is None
            and not task.is_creation
        ]
        self.interrupts.append((client.number, event.request, {t.submit.task for t in tasks}))
        self._stop_all(tasks, event.force)

    def answer_interrupts(self) -> None:
        left = []
        for number, request, tasks in self.interrupts:
            tasks &= self._scheduler.tasks.keys()
            if tasks:
                left.append((number, request, tasks))
            else:
                self._state.send(number, do.Answer(request))
        self.interrupts = left

    def _stop_all(self, tasks: list[Task], force: bool, recursive: bool = True) -> None:
        """Stop tasks, the last first: one that waits for another mustn't begin when that ends."""
        for task in reversed(tasks):
            self.stop(task, force, recursive)

    def stop(
        self, task: Task, force: bool = False, recursive: bool = True, why: ev.Value | None = None
    ) -> None:
        """Stop a task: drop it if queued, interrupt it if running; waiting ``get`` calls raise."""
        if task.is_over:
            return
        children = self._scheduler.tasks.children(task.submit.task) if recursive else []
        task.stops_children = recursive
        worker = task.worker
        why = why or cancelled(task)
        if worker is None and task.line is not None:
            task.final_value = why  # unless its caller has heard a result
        elif worker is None:
            self._state.fail(task, why)
        else:
            assert worker.client is not None
            if task.state is SENT:
                task.to(STOPPING)
            task.final_value = why
            if force and worker.actor is None and task is worker.running:
                self._state.out.append(do.Kill(worker.number))
            else:
                self._state.send(worker.client, do.Stop(task.submit.task))
        for child in children:
            self.stop(child, force, recursive)

    def gave_back(self, client: ClientState, event: ev.GaveBack) -> None:
        worker = self._scheduler.by_client.get(client.number)
        if worker is None:
            return
        if event.asked:
            worker.recalled = False
        tasks = [worker.sent[id] for id in dict.fromkeys(event.tasks) if id in worker.sent]
        # An actor's calls stay with its worker, except those that it was told to stop.
        self._give_back([t for t in tasks if t.actor is None or t.final_value is not None])

    def worker_exited(self, event: WorkerExited) -> None:
        """Handle a worker's end: retry or fail what it ran, queue the tasks behind that again."""
        worker, crash = self._state.pool.exited(
            event.worker, event.status, event.unforked, last_words(event), self._state.now
        )
        if worker is None:
            return
        self._output.exited(worker, event)
        tasks = self._scheduler.remove_dead_worker(worker)
        words = ADVICE if worker.kill_reason else last_words(event)
        if worker.actor is not None:
            self._actors.on_worker_lost(worker.actor, worker, tasks, crash, event)
            return
        crashed = crash, words, event.running
        self._again(worker, [t for t in tasks if t.line is None], crashed)
        self._lines.on_worker_lost(worker, crash, words, event)

    def _lease_closed(self, line: Line) -> None:
        tasks = list(line.tasks.values())
        for task in tasks:
            line.detach_call(task)
        running = line.crash[2]
        if line.is_returned:  # all had ended: the worker ran other tasks since
            self._again(line.worker, tasks, line.crash, ended=True)
        elif running and all(task.submit.task != running for task in tasks):
            self._give_back(tasks)  # it began another one last, whose result is known
        else:
            self._again(line.worker, tasks, line.crash)

    def _again(
        self, worker: Worker, tasks: list[Task], crashed: tuple[str, str, int], ended: bool = False
    ) -> None:
        """Retry or fail the tasks of a dead worker. Those after the running one had not begun.
        Those before it are over, but their results were not sent, so they count as run. ``ended``:
        all are over."""
        crash, words, running = crashed
        last = len(tasks) if ended else place_of(running, tasks)
        again = []
        for number, task in enumerate(tasks[: last + 1]):
            task.attempts += 1
            ran = number == last
            final = task.attempts > task.submit.retries or (worker.alone and ran)
            if not final or task.final_value is not None:
                again.append(task)
                continue
            text = crash if ended else f"{crash} while it ran `{tasks[last].submit.name}`"
            if not ran:
                text += "" if ended else ","
                text += f" before it had handed over what `{task.submit.name}` returned"
            code = "memory" if worker.kill_reason else "crashed"
            self._state.fail(task, ev.error_value(code, f"{text}.{words}"))
        self._give_back([*again, *tasks[last + 1 :]])

    def unused(self, entry: Entry) -> None:
        """Have workers drop a freed object that they cache as a function and no task needs.

        The loaded function may hold views of its bytes, so they are asked before the release.
        """
        self._scheduler.durations.forget(entry.id)
        for number in self._state.functions.pop(entry.id):
            self._catalog.view(entry, number)  # until it answers with Unview
            self._state.send(number, do.Forget((entry.id,), unused=True))

    def refresh(self, client: ClientState, event: ev.Refresh) -> None:
        """Tell all workers to check source files before any later task; new workers at their start.

        They note the state of the modules that they import, so that they see the next edit.
        """
        self._refreshed = event
        for number in self._scheduler.by_client:
            self._state.send(number, event)

    def worker_arrived(self, number: int) -> None:
        if self._refreshed is not None:
            self._state.send(number, self._refreshed)


def _owed(task: Task) -> int:
    """Return how many values its Done has: for an actor's creation one, which tells failure."""
    return 1 if task.submit.task == task.submit.actor else task.submit.returns


def cancelled(task: Task) -> ev.Value:
    return ev.error_value("cancelled", f"`{task.submit.name}` was stopped.")

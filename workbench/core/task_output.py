"""Component: to whom what a task shows is sent, and what it showed right before its worker died."""

from __future__ import annotations

from workbench.core import events as ev
from workbench.core.job_manager import JobManager
from workbench.core.lines import LineManager
from workbench.core.loop_events import WorkerExited
from workbench.core.state import ClientState, State
from workbench.core.tasks import Line, Task, Worker


class TaskOutput:
    def __init__(self, state: State, jobs: JobManager, lines: LineManager) -> None:
        self._state = state
        self._jobs = jobs
        self._lines = lines

    def output(self, client: ClientState, event: ev.Output) -> None:
        sender = self._state.scheduler.by_client.get(client.number)
        task = self._state.scheduler.tasks.get(event.task)
        if task is None and sender is not None:
            task = sender.lingering.get(event.task)
        if task is not None:
            self._show(task, client.worker, event.kind, event.data)
        elif sender is not None:  # a worker's call
            line = self._lines.that_brought(sender, event.task)
            if line is not None:
                line.unsent.append((event.task, event.kind, event.data))

    def exited(self, worker: Worker, event: WorkerExited) -> None:
        """A worker is gone. A call that came to it by a line may not be known yet."""
        for id, kind, data in event.unsent:
            task = self._state.scheduler.tasks.get(id)
            line = None if task is not None else self._lines.that_brought(worker, id)
            if task is not None:
                self._show(task, event.worker, kind, data)
            elif line is not None:
                line.unsent.append((id, kind, data))

    def came(self, task: Task) -> None:
        """A call by a line that wasn't known."""
        assert task.line is not None
        unsent, task.line.unsent = task.line.unsent, []
        for id, kind, data in unsent:
            if id == task.submit.task:
                self._show(task, task.line.worker.number, kind, data)
            else:
                task.line.unsent.append((id, kind, data))

    def ran(self, line: Line, event: ev.SettledCalls) -> None:
        """Calls by a line that weren't known, and are over."""
        unsent, line.unsent = line.unsent, []
        for id, kind, data in unsent:
            if id in event.tasks:
                output = ev.Output(id, kind, data, event.origin, line.worker.number)
                self._state.send(line.caller, output)
            else:
                line.unsent.append((id, kind, data))

    def _show(self, task: Task, worker: int, kind: str, data: bytes) -> None:
        id, origin = task.submit.task, task.submit.origin
        if task.job is not None:
            self._jobs.output(task.job, ev.Output(id, kind, data, worker=worker))
        else:
            self._state.send(task.audience, ev.Output(id, kind, data, origin, worker))

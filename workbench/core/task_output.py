"""Component: sends a task's output to its audience, even if its worker died before it did."""

from __future__ import annotations

from collections.abc import Collection

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
        elif sender is not None:  # perhaps a call that came by a line
            line = self._lines.that_brought(sender, event.task)
            if line is not None:
                line.unsent.append((event.task, event.kind, event.data))

    def exited(self, worker: Worker, event: WorkerExited) -> None:
        """Send the output that a dead worker left unsent; keep that of calls not known yet."""
        for id, kind, data in event.unsent:
            task = self._state.scheduler.tasks.get(id)
            line = None if task is not None else self._lines.that_brought(worker, id)
            if task is not None:
                self._show(task, event.worker, kind, data)
            elif line is not None:
                line.unsent.append((id, kind, data))

    def on_call_reported(self, task: Task) -> None:
        """Send the output kept for a call by a line, now that its caller has reported the call."""
        assert task.line is not None
        for _, kind, data in _taken(task.line, (task.submit.task,)):
            self._show(task, task.line.worker.number, kind, data)

    def on_settled_calls(self, line: Line, event: ev.SettledCalls) -> None:
        for id, kind, data in _taken(line, event.tasks):
            output = ev.Output(id, kind, data, event.origin, line.worker.number)
            self._state.send(line.caller, output)

    def _show(self, task: Task, worker: int, kind: str, data: bytes) -> None:
        id, origin = task.submit.task, task.submit.origin
        if task.job is not None:
            self._jobs.output(task.job, ev.Output(id, kind, data, worker=worker))
        else:
            self._state.send(task.audience, ev.Output(id, kind, data, origin, worker))


def _taken(line: Line, tasks: Collection[int]) -> list[tuple[int, str, bytes]]:
    taken = [piece for piece in line.unsent if piece[0] in tasks]
    line.unsent = [piece for piece in line.unsent if piece[0] not in tasks]
    return taken

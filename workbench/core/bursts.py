"""Component: messages that stand for several of another kind, as bursts have them."""

from __future__ import annotations

from workbench.core import events as ev
from workbench.core.leases import LeaseManager
from workbench.core.state import ClientState, State
from workbench.core.task_manager import TaskManager
from workbench.core.usual_tasks import add, are_usual


class Bursts:
    def __init__(self, state: State, tasks: TaskManager, leases: LeaseManager) -> None:
        self._state = state
        self._tasks = tasks
        self._leases = leases

    def submit_calls(self, client: ClientState, event: ev.SubmitCalls) -> None:
        state = self._state
        if len(event.tasks) != len(event.args):
            return state.hang_up(client.number, "calls without arguments")
        if are_usual(state, client, event):
            self._leases.last[client.number] = event.tasks[-1]
            for submit in event.submits():
                add(state, client, submit)
            return None
        for submit in event.submits():
            self._tasks.submit(client, submit)
            if state.failing:  # before the next one, as if each had come by itself
                self._tasks.fail_all()
        return None

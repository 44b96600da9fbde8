"""Component: generator tasks, whose items go one by one to one reader.

An item belongs to the worker that made it; the reader holds it as soon as it is yielded.
"""

from __future__ import annotations

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.object_manager import ObjectManager
from workbench.core.state import ClientState, State
from workbench.core.task_manager import TaskManager


class GeneratorManager:
    def __init__(self, state: State, objects: ObjectManager, tasks: TaskManager) -> None:
        self._state = state
        self._objects = objects
        self._tasks = tasks
        self.unread: list[int] = []  # tasks whose reader has dropped them

    def yielded(self, client: ClientState, event: ev.Yielded) -> None:
        """Seal an item and give the task's owner a hold on it; free it if the owner is gone."""
        state, catalog = self._state, self._state.catalog
        worker = state.scheduler.by_client.get(client.number)
        task = worker.sent.get(event.task) if worker is not None else None
        if task is None or not task.spec.ahead:
            return state.hang_up(client.number, "an item of no stream of its own")
        if not state.owns(client, event.object) or catalog.get(event.object) is not None:
            return state.hang_up(client.number, "an item that is not its own")
        if not state.budget.admits(client.number, (event.value,)):
            return state.hang_up(client.number, "an extent that is not its own")
        if event.value.segment:
            client.segments.add(event.value.segment)
        task.made += 1
        state.scheduler.waits.made(task)
        if task.owner in state.clients:
            entry = catalog.make(event.object)
            catalog.hold(entry, task.owner)
            self._objects.seal(entry, event.value, event.about)
            state.share(task.owner, event.value)
            state.send(task.owner, do.Item(event.task, event.object, event.value))
        else:
            self._objects.result(event.object, event.value)  # nobody holds it: free its bytes
        return None

    def took(self, client: ClientState, event: ev.Took) -> None:
        task = self._state.scheduler.tasks.get(event.task)
        if task is None or task.owner != client.number:
            return
        task.taken = max(task.taken, event.taken)
        if task.worker is not None and task.worker.client is not None:
            self._state.send(task.worker.client, event)

    def abandon(self, reader: int) -> None:
        for task in list(self._state.scheduler.tasks.values()):
            if task.owner == reader and task.spec.ahead:
                self._tasks.stop(task)

    def stop_unread(self) -> None:
        """Stop generators that their reader has dropped. Other dropped tasks run to their end."""
        unread, self.unread = self.unread, []
        for id in unread:
            task = self._state.scheduler.tasks.get(id)
            if task is not None and task.spec.ahead and task.final_value is None:
                self._tasks.stop(task)

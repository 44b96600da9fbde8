"""The tasks that aren't done: by their ids, by what they make, by who submitted them."""

from __future__ import annotations

from workbench.core.tasks import Task


class OpenTasks(dict[int, Task]):
    """By id. ``owners``: client → how many of these are its."""

    def __init__(self) -> None:
        self.owners: dict[int, int] = {}
        self.further: dict[int, Task] = {}  # by each result but the first
        self._children: dict[int, dict[int, Task]] = {}  # by the task that submitted them

    def maker(self, object: int) -> Task | None:
        """Who makes an object, if that is one of these."""
        return self.get(object) or self.further.get(object)

    def children(self, task: int) -> list[Task]:
        """Those that it has submitted, in their order."""
        return list(self._children.get(task, {}).values())

    def add(self, task: Task) -> None:
        """A new one, or an actor's creation that is needed once more."""
        submit, owner = task.submit, task.owner
        self[submit.task] = task
        self.owners[owner] = self.owners.get(owner, 0) + 1
        if submit.returns > 1:
            self.further.update(dict.fromkeys(task.results[1:], task))
        if task.parent_id:
            self._children.setdefault(task.parent_id, {})[submit.task] = task

    def remove(self, task: Task) -> None:
        """It is done."""
        submit, owner = task.submit, task.owner
        del self[submit.task]
        self.owners[owner] -= 1
        if not self.owners[owner]:
            del self.owners[owner]
        if submit.returns > 1:
            for id in task.results[1:]:
                del self.further[id]
        if task.parent_id:
            siblings = self._children[task.parent_id]
            del siblings[submit.task]
            if not siblings:
                del self._children[task.parent_id]

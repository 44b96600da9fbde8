"""Tasks that aren't done: by id, by result, by the task that submitted them."""

from __future__ import annotations

from workbench.core.tasks import Task


class OpenTasks(dict[int, Task]):
    """Open tasks by id. ``owners``: client → number of its open tasks."""

    def __init__(self) -> None:
        self.owners: dict[int, int] = {}
        self.further: dict[int, Task] = {}  # by each result except the first
        self._children: dict[int, dict[int, Task]] = {}  # by their parent, then by id

    def maker(self, object: int) -> Task | None:
        return self.get(object) or self.further.get(object)

    def children(self, task: int) -> list[Task]:
        return list(self._children.get(task, {}).values())

    def add(self, task: Task) -> None:
        """Add a new task, or an actor's creation that has to run again."""
        submit, owner = task.submit, task.owner
        self[submit.task] = task
        self.owners[owner] = self.owners.get(owner, 0) + 1
        if submit.returns > 1:
            self.further.update(dict.fromkeys(task.results[1:], task))
        if task.parent_id:
            self._children.setdefault(task.parent_id, {})[submit.task] = task

    def remove(self, task: Task) -> None:
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

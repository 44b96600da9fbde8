"""Whose turn it is, as who waits sees it."""

from __future__ import annotations

from collections.abc import Mapping


class Turns:
    """While a task waits, each other driver has one turn at most before the task's own has one."""

    def __init__(self) -> None:
        self._passed: dict[int, set[int]] = {}  # by task: who had one since its driver had

    def had(self, driver: int, waiting: Mapping[int, int]) -> None:
        """It was that driver's. ``waiting``: by task, the driver, before one of them was taken."""
        self._passed = {task: self._passed.get(task, set()) for task in waiting}
        for task, other in waiting.items():
            passed = self._passed[task]
            assert driver == other or driver not in passed, f"driver {other} was passed over"
            if driver == other:
                passed.clear()
            else:
                passed.add(driver)

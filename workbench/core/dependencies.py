"""What a task needs: objects pinned as long as it lives, and those it waits for."""

from __future__ import annotations

from workbench.core.catalog import Catalog
from workbench.core.entry import FREED, PENDING, Entry
from workbench.core.events import Value, error_value
from workbench.core.records import Task


def pin_arguments(catalog: Catalog, task: Task) -> Value | None:
    """Pin what the task needs; the value that it fails with if that can't be."""
    event = task.submit
    failed: Value | None = None
    lost = ""
    for id in (*((event.function,) if event.function else ()), *event.deps):
        entry = catalog.get(id)
        if entry is None or entry.state is FREED:
            lost = lost or ("unknown" if entry is None else "freed")
            continue
        if entry.state is PENDING:
            catalog.add_waiting_task(entry, task)
            task.pending_dependencies += 1
        elif entry.value is not None and entry.value.failed:
            failed = failed or entry.value
        pin(catalog, task, entry)
    for id in event.contains:
        entry = catalog.get(id)
        if entry is not None:
            pin(catalog, task, entry)
    if lost:
        text = "An argument of the task is not in the store any more. Put it again."
        return error_value(lost, text)
    return failed


def pin(catalog: Catalog, task: Task, entry: Entry) -> None:
    """The object lives as long as the task."""
    catalog.need(entry)
    task.pins.append(entry.id)


def unpin(catalog: Catalog, task: Task) -> None:
    """The task needs nothing any more."""
    pins, task.pins = task.pins, []
    for id in pins:
        entry = catalog.get(id)
        assert entry is not None
        catalog.unneed(entry)

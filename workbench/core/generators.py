"""Streams: tasks whose results come one by one, to one reader. A desk of the session's.

An item is an object of the worker that made it; from the moment it is yielded the reader holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.core import events as ev
from workbench.core import instructions as do

if TYPE_CHECKING:
    from workbench.core.session import Client, Session


class Generators:
    """See the module. Methods named like an event handle it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._schedule = session.scheduler

    def yielded(self, client: Client, event: ev.Yielded) -> None:
        """One more item: give it to who reads."""
        session = self._session
        worker = self._schedule.by_client.get(client.number)
        task = worker.sent.get(event.task) if worker is not None else None
        if task is None or not task.terms.ahead:
            return session.hang_up(client.number, "an item of no stream of its own")
        if not session.owns(client, event.object) or session.catalog.get(event.object) is not None:
            return session.hang_up(client.number, "an item that is not its own")
        if not session.budget.admits(client.number, (event.value,)):
            return session.hang_up(client.number, "an extent that is not its own")
        if event.value.segment:
            client.segments.add(event.value.segment)
        task.made += 1
        if task.owner in session.clients:
            entry = session.catalog.expect(event.object)
            session.catalog.hold(entry, task.owner)
            session.seal(entry, event.value, event.about)
            session.share(task.owner, event.value)
            session.send(task.owner, do.Item(event.task, event.object, event.value))
        else:
            session.task_manager.result(
                event.object, event.value
            )  # it is nobody's: the bytes go back
        return None

    def took(self, client: Client, event: ev.Took) -> None:
        """The reader wants more: let the worker know, wherever the stream is made now."""
        task = self._schedule.tasks.get(event.task)
        if task is None or task.owner != client.number:
            return
        task.taken = max(task.taken, event.taken)
        if task.worker is not None and task.worker.client is not None:
            self._session.send(task.worker.client, event)

    def abandon(self, reader: int) -> None:
        """The reader has gone: nobody will ever take what its streams make."""
        for task in list(self._schedule.tasks.values()):
            if task.owner == reader and task.terms.ahead and task in self._schedule:
                self._session.task_manager.stop(task)

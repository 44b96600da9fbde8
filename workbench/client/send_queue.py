"""Send queue: turns finalizer records into Drop, Unview and Cancel messages.

No socket. Called by whichever thread sends.
"""

from __future__ import annotations

from typing import Any

from workbench.client.generators import GeneratorReaders, ReaderWatch
from workbench.client.marshal import Marshal
from workbench.client.objects import KnownObjects
from workbench.client.reference_counter import HandleWatch
from workbench.core import events as ev
from workbench.core.events import ID_BITS
from workbench.memory.views import Watch

_KNOWING = (ev.Ask, ev.Find, ev.Grow, ev.Subscribe)
"""Their answers are to know of all that was finalized before them."""


class SendQueue:
    def __init__(
        self, objects: KnownObjects, generators: GeneratorReaders, marshal: Marshal, prefix: int
    ) -> None:
        self._objects = objects
        self._generators = generators
        self._marshal = marshal
        self._prefix = prefix

    def translate(self, queued: list[Any]) -> list[Any]:
        """Watches of dead handles, views and readers become Drop, Unview and Cancel."""
        messages: list[Any] = []
        brief = self._brief_views(queued)
        drops: list[int] = []
        unviews: list[tuple[int, int]] = []

        def on_finalized() -> None:
            if unviews:
                messages.append(ev.Unview(tuple(unviews)))
                unviews.clear()
            if drops:
                messages.append(ev.Drop(tuple(drops)))
                drops.clear()
            loaded = self._marshal.report(self._is_of_interest)
            if loaded is not None:
                messages.append(loaded)

        for message in queued:
            if type(message) is HandleWatch:
                self._objects.finalized(message)  # first: a newer handle may take over a hold
                drops.extend([message.id] * message.grants)
            elif type(message) is Watch:
                if id(message) not in brief:
                    unviews.append((message.id, message.segment))
                self._objects.finalized(message)
            elif type(message) is ReaderWatch:
                if self._generators.finalized(message):
                    messages.append(ev.Cancel(message.id))
            else:
                if type(message) in _KNOWING:
                    on_finalized()
                elif type(message) is ev.Took and messages and _is_earlier(messages[-1], message):
                    messages.pop()
                if id(message) not in brief:
                    messages.append(message)
        on_finalized()  # together, after the rest: a drop may come late
        return messages

    def _brief_views(self, queued: list[Any]) -> set[int]:
        """Views of arguments that began and ended since the last frame, both messages of each (by
        Python's `id`): the server needs to hear of neither. The task kept the bytes in place, and
        counted as a use when it was sent. Views by who has a handle count as a use themselves.
        """
        brief: set[int] = set()
        began: dict[tuple[int, int], list[ev.View]] = {}
        for message in queued:
            if type(message) is ev.View and message.object not in self._objects.values:
                began.setdefault((message.object, message.segment), []).append(message)
            elif began and type(message) is Watch:
                views = began.get((message.id, message.segment))
                if views:
                    brief |= {id(views.pop()), id(message)}
        return brief

    def _is_of_interest(self, id: int) -> bool:
        """Whether what loading it cost is worth a message: not what was put, read and dropped."""
        return id in self._objects.values or id >> ID_BITS != self._prefix


def _is_earlier(before: Any, took: ev.Took) -> bool:
    """Whether the later one says all that it says."""
    return type(before) is ev.Took and before.task == took.task

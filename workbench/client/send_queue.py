"""Send queue: turns finalizer records into Drop, Unview and Cancel messages.

No socket. Called by whichever thread sends.
"""

from __future__ import annotations

from typing import Any

from workbench.client.direct_calls import DirectCall, DirectCalls
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
        self,
        objects: KnownObjects,
        generators: GeneratorReaders,
        marshal: Marshal,
        lines: DirectCalls,
        prefix: int,
    ) -> None:
        self._objects = objects
        self._lines = lines
        self._generators = generators
        self._marshal = marshal
        self._prefix = prefix

    def translate(self, queued: list[Any]) -> list[Any]:
        """Watches of dead handles, views and readers become Drop, Unview and Cancel."""
        messages: list[Any] = []
        brief = self._brief_views(queued)
        silent = _unheard_of(queued)
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
                self._lines.forget(message.id)
                if message.id not in silent:
                    drops.extend([message.id] * message.grants)
            elif type(message) is DirectCall:
                task, message.is_said = message.submit.task, True  # before the look for an answer
                if task in silent:
                    assert message.answer is not None
                    unheard = self._lines.unheard(message, _taken(message.answer))
                    if unheard is not None:
                        messages.append(unheard)
                else:
                    if message.unheard:
                        self._lines.unheard(message, 0)
                    messages.append(message.submit)
                    if message.answer is not None and not message.answer.segment:
                        messages.append(ev.Settled(task, message.answer))
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


def _taken(value: ev.Value) -> int:
    """Of its maker's leave for inline results; see `Budget.admits`."""
    return len(value.header) if len(value.header) > 1 and not value.failed else 0


def _unheard_of(queued: list[Any]) -> set[int]:
    """Calls by lines that are answered, and whose results nobody can ask for any more."""
    if DirectCall not in map(type, queued):
        return set()
    gone: set[int] = set()
    answered: set[int] = set()
    for message in queued:
        if type(message) is HandleWatch:
            gone.add(message.id)
        elif type(message) is DirectCall:
            if message.answer is not None and not (message.is_said or message.has_shown):
                answered.add(message.submit.task)
        elif type(message) not in (Watch, ev.Settled):
            return set()  # it may be about one of them
    return answered & gone


def _is_earlier(before: Any, took: ev.Took) -> bool:
    """Whether the later one says all that it says."""
    return type(before) is ev.Took and before.task == took.task

"""Send queue: turns finalizer records into Drop, Unview and Cancel messages.

No socket. Called by whichever thread sends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

from workbench.client.direct_calls import DirectCalls
from workbench.client.direct_line import DirectCall
from workbench.client.generators import GeneratorReaders, ReaderWatch
from workbench.client.marshal import Marshal
from workbench.client.objects import KnownObjects
from workbench.client.reference_counter import HandleWatch
from workbench.core import events as ev
from workbench.core.events import ID_BITS
from workbench.memory.views import Watch

_KNOWING = (ev.Ask, ev.Find, ev.Grow, ev.Subscribe)
"""Their answers are to know of all that was finalized before them."""


class Beside(NamedTuple):
    """What goes elsewhere, not later than what is queued behind it."""

    send: Callable[[], object]


_QUIET = frozenset({DirectCall, HandleWatch, Watch, ev.Settled, Beside})
"""What isn't about the results of calls that the server doesn't know, but for their ends."""


class SendQueue:
    def __init__(
        self,
        objects: KnownObjects,
        generators: GeneratorReaders,
        marshal: Marshal,
        lines: DirectCalls,
        prefix: int,
        rest: Callable[[], list[Any]] = list,
    ) -> None:
        """``rest`` is what is queued behind what is translated."""
        self._objects = objects
        self._lines = lines
        self._generators = generators
        self._marshal = marshal
        self._prefix = prefix
        self._rest = rest

    def due(self, queued: deque[Any], seen: int, late: bool) -> int:
        """How many of the first messages shall go with a tick.

        Calls by lines, and the ends of their results' handles, wait until it is ``late``, while
        nothing else is queued behind them: then all of most is known, which is cheaper to tell,
        or nobody needs to hear of it. What isn't answered by then waits once more. The first
        ``seen`` were looked at before.
        """
        unsaid, others = self._lines.unsaid, 0
        # Finalizers append whenever the collector runs. It doesn't inside `list` of a deque, but
        # may where `islice` is made, whose iterator is there by then.
        for number, message in enumerate(list(queued)[seen:], seen + 1):
            kind = type(message)
            if kind is not DirectCall and (kind is not HandleWatch or message.id not in unsaid):
                others = number
        if others or not late:
            return others
        count = 0
        for message in list(queued):
            if type(message) is DirectCall and message.answer is None and not message.is_late:
                break
            count += 1
        for message in list(queued)[count:]:
            if type(message) is DirectCall:
                message.is_late = True
        return count

    def told(self, heard: int) -> int:
        """Of so many answers, how many have nothing queued of them; see `Connection.told`."""
        calls = [m for m in self._rest() if type(m) is DirectCall and m.answer is not None]
        return min([heard, *(call.heard - 1 for call in calls)])

    def translate(self, queued: list[Any]) -> list[Any]:
        """Watches of dead handles, views and readers become Drop, Unview and Cancel."""
        if any(map(_is_unsent, queued)):
            self._lines.push()  # said only when its worker has it
            if any(map(_is_unsent, queued)):
                raise BlockingIOError  # we are in a finalizer that runs in there
        messages: list[Any] = []
        brief = self._brief_views(queued)
        silent, unsaid = self._unheard_of(queued), self._lines.unsaid
        drops: list[int] = []
        unviews: list[tuple[int, int]] = []

        runs = _Runs(messages)

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
                if message.id in unsaid:
                    unsaid.discard(message.id)
                else:
                    drops.extend([message.id] * message.grants)
            elif type(message) is DirectCall:
                task, message.is_said = message.submit.task, True  # before the look for an answer
                if task not in silent:
                    unsaid.discard(task)
                if not message.submit.line:
                    runs.end()
                    messages.append(message.submit)
                elif task in silent:
                    assert message.answer is not None
                    unheard = self._lines.unheard(message, _taken(message.answer))
                    if unheard is not None:
                        messages.append(unheard)
                else:
                    if message.unheard:
                        self._lines.unheard(message, 0)
                    if message.answer is None or message.has_shown:
                        answer = message.answer
                        runs.end()
                        messages.append(message.submit)
                        if answer is not None:
                            messages.append(ev.Settled(task, answer))
                    else:
                        runs.add(message.submit, message.answer)
            elif type(message) is Beside:
                message.send()
            elif type(message) is ev.LineClosed:
                runs.end()
                if (rest := self._lines.closes(message.line)) is not None:
                    messages.append(rest)
                messages.append(message)
            elif type(message) is Watch:
                if id(message) not in brief:
                    unviews.append((message.id, message.segment))
                self._objects.finalized(message)
            elif type(message) is ReaderWatch:
                if self._generators.finalized(message):
                    messages.append(ev.Cancel(message.id))
            else:
                runs.end()
                if type(message) in _KNOWING:
                    on_finalized()
                elif type(message) is ev.Took and messages and _is_earlier(messages[-1], message):
                    messages.pop()
                if id(message) not in brief:
                    messages.append(message)
        runs.end()
        on_finalized()  # together, after the rest: a drop may come late
        return messages

    def _unheard_of(self, queued: list[Any]) -> set[int]:
        """Calls by lines that are answered, and whose results nobody can ask for any more."""
        found = {
            message.submit.task
            for message in queued
            if type(message) is DirectCall
            and message.answer is not None
            and not message.is_said
            and not message.has_shown
            and not self._objects.is_held(message.submit.task)
        }
        # After that look: what is about one of them was queued while there was a handle.
        if found and not _QUIET.issuperset(map(type, chain(queued, self._rest()))):
            return set()
        return found

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


class _Runs:
    """Calls that are over: of those that are said one after the other, one `SettledCalls`."""

    def __init__(self, messages: list[Any]) -> None:
        self._messages = messages
        self._tasks: list[int] = []
        self._values: list[ev.Value] = []
        self._of = 0, 0

    def add(self, submit: ev.Submit, value: ev.Value) -> None:
        of = submit.line, submit.origin
        if of != self._of:
            self.end()
            self._of = of
        self._tasks.append(submit.task)
        self._values.append(value)

    def end(self) -> None:
        """Before anything else is said."""
        if self._tasks:
            line, origin = self._of
            self._messages.append(
                ev.SettledCalls(line, tuple(self._tasks), tuple(self._values), origin)
            )
            self._tasks, self._values = [], []


def _is_unsent(message: Any) -> bool:
    return type(message) is DirectCall and not message.is_sent and message.submit.line > 0


def _taken(value: ev.Value) -> int:
    """Of its maker's leave for inline results; see `Budget.admits`."""
    return len(value.header) if len(value.header) > 1 and not value.failed else 0


def _is_earlier(before: Any, took: ev.Took) -> bool:
    """Whether the later one says all that it says."""
    return type(before) is ev.Took and before.task == took.task

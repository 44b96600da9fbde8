"""Outgoing translator: queued items become messages; finalizer records Drop, Unview, Cancel.

No socket. Called by whichever thread sends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, filterfalse
from typing import Any, NamedTuple

from workbench.client.call_batches import CallBatch
from workbench.client.direct_calls import DirectCalls
from workbench.client.direct_line import CallRun
from workbench.client.generators import GeneratorReaders, ReaderWatch
from workbench.client.marshal import Marshal
from workbench.client.objects import KnownObjects
from workbench.client.reference_counter import HandleWatch, ReferenceCounter
from workbench.core import events as ev
from workbench.core.events import ID_BITS
from workbench.memory.views import Watch

_KNOWING = (ev.Ask, ev.Find, ev.Grow, ev.Subscribe)
"""Messages whose answers must take into account all that was finalized before them."""


class Beside(NamedTuple):
    """Something sent another way, not later than the messages queued behind it."""

    send: Callable[[], object]


_QUIET = frozenset({CallRun, HandleWatch, Watch, ev.Settled, ev.Unblocked, Beside})
"""Types that never name results of calls that the server doesn't know, except their ends."""


@dataclass(eq=False)
class OutgoingTranslator:
    _references: ReferenceCounter
    _objects: KnownObjects
    _generators: GeneratorReaders
    _marshal: Marshal
    _lines: DirectCalls
    _prefix: int
    _rest: Callable[[], list[Any]] = list  # returns what is queued behind what is being translated

    def due(self, queued: deque[Any], seen: int, late: bool) -> int:
        """Return how many of the first messages a tick sends.

        Calls by lines, and the ends of their results' handles, wait until it is ``late``, if
        nothing else is queued behind them: by then most are answered, which is cheaper to tell,
        or the server needn't hear of them. A call that isn't answered by then waits once more.
        The first ``seen`` were examined before.
        """
        unsaid, others = self._lines.unreported_tasks, 0
        # Finalizers append whenever the collector runs. It doesn't run inside `list` of a deque,
        # but may while an `islice` is made, whose iterator would then fail.
        for number, message in enumerate(list(queued)[seen:], seen + 1):
            kind = type(message)
            if kind is not CallRun and (kind is not HandleWatch or message.id not in unsaid):
                others = number
        if others or not late:
            return others
        count = 0
        for message in list(queued):
            if type(message) is CallRun and not (message.is_over or message.is_late):
                break
            count += 1
        for message in list(queued)[count:]:
            if type(message) is CallRun:
                message.is_late = True
        return count

    def reported(self, answered: int) -> int:
        """Return how many of the first ``answered`` runs are sent: `Connection.runs_reported`."""
        runs = [m for m in self._rest() if type(m) is CallRun and m.answer_number]
        return min([answered, *(run.answer_number - 1 for run in runs)])

    def translate(self, queued: list[Any]) -> list[Any]:
        """Turn watches of dead handles, views and readers into Drop, Unview and Cancel."""
        if any(map(_is_unsent, queued)):
            self._lines.push()  # the server hears of a run only when its worker has it
            if any(map(_is_unsent, queued)):
                raise BlockingIOError  # we are in a finalizer that runs inside `push`
        messages: list[Any] = []
        brief = self._brief_views(queued)
        silent, unsaid = self._unheard_of(queued), self._lines.unreported_tasks
        drops: list[int] = []
        unviews: list[tuple[int, int]] = []

        runs = _Settled(messages)

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
                self._objects.finalized(message)  # first: may move a hold to a newer handle
                self._lines.forget(message.id)
                if message.id in unsaid:
                    unsaid.discard(message.id)
                else:
                    drops.extend([message.id] * message.grants)
            elif type(message) is CallRun:
                self._report(message, silent, runs)
            elif type(message) is CallBatch:
                runs.say(message.tell(self._lines))
            elif type(message) is Beside:
                message.send()
            elif type(message) is ev.LineClosed:
                runs.end()
                if (rest := self._lines.last_unheard(message.line)) is not None:
                    messages.append(rest)
                messages.append(message)
            elif type(message) is Watch:
                if id(message) not in brief:
                    unviews.append((message.id, message.segment))
                self._objects.finalized(message)
            elif type(message) is ReaderWatch:
                if self._generators.finalized(message):
                    messages.append(ev.Cancel((message.id,)))
            else:
                runs.end()
                if type(message) in _KNOWING:
                    on_finalized()
                elif type(message) is ev.Took and messages and _is_earlier(messages[-1], message):
                    messages.pop()
                if id(message) not in brief:
                    messages.append(message)
        runs.end()
        on_finalized()  # together, after the rest: drops can wait
        return messages

    def _report(self, run: CallRun, silent: set[int], settled: _Settled) -> None:
        """Add the messages that tell the server of a run of calls, in their order."""
        run.is_reported = True  # before the answers are read
        reported = [task for task in run.calls if task not in silent]
        nbytes = sum([_taken(run.answers[task]) for task in run.calls.keys() & silent])
        if (nbytes or run.unheard) and (unheard := self._lines.unheard(run, nbytes)) is not None:
            settled.messages.append(unheard)
        if reported:
            self._lines.unreported_tasks.difference_update(reported)
            self._references.on_reported(reported)
        for task in reported:
            answer = None if run.is_withdrawn else run.answers.get(task)
            if answer is None or task in run.shown:
                settled.say(run.submit(task))
                if answer is not None:
                    settled.say(ev.Settled(task, answer))
            else:
                settled.add(run, task, answer)

    def _unheard_of(self, queued: list[Any]) -> set[int]:
        """Return answered calls by lines whose results have no handle any more."""
        found: set[int] = set()
        for run in queued:
            if type(run) is CallRun and not run.is_reported:
                unheld = filterfalse(self._references.alive, list(run.answers))
                found.update(set(unheld) - run.shown)
        # After that: a message about one of them was queued while it had a handle.
        if found and not all(map(_is_quiet, chain(queued, self._rest()))):
            return set()
        return found

    def _brief_views(self, queued: list[Any]) -> set[int]:
        """Return the ids (Python's) of both messages of each view of an argument that began and
        ended since the last frame: the server needs neither. The task kept the bytes in place and
        counted as a use when it was sent. A view beside a handle counts as a use itself.
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
        """True if the cost of loading is worth a message: not of what was put, read, dropped."""
        return id in self._objects.values or id >> ID_BITS != self._prefix


class _Settled:
    """Collects consecutive finished calls into one `SettledCalls`."""

    def __init__(self, messages: list[Any]) -> None:
        self.messages = messages
        self._tasks: list[int] = []
        self._values: list[ev.Value] = []
        self._source = 0, 0  # line and cell

    def add(self, run: CallRun, task: int, value: ev.Value) -> None:
        source = run.line.number, run.form.origin
        if source != self._source:
            self.end()
            self._source = source
        self._tasks.append(task)
        self._values.append(value)

    def say(self, message: Any) -> None:
        self.end()
        self.messages.append(message)

    def end(self) -> None:
        """Append the collected calls. Called before any other message is appended."""
        if self._tasks:
            line, origin = self._source
            calls = ev.SettledCalls(line, tuple(self._tasks), tuple(self._values), origin)
            self.messages.append(calls)
            self._tasks, self._values = [], []


def _is_quiet(message: Any) -> bool:
    kind = type(message)
    return kind in _QUIET or (kind is ev.Done and not any(v.contains for v in message.values))


def _is_unsent(message: Any) -> bool:
    return type(message) is CallRun and not (message.is_sent or message.is_withdrawn)


def _taken(value: ev.Value) -> int:
    """Return the bytes that count against the worker's inline allowance; see `Budget.admits`."""
    return len(value.header) if len(value.header) > 1 and not value.failed else 0


def _is_earlier(before: Any, took: ev.Took) -> bool:
    """True if ``took`` makes the message before it needless."""
    return type(before) is ev.Took and before.task == took.task

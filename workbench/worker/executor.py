"""The worker's loop: take a task, build its arguments, run it, hand over its results.

The main thread runs tasks. `add` and `recall` run in whichever thread reads the socket.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from workbench.client.store import Claims
from workbench.client.tasks import SLOTTED, fill_slots, slot_names
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.errors import WorkbenchError
from workbench.serialization import codec
from workbench.worker.tracebacks import describe_error

if TYPE_CHECKING:
    from workbench.client.client import Client

HOLD_BACK = 0.0005
"""Seconds for which results of short tasks wait for each other while more tasks are queued."""


Result = tuple[ev.Value, ev.About | None]
Results = tuple[tuple[ev.Value, ...], tuple[ev.About | None, ...]]

_ARGUMENTS = codec.Where("arguments", "on the worker")


class Failed:
    """One result that is an exception, beside others that are values."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Executor:
    """Runs what the server sends to ``client``."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queue: deque[do.Run] = deque()
        self._functions: dict[int, Callable[..., Any]] = {}
        self._sources: dict[int, ev.Value] = {}  # the functions' values: each is sent but once
        self._waits = 0
        client.on_run = self.add
        client.on_recall = self.recall
        client.on_forget = self._forget
        client.on_end = self._session_over
        client.blocking = self._lend_slot

    def serve(self) -> None:
        """Run tasks until the process is told to end (see `_session_over`)."""
        connection, queue = self._client.connection, self._queue
        flushed = time.perf_counter()
        while True:
            if not queue:
                connection.wait_for(lambda: bool(queue))
                flushed = time.perf_counter()
            elif time.perf_counter() - flushed > HOLD_BACK:
                connection.flush()
                flushed = time.perf_counter()
            try:
                run = queue.popleft()
            except IndexError:  # recalled meanwhile
                continue
            self._run(run)
            del run

    # -- the reading thread -----------------------------------------------------------------------

    def add(self, run: do.Run) -> None:
        """One more task, unless the running one has lent our slot away."""
        if len(run.values) > len(run.deps):
            self._sources[run.function] = run.values[-1]
        if self._waits:
            self._client.connection.send(ev.GaveBack((run.task,)))
        else:
            self._queue.append(run)

    def recall(self, count: int) -> None:
        """Give back up to ``count`` tasks that haven't begun, the last ones first."""
        tasks = self._take_back(count)
        self._client.connection.send(ev.GaveBack(tasks, asked=True))

    def _take_back(self, count: int) -> tuple[int, ...]:
        tasks: list[int] = []
        while len(tasks) < count:
            try:
                tasks.append(self._queue.pop().task)
            except IndexError:
                break
        return tuple(reversed(tasks))

    def _forget(self, id: int) -> None:
        self._functions.pop(id, None)
        self._sources.pop(id, None)

    def _session_over(self, reason: str) -> None:
        # A task may be in the middle of anything, but nobody is left who could want its result.
        os._exit(0)

    @contextlib.contextmanager
    def _lend_slot(self) -> Iterator[None]:
        """Around every wait for other objects: what was queued here may be what we wait for."""
        self._waits += 1
        self._client.connection.post(ev.GaveBack(self._take_back(len(self._queue) + 1)))
        self._client.connection.post(ev.Blocked())
        try:
            yield
        finally:
            self._waits -= 1
            self._client.connection.post(ev.Unblocked())

    # -- one task: the main thread ----------------------------------------------------------------

    def _run(self, run: do.Run) -> None:
        self._client.running = run
        self._client.origin = lambda: run.origin  # what a nested task prints goes where ours does
        claims: Claims = []
        started = time.perf_counter()
        try:
            function = self._function(run)
            args, kwargs = self._arguments(run)
            started = time.perf_counter()
            result = function(*args, **kwargs)
            seconds = time.perf_counter() - started
            values, abouts = self._results(run, result, claims)
        except BaseException as error:
            seconds = time.perf_counter() - started
            self._client.unclaim(claims)
            value = self._encode_error(error, run.name)
            values, abouts = (value,) * run.returns, ()
        finally:
            self._client.running = None
        # Here, where `result` still lives: refs inside it are dropped after this, not before.
        self._client.connection.post(ev.Done(run.task, values, seconds, abouts))

    def _function(self, run: do.Run) -> Callable[..., Any]:
        function = self._functions.get(run.function)
        if function is None:
            loaded = self._client.objects.read(run.function, self._sources[run.function], run.name)
            self._functions[run.function] = function = loaded
        return function

    def _arguments(self, run: do.Run) -> Any:
        deps = run.deps
        if not deps and not run.args:
            return (), {}
        read = self._client.objects.read
        sources = list(zip(deps, run.values, strict=False))
        if run.args == SLOTTED:
            packed = read(*sources.pop(0), "arguments")
        else:
            packed = codec.deserialize_inline(run.args, where=_ARGUMENTS)
        if not sources:
            return packed
        names = slot_names(packed)
        return fill_slots(packed, [read(*source, names[n]) for n, source in enumerate(sources)])

    def _results(self, run: do.Run, result: Any, claims: Claims) -> Results:
        if run.returns == 1 and type(result) is not Failed:
            return _together([self._encode(result, run.name, claims)])
        if run.returns == 1:
            result = (result,)
        elif run.returns == 0:
            return (), ()
        if not isinstance(result, tuple | list) or len(result) != run.returns:
            size = f"{len(result)} value(s)" if isinstance(result, tuple | list) else "one value"
            raise ValueError(
                f"The task was submitted with num_returns={run.returns} and returned {size}. "
                "Return a tuple of that length, or change num_returns."
            )
        return _together([self._part(part, run.name, claims) for part in result])

    def _part(self, part: Any, task: str, claims: Claims) -> Result:
        """One of several results. If it can't be sent, that is its own failure alone."""
        try:
            if type(part) is Failed:
                raise part.error
            return self._encode(part, task, claims)
        except WorkbenchError as error:
            return self._encode_error(error, task), None

    def _encode(self, result: Any, task: str, claims: Claims) -> Result:
        """The result, and what it cost unless it is small."""
        encoded = self._client.marshal.encode(
            result, claims, lambda: {f"the result of {task}": result}
        )
        stored = encoded.stored
        if not stored.segment:
            return stored, None
        return stored, encoded.about(codec.describe(result), f"result of {task}")

    def _encode_error(self, error: BaseException, task: str) -> ev.Value:
        described = describe_error(error, task)
        return ev.Value(self._client.marshal.inline(described), failed=True)


def _together(results: list[Result]) -> Results:
    abouts = tuple(about for _, about in results)
    return tuple(value for value, _ in results), abouts if any(abouts) else ()

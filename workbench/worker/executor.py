"""The worker's loop: take a task, build its arguments, run it, hand over its results.

The main thread runs tasks, or an actor's threads or loop do (`host`). `add`, `stop` and `recall`
run in whichever thread reads the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from workbench.client.arguments import SLOTTED, fill_slots, slot_names
from workbench.client.object_store import Claims
from workbench.client.referrers import main_variables
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.errors import (
    ActorDiedError,
    ActorExit,
    StoreFullError,
    WorkbenchError,
    task_error,
)
from workbench.host.interrupts import Interrupts
from workbench.host.link import Failed
from workbench.host.reloading import Reloader
from workbench.host.tracebacks import describe_error
from workbench.serialization import codec
from workbench.worker.actor_host import Host
from workbench.worker.generators import Outflow

if TYPE_CHECKING:
    from workbench.client.client import Client

HOLD_BACK = 0.0005
"""Seconds for which results of short tasks wait for each other while more tasks are queued."""


CREATION = "__init__"
"""The method that makes an actor."""

Result = tuple[ev.Value, ev.About | None]
Abouts = tuple[ev.About | None, ...]
Results = tuple[tuple[ev.Value, ...], Abouts]
Types = tuple[type[BaseException], ...]

_END = object()
_STOPPED = (KeyboardInterrupt, asyncio.CancelledError)

_ARGUMENTS = codec.Where("arguments", "on the worker")
_OPTIONS = codec.Where("retry_exceptions", "on the worker")


class Executor:
    """Runs what the server sends to ``client``, and tells ``begins`` and ``ends`` of each task.

    ``ends`` sends what it has shown, before the task's Done goes out.
    """

    def __init__(
        self,
        client: Client,
        begins: Callable[[int], None],
        ends: Callable[[int], None],
        reload: bool = False,
    ) -> None:
        self._client = client
        self._begins = begins
        self._ends = ends
        self._reloader = Reloader(reload)
        self._queue: deque[do.Run] = deque()
        self._functions: dict[int, Callable[..., Any]] = {}
        self._sources: dict[int, ev.Value] = {}  # the functions' values: each is sent but once
        self._waits = 0
        self._host: Host | None = None  # in an actor's worker
        self.interrupts = Interrupts()
        self._outflows: dict[int, Outflow] = {}  # streams that are queued, or being made
        client.origin = self._origin
        client.roots = self._variables
        client.on_took = self._took
        client.on_run = self.add
        client.on_refresh = self._reloader.refresh
        client.on_stop = self.stop
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
            run = self.next()
            if run is None:  # recalled meanwhile
                continue
            self.run(run)
            del run
            if self._host is not None and not self._host.is_plain:
                self._host.serve()

    def next(self) -> do.Run | None:
        """Take the first one out of the queue."""
        try:
            return self._queue.popleft()
        except IndexError:
            return None

    @property
    def _is_alone(self) -> bool:
        """Whether tasks run one at a time, in the main thread."""
        return self._host is None or self._host.is_plain

    def _origin(self) -> int:
        """What a nested task prints goes where ours does."""
        run = self._client.work.current
        return 0 if run is None else run.origin

    def _variables(self) -> dict[str, Any]:
        """Where to look for what is held here."""
        return {**main_variables(), **({} if self._host is None else self._host.variables)}

    # -- the reading thread -----------------------------------------------------------------------

    def add(self, run: do.Run) -> None:
        """One more task, unless the running one has lent our slot away."""
        if len(run.values) > len(run.deps):
            self._sources[run.function] = run.values[-1]
        if self._waits and self._host is None:
            self._client.connection.send(ev.GaveBack((run.task,)))
            return
        if is_stream(run):
            self._outflows[run.task] = Outflow(run)
        self._queue.append(run)
        if self._host is not None:
            self._host.stir()

    def _took(self, task: int, taken: int) -> None:
        outflow = self._outflows.get(task)
        if outflow is not None:
            outflow.took(taken)

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
            self._outflows.pop(tasks[-1], None)
        return tuple(reversed(tasks))

    def _forget(self, id: int) -> None:
        self._functions.pop(id, None)
        self._sources.pop(id, None)

    def _session_over(self, reason: str) -> None:
        # A task may be in the middle of anything, but nobody is left who could want its result.
        os._exit(0)

    @contextlib.contextmanager
    def _lend_slot(self) -> Iterator[None]:
        """Around every wait for other objects: what was queued here may be what we wait for.

        An actor has no slot to lend, and its calls can run nowhere else.
        """
        if self._host is not None:
            yield
            return
        self._waits += 1
        self._client.connection.post(ev.GaveBack(self._take_back(len(self._queue) + 1)))
        self._client.connection.post(ev.Blocked())
        try:
            yield
        finally:
            self._waits -= 1
            self._client.connection.post(ev.Unblocked())

    # -- stopping ---------------------------------------------------------------------------------

    def stop(self, task: int) -> None:
        """Somebody stopped it. The reading thread."""
        for run in list(self._queue):
            if run.task == task:
                with contextlib.suppress(ValueError):  # it begins just now
                    self._queue.remove(run)
                    self._outflows.pop(task, None)
                    self._client.connection.send(ev.Done(task, _cancelled(run), 0.0))
                    return
        self.interrupts.stop(task)
        if self._host is not None:
            self._host.cancel(task)

    # -- one task: the main thread, or one of an actor's ------------------------------------------

    def run(self, run: do.Run) -> None:
        """Run one task from its arguments to its Done."""
        with self._client.work.task(run):
            claims: Claims = []
            again = False
            started = time.perf_counter()
            self._begins(run.task)
            named: Types = ()
            self.interrupts.begin(run.task)
            try:
                if self._is_alone:
                    self._reloader.before_task()
                named = self._named(run)
                function, args, kwargs = self._prepared(run)
                started = time.perf_counter()
                self.interrupts.enter(run.task)
                result = function(*args, **kwargs)
                if is_stream(run):
                    result = self._hand_out(run, result)
                self.interrupts.inside = 0
                self.interrupts.end(run.task)
                values, abouts = self._results(run, result, claims)
            except BaseException as error:
                self.interrupts.inside = 0
                self.interrupts.end(run.task)
                self._client.puts.unclaim(claims)
                values, abouts = self._failure(run, error), ()
                again = isinstance(error, named) and not self.interrupts.is_stopping(run.task)
            if self._is_alone:
                self._reloader.after_task()
            # Here, where `result` still lives: refs inside it are dropped after this, not before.
            self._done(run, values, abouts, started, again)

    async def run_async(self, run: do.Run) -> None:
        """The same on an actor's loop: what its method awaits lets others run."""
        with self._client.work.task(run):
            claims: Claims = []
            again = False
            started = time.perf_counter()
            named: Types = ()
            try:
                if self.interrupts.is_stopping(run.task):
                    raise asyncio.CancelledError
                named = self._named(run)
                function, args, kwargs = self._prepared(run)
                result = function(*args, **kwargs)
                if inspect.isawaitable(result):
                    result = await result
                if is_stream(run):
                    result = await self._hand_out_async(run, result)
                values, abouts = self._results(run, result, claims)
            except BaseException as error:
                self._client.puts.unclaim(claims)
                values, abouts = self._failure(run, error), ()
                again = isinstance(error, named) and not self.interrupts.is_stopping(run.task)
            self._done(run, values, abouts, started, again)

    # -- streams ----------------------------------------------------------------------------------

    def _hand_out(self, run: do.Run, items: Any) -> int:
        """Give each item to the reader as it is made, when there is room; returns how many."""
        in_main = self.interrupts.inside == run.task
        outflow = self._outflows[run.task]
        iterator = iter(_iterable(run, items))
        with contextlib.closing(_Closable(iterator)):
            while True:
                self._wait_for_room(outflow)
                item = next(iterator, _END)
                if item is _END:
                    return outflow.made
                if outflow.is_new():
                    self.interrupts.inside = 0  # what begins to leave leaves whole
                    while not self._deliver(run, item, outflow):
                        self.interrupts.inside = run.task if in_main else 0
                        self._wait_for_room(outflow)
                        self.interrupts.inside = 0
                    self.interrupts.inside = run.task if in_main else 0
                    self.interrupts.check(run.task)
                outflow.made += 1

    def _wait_for_room(self, outflow: Outflow) -> None:
        if not outflow.has_room():
            with self._client.blocking():
                self._client.connection.wait_for(outflow.has_room)

    def _deliver(self, run: do.Run, item: Any, outflow: Outflow) -> bool:
        """Hand out one item; False if it has to wait until its reader has taken others."""
        try:
            self._client.puts.hand_out(run, item)
        except StoreFullError:
            if not outflow.narrow():
                raise
            return False
        return True

    async def _hand_out_async(self, run: do.Run, items: Any) -> int:
        """The same on a loop: it waits for items, and for room, without blocking the others."""
        outflow = self._outflows[run.task]
        async with contextlib.aclosing(_async_iterator(run, items)) as iterator:
            while True:
                await outflow.room()
                item = await anext(iterator, _END)
                if item is _END:
                    return outflow.made
                while outflow.is_new() and not self._deliver(run, item, outflow):
                    await outflow.room()
                outflow.made += 1

    def _prepared(self, run: do.Run) -> tuple[Callable[..., Any], Any, Any]:
        """What to call, with what."""
        args, kwargs = self._arguments(run)
        if not run.method:
            return self._function(run), args, kwargs
        if run.method == CREATION:
            self._host = Host(self, self._client.connection, cast(Any, self._function(run)))
            return self._host.make, args, kwargs
        assert self._host is not None
        return self._host.method(run.method), args, kwargs

    def _done(
        self,
        run: do.Run,
        values: tuple[ev.Value, ...],
        abouts: Abouts,
        started: float,
        again: bool,
    ) -> None:
        self.interrupts.forget(run.task)
        self._outflows.pop(run.task, None)
        seconds = time.perf_counter() - started
        self._ends(run.task)
        done = ev.Done(run.task, values, seconds, abouts, again)
        if self._host is None or self._host.is_plain or run.method == CREATION:
            self._client.connection.post(done)  # this thread sends it before it waits
            if run.last and (self._host is None or seconds > HOLD_BACK):
                self._client.connection.flush()  # short calls of an actor wait for each other
        elif self._host.is_async:
            self._host.send(done)
        else:
            self._client.connection.send(done)

    def _failure(self, run: do.Run, error: BaseException) -> tuple[ev.Value, ...]:
        if isinstance(error, ActorExit) and self._host is not None:
            self._leave(run)
        if self.interrupts.is_stopping(run.task) and isinstance(error, _STOPPED):
            return _cancelled(run)
        described = describe_error(error, run.name)
        if run.method == CREATION:
            described = task_error(
                ActorDiedError, run.name, f"The actor could not be made: {described.cause_text}",
                described.frames, described.remote_notes,
            )  # fmt: skip
        value = ev.Value(self._client.marshal.inline(described), failed=True)
        return (value,) * _owed(run)

    def _named(self, run: do.Run) -> Types:
        """After which exceptions it may be tried again: its `retry_exceptions`."""
        if run.spec is None or not run.spec.retry_on:
            return ()
        named: Types = codec.deserialize_inline(run.spec.retry_on, where=_OPTIONS)
        return named

    def _leave(self, run: do.Run) -> None:
        """The actor wants to end: its process does, when the server knows why."""
        self._ends(run.task)
        connection = self._client.connection
        connection.send(ev.Leave())
        connection.wait_for(connection.flush)
        os._exit(0)

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
        if run.method == CREATION:
            return (ev.Value(b"N"),), ()
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
        return encoded.stored, encoded.about_large(result, f"result of {task}")

    def _encode_error(self, error: BaseException, task: str) -> ev.Value:
        described = describe_error(error, task)
        return ev.Value(self._client.marshal.inline(described), failed=True)


def is_stream(run: do.Run) -> bool:
    """Whether its items go out one by one."""
    return run.spec is not None and run.spec.ahead > 0


def _iterable(run: do.Run, items: Any) -> Iterable[Any]:
    if hasattr(items, "__iter__"):
        return items  # type: ignore[no-any-return]
    hint = ", in an actor with `async def` methods" if hasattr(items, "__aiter__") else ""
    raise TypeError(
        f"`{run.name}` was submitted with num_returns='streaming', so it has to yield{hint}; it "
        f"returned {type(items).__name__}."
    )


async def _async_iterator(run: do.Run, items: Any) -> AsyncGenerator[Any, None]:
    """The items of a generator of either kind."""
    if hasattr(items, "__aiter__"):
        closing: Any = contextlib.aclosing if hasattr(items, "aclose") else contextlib.nullcontext
        async with closing(items):
            async for item in items:
                yield item
    else:
        for item in _iterable(run, items):
            yield item


class _Closable:
    """Ends a generator that isn't at its end; other iterators need nothing."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self.close: Callable[[], object] = getattr(iterator, "close", lambda: None)


def _owed(run: do.Run) -> int:
    return 1 if run.method == CREATION else run.returns


def _cancelled(run: do.Run) -> tuple[ev.Value, ...]:
    return (ev.error_value("cancelled", f"`{run.name}` was stopped."),) * _owed(run)


def _together(results: list[Result]) -> Results:
    abouts = tuple(about for _, about in results)
    return tuple(value for value, _ in results), abouts if any(abouts) else ()

"""Runs one task: builds its arguments, calls its function, sends its results.

It runs in the main thread, or in one of an actor's threads, or on an actor's loop.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import AsyncGeneratorType, GeneratorType
from typing import Any, cast

from workbench.client.arena_writer import Claims
from workbench.client.arguments import (
    REFS_ALONE,
    SLOTTED,
    Place,
    name_at,
    name_in,
    places_of,
    with_values,
)
from workbench.client.base import ClientBase
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import ID_BITS
from workbench.engine.records import CREATION
from workbench.errors import ActorExit, StoreFullError, WorkbenchError
from workbench.host.interrupts import Interrupts
from workbench.host.link import Failed
from workbench.host.reloading import Reloader
from workbench.host.results import (
    STOPPED,
    Types,
    check_count,
    collect_yielded,
    no_actor,
    retry_types,
    take_async,
    yields_results,
)
from workbench.host.task_context import TaskContext
from workbench.host.tracebacks import clear_frames, task_failure
from workbench.ref import ObjectRef
from workbench.serialization import codec
from workbench.serialization.class_states import building
from workbench.surroundings.surroundings import set_variables
from workbench.system import data_limit
from workbench.worker.actor_host import ActorHost
from workbench.worker.generators import GeneratorSender
from workbench.worker.incoming_calls import IncomingCalls
from workbench.worker.run_queue import RunQueue

HOLD_BACK = 0.0005
"""Seconds for which results of short tasks wait for each other while more tasks are queued."""

LAST_QUESTION = 1.0
"""Most seconds that an actor which ends waits for the server to ask for kept results. It asks at
once, unless the caller is stopped."""

Refs = Sequence[ObjectRef]

Outcome = tuple[tuple[ev.Value, ...], tuple[ev.About | None, ...], bool, Refs]
"""Results, their costs (empty if all are small), whether to retry the task, and refs.

The refs are in the error that it raised: they mustn't be dropped before the results are sent."""

Result = tuple[ev.Value, ev.About | None]

_NONE: Outcome = (ev.Value(b"N"),), (), False, ()
"""Outcome of a task that returns None."""

_ARGUMENTS = codec.Where("arguments", "on the worker")


@dataclass(eq=False)
class TaskRunner:
    """Runs tasks.

    ``queue`` is for an actor that runs several at a time.
    ``begins`` and ``ends``: see `TaskExecutor`. ``actor`` is set in an actor's worker once its
    creation has begun.
    """

    _base: ClientBase
    _work: TaskContext[do.Run]
    _generators: GeneratorSender
    _interrupts: Interrupts
    _reloader: Reloader
    _queue: RunQueue
    _begins: Callable[[int], None]
    _ends: Callable[[int], None]

    def __post_init__(self) -> None:
        self.actor: ActorHost | None = None
        self.lines: IncomingCalls
        self._answers = False  # results of the server's tasks wait to be sent
        self._connection = self._base.connection
        self._marshal = self._base.marshal
        self._read = self._base.objects.read
        self._withdraw = self._base.arena.withdraw
        self._functions: dict[int, Callable[..., Any]] = {}
        self._sources: dict[int, ev.Value] = {}  # the functions' values: each is sent only once

    @property
    def is_serial(self) -> bool:
        """True if tasks run one at a time, in the main thread."""
        return self.actor is None or self.actor.is_plain

    # -- the reading thread -----------------------------------------------------------------------

    def add(self, run: do.Run) -> None:
        if len(run.values) > len(run.deps):
            self._sources[run.function] = run.values[-1]

    def forget(self, id: int) -> None:
        self._functions.pop(id, None)
        self._sources.pop(id, None)

    # -- where the task runs ----------------------------------------------------------------------

    def run(self, run: do.Run) -> None:
        task, interrupts, token = run.task, self._interrupts, self._work.begin(run)
        try:
            claims: Claims = []
            result: Any = None
            retry_on: Types = ()
            started = time.perf_counter()
            if self._answers and run.line:  # before a line's call begins: see `core.lines`
                self._answers = not self._connection.flush()
            self._begins(task)
            if run.line:
                self.lines.begins(task)
            interrupts.begin(task)
            try:
                if self.is_serial:
                    self._reloader.before_task(run.origin)
                if run.spec is not None:
                    retry_on = retry_types(run.spec)
                function, args, kwargs = self._prepared(run)
                started = time.perf_counter()
                interrupts.enter(task)
                result = function(*args, **kwargs)
                if run.spec is not None and run.spec.ahead > 0:
                    result = self._generators.hand_out(run, result)
                elif run.spec is not None and run.spec.refs:
                    result = self._generators.store(run, result, retry_on, self._error_value)
                elif type(result) is GeneratorType and yields_results(run, function):
                    result = collect_yielded(run, result, retry_on)
                interrupts.inside = 0
                interrupts.end(task)
                outcome = self._results(run, result, claims)
            except BaseException as error:
                interrupts.inside = 0
                interrupts.end(task)
                outcome = self._failure(run, error, retry_on, claims)
            if self.is_serial:
                self._reloader.after_task()
            # While `result` is alive: refs inside it are dropped after this, not before.
            self._done(run, outcome, started, claims, result)
        finally:
            self._work.end(run, token)

    async def run_async(self, run: do.Run) -> None:
        """Do the same on an actor's loop: others run while the method awaits."""
        token = self._work.begin(run)
        try:
            claims: Claims = []
            result: Any = None
            retry_on: Types = ()
            started = time.perf_counter()
            if run.line:
                self.lines.begins(run.task)
            try:
                if self._interrupts.is_stopping(run.task):
                    raise asyncio.CancelledError
                if run.spec is not None:
                    retry_on = retry_types(run.spec)
                function, args, kwargs = self._prepared(run)
                result = function(*args, **kwargs)
                if inspect.isawaitable(result):
                    result = await result
                if run.spec is not None and run.spec.ahead > 0:
                    result = await self._generators.hand_out_async(run, result)
                elif run.spec is not None and run.spec.refs:
                    result = await self._generators.store_async(
                        run, result, retry_on, self._error_value
                    )
                elif type(result) is AsyncGeneratorType and yields_results(run, function):
                    result = await take_async(run, result, retry_on)
                elif type(result) is GeneratorType and yields_results(run, function):
                    result = collect_yielded(run, result, retry_on)
                outcome = self._results(run, result, claims)
            except BaseException as error:
                outcome = self._failure(run, error, retry_on, claims)
            self._done(run, outcome, started, claims, result)
        finally:
            self._work.end(run, token)

    def _prepared(self, run: do.Run) -> tuple[Callable[..., Any], Any, Any]:
        if run.spec is not None and run.spec.env:
            set_variables(run.spec.env)
        submitter = run.task >> ID_BITS
        building.submitter, building.origin = submitter, (submitter, run.task)
        args, kwargs = self._arguments(run)
        if not run.method:
            return self._function(run), args, kwargs
        if run.method == CREATION:
            blueprint = cast(Any, self._function(run))
            self.actor = ActorHost(
                run, blueprint, self._connection, self._queue, self.run, self.run_async
            )
            return self.actor.make, args, kwargs
        assert self.actor is not None
        return self.actor.method(run.method), args, kwargs

    def _function(self, run: do.Run) -> Callable[..., Any]:
        function = self._functions.get(run.function)
        if function is None:
            source = self._sources[run.function]
            function = self._read(run.function, source, run.name, copy="on write")
            self._functions[run.function] = function
        return function

    def _arguments(self, run: do.Run) -> Any:
        """Return what is passed by value as the task's own, writable; what is stored, read-only."""
        if not run.deps and not run.args:
            return (), {}
        if run.args == REFS_ALONE:
            return self._values(run, range(len(run.deps))), {}
        if run.args == SLOTTED:
            packed = self._read(run.deps[0], run.values[0], "arguments", copy="on write")
        else:
            packed = codec.deserialize_inline(run.args, copy=True, where=_ARGUMENTS)
        places = places_of(packed)
        return with_values(packed, self._values(run, places)) if places else packed

    def _values(self, run: do.Run, places: Sequence[Place]) -> list[Any]:
        """Return the values of the last deps, which belong at these places."""
        first, lent = len(run.deps) - len(places), run.line > 0
        return [
            self._read(run.deps[n], run.values[n], partial(self._name_at, place, run), lent)
            for n, place in enumerate(places, first)
        ]

    def _name_at(self, place: Place, run: do.Run) -> str:
        if not run.method:
            return name_in(self._function(run), place)
        if self.actor is None:
            return name_at(place, ())
        return name_in(self.actor.method(run.method), place)

    # -- what comes of it -------------------------------------------------------------------------

    @property
    def leaves(self) -> bool:
        """True if the actor ends itself: the server fails all its calls."""
        return self.actor is not None and self.actor.leaves

    def send(self, run: do.Run, done: ev.Done) -> None:
        """Send the Done of a call that hasn't begun. Runs in the reading thread."""
        if run.line:
            self.lines.answer(done, [], ())
        else:
            self._connection.send(done)

    def _done(
        self, run: do.Run, outcome: Outcome, started: float, claims: Claims, result: Any
    ) -> None:
        if self.leaves:
            return
        self._interrupts.forget(run.task)
        self._generators.remove(run.task)
        seconds = time.perf_counter() - started
        self._ends(run.task)
        values, abouts, again, refs = outcome
        threads = self._work.leaves_threads(run)
        done = ev.Done(run.task, values, seconds, abouts, again, threads)
        if run.line:
            self.lines.answer(done, claims, (result, refs))
            return
        self._answers = True
        if self.is_serial or run.method == CREATION:
            self._connection.post(done)  # this thread sends it before it waits
            if run.last and (self.actor is None or seconds > HOLD_BACK):
                self._connection.flush()  # short calls of an actor wait for each other
        elif self.actor is not None and self.actor.is_async:
            self.actor.send(done)
        else:
            self._connection.send(done)

    def _results(self, run: do.Run, result: Any, claims: Claims) -> Outcome:
        if run.method == CREATION:
            return (ev.Value(b"N"),), (), False, ()
        if run.returns == 0:
            return (), (), False, ()
        if run.returns == 1:
            if result is None:
                return _NONE
            if type(result) is not Failed:
                value, about = self._encode(result, run.name, claims, "")
                return (value,), (about,) if about else (), False, ()
            result = (result,)
        result = check_count(run, result)
        names = ("", *run.spec.binds) if run.spec and run.spec.binds else ("",) * len(result)
        named = zip(result, names, strict=True)
        full: list[StoreFullError] = []
        parts = [self._part(p, run.name, claims, n, full) for p, n in named]
        values, abouts = zip(*parts, strict=True)
        return values, abouts if any(abouts) else (), False, ()

    def _part(
        self, part: Any, task: str, claims: Claims, name: str, full: list[StoreFullError]
    ) -> Result:
        """Encode one of several results. If that fails, only this result fails.

        Only the first one that finds no room explains that in full: errors take room, too.
        """
        try:
            if type(part) is Failed:
                return self._error_value(part.error, task)[0], None
            return self._encode(part, task, claims, name)
        except WorkbenchError as error:
            if isinstance(error, StoreFullError):
                full.append(error)
                if len(full) > 1:
                    text = f"No room for it. `{task}` has other results that say what has the room."
                    return ev.error_value("full", text), None
            return self._error_value(error, task)[0], None

    def _encode(self, result: Any, task: str, claims: Claims, name: str) -> Result:
        """Encode a result. ``name`` is the variable that a cell assigned it to, or ''."""
        name = name or f"the result of {task}"
        encoded = self._marshal.encode(result, claims, lambda: _named(name, result))
        return encoded.stored, encoded.about_large(result, f"result of {task}")

    def _failure(
        self, run: do.Run, error: BaseException, retry_on: Types, claims: Claims
    ) -> Outcome:
        if isinstance(error, MemoryError):
            data_limit.raise_after_error()  # to send it takes memory
        self._withdraw(claims)
        stopped = self._interrupts.is_stopping(run.task)
        if isinstance(error, ActorExit) and self.actor is not None:
            self._leave(run, self.actor)
        elif isinstance(error, SystemExit) and run.method not in ("", CREATION):
            self._exit(run, error.code)
        if stopped and isinstance(error, STOPPED):
            return cancelled(run), (), False, ()
        again = isinstance(error, retry_on) and not stopped
        shown = no_actor(error, run.task) if run.method == CREATION else error
        value, refs = self._error_value(shown, run.name)
        clear_frames(error)
        return (value,) * _owed(run), (), again, refs

    def _error_value(self, error: BaseException, task: str) -> tuple[ev.Value, Refs]:
        refs: list[ObjectRef] = []
        failure = task_failure(error, task, self._marshal.reducers(refs))
        header = self._marshal.inline(failure)
        contains = tuple([ref.id for ref in refs])
        return ev.Value(header, contains=contains, failed=True), refs

    def _leave(self, run: do.Run, actor: ActorHost) -> None:
        """End the actor on its own request: its process ends once the server knows why."""
        self._ends(run.task)
        actor.leave()
        self._hand_over()
        self._connection.send(ev.Leave())
        self._connection.wait_for(self._connection.flush)

    def _hand_over(self) -> None:
        """Send the results of other calls before this process ends."""
        self.lines.flush()  # first: what a full line can't take goes with the rest
        self._connection.wait_for(lambda: not self.lines.has_kept, LAST_QUESTION)

    def _exit(self, run: do.Run, code: object) -> None:
        """Handle `sys.exit` in a method as Ray does: 0 ends the actor, else it crashes."""
        assert self.actor is not None
        if self.actor.is_namespace:
            return
        if not code:
            self._leave(run, self.actor)
            return
        if not isinstance(code, int):  # as the interpreter does
            print(code, file=sys.stderr)
        self._ends(run.task)
        self._hand_over()
        self._connection.wait_for(self._connection.flush)
        os._exit(code & 0xFF or 1 if isinstance(code, int) else 1)


def _named(name: str, result: Any) -> dict[str, Any]:
    """Return a result by its name in errors, or the results of several calls sent as one."""
    parts = getattr(type(result), "_workbench_parts_", None)
    return {name: result} if parts is None else dict(parts(result, name))


def _owed(run: do.Run) -> int:
    return 1 if run.method == CREATION else run.returns


def cancelled(run: do.Run) -> tuple[ev.Value, ...]:
    return (ev.error_value("cancelled", f"`{run.name}` was stopped."),) * _owed(run)

"""Hosting: runs heads in a process of a cluster's, on `host`, as our own workers run tasks.

No client and no store of ours: what it shows and how it ends goes through a `ChannelLink`, its
values through a `Packer`, and objects come from the system, by the engine of this process.
"""

from __future__ import annotations

import inspect
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from workbench.client.arguments import SLOTTED, name_in, places_of, with_values
from workbench.core.events import ID_BITS, Output
from workbench.engine.records import CREATION, Blueprint
from workbench.engines.cluster.backend import (
    BEGAN,
    ENDED,
    Head,
    Message,
    Native,
    StoredValue,
    TaskEnd,
    encode,
)
from workbench.engines.cluster.parcels import Packer, refused
from workbench.errors import ActorExit
from workbench.host.actor_instance import method_of, variables_of
from workbench.host.interrupts import Interrupts
from workbench.host.link import Failed
from workbench.host.process_state import ProcessState
from workbench.host.results import (
    STOPPED,
    Types,
    check_count,
    collect_yielded,
    no_actor,
    retry_types,
    yields_results,
)
from workbench.host.task_context import TaskContext
from workbench.host.tracebacks import clear_frames, task_failure
from workbench.ref import ObjectRef
from workbench.serialization import codec
from workbench.serialization.class_states import building
from workbench.surroundings.surroundings import set_variables

_ARGUMENTS = codec.Where("arguments", "on the worker")

Deps = list[tuple[int, StoredValue]]
"""What came along with a head, by id; who takes something takes it from the front."""

Outcome = tuple[str, tuple[StoredValue, ...]]
"""How the task ended, and its results."""

Ended = tuple[TaskEnd, tuple[StoredValue, ...]]
"""The end of a task, and a value per result."""


@cache
def _process_state() -> ProcessState:
    """This process's, whatever sessions it serves, one after the other: of two, the second would
    take what tasks of the first have changed for what was there."""
    return ProcessState()


class ChannelLink:
    """A `host.link.Link` over a cluster's channel: ``send`` takes a batch, and never waits;
    ``settle`` returns when all that was sent is before whatever this process says next."""

    def __init__(
        self, worker: int, send: Callable[[bytes], object], settle: Callable[[], object] = bool
    ) -> None:
        self.settle = settle
        self.work = TaskContext[Head]()
        self._worker = worker
        self._send = send
        self._queue: deque[Message] = deque()
        self._shown: dict[int, int] = {}
        self._lock = threading.RLock()

    def put(self, output: Output, /) -> None:
        head = self.work.find(output.task)
        if head is not None:
            self._shown[output.task] = self._shown.get(output.task, 0) + 1
            self.say(head, output.kind, output.data)

    def say(self, head: Head, kind: str, data: bytes) -> None:
        self._queue.append(
            Message(head.task, kind, data, head.origin, head.audience, head.job, self._worker)
        )

    def shown(self, task: int) -> int:
        """How many messages it has made, now that it is over."""
        return self._shown.pop(task, 0)

    def flush(self) -> None:
        if not self._queue:
            return
        with self._lock:  # or what one thread takes out first could be sent last
            batch = [self._queue.popleft() for _ in range(len(self._queue))]
            if batch:
                self._send(encode(batch))


class Hosting:
    """See the module. Made in the main thread, once for each session that the process serves.

    ``learn`` gives handles of objects that came along. ``finish`` is `OutputQueue.finish`.
    ``begins`` and ``ends`` are told of each task, so that this process listens meanwhile. ``state``
    has what tasks change in the process put back.
    """

    def __init__(
        self,
        packer: Packer,
        learn: Callable[[Sequence[int], Sequence[Native]], list[ObjectRef]],
        link: ChannelLink,
        finish: Callable[[int], None],
        worker: int,
        begins: Callable[[int], object] = bool,
        ends: Callable[[int], object] = bool,
        state: Callable[[], ProcessState | None] = _process_state,
    ) -> None:
        self._packer = packer
        self._learn = learn
        self._link = link
        self._finish = finish
        self.worker = worker
        self._begins = begins
        self._ends = ends
        self._state = state()
        self._functions: dict[int, Any] = {}  # each is opened once
        self._instance: Any = None
        self._cls: type = object
        self._unmade: tuple[StoredValue, ...] = ()  # why the actor could not be made
        self.interrupts = Interrupts()
        self.stopped: set[int] = set()  # by a person, not by their timeout
        self.work = link.work
        self.actor = 0
        self.namespace = ""
        self.is_restarted = False
        self.leaves = False

    @property
    def variables(self) -> dict[str, Any]:
        return variables_of(self._instance, self._cls) if self.actor else {}

    # -- running ---------------------------------------------------------------------------------

    def run(self, head: Head, deps: Sequence[StoredValue], inside: Sequence[Native]) -> Ended:
        """Run one task in this thread, and say how it ended."""
        run = partial(self._run, deps=deps, inside=inside)
        if self._state is not None and head.method:  # an actor's process isn't shared
            self._state.close()
            self._state = None
        if self._state is None:
            return run(head)
        plain = head.spec is None
        return self._state.run(run, head, (head.function, head.origin) if plain else None)

    def _run(self, head: Head, deps: Sequence[StoredValue], inside: Sequence[Native]) -> Ended:
        interrupts, task = self.interrupts, head.task
        keep: list[ObjectRef] = []  # what came along
        if head.is_own:
            self._link.say(head, BEGAN, b"")
            self._link.flush()
        self._begins(task)
        with self.work.task(head):
            for tried in itertools.count():
                retry_on: Types = ()
                interrupts.begin(task)
                try:
                    retry_on = () if head.spec is None else retry_types(head.spec)
                    function, args, kwargs = self._prepared(head, deps, inside, keep)
                    interrupts.enter(task)
                    with self._limited(head):
                        result = function(*args, **kwargs)
                        if inspect.isgenerator(result) and yields_results(head, function):
                            result = collect_yielded(head, result, retry_on)
                    interrupts.inside = 0
                    interrupts.end(task)
                    outcome = self._results(head, result)
                except BaseException as error:
                    interrupts.inside = 0
                    interrupts.end(task)
                    left = head.retries < 0 or tried < head.retries
                    if isinstance(error, retry_on) and left and not interrupts.is_stopping(task):
                        continue
                    outcome = self._failure(head, error)
                return self._ended(head, outcome)
        raise AssertionError("unreachable")

    @contextmanager
    def _limited(self, head: Head) -> Iterator[None]:
        seconds = 0.0 if head.spec is None else head.spec.timeout
        timer = threading.Timer(seconds, self.interrupts.stop, [head.task])
        timer.daemon = True
        if seconds:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    # -- what it is called with ------------------------------------------------------------------

    def _prepared(
        self,
        head: Head,
        deps: Sequence[StoredValue],
        inside: Sequence[Native],
        keep: list[ObjectRef],
    ) -> tuple[Callable[..., Any], Any, Any]:
        keep += self._learn(head.inside, inside)
        for dep in deps:
            if dep.failed:
                raise _InheritedError(dep)
            keep += self._learn(dep.inside, dep.natives)
        if head.spec is not None and head.spec.env:
            set_variables(head.spec.env)
        submitter = head.task >> ID_BITS
        building.submitter, building.origin = submitter, (submitter, head.task)
        left = list(zip(head.deps, deps, strict=True))
        packed = self._packed(head, left)
        if head.method == CREATION:
            blueprint: Blueprint = self._function(head, left)
            self.actor, self._cls = head.actor, blueprint.cls
            self.namespace = head.spec.namespace if head.spec is not None else ""
            function: Any = self._make
        elif head.method:
            for why in self._unmade:
                raise _InheritedError(why)
            function = method_of(self._instance, head.method)
        else:
            function = self._function(head, left)
        values = [
            self._packer.open(id, dep, name=partial(name_in, function, place))
            for (id, dep), place in zip(left, places_of(packed), strict=True)
        ]
        return function, *with_values(packed, values)

    def _packed(self, head: Head, left: Deps) -> Any:
        """Its arguments, without those that came along."""
        if head.args == SLOTTED:
            return self._packer.open(*left.pop(0), copy="on write", name="arguments")
        if not head.args:
            return (), {}
        return codec.deserialize_inline(head.args, copy=True, where=_ARGUMENTS)

    def _function(self, head: Head, left: Deps) -> Any:
        stored = StoredValue(head.code) if head.code else left.pop(0)[1]
        if head.function not in self._functions:
            made = self._packer.open(head.function, stored, copy="on write", name=head.name)
            self._functions[head.function] = made
        return self._functions[head.function]

    def _make(self, /, *args: Any, **kwargs: Any) -> None:
        self._instance = self._cls(*args, **kwargs)

    # -- what comes of it ------------------------------------------------------------------------

    def _results(self, head: Head, result: Any) -> Outcome:
        if head.method == CREATION or head.returns == 0:
            return "done", ()
        results = (result,) if head.returns == 1 else check_count(head, result)
        binds = head.spec.binds if head.spec is not None else ()
        names = ("", *binds) if binds else ("",) * len(results)
        values = []
        for part, name in zip(results, names, strict=True):
            if type(part) is Failed:
                values.append(self._error(part.error, head))
                continue
            try:
                named = {name or f"the result of {head.name}": part}
                values.append(self._packer.pack(part, named.copy, site=f"result of {head.name}"))
            except Exception as error:
                if head.returns == 1:
                    raise
                values.append(self._error(error, head))
        return "failed" if values[0].failed else "done", tuple(values)

    def _failure(self, head: Head, error: BaseException) -> Outcome:
        owed = 1 if head.method == CREATION or head.returns == 0 else head.returns
        if isinstance(error, _InheritedError):
            return "failed", (error.stored,) * owed
        if isinstance(error, ActorExit | SystemExit) and self.actor and head.method != CREATION:
            self.leaves = True
        # The system's own way to cancel is a KeyboardInterrupt that `stop` knows nothing of.
        interrupted = isinstance(error, KeyboardInterrupt) and not self.actor
        if interrupted or (isinstance(error, STOPPED) and self.interrupts.is_stopping(head.task)):
            timeout = 0.0 if head.spec is None else head.spec.timeout
            is_stopping = self.interrupts.is_stopping(head.task)
            if timeout and is_stopping and head.task not in self.stopped:
                text = f"`{head.name}` ran longer than its timeout, {timeout:g} s."
                return "failed", (refused("timeout", text),) * owed
            return "stopped", (refused("cancelled", f"`{head.name}` was stopped."),) * owed
        shown = no_actor(error, head.actor) if head.method == CREATION else error
        value = self._error(shown, head)
        clear_frames(error)
        return "failed", (value,) * owed

    def _error(self, error: BaseException, head: Head) -> StoredValue:
        return self._packer.failure(task_failure(error, head.name, self._packer.reducers([])))

    def _ended(self, head: Head, outcome: Outcome) -> Ended:
        task = head.task
        self.interrupts.forget(task)
        self.stopped.discard(task)
        self._ends(task)
        self._finish(task)
        how, values = outcome
        if head.method == CREATION:
            self._unmade = values
        end = TaskEnd(
            task,
            how,
            self._link.shown(task),
            tuple(value.failed for value in values),
            tuple(value.about for value in values),
            self.worker,
        )
        if head.is_own:
            self._link.say(head, ENDED, encode(end))
        self._link.flush()
        if end.shown or head.is_own:
            self._link.settle()
        self.work.leaves_threads(head)
        return end, values

    # -- stopping: any thread but the task's -----------------------------------------------------

    def stop(self, task: int) -> bool:
        """Interrupt a task, now or when it begins here; whether it runs here now."""
        runs = self.work.runs(task)
        self.stopped.add(task)
        self.interrupts.stop(task)
        return runs


class _InheritedError(Exception):
    """An argument is a failure: the task's results are that, too."""

    def __init__(self, stored: StoredValue) -> None:
        super().__init__()
        self.stored = stored

"""Tasks and actors of a session on a cluster: calls become heads, results handles.

Ids are chosen here before anything is submitted; the system's natives are noted beside them. What
outlives the kernel takes nothing of the kernel's.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any, cast

from msgspec.structs import replace

from workbench.client.arguments import (
    SLOTTED,
    argument_names,
    pack_arguments,
    parameters_of,
)
from workbench.client.function_cache import Export
from workbench.client.task_specs import consecutive_ids, spec_of
from workbench.core.events import USUAL, TaskSpec
from workbench.core.snapshot import ACTOR_PREFIX
from workbench.engine.base import Call, CollectedJob, Exported, Submitted
from workbench.engine.records import CALLED, CREATION, Blueprint
from workbench.engines.cluster.backend import (
    MOST_CODE,
    Backend,
    Head,
    Launch,
    Message,
    Native,
    StoredValue,
    TaskEnd,
    encode,
)
from workbench.engines.cluster.entries import FAILED, PENDING, READY, UNKNOWN, of_object
from workbench.engines.cluster.kept_jobs import LOST, KeptJob
from workbench.engines.cluster.store import ClusterStore
from workbench.errors import (
    ActorDiedError,
    ActorUnavailableError,
    OutOfMemoryError,
    SessionError,
    TaskCancelledError,
    WorkbenchError,
    WorkerCrashedError,
)
from workbench.options import (
    DETACHED,
    DYNAMIC,
    STREAMING,
    ActorOptions,
    CellOptions,
    TaskOptions,
)
from workbench.ref import ObjectRef

_SAYS_NO_TASK = WorkerCrashedError, OutOfMemoryError, ActorDiedError, ActorUnavailableError
"""Errors of which the system itself may not say which task they are about."""


Sent = tuple[bytes, Export]
"""A function as it was sent: its code, in each head; or (none) as the object of the export."""


class ClusterTasks(ClusterStore):
    """See the module. ``namespace`` is that of actors' names here."""

    def __init__(self, backend: Backend, logs: bool = True, namespace: str = "") -> None:
        super().__init__(backend, logs)
        self._namespace = namespace
        self._forgotten = threading.Condition()  # told when less is unfinished
        self._stopped: set[int] = set()
        self._killed: set[int] = set()  # actors
        self._dead: set[int] = set()  # those, and those that are known to have died

    @property
    def namespace(self) -> str:
        """In which actors' names are given and looked up."""
        return self.hosting.namespace if self.hosting is not None else self._namespace

    # -- submitting ------------------------------------------------------------------------------

    def submit(self, function: Exported, call: Call[TaskOptions]) -> Submitted:
        self.check_open()
        if call.options.max_calls:
            warnings.warn(self.backend.can.max_calls, stacklevel=2)
        sent = self.sent(function)
        return self._submit(
            call, function.name, partial(parameters_of, function.function), sent=sent
        )

    def call(self, actor: ObjectRef, method: str, call: Call[TaskOptions]) -> Submitted:
        self.check_open()
        return self._submit(call, method, lambda: call.parameters, actor=actor, method=method)

    def _submit(
        self,
        call: Call[TaskOptions],
        name: str,
        parameters: Callable[[], Sequence[str]],
        sent: Sent | None = None,
        actor: ObjectRef | None = None,
        method: str = "",
    ) -> Submitted:
        sys.audit(CALLED)
        options = call.options
        given = options.num_returns
        if given == STREAMING:
            raise WorkbenchError(self.backend.can.streams)
        returns = given if isinstance(given, int) else 1
        ids = consecutive_ids(self.next_id, max(returns, 1))
        keep = isinstance(options, CellOptions) and bool(options.job)
        head = self._head(
            ids[0],
            options.name or name,
            returns=returns,
            actor=0 if actor is None else actor.id,
            method=method,
            spec=self._spec(options),
            job=self._job_of(options, ids[0]),
            retries=options.max_retries,
        )
        launch = self.launch(head, sent, call, parameters, keep)
        if actor is not None:
            launch = launch._replace(actor=self.entries.native(actor)[0])
        head, task = launch.head, ids[0]
        refs = self._expect(head, ids[:returns])
        self.unfinished[task] = head
        if keep:  # before it can show anything
            known = replace(head, code=b"", args=b"", deps=(), inside=())
            self.backend.tell("job", known)
        try:
            made = self.backend.submit(launch)
        except BaseException:
            if keep:
                self.backend.tell("ended", TaskEnd(task, "failed"))
            self._forget(head)
            raise
        for ref, native in zip(refs, made[1:], strict=True):
            self.entries.of(ref).native = native
        if keep:
            self.backend.tell("made", task, tuple(made))
        self.backend.on_done(made[0], partial(self._done, head))
        return (refs[0] if given in (1, DYNAMIC) else refs) if refs else None

    def _head(self, task: int, name: str, **more: Any) -> Head:
        parent = 0 if self._task is None else self._task.task
        return Head(task, name, self.session, *self.place(), parent=parent, **more)

    @property
    def _task(self) -> Head | None:
        """The task that submits something now; None in a driver."""
        return None if self.hosting is None else self.hosting.work.current

    def _expect(self, head: Head, ids: list[int]) -> list[ObjectRef]:
        refs = []
        for id in ids:
            ref, entry = self.entries.new(id, None, PENDING)
            entry.task, entry.name, entry.job = head.task, head.name, head.job
            if id != head.task:
                ref._task = head.task
            refs.append(ref)
        return refs

    def _job_of(self, options: TaskOptions, task: int) -> int:
        """The job that it belongs to: its own, or that of the task that submits it."""
        if isinstance(options, CellOptions) and options.job:
            return options.group or task
        return 0 if self._task is None else self._task.job

    def _spec(self, options: TaskOptions) -> TaskSpec | None:
        namespace = self.namespace
        if options.is_usual and not namespace:
            return None
        types = options.retry_exceptions
        cpus = round(options.num_cpus * USUAL.cpus)
        return spec_of(options, cpus, namespace, self.packer.inline(types) if types else b"")

    # -- what a call takes along ------------------------------------------------------------------

    def launch(
        self,
        head: Head,
        sent: Sent | None,
        call: Call[Any],
        parameters: Callable[[], Sequence[str]],
        keep: bool,
    ) -> Launch:
        """A call with its function and arguments; of a method (no ``sent``) without its function.
        ``keep``: what it takes along outlives this process."""
        stored = StoredValue(b"")
        refs: list[ObjectRef] = []
        if call.args or call.kwargs:
            packed, refs = pack_arguments(call.args, call.kwargs, self.stored_as)
            stored = self.packer.pack(
                packed, lambda: argument_names(call.args, call.kwargs, parameters()), "arguments"
            )
        header, inside, natives = stored.header, stored.inside, stored.natives
        code, function = (b"", None) if sent is None else (sent[0], sent[1].ref)
        id = 0 if function is None else function.id
        if function is not None and not code:
            refs.insert(0, function)  # an actor may keep what is in it for good, as what is inside
            inside, natives = (id, *inside), (self.entries.native(function), *natives)
        deps = tuple(ref.id for ref in refs)
        dep_natives = tuple(of_object(self.entries.native(ref)) for ref in refs)
        if keep:
            natives = self.outliving(inside, natives)
            dep_natives = self.outliving(deps, dep_natives)
        if stored.buffers:
            of_args = len(inside) - len(stored.inside)
            native = self.backend.put(stored._replace(natives=natives[of_args:]), keep)
            header, deps = SLOTTED, (self.next_id(), *deps)
            dep_natives = native, *dep_natives
        head = replace(head, function=id, code=code, args=header, deps=deps, inside=inside)
        options = call.options
        return Launch(
            head, dep_natives, natives, cpus=options.num_cpus, memory=options.memory, keep=keep
        )

    def sent(self, function: Exported) -> Sent:
        """The function as it was sent; sent again if what it refers to is no longer the same."""
        handle = function.handle
        if handle is not None and handle[0] is self:
            known: Sent = handle[1]
            if known[1].is_current() and not known[1].has_more:
                return known
        what = "" if type(function.function) is FunctionType else f"function {function.name}"
        stored, done = self.packer.packed(
            function.function, lambda: {function.name: function.function}, what
        )
        if stored.buffers or stored.inside or len(stored.header) > MOST_CODE:
            code, (ref, _) = b"", self.keep_packed(stored)
        else:
            code, ref = stored.header, ObjectRef(self.next_id(), self)
        export = Export(ref, done.code, lambda: self.packer.reducers([]), called=function.function)
        function.handle = self, (code, export)
        return code, export

    # -- what comes of it: in threads of the system's --------------------------------------------

    def _done(self, own: Head, end: TaskEnd | BaseException) -> None:
        if isinstance(end, TaskEnd):
            self._completed(own, end)
            return
        error = end if isinstance(end, WorkbenchError) else WorkbenchError(str(end))
        if self._loses_output(own, error):
            lost = Message(own.task, "stderr", LOST.encode(), own.origin, self.place()[0])
            self.backend.tell("push", encode([lost]))
        if own.actor in self._killed and isinstance(error, ActorDiedError):
            error = ActorDiedError(f"{own.name.partition('.')[0]} was ended by kill().")
        elif own.task in self._stopped or isinstance(error, TaskCancelledError):
            error = TaskCancelledError(f"`{own.name}` was stopped.")
        elif isinstance(error, _SAYS_NO_TASK) and f"`{own.name}`" not in str(error):
            what = "call" if own.actor else "task"
            error = type(error)(f"{error} The {what} was `{own.name}`.")
        if own.is_own and not isinstance(error, SessionError):  # we left: it goes on
            how = "stopped" if isinstance(error, TaskCancelledError) else "failed"
            self.backend.tell("ended", TaskEnd(own.task, how))
        self._over(own, error)

    def _loses_output(self, own: Head, error: WorkbenchError) -> bool:
        """True if its process died, and nobody has said so yet: of a job the keeper does, of an
        actor's calls the first that fails."""
        if own.is_own or own.actor in self._dead:
            return False
        if isinstance(error, ActorDiedError) and own.actor:
            self._dead.add(own.actor)
            return True
        return isinstance(error, WorkerCrashedError)

    def _completed(self, own: Head, end: TaskEnd) -> None:
        for id, failed, about in zip(own.ids, end.failed, end.abouts, strict=False):
            self.entries.settle(id, FAILED if failed else READY, about)
        self._forget(own)

    def _over(self, own: Head, error: WorkbenchError) -> None:
        for id in own.ids:
            self.entries.settle(id, FAILED, error=error)
        self._forget(own)

    def _forget(self, own: Head) -> None:
        """It doesn't run any more: last, for who waits for that looks at its results then."""
        self.unfinished.pop(own.task, None)
        self._stopped.discard(own.task)
        self.backend.forget(own.task)
        with self._forgotten:
            self._forgotten.notify_all()

    # -- stopping --------------------------------------------------------------------------------

    def cancel(
        self,
        refs: Sequence[ObjectRef],
        force: bool = False,
        recursive: bool = True,
        begun: bool = True,
    ) -> None:
        if not recursive and self.backend.can.recursive:
            raise WorkbenchError(self.backend.can.recursive)
        tasks = list[int]()
        for ref in refs:
            entry = self.entries.of(ref)
            task = entry.task or ref.id
            if not entry.is_over and (begun or not self.backend.has_begun(task)):
                group = [each.task for each in list(self.unfinished.values()) if each.job == task]
                tasks += group or [task]  # a job's first task stands for all
        if tasks:
            self._stop(tasks, force)

    def withdraw(self, id: int) -> bool:
        entry = self.entries.get(id)
        if entry is None or entry.is_over or self.backend.has_begun(entry.task or id):
            return False
        self._stop([entry.task or id], False)
        return True

    def _stop(self, tasks: list[int], force: bool) -> None:
        self._stopped.update(task for task in tasks if task in self.unfinished)
        self.backend.stop(tasks, force)

    def end_jobs(self) -> None:
        """The session ends, and with it what of background cells still runs."""
        for own in [each for each in list(self.unfinished.values()) if each.is_own]:
            self._over(own, TaskCancelledError(f"`{own.name}` was stopped with the session."))

    def interrupt(self, origin: int, jobs: Sequence[int], force: bool, timeout: float) -> bool:
        chosen = [
            each.task
            for each in list(self.unfinished.values())
            if (each.job in jobs if each.is_own else each.origin == origin)
        ]
        others = [job for job in jobs if job not in {r.job for r in self.unfinished.values()}]
        if not chosen and not others:
            return True
        self._stop([*chosen, *others], force)
        with self._forgotten:
            over = partial(self.unfinished.keys().isdisjoint, chosen)
            return self._forgotten.wait_for(over, timeout)

    # -- background cells, asked for again ------------------------------------------------------

    def collect(self, job: int, name: str = "") -> CollectedJob | None:
        audience = 0 if name else self.prefix
        found: KeptJob | None = self.backend.ask("collect", job, audience, self.listener.origin())
        if found is None:
            return None
        binds = "", *found.record.binds
        results: list[ObjectRef | None] = []
        for task, natives in found.natives.items():
            refs = self._collected(task, natives[1:], found.ends.get(task))
            named = zip(binds, refs, strict=False)
            results += [ref for bind, ref in named if bind == name] if name else refs
        return CollectedJob(found.record, results)

    def _collected(
        self, task: int, natives: Sequence[Native], end: TaskEnd | None
    ) -> list[ObjectRef | None]:
        refs: list[ObjectRef | None] = []
        for number, native in enumerate(natives):
            if native is None:  # somebody freed it
                refs.append(None)
                continue
            ref, entry = self.entries.new(task + number, native, UNKNOWN)
            entry.task, entry.job = task, task
            if end is None:  # it runs, or waits for that
                self.entries.watch(entry)
                with self.entries.lock:
                    if entry.state == UNKNOWN:
                        entry.state = PENDING
            elif number < len(end.failed):
                state = FAILED if end.failed[number] else READY
                self.entries.settle(ref.id, state, end.abouts[number])
            refs.append(ref)
        return refs

    # -- actors ----------------------------------------------------------------------------------

    def create(
        self, blueprint: Exported, description: Any, call: Call[ActorOptions]
    ) -> tuple[ObjectRef, ObjectRef | None]:
        self.check_open()
        options, made = call.options, cast(Blueprint, blueprint.function)
        if made.is_async or made.concurrency > 1 or made.groups:
            raise WorkbenchError(self.backend.can.concurrency)
        sent = self.sent(blueprint)
        id, spec = self.next_id(), None
        if options.runtime_env or self.namespace:
            spec = TaskSpec(env=options.runtime_env, namespace=self.namespace)
        head = self._head(
            id,
            blueprint.name,
            returns=0,
            actor=id,
            method=CREATION,
            spec=spec,
            called=options.name,
        )
        launch = self.launch(head, sent, call, lambda: call.parameters, False)._replace(
            keep=options.lifetime == DETACHED, restarts=options.max_restarts
        )
        what = f"actor {blueprint.name}"
        told = self.packer.pack(description, lambda: {options.name: description}, what)
        try:
            described = self.backend.put(told, launch.keep)
            actor, done = self.backend.create(launch, described)
        except ValueError:
            other = self.find(ACTOR_PREFIX + options.name) if options.name else None
            if other is None:
                raise
            return other, other
        ref, entry = self.entries.new(id, (actor, described), READY)
        entry.about, entry.actor = told.about, options.name or blueprint.name
        self.unfinished[id] = launch.head
        self.backend.on_done(done, partial(self._done, launch.head))
        return ref, None

    def kill_actor(self, actor: ObjectRef, restart: bool) -> None:
        native = self.entries.native(actor)
        if type(native) is not tuple:
            raise ActorDiedError("It is no actor's handle.")
        if not restart:
            self._dead.add(actor.id)
            self._killed.add(actor.id)
        self.backend.kill_actor(native[0], restart)

"""Submits tasks and actors: functions and arguments become Submit and Create, results handles."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

from workbench.call_site import warn
from workbench.client.arena_writer import Claims
from workbench.client.arguments import (
    REFS_ALONE,
    SLOTTED,
    argument_names,
    pack_arguments,
    parameters_of,
)
from workbench.client.base import ClientBase
from workbench.client.call_batches import CallBatches
from workbench.client.function_cache import Export
from workbench.client.object_store import ObjectStore
from workbench.client.objects import chunks
from workbench.client.role import Role
from workbench.client.task_specs import consecutive_ids, spec_of
from workbench.core import events as ev
from workbench.core.snapshot import ACTOR_PREFIX, INCARNATION
from workbench.engine.base import Call, Comparing, Exported, Submitted
from workbench.engine.records import CALLED, CREATION
from workbench.errors import ConfigError
from workbench.options import DETACHED, DYNAMIC, STREAMING, ActorOptions, TaskOptions
from workbench.ref import ObjectRef
from workbench.report.freshness import function_text
from workbench.serialization.comparison import BUDGET, Verdict, compare
from workbench.system.ki_protection import ki_protection
from workbench.system.machine import memory_limit

Packed = tuple[bytes, tuple[int, ...], tuple[int, ...], list[ObjectRef]]
_NOTHING: Packed = b"", (), (), []

Parameters = Callable[[], Sequence[str]]
"""Returns the names of the positional parameters; called only for errors."""

ARGUMENTS = "arguments"
"""Description of an object that holds a call's arguments."""

UNLIMITED = 1 << 62
"""Number of retries that stands for no limit."""

LOOK_EVERY = 10
"""Functions with much data are compared for at most 1 / `LOOK_EVERY` of the time; each may also use
`BUDGET` seconds in advance."""

MOST_SPECS = 1000
"""Most specs cached, one per set of options."""


class Submitter:
    def __init__(self, base: ClientBase, store: ObjectStore, role: Role) -> None:
        self._base = base
        self._store = store
        self._role = role
        self._references = base.references
        self._connection = base.connection
        self._objects = base.objects
        self._marshal = base.marshal
        self._lines = base.lines
        self._batches = CallBatches(base.connection, base.lines)
        self._next_id = base.next_id
        self._specs = lru_cache(MOST_SPECS)(self._spec_of)

    def submit(self, function: Exported, call: Call[TaskOptions]) -> Submitted:
        self._connection.check_open()
        parameters = partial(parameters_of, function.function)
        export = self._exported(function)  # held: another thread's may take its place meanwhile
        return self._submit(export.ref.id, call, function.name, parameters)

    def call(self, actor: ObjectRef, method: str, call: Call[TaskOptions]) -> Submitted:
        self._base.check_refs([actor])
        return self._submit(0, call, method, lambda: call.parameters, actor.id, method)

    def create(
        self, blueprint: Exported, description: Any, call: Call[ActorOptions]
    ) -> tuple[ObjectRef, ObjectRef | None]:
        self._connection.check_open()
        export = self._exported(blueprint, "class")
        options = call.options
        env, namespace, spec = options.runtime_env, self._role.namespace, None
        if options.num_cpus or options.memory or env or namespace:
            spec = ev.TaskSpec(self._cpus(options), env=env, namespace=namespace)
        payload, deps, contains, packed = self._pack(
            call.args, call.kwargs, lambda: call.parameters
        )
        name = f"{ACTOR_PREFIX}{options.name}" if options.name else ""
        ref, _, _ = self._store.store(
            description, "", lambda: {options.name: description}, f"actor {blueprint.name}"
        )
        origin = self._role.listener.origin()
        form = ev.CallForm(export.ref.id, deps, blueprint.name, origin, 0, ref.id, CREATION)
        create = form.submit(ref.id, payload, contains=contains, returns=0, spec=spec)
        limits = options.max_restarts, options.max_concurrency
        in_order = not options.allow_out_of_order_execution
        groups = options.concurrency_groups
        other = None
        if name:  # of several created at once one gets the name; all learn which
            detached = options.lifetime == DETACHED
            named = self._base.requests.ask(
                lambda n: ev.Create(create, *limits, name, n, in_order, detached, groups)
            )
            other = named if named is not ref else None
        else:
            self._connection.send(ev.Create(create, *limits, in_order=in_order, groups=groups))
        del packed
        return ref, other

    def kill_actor(self, actor: ObjectRef, restart: bool) -> None:
        self._base.check_refs([actor])
        self._connection.send(ev.KillActor(actor.id, restart))

    def cancel(
        self,
        refs: Sequence[ObjectRef],
        force: bool = False,
        recursive: bool = True,
        begun: bool = True,
    ) -> None:
        self._base.check_refs(refs)
        with ki_protection():
            for ids in reversed(list(chunks([ref.id for ref in refs]))):
                self._connection.send(ev.Cancel(ids, force, recursive, begun))
        self._connection.flush()

    def _submit(
        self,
        function: int,
        call: Call[TaskOptions],
        name: str,
        parameters: Parameters,
        actor: int = 0,
        method: str = "",
    ) -> Submitted:
        args, kwargs, options, _ = call
        if not (self._base.workers or actor):
            self._check_workers(options)
        namespace = "" if actor else self._role.namespace
        spec = None if options.is_usual and not namespace else self._specs(options, namespace)
        # `packed` are handles of the arguments: refs among them, and the object that holds them.
        sys.audit(CALLED)
        payload, deps, contains, packed = (
            self._pack(args, kwargs, parameters) if args or kwargs else _NOTHING
        )
        given = options.num_returns
        retries = UNLIMITED if options.max_retries < 0 else options.max_retries
        origin, (parent, root) = self._role.listener.origin(), self._parent()
        form = ev.CallForm(
            function, deps, options.name or name, origin, retries, actor, method, parent, root
        )
        if spec is None and given == 1 and not contains:
            ref = self._call(payload, form)
            if ref is not None:
                return ref
        returns = given if isinstance(given, int) else 1
        ids = [self._next_id()]
        if returns > 1:
            ids = consecutive_ids(self._next_id, returns)
        task = ids[0]
        if not returns:
            ids = []
        self._objects.expect(ids)
        refs = [self._references.new(id) for id in ids]
        if returns > 1:
            for ref in refs[1:]:
                ref._task = task
        stream = None
        if given == STREAMING:
            stream = self._base.generators.new(refs[0], options.max_ahead)
        try:
            self._lines.goes_through_server(actor, task)
            self._connection.send(
                form.submit(task, payload, contains=contains, returns=returns, spec=spec)
            )
        except BaseException:  # Ctrl-C: nobody will have its handles, so nobody could stop it
            self._connection.post(ev.Cancel((task,)))
            raise
        del packed  # the Submit that needs the arguments is before their Drop in the queue
        return stream or (refs[0] if given in (1, DYNAMIC) else refs or None)

    def _call(self, args: bytes, form: ev.CallForm) -> ObjectRef | None:
        """Send a call with default options by a line, if one may carry it; else in a batch with the
        calls before it. None if it can't go so: without a line, with objects as arguments."""
        lines, line, actor, deps = self._lines, None, form.actor, form.deps
        if form.parent or not self._base.worker:  # else: an actor that runs several calls at a time
            line = lines.line_to(actor, deps) if actor else lines.lease(form.function, deps)
        if line is None and deps:
            return None
        task = self._next_id()
        self._objects.expect((task,))
        ref = self._references.new(task, line is None)
        try:
            if line is None:
                self._batches.submit(task, args, form)
                return ref
            return ref if lines.call(line, task, args, form) else None
        except BaseException:  # Ctrl-C: nobody will have its handle, so nobody could stop it
            self._connection.post(ev.Cancel((task,)))
            raise

    def _parent(self) -> tuple[int, int]:
        """Return the submitting task and its root task; zeros outside of tasks."""
        running = self._role.task
        return (0, 0) if running is None else (running.task, running.root)

    def _check_workers(self, options: TaskOptions) -> None:
        self._base.wait_welcome()
        if not self._base.workers and options.num_cpus:
            session = self._base.session.partition(INCARNATION)[0]
            raise ConfigError(
                f"Session {session!r} has no workers, only actors: of tasks it runs those alone "
                "that ask for num_cpus=0. Leave it (`%workbench stop`, `shutdown()`), and start "
                "one with workers (`%workbench start --workers 2`, `init(workers=2)`)."
            )

    def _cpus(self, options: TaskOptions | ActorOptions) -> int:
        """Return the CPUs in thousandths. Memory counts as its share of the machine's memory, in
        workers: tasks that run at a time then don't ask for more of either than there is."""
        needed, share = options.num_cpus, 0.0
        if needed > 1 or options.memory:  # nearly all have one: no need to wait
            self._base.wait_welcome()
            workers = self._base.workers
            if needed > workers:
                session = self._base.session.partition(INCARNATION)[0]
                raise ValueError(
                    f"num_cpus={needed:g}, and session {session!r} has {workers}. Ask "
                    "for less, or start it with `init(workers=...)`."
                )
            limit = memory_limit()
            if options.memory > limit:
                raise ValueError(
                    f"memory={options.memory:,}, and there are {limit:,} bytes of it. Ask for less."
                )
            share = workers * options.memory / limit
        return max(round(needed * ev.USUAL.cpus), math.ceil(share * ev.USUAL.cpus))

    def _spec_of(self, options: TaskOptions, namespace: str) -> ev.TaskSpec:
        types = options.retry_exceptions
        retry_on = (
            self._marshal.inline(types, lambda: {"retry_exceptions": types}) if types else b""
        )
        return spec_of(options, self._cpus(options), namespace, retry_on)

    def _exported(self, function: Exported, kind: str = "function") -> Export:
        """Return the stored function; stored again if what it refers to has changed."""
        handle = function.handle
        if handle is not None and handle[0] is self._references.engine:
            known: Export = handle[1]
            if known.is_current() and not (known.has_more and self._differs(function, known)):
                return known
        by_ref: list[ObjectRef] = []
        ref, encoded, _ = self._store.store(
            function.function,
            "",
            lambda: {function.name: function.function},
            "" if type(function.function) is FunctionType else f"{kind} {function.name}",
            by_ref,
        )
        code = encoded.serialized.code
        reducers = lambda: self._marshal.reducers([], by_ref=[])  # noqa: E731
        export = Export(ref, code, reducers, by_ref, function.function)
        if handle is not None and handle[0] is self._references.engine:
            export.next_look = handle[1].next_look
        if function.comparing is Comparing.ONCE:
            function.comparing = Comparing.NOT
        function.handle = self._references.engine, export
        return export

    def _differs(self, function: Exported, export: Export) -> bool:
        """True if a function that takes much data along differs from what is stored.

        Not compared each time: that would take longer than the submits. Then a person is warned.
        """
        began = time.perf_counter()
        comparing, seconds = function.comparing, BUDGET
        if comparing is Comparing.NOT:
            return False
        if comparing is Comparing.ONCE:
            function.comparing, seconds = Comparing.NOT, math.inf  # sending it would take longer
        elif began < export.next_look:
            return self._warns(function)
        try:
            contents = self._objects.contents(export.ref.id)
        except LookupError:  # on disk
            return comparing is Comparing.ONCE or self._warns(function)
        found = compare(function.function, contents, self._marshal.reducers([], by_ref=[]), seconds)
        took = time.perf_counter() - began
        export.next_look = max(export.next_look, began - LOOK_EVERY * BUDGET) + LOOK_EVERY * took
        if found.verdict is Verdict.UNKNOWN:
            return self._warns(function)
        return found.verdict is Verdict.CHANGED

    def _warns(self, function: Exported) -> bool:
        """Warn once per cell that the function isn't compared. Returns False."""
        if function.told != (origin := self._role.listener.origin()):
            function.told = origin
            warn(function_text(function.name))
        return False

    def _pack(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], parameters: Parameters
    ) -> Packed:
        """Return (payload, deps, contains, handles to hold until the message is queued)."""
        packed, refs = pack_arguments(args, kwargs, self._objects.stored_as)
        self._base.check_refs(refs)
        deps = tuple([ref.id for ref in refs])
        if len(deps) == len(args) and not kwargs:
            return REFS_ALONE, deps, (), refs
        claims: Claims = []
        try:
            encoded = self._marshal.encode(
                packed, claims, lambda: argument_names(args, kwargs, parameters())
            )
            stored = encoded.stored
            if not stored.segment:
                return stored.header, deps, stored.contains, refs
            about = encoded.about(ARGUMENTS, self._store.site())
            ref = self._base.seal(stored, about, claims)
        except BaseException:
            self._base.arena.withdraw(claims)
            raise
        return SLOTTED, (ref.id, *deps), (), [ref, *refs]

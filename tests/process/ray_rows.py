"""What each of Ray core's public names and options does here, called: the rows of the table in
``docs/coming-from-ray.md``. No tests; how the table is written: `ray_table`.
"""

from __future__ import annotations

import asyncio  # noqa: F401 - of the rows
import os
import re
import sys
import time
import types  # noqa: F401 - of the rows
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import workbench as ray
from tests.process.endings import leave_at_once
from workbench.engine.queries import Capacity
from workbench.ray_api import IN_CONTEXT, IN_EXCEPTIONS, IN_RAY, IN_UTIL
from workbench.runtime_context import RuntimeContext

SAME = "same"
IGNORED = "accepted and ignored"
REFUSED = "refused"
VERDICTS = {"same": SAME, "ignored": IGNORED, "refused": REFUSED}


@dataclass(frozen=True)
class Row:
    """One name or option. ``call`` shows what it does here: it returns why not, if refused."""

    name: str
    verdict: str
    call: Callable[[], Any]
    note: str = ""


def rows(text: str) -> list[Row]:
    """A line for each: the verdict, the name, and what is called.

    It may go on in the next lines. Behind a # stands the note, behind an = where that is. What is
    same must be true, what is ignored as if the option weren't there, and what is refused must
    raise; unless there is a note, the message says why and what to do.
    """
    found = []
    for lines in re.split(r"\n(?! )", text.strip("\n")):
        head, *more = re.split(r"\n    (?=[#=] )", lines)
        verdict, name, call = re.fullmatch(r"(\w+) (.*?) ->\s+(.*)", head, re.DOTALL).groups()  # type: ignore[union-attr]
        note = "".join(eval(n[2:]) if n[0] == "=" else n[2:] for n in more)
        found.append(Row(name, VERDICTS[verdict], partial(eval, f"({call})", globals()), note))
    return found


def lacking(prefix: str, module: Any, names: Iterable[str]) -> list[Row]:
    """A row for each name that the module hasn't; the error says what to do."""
    calls = {name: partial(getattr, module, name) for name in sorted(names)}
    return [Row(f"`{prefix}{name}`", REFUSED, call) for name, call in calls.items()]


def raises(error: type[BaseException], call: Callable[[], Any]) -> bool:
    """Whether it does."""
    try:
        call()
    except error:
        return True
    return False


got: Any = ray.get
one: Any = ray.remote(lambda *args: 1)
pair: Any = ray.remote(num_returns=2)(lambda: (1, 2))
told: Any = ray.remote(lambda what: getattr(ray.get_runtime_context(), what)())
variable: Any = ray.remote(lambda name: os.environ.get(name))
never: Any = ray.remote(lambda: [None for _ in iter(time.monotonic, None)])
crashes: Any = ray.remote(max_retries=0)(lambda: leave_at_once(1))


@ray.remote
def count(n: int) -> Any:
    yield from range(n)


@ray.remote
def fails() -> None:
    raise KeyError("key")


def pending(holds: Callable[[Any], bool]) -> bool:
    """Whether it holds of the ref of a task that isn't done."""
    ref = never.remote()
    try:
        return holds(ref)
    finally:
        ray.cancel(ref)


@ray.remote
class Counter:
    STEP = 1

    def __init__(self, start: int = 0) -> None:
        self.value = start

    def add(self, n: int = 1) -> int:
        self.value += n
        return self.value

    @ray.method(num_returns=2)
    def both(self) -> tuple[int, int]:
        return self.value, -self.value

    def die(self) -> None:
        leave_at_once(1)

    def exit(self) -> None:
        sys.exit(1)

    def leave(self) -> None:
        ray.actor.exit_actor()

    def me(self) -> Any:
        context = ray.get_runtime_context()
        return (
            context.get_actor_id(),
            context.get_actor_name(),
            context.current_actor,
            context.was_current_actor_reconstructed,
        )


def task(**options: Any) -> Any:
    """The value of a task with those options."""
    return got(one.options(**options).remote())


def actor(**options: Any) -> Any:
    """What a call of an actor with those options returns."""
    return got(Counter.options(**options).remote().add.remote())


def named() -> bool:
    made = Counter.options(name="named").remote(5)
    return got(ray.get_actor("named").add.remote()) == 6 and got(made.add.remote()) == 7


def of_one_name(**options: Any) -> bool:
    first = Counter.options(name="one", **options).remote()
    try:
        return Counter.options(name="one", get_if_exists=True, **options).remote() == first
    finally:
        ray.kill(first)


def cancelled(**options: Any) -> bool:
    ref = never.remote()
    ray.cancel(ref, **options)
    return raises(ray.exceptions.TaskCancelledError, lambda: got(ref))


def killed() -> bool:
    made = Counter.remote()
    ray.kill(made)
    return raises(ray.exceptions.RayActorError, lambda: got(made.add.remote()))


def killed_and_made_again() -> bool:
    made = Counter.options(max_restarts=1).remote()
    ray.kill(made, no_restart=False)
    return got(made.add.options(max_task_retries=-1).remote()) == 1


def made_again(method: str) -> bool:
    made = Counter.options(max_restarts=1).remote()
    return (
        raises(ray.exceptions.ActorUnavailableError, lambda: got(getattr(made, method).remote()))
        and got(made.add.remote()) == 1
    )


def dead_after(method: str) -> bool:
    made = Counter.remote()
    ray.wait([getattr(made, method).remote()])
    return raises(ray.exceptions.ActorDiedError, lambda: got(made.add.remote()))


def available() -> bool:
    made = Counter.options(num_cpus=2).remote()
    return got(made.add.remote()) == 1 and "CPU" not in ray.available_resources()


async def awaited(ref: Any) -> Any:
    return await ref


async def iterated() -> list[int]:
    return [await ref async for ref in count.remote(3)]


CORE = rows("""
same `put(value)` -> got(ray.put([1])) == [1]
refused `put(…, _owner=)` -> ray.put(1, _owner=None)
    = IN_EXCEPTIONS["OwnerDiedError"]
same `get(generator)` -> [got(r) for r in ray.get(count.remote(2))] == [0, 1]
same `get(ref)`, `get([refs])` -> ray.get([ray.put(1), one.remote()]) == [1, 1]
same `get(…, timeout=)` ->
    pending(lambda ref: raises(TimeoutError, lambda: ray.get(ref, timeout=0)))
same `wait(refs)` -> pending(lambda ref: len(ray.wait([ray.put(1), ref])[0]) == 1)
same `wait(…, num_returns=)` -> len(ray.wait([ray.put(1), ray.put(2)], num_returns=2)[0]) == 2
same `wait(…, timeout=)` -> pending(lambda ref: ray.wait([ref], timeout=0)[0] == [])
ignored `wait(…, fetch_local=)` -> len(ray.wait([ray.put(1)], fetch_local=False)[0]) == 1
    # All objects are local.
same `remote` -> got(one.remote()) == 1
same `cancel(ref)` -> cancelled()
same `cancel(…, force=)` ->
    cancelled(force=True)
refused `cancel(…, force=True)` of an actor's call ->
    pending(lambda ref: ray.cancel(Counter.remote().add.remote(ref), force=True))
same `cancel(…, recursive=)` -> ray.cancel(ray.put(1), recursive=True) is None
same `kill(actor)` -> killed()
same `kill(…, no_restart=False)` -> killed_and_made_again()
same `get_actor(name)` -> named()
same `get_actor(…, namespace=)` ->
    raises(ValueError, lambda: ray.get_actor("nobody", namespace="x"))
same `method` -> ray.get(Counter.remote(3).both.remote()) == [3, -3]
same `get_runtime_context()` -> ray.get_runtime_context().get_worker_id() == "0"
same `cluster_resources()` -> ray.cluster_resources()["CPU"] == 2
    # `CPU` and `object_store_memory`.
same `available_resources()` -> available()
same `is_initialized()` -> ray.is_initialized()
same `actor.exit_actor()` -> dead_after("leave")
""")


OF_TASKS = rows("""
same `num_returns=2` -> ray.get(pair.remote()) == [1, 2]
same `num_returns="streaming"` -> [got(r) for r in count.remote(3)] == [0, 1, 2]
same `num_returns=None` of a function that yields ->
    [got(r) for r in ray.remote(num_returns=None)(lambda: (yield 1)).remote()] == [1]
same `num_returns=1`, `2` of a function that yields ->
    [got(count.options(num_returns=n).remote(n)) for n in (1, 2)] == [0, [0, 1]]
same `num_returns="dynamic"`, `DynamicObjectRefGenerator` ->
    type(got(count.options(num_returns="dynamic").remote(3))) is ray.DynamicObjectRefGenerator
    # One ref, of all the refs that it yields.
same `num_cpus=` -> task(num_cpus=2) == task(num_cpus=0) == 1
    # More than the session has is refused at once.
same `max_retries=` -> raises(ray.exceptions.WorkerCrashedError, lambda: got(crashes.remote()))
same `retry_exceptions=` -> task(retry_exceptions=[KeyError]) == 1
same `name=` -> task(name="x") == 1
same `memory=` -> task(memory=1 << 20) == 1
same `runtime_env={"env_vars": …}` ->
    got(variable.options(runtime_env={"env_vars": {"COLOR": "red"}}).remote("COLOR")) == "red"
refused `runtime_env={"pip": …}` -> task(runtime_env={"pip": ["x"]})
ignored `enable_task_events=` -> task(enable_task_events=False) == 1
    # Workbench keeps none.
ignored `scheduling_strategy="SPREAD"` -> task(scheduling_strategy="SPREAD") == 1
    # There is one machine.
refused `scheduling_strategy=…` -> task(scheduling_strategy=object())
ignored `num_gpus=0`, `resources={}` -> task(num_gpus=0, resources={}) == 1
    # It asks for nothing.
refused `num_gpus=1` -> task(num_gpus=1)
refused `resources={"x": 1}` -> task(resources={"x": 1})
refused `accelerator_type=` -> task(accelerator_type="A100")
refused `label_selector=` -> task(label_selector={"a": "b"})
refused `fallback_strategy=` -> task(fallback_strategy=[{"label_selector": {}}])
refused `placement_group=` -> task(placement_group="x")
refused `placement_group_bundle_index=` -> task(placement_group_bundle_index=1)
refused `placement_group_capture_child_tasks=` -> task(placement_group_capture_child_tasks=True)
same `max_calls=` -> task(max_calls=1) == 1
refused `object_store_memory=` -> task(object_store_memory=1)
same `_generator_backpressure_num_objects=` ->
    len(list(count.options(_generator_backpressure_num_objects=2).remote(3))) == 3
    # It is `max_ahead=`.
refused `async def` functions -> ray.remote(awaited)
""")


IO = {"io": 1}

OF_ACTORS = rows("""
same `name=`, `get_if_exists=` -> of_one_name()
same `namespace=` -> of_one_name(namespace="lab")
same `lifetime="detached"` -> of_one_name(lifetime="detached")
    # It lives until `kill`, or the session's end.
same `lifetime="non_detached"`, and the default -> actor(lifetime="non_detached") == 1
    # It lives as long as anybody has a handle.
refused `lifetime="detached"` without a name -> actor(lifetime="detached")
same `max_concurrency=` -> actor(max_concurrency=2) == 1
same `max_restarts=` -> made_again("die")
same `max_task_retries=` -> actor(max_task_retries=1) == 1
same `num_cpus=` -> actor(num_cpus=1) == 1
    # Default 0.
same `memory=` -> actor(memory=1 << 20) == 1
same `runtime_env={"env_vars": …}` -> actor(runtime_env={"env_vars": {"COLOR": "red"}}) == 1
ignored `max_pending_calls=-1` -> actor(max_pending_calls=-1) == 1
    # Any number may wait.
refused `max_pending_calls=10` -> actor(max_pending_calls=10)
same `allow_out_of_order_execution=` -> actor(allow_out_of_order_execution=True) == 1
    # Default: with `max_concurrency` above 1, `async def` methods, or concurrency groups.
same `concurrency_groups=`, `@method(concurrency_group=)` -> actor(concurrency_groups=IO) == 1
refused `enable_tensor_transport=` -> actor(enable_tensor_transport=True)
refused `num_gpus=1` -> actor(num_gpus=1)
refused `resources={"x": 1}` -> actor(resources={"x": 1})
refused `object_store_memory=` -> actor(object_store_memory=1)
refused `class D(A)`, `A` being remote -> types.new_class("D", (Counter,))
same `A.X`, `A.f` of a remote class -> Counter.STEP == 1
same calls in the order of their submission ->
    (lambda a: ray.get([a.add.remote() for _ in range(3)]))(Counter.remote()) == [1, 2, 3]
same `handle.m.options(num_returns=, name=)` ->
    got(Counter.remote().add.options(name="x").remote()) == 1
same `sys.exit(1)` in a method -> made_again("exit")
    # A crash. `sys.exit(0)` is `exit_actor()`.
same `actor.ActorHandle` -> isinstance(Counter.remote(), ray.actor.ActorHandle)
same `handle.__ray_ready__` -> got(Counter.remote().__ray_ready__.remote())
same `handle.__ray_call__` ->
    got(Counter.remote(7).__ray_call__.remote(lambda self: self.value)) == 7
same `handle.__ray_terminate__` -> dead_after("__ray_terminate__")
same `handle.m.options(concurrency_group=)` ->
    got(Counter.options(concurrency_groups=IO).remote().add.options(concurrency_group="io").remote())
refused `handle.m()` -> Counter.remote().add()
refused `handle.m.bind()` -> Counter.remote().add.bind()
    = IN_RAY["dag"]
""")

OF_REFS = rows("""
same `ObjectID` -> ray.ObjectID is ray.ObjectRef
    # Ray's older name.
same `await ref` -> asyncio.run(awaited(one.remote())) == 1
same `ref.future()` -> one.remote().future().result() == 1
same `ref.hex()` -> int(ray.put(1).hex(), 16) > 0
    # 16 digits, not 56.
same `ref.binary()` -> len(ray.put(1).binary()) == 8
    # 8 bytes, not 28.
same `ref.as_future()` -> asyncio.run(_as_future()) == 1
same `ref.task_id()` ->
    (lambda ref: ref.task_id().hex() == got(ref))(told.remote("get_task_id"))
    # A text, with `hex()`.
refused `ref.job_id()` -> ray.put(1).job_id()
    = IN_RAY["JobID"]
same `for ref in generator` -> [got(r) for r in count.remote(2)] == [0, 1]
same `async for ref in generator` -> asyncio.run(iterated()) == [0, 1, 2]
same `generator.completed()` ->
    (lambda g: (len(list(g)), got(g.completed())))(count.remote(2)) == (2, 2)
refused `ObjectRef(binary)`, `ObjectRef.nil()`, `from_random()` -> ray.ObjectRef(bytes(28))
refused a generator as an argument -> one.remote(count.remote(2))
    # A stream has one reader. Pass its refs, one by one, or `list(generator)`.
same a ref as an argument, and in a list -> got(one.remote(ray.put(1), [ray.put(2)])) == 1
""")


async def _as_future() -> Any:
    return await one.remote().as_future()


CONTEXT = rows("""
same `get_job_id()` -> bool(ray.get_runtime_context().get_job_id())
same `get_node_id()` -> bool(ray.get_runtime_context().get_node_id())
same `get_task_id()` -> got(told.remote("get_task_id")) is not None
same `get_task_name()` -> got(told.options(name="x").remote("get_task_name")) == "x"
same `get_actor_id()`, `get_actor_name()`, `current_actor` ->
    (lambda a: got(a.me.remote())[2] == a)(Counter.remote())
same `namespace` -> ray.get_runtime_context().namespace == ""
same `get_assigned_resources()` -> got(told.remote("get_assigned_resources")) == {"CPU": 1}
same `is_canceled()` -> got(told.remote("is_canceled")) is False
    # True where a cancelled task catches its KeyboardInterrupt.
same `was_current_actor_reconstructed` -> got(Counter.remote().me.remote())[3] is False
same `get()`, `job_id`, `node_id`, `task_id`, `actor_id` ->
    ray.get_runtime_context().get()["node_id"] == os.uname().nodename
    # Texts, with `hex()`; None for the last two where there is none.
""") + lacking("", RuntimeContext(Any), IN_CONTEXT)  # type: ignore[arg-type]

IN_UTILS = rows("""
same `util.ActorPool` -> ray.util.ActorPool([Counter.remote()]).has_free()
same `util.queue.Queue`, `Empty`, `Full` ->
    ray.util.queue.Queue is ray.util.Queue
    and raises(ray.util.queue.Empty, lambda: ray.util.Queue().get_nowait())
    # `util.Queue` too.
same `util.register_serializer` -> ray.util.register_serializer is ray.register_serializer
    # Registered once, all workers know it.
same `util.deregister_serializer` -> ray.util.deregister_serializer(complex) is None
same `util.inspect_serializability` -> not ray.util.inspect_serializability(_ for _ in ())[0]
    # All failures, each with `path`, `type`, `why` and `advice`; printed, it is a text.
refused `util.inspect_serializability(…)[1]`: `obj`, `parent` ->
    next(iter(ray.util.inspect_serializability(_ for _ in ())[1])).obj
refused `util.inspect_serializability(…, depth=, print_file=)` ->
    ray.util.inspect_serializability(1, depth=3)
    # All that fails is found, however deep. `print` what comes back.
same `util.as_completed`, `util.map_unordered` ->
    sorted(ray.util.as_completed([one.remote(), ray.put(2)], chunk_size=1)) == [1, 2]
    and list(ray.util.map_unordered(one, range(3), backpressure_size=2)) == [1, 1, 1]
    # Each result comes when it is ready, whatever the `chunk_size=`.
same `util.list_named_actors()` -> ray.util.list_named_actors() == []
same `util.list_named_actors(all_namespaces=)` ->
    ray.util.list_named_actors(all_namespaces=True) == []
""") + lacking("util.", ray.util, IN_UTIL)


ERRORS = rows("""
same `exceptions.RayError` -> raises(ray.exceptions.RayError, lambda: got(fails.remote()))
same `exceptions.RayTaskError` -> raises(ray.exceptions.RayTaskError, lambda: got(fails.remote()))
same `RayTaskError` is what the task raised, too -> raises(KeyError, lambda: got(fails.remote()))
same `exceptions.GetTimeoutError` ->
    pending(lambda ref: raises(ray.exceptions.GetTimeoutError, lambda: ray.get(ref, timeout=0)))
same `exceptions.TaskCancelledError` -> cancelled()
same `exceptions.WorkerCrashedError` ->
    raises(ray.exceptions.WorkerCrashedError, lambda: got(crashes.remote()))
same `exceptions.RayActorError`, `ActorDiedError` -> killed()
same `exceptions.ActorDiedError.actor_id` -> hasattr(ray.exceptions.ActorDiedError, "actor_id")
same `exceptions.ActorUnavailableError` -> made_again("die")
    # It is an ActorDiedError, too. Calls that come while the actor is made again wait.
same `exceptions.ObjectFreedError`, `ObjectLostError` ->
    (lambda ref: ray.free([ref]) or raises(ray.exceptions.ObjectFreedError, lambda: got(ref)))(
        ray.put(1)
    )
same `exceptions.ObjectStoreFullError` ->
    raises(ray.exceptions.ObjectStoreFullError, lambda: ray.put(bytes(100_000_000)))
same `exceptions.OutOfMemoryError` ->
    issubclass(ray.exceptions.OutOfMemoryError, ray.exceptions.WorkerCrashedError)
same `exceptions.OutOfDiskError` -> issubclass(ray.exceptions.OutOfDiskError, OSError)
same `exceptions.RaySystemError` ->
    issubclass(ray.exceptions.RaySystemError, ray.exceptions.RayError)
    # There is no session to talk to.
""") + lacking("exceptions.", ray.exceptions, IN_EXCEPTIONS)

MISSING = lacking("", ray, IN_RAY)


@cache
def begun() -> dict[str, Any]:
    """What holds of a session that was started with all that is same or ignored."""
    ray.shutdown()
    nothing = {"address": "local", "local_mode": False, "include_dashboard": False}
    session = ray.init(
        num_cpus=1,
        object_store_memory=1 << 26,
        log_to_driver=False,
        namespace="lab",
        configure_logging=True,
        runtime_env={"env_vars": {"COLOR": "red"}},
        **nothing,  # type: ignore[arg-type]
    )
    kept = Counter.options(name="a").remote()
    return {
        "namespace": ray.list_named_actors(all_namespaces=True),
        "workers": session.workers,
        "memory": session.ask(Capacity()),
        "address": session["address"] == session.address_info["address"] == session.session,
        "again": ray.init(ignore_reinit_error=True) is session,
        "color": got(variable.remote("COLOR")),
        "kept": kept,
        "left": ray.shutdown() is None and not ray.is_initialized(),  # type: ignore[func-returns-value]
    }


def left_at_the_end_of_its_block(workers: int) -> bool:
    with ray.init(num_cpus=workers) as session:
        assert session.workers == workers
    return not ray.is_initialized()


OF_INIT = rows("""
same `num_cpus=` -> begun()["workers"] == 1
    # It is `workers=`.
same `num_cpus=0` -> left_at_the_end_of_its_block(workers=0)
    # A task that needs a processor is refused at its call; Ray's waits for ever.
same `object_store_memory=` -> begun()["memory"] == 1 << 26
    # It is `memory=`.
same `ignore_reinit_error=` -> begun()["again"]
same `log_to_driver=` -> bool(begun())
same `runtime_env={"env_vars": …}` -> begun()["color"] == "red"
same `shutdown()` -> begun()["left"]
same `with init(…):` -> left_at_the_end_of_its_block(workers=1)
same `init(…)["address"]`, `.address_info` -> begun()["address"]
    # The session's unique name; `init(address=…)` takes it.
ignored `address="local"`, `local_mode=False`, `include_dashboard=False`, `configure_logging=` ->
    bool(begun())
    # It is so.
same `address="auto"` in a process with a session ->
    ray.init(address="auto") is ray.init(ignore_reinit_error=True)
refused `address="auto"` in one without -> ray.shutdown() or ray.init(address="auto")
refused `num_gpus=1` -> ray.init(num_gpus=1)
refused `resources=` -> ray.init(resources={"x": 1})
refused `labels=` -> ray.init(labels={"a": "b"})
refused `local_mode=True` -> ray.init(local_mode=True)
same `namespace=` -> begun()["namespace"] == [{"name": "a", "namespace": "lab"}]
refused `include_dashboard=True` -> ray.init(include_dashboard=True)
refused `dashboard_host=` -> ray.init(dashboard_host="0.0.0.0")
refused `dashboard_port=` -> ray.init(dashboard_port=1)
refused `job_config=` -> ray.init(job_config=object())
refused `logging_level=` -> ray.init(logging_level="info")
refused `logging_format=` -> ray.init(logging_format="%s")
refused `logging_config=` -> ray.init(logging_config=object())
refused `storage=` -> ray.init(storage="s3://x")
""")

SECTIONS = {
    "Functions": CORE,
    "Options of tasks": OF_TASKS,
    "Options of actors, and what is called": OF_ACTORS,
    "Refs and generators": OF_REFS,
    "`get_runtime_context()`": CONTEXT,
    "`ray.util`": IN_UTILS,
    "`ray.exceptions`": ERRORS,
    "Other names": MISSING,
    "Options of `init`": OF_INIT,  # last: its rows end the session
}

"""What each of Ray core's public names and options does here, called: the rows of the table in
``docs/coming-from-ray.md``. No tests; how the table is written: `ray_table`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import workbench as ray
from tests.leaks import eventually
from workbench.ray_api.names import IN_EXCEPTIONS, IN_RAY, IN_UTIL

SAME = "same"
IGNORED = "accepted and ignored"
REFUSED = "refused"


@dataclass(frozen=True)
class Row:
    """One name or option. ``call`` shows what it does here: it returns why not, if refused."""

    name: str
    verdict: str
    call: Callable[[], Any]
    note: str = ""


def same(name: str, holds: Callable[[], bool], note: str = "") -> Row:
    """A row whose call must be true."""
    return Row(name, SAME, holds, note)


def ignored(name: str, holds: Callable[[], bool], note: str) -> Row:
    """A row whose call must be true as if the option weren't there."""
    return Row(name, IGNORED, holds, note)


def refused(name: str, call: Callable[[], Any], note: str = "") -> Row:
    """A row whose call must raise; unless there is a note, the message says why and what to do."""
    return Row(name, REFUSED, call, note)


def raises(error: type[BaseException], call: Callable[[], Any]) -> bool:
    """Whether it does."""
    try:
        call()
    except error:
        return True
    return False


# -- what is called --------------------------------------------------------------------------------


@ray.remote
def one(*args: Any) -> int:
    return 1


@ray.remote
def pid() -> int:
    return os.getpid()


@ray.remote
def variable(name: str) -> str | None:
    return os.environ.get(name)


@ray.remote(num_returns=2)
def pair() -> tuple[int, int]:
    return 1, 2


@ray.remote
def count(n: int) -> Any:
    yield from range(n)


@ray.remote
def sums(made: ray.DynamicObjectRefGenerator) -> int:
    return sum(map(got, made))


def dynamic() -> bool:
    made = count.options(num_returns="dynamic").remote(3)
    return isinstance(got(made), ray.DynamicObjectRefGenerator) and got(sums.remote(made)) == 3


@ray.remote
def fails() -> None:
    raise KeyError("key")


@ray.remote
def never() -> None:
    while True:
        time.monotonic()


def pending(holds: Callable[[Any], bool]) -> bool:
    """Whether it holds of the ref of a task that isn't done."""
    ref = never.remote()
    try:
        return holds(ref)
    finally:
        ray.cancel(ref)


@ray.remote(max_retries=0)
def crashes() -> None:
    os._exit(1)


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
        os._exit(1)

    def exit(self) -> None:
        sys.exit(1)

    def leave(self) -> None:
        ray.actor.exit_actor()

    def me(self) -> Any:
        context = ray.get_runtime_context()
        return context.get_actor_id(), context.get_actor_name(), context.current_actor


def got(ref: Any) -> Any:
    return ray.get(ref)


def task(**options: Any) -> Any:
    """The value of a task with those options."""
    return got(one.options(**options).remote())


def actor(**options: Any) -> Any:
    """What a call of an actor with those options returns."""
    made = Counter.options(**options).remote()
    try:
        return got(made.add.remote())
    finally:
        ray.kill(made)


def named() -> bool:
    made = Counter.options(name="named").remote(5)
    try:
        return got(ray.get_actor("named").add.remote()) == 6 and got(made.add.remote()) == 7
    finally:
        ray.kill(made)


def of_one_name(**options: Any) -> bool:
    first = Counter.options(name="one", **options).remote()
    try:
        return Counter.options(name="one", get_if_exists=True, **options).remote() == first
    finally:
        ray.kill(first)


def cancelled() -> bool:
    ref = never.remote()
    ray.cancel(ref)
    return raises(ray.exceptions.TaskCancelledError, lambda: got(ref))


def killed() -> bool:
    made = Counter.remote()
    ray.kill(made)
    return raises(ray.exceptions.RayActorError, lambda: got(made.add.remote()))


def made_again(**options: Any) -> bool:
    made = Counter.options(max_restarts=1, **options).remote()
    raises(ray.exceptions.RayActorError, lambda: got(made.die.remote()))
    return got(made.add.options(max_task_retries=1).remote()) == 1


def left() -> bool:
    made = Counter.remote()
    return raises(ray.exceptions.ActorDiedError, lambda: got(made.leave.remote()))


def completed() -> bool:
    generator = count.remote(2)
    return len(list(generator)) == 2 and ray.wait([generator.completed()])[1] == []


def exited() -> bool:
    made = Counter.options(max_restarts=1).remote()
    raises(ray.exceptions.RayActorError, lambda: got(made.exit.remote()))
    return got(made.add.options(max_task_retries=1).remote()) == 1


def in_order(handle: Any) -> bool:
    return [got(handle.add.remote()) for _ in range(3)] == [1, 2, 3]


def retried() -> bool:
    @ray.remote(retry_exceptions=[KeyError], max_retries=1)
    def second_try(queue: Any) -> int:
        queue.put_nowait(1)
        if queue.qsize() == 1:
            raise KeyError
        return 2

    queue = ray.util.Queue()
    try:
        return got(second_try.remote(queue)) == 2
    finally:
        queue.shutdown()


def pooled() -> bool:
    pool = ray.util.ActorPool([Counter.remote(), Counter.remote()])
    return sum(pool.map(lambda each, n: each.add.remote(n), [1, 2])) >= 3


def queued() -> bool:
    queue = ray.util.Queue(maxsize=1)
    try:
        queue.put(1)
        return raises(ray.util.queue.Full, lambda: queue.put_nowait(2)) and queue.get() == 1
    finally:
        queue.shutdown()


class Special:
    def __init__(self) -> None:
        self.answer = (lambda: 42)()

    def __reduce__(self) -> Any:
        raise TypeError("not like this")


def registered() -> bool:
    def build(answer: int) -> Any:
        return answer

    ray.util.register_serializer(Special, serializer=lambda s: s.answer, deserializer=build)
    try:
        return got(ray.put(Special())) == 42
    finally:
        ray.util.deregister_serializer(Special)


def freed() -> bool:
    ref = ray.put(1)
    ray.free([ref])
    return raises(ray.exceptions.ObjectFreedError, lambda: got(ref))


def available() -> bool:
    made = Counter.options(num_cpus=2).remote()
    try:
        got(made.add.remote())
        return "CPU" not in ray.available_resources()
    finally:
        ray.kill(made)


async def awaited(ref: Any) -> Any:
    return await ref


def _two() -> Any:
    yield from (1, 2)


async def iterated() -> list[int]:
    return [await ref async for ref in count.remote(3)]


# -- the rows --------------------------------------------------------------------------------------

CORE = [
    same("`put(value)`", lambda: got(ray.put([1])) == [1]),
    refused("`put(…, _owner=)`", lambda: ray.put(1, _owner=None), IN_EXCEPTIONS["OwnerDiedError"]),  # type: ignore[call-arg]
    same("`get(generator)`", lambda: [got(r) for r in ray.get(count.remote(2))] == [0, 1]),
    same("`get(ref)`, `get([refs])`", lambda: ray.get([ray.put(1), one.remote()]) == [1, 1]),
    same(
        "`get(…, timeout=)`",
        lambda: pending(lambda ref: raises(TimeoutError, lambda: ray.get(ref, timeout=0))),
    ),
    same("`wait(refs)`", lambda: pending(lambda ref: len(ray.wait([ray.put(1), ref])[0]) == 1)),
    same(
        "`wait(…, num_returns=)`",
        lambda: len(ray.wait([ray.put(1), ray.put(2)], num_returns=2)[0]) == 2,
    ),
    same("`wait(…, timeout=)`", lambda: pending(lambda ref: ray.wait([ref], timeout=0)[0] == [])),
    ignored(
        "`wait(…, fetch_local=)`",
        lambda: len(ray.wait([ray.put(1)], fetch_local=False)[0]) == 1,
        "All objects are local.",
    ),
    same("`remote`", lambda: got(one.remote()) == 1),
    same("`cancel(ref)`", cancelled),
    same(
        "`cancel(…, force=)`",
        lambda: raises(
            ray.exceptions.RayError,
            lambda: (lambda ref: (ray.cancel(ref, force=True), got(ref)))(never.remote()),
        ),
    ),
    refused(
        "`cancel(…, force=True)` of an actor's call",
        lambda: pending(lambda ref: ray.cancel(Counter.remote().add.remote(ref), force=True)),
    ),
    same("`cancel(…, recursive=)`", lambda: ray.cancel(ray.put(1), recursive=True) is None),
    same("`kill(actor)`", killed),
    same(
        "`kill(…, no_restart=False)`",
        lambda: (
            lambda a: (
                (ray.kill(a, no_restart=False), got(a.add.options(max_task_retries=-1).remote()))[1]
                == 1
            )
        )(Counter.options(max_restarts=1).remote()),
    ),
    same("`get_actor(name)`", named),
    same(
        "`get_actor(…, namespace=)`",
        lambda: raises(ValueError, lambda: ray.get_actor("nobody", namespace="x")),
    ),
    same("`method`", lambda: ray.get(Counter.remote(3).both.remote()) == [3, -3]),
    same("`get_runtime_context()`", lambda: ray.get_runtime_context().get_worker_id() == "0"),
    same(
        "`cluster_resources()`",
        lambda: ray.cluster_resources()["CPU"] == 2,
        "`CPU` and `object_store_memory`.",
    ),
    same("`available_resources()`", available),
    same("`is_initialized()`", lambda: ray.is_initialized()),
    same("`actor.exit_actor()`", left),
]


OF_TASKS = [
    same("`num_returns=2`", lambda: ray.get(pair.remote()) == [1, 2]),
    same('`num_returns="streaming"`', lambda: [got(r) for r in count.remote(3)] == [0, 1, 2]),
    same(
        "`num_returns=None` of a function that yields",
        lambda: [got(r) for r in ray.remote(num_returns=None)(_two).remote()] == [1, 2],
    ),
    same(
        "`num_returns=1`, `2` of a function that yields",
        lambda: [got(count.options(num_returns=n).remote(n)) for n in (1, 2)] == [0, [0, 1]],
    ),
    same(
        '`num_returns="dynamic"`, `DynamicObjectRefGenerator`',
        dynamic,
        "One ref, of all the refs that it yields.",
    ),
    same(
        "`num_cpus=`",
        lambda: task(num_cpus=2) == task(num_cpus=0) == 1,
        "More than the session has is refused at once.",
    ),
    same(
        "`max_retries=`",
        lambda: raises(ray.exceptions.WorkerCrashedError, lambda: got(crashes.remote())),
    ),
    same("`retry_exceptions=`", retried),
    same("`name=`", lambda: task(name="x") == 1),
    same("`memory=`", lambda: task(memory=1 << 20) == 1),
    same(
        '`runtime_env={"env_vars": …}`',
        lambda: (
            got(variable.options(runtime_env={"env_vars": {"COLOR": "red"}}).remote("COLOR"))
            == "red"
        ),
    ),
    refused('`runtime_env={"pip": …}`', lambda: task(runtime_env={"pip": ["x"]})),
    ignored(
        "`enable_task_events=`",
        lambda: task(enable_task_events=False) == 1,
        "Workbench keeps none.",
    ),
    ignored(
        '`scheduling_strategy="SPREAD"`',
        lambda: task(scheduling_strategy="SPREAD") == 1,
        "There is one machine.",
    ),
    refused("`scheduling_strategy=…`", lambda: task(scheduling_strategy=object())),
    ignored(
        "`num_gpus=0`, `resources={}`",
        lambda: task(num_gpus=0, resources={}) == 1,
        "It asks for nothing.",
    ),
    refused("`num_gpus=1`", lambda: task(num_gpus=1)),
    refused('`resources={"x": 1}`', lambda: task(resources={"x": 1})),
    refused("`accelerator_type=`", lambda: task(accelerator_type="A100")),
    refused("`label_selector=`", lambda: task(label_selector={"a": "b"})),
    refused("`fallback_strategy=`", lambda: task(fallback_strategy=[{"label_selector": {}}])),
    refused("`placement_group=`", lambda: task(placement_group="x")),
    refused("`placement_group_bundle_index=`", lambda: task(placement_group_bundle_index=1)),
    refused(
        "`placement_group_capture_child_tasks=`",
        lambda: task(placement_group_capture_child_tasks=True),
    ),
    same("`max_calls=`", lambda: task(max_calls=1) == 1),
    refused("`object_store_memory=`", lambda: task(object_store_memory=1)),
    same(
        "`_generator_backpressure_num_objects=`",
        lambda: len(list(count.options(_generator_backpressure_num_objects=2).remote(3))) == 3,
        "It is `max_ahead=`.",
    ),
    refused("`async def` functions", lambda: ray.remote(awaited)),
]


def goes_with_its_handles() -> bool:
    made = Counter.options(name="short", lifetime="non_detached").remote()
    found = ray.get_actor("short") == made
    del made
    return found and eventually(lambda: raises(ValueError, lambda: ray.get_actor("short")))


@ray.remote(concurrency_groups={"io": 1})
class Grouped:
    @ray.method(concurrency_group="io")
    def stays(self) -> None:
        never._function()

    def add(self) -> int:
        return 1


def grouped() -> bool:
    made = Grouped.remote()
    stuck = made.stays.remote()
    try:
        return got(made.add.remote()) == 1
    finally:
        ray.cancel(stuck)


def overtakes() -> bool:
    made = Counter.options(max_concurrency=2).remote()
    return pending(lambda ref: got([made.add.remote(ref), made.add.remote()][1]) == 1)


OF_ACTORS = [
    same("`name=`, `get_if_exists=`", lambda: of_one_name()),
    same("`namespace=`", lambda: of_one_name(namespace="lab")),
    same(
        '`lifetime="detached"`',
        lambda: of_one_name(lifetime="detached"),
        "It lives until `kill`, or the session's end.",
    ),
    same(
        '`lifetime="non_detached"`, and the default',
        goes_with_its_handles,
        "It lives as long as anybody has a handle.",
    ),
    refused('`lifetime="detached"` without a name', lambda: actor(lifetime="detached")),
    same("`max_concurrency=`", lambda: actor(max_concurrency=2) == 1),
    same("`max_restarts=`", made_again),
    same("`max_task_retries=`", lambda: actor(max_task_retries=1) == 1),
    same("`num_cpus=`", lambda: actor(num_cpus=1) == 1, "Default 0."),
    same("`memory=`", lambda: actor(memory=1 << 20) == 1),
    same(
        '`runtime_env={"env_vars": …}`',
        lambda: actor(runtime_env={"env_vars": {"COLOR": "red"}}) == 1,
    ),
    ignored(
        "`max_pending_calls=-1`", lambda: actor(max_pending_calls=-1) == 1, "Any number may wait."
    ),
    refused("`max_pending_calls=10`", lambda: actor(max_pending_calls=10)),
    same(
        "`allow_out_of_order_execution=`",
        lambda: actor(allow_out_of_order_execution=True) == 1 and overtakes(),
        "Default: with `max_concurrency` above 1, `async def` methods, or concurrency groups.",
    ),
    same("`concurrency_groups=`, `@method(concurrency_group=)`", grouped),
    refused("`enable_tensor_transport=`", lambda: actor(enable_tensor_transport=True)),
    refused("`num_gpus=1`", lambda: actor(num_gpus=1)),
    refused('`resources={"x": 1}`', lambda: actor(resources={"x": 1})),
    refused("`object_store_memory=`", lambda: actor(object_store_memory=1)),
    refused("`class D(A)`, `A` being remote", lambda: types.new_class("D", (Counter,))),
    same("`A.X`, `A.f` of a remote class", lambda: Counter.STEP == 1),
    same("calls in the order of their submission", lambda: in_order(Counter.remote())),
    same(
        "`handle.m.options(num_returns=, name=)`",
        lambda: got(Counter.remote().add.options(name="x").remote()) == 1,
    ),
    same("`sys.exit(1)` in a method", exited, "A crash. `sys.exit(0)` is `exit_actor()`."),
    same("`actor.ActorHandle`", lambda: isinstance(Counter.remote(), ray.actor.ActorHandle)),
    same("`handle.__ray_ready__`", lambda: got(Counter.remote().__ray_ready__.remote())),
    same(
        "`handle.__ray_call__`",
        lambda: got(Counter.remote(7).__ray_call__.remote(lambda self: self.value)) == 7,
    ),
    same(
        "`handle.__ray_terminate__`",
        lambda: raises(
            ray.exceptions.RayActorError,
            lambda: (lambda a: (ray.wait([a.__ray_terminate__.remote()]), got(a.add.remote())))(
                Counter.remote()
            ),
        ),
    ),
    same(
        "`handle.m.options(concurrency_group=)`",
        lambda: got(Grouped.remote().add.options(concurrency_group="io").remote()) == 1,
    ),
    refused("`handle.m()`", lambda: Counter.remote().add()),
    refused("`handle.m.bind()`", lambda: Counter.remote().add.bind(), IN_RAY["dag"]),
]

OF_REFS = [
    same("`ObjectID`", lambda: ray.ObjectID is ray.ObjectRef, "Ray's older name."),
    same("`await ref`", lambda: asyncio.run(awaited(one.remote())) == 1),
    same("`ref.future()`", lambda: one.remote().future().result() == 1),
    same("`ref.hex()`", lambda: int(ray.put(1).hex(), 16) > 0, "16 digits, not 56."),
    same("`ref.binary()`", lambda: len(ray.put(1).binary()) == 8, "8 bytes, not 28."),
    same("`ref.as_future()`", lambda: asyncio.run(_as_future()) == 1),
    same(
        "`ref.task_id()`",
        lambda: (lambda ref: ref.task_id().hex() == got(ref))(
            ray.remote(lambda: ray.get_runtime_context().get_task_id()).remote()
        ),
        "A text, with `hex()`.",
    ),
    refused("`ref.job_id()`", lambda: ray.put(1).job_id(), IN_RAY["JobID"]),  # type: ignore[attr-defined]
    same("`for ref in generator`", lambda: [got(r) for r in count.remote(2)] == [0, 1]),
    same("`async for ref in generator`", lambda: asyncio.run(iterated()) == [0, 1, 2]),
    same("`generator.completed()`", lambda: completed()),
    refused(
        "a generator as an argument",
        lambda: one.remote(count.remote(2)),
        "A stream has one reader. Pass its refs, one by one, or `list(generator)`.",
    ),
    same(
        "a ref as an argument, and in a list",
        lambda: got(one.remote(ray.put(1), [ray.put(2)])) == 1,
    ),
]


async def _as_future() -> Any:
    return await one.remote().as_future()


def reconstructed() -> bool:
    made = Counter.options(max_restarts=1).remote()

    def ask(_: Any) -> bool:
        return ray.get_runtime_context().was_current_actor_reconstructed

    first = got(made.__ray_call__.remote(ask))
    ray.wait([made.die.remote()])
    return not first and got(made.__ray_call__.remote(ask))


CONTEXT = [
    same("`get_job_id()`", lambda: bool(ray.get_runtime_context().get_job_id())),
    same("`get_node_id()`", lambda: bool(ray.get_runtime_context().get_node_id())),
    same(
        "`get_task_id()`",
        lambda: (
            got(ray.remote(lambda: ray.get_runtime_context().get_task_id()).remote()) is not None
        ),
    ),
    same(
        "`get_task_name()`",
        lambda: (
            got(
                ray.remote(lambda: ray.get_runtime_context().get_task_name())
                .options(name="x")
                .remote()
            )
            == "x"
        ),
    ),
    same(
        "`get_actor_id()`, `get_actor_name()`, `current_actor`",
        lambda: (lambda a: got(a.me.remote())[2] == a)(Counter.remote()),
    ),
    same("`namespace`", lambda: ray.get_runtime_context().namespace == ""),
    same(
        "`get_assigned_resources()`",
        lambda: (
            got(ray.remote(lambda: ray.get_runtime_context().get_assigned_resources()).remote())
            == {"CPU": 1}
        ),
    ),
    refused(
        "`get_accelerator_ids()`",
        lambda: ray.get_runtime_context().get_accelerator_ids(),
        IN_RAY["get_gpu_ids"],
    ),
    refused(
        "`gcs_address`",
        lambda: ray.get_runtime_context().gcs_address,
        "There is one machine; nothing listens on the network.",
    ),
    same("`was_current_actor_reconstructed`", reconstructed),
    same(
        "`get()`, `job_id`, `node_id`, `task_id`, `actor_id`",
        lambda: ray.get_runtime_context().get()["node_id"] == os.uname().nodename,
        "Texts, with `hex()`; None for the last two where there is none.",
    ),
]

IN_UTILS = [
    same("`util.ActorPool`", pooled),
    same("`util.queue.Queue`, `Empty`, `Full`", queued, "`util.Queue` too."),
    same("`util.register_serializer`", registered, "Registered once, all workers know it."),
    same("`util.deregister_serializer`", lambda: ray.util.deregister_serializer(Special) is None),
    same(
        "`util.inspect_serializability`",
        lambda: not ray.util.inspect_serializability(Special())[0],
        "All failures, with paths and advice; printed, it is a text.",
    ),
    refused(
        "`util.inspect_serializability(…, depth=, print_file=)`",
        lambda: ray.util.inspect_serializability(1, depth=3),  # type: ignore[call-arg]
        "All that fails is found, however deep. `print` what comes back.",
    ),
    same("`util.list_named_actors()`", lambda: ray.util.list_named_actors() == []),
    same(
        "`util.list_named_actors(all_namespaces=)`",
        lambda: ray.util.list_named_actors(all_namespaces=True) == [],
    ),
    *(
        refused(f"`util.{name}`", lambda name=name: getattr(ray.util, name))
        for name in sorted(IN_UTIL)
    ),
]


def _catches(name: str, call: Callable[[], Any]) -> Row:
    return same(f"`exceptions.{name}`", lambda: raises(getattr(ray.exceptions, name), call))


def identified() -> bool:
    made = Counter.remote()
    id = got(made.me.remote())[0]
    ray.kill(made)
    try:
        got(made.add.remote())
    except ray.exceptions.ActorDiedError as error:
        return error.actor_id == id
    return False


def unavailable() -> bool:
    made = Counter.options(max_restarts=1).remote()
    return (
        raises(ray.exceptions.ActorUnavailableError, lambda: got(made.die.remote()))
        and got(made.add.remote()) == 1
    )


ERRORS = [
    _catches("RayError", lambda: got(fails.remote())),
    _catches("RayTaskError", lambda: got(fails.remote())),
    same(
        "`RayTaskError` is what the task raised, too",
        lambda: raises(KeyError, lambda: got(fails.remote())),
    ),
    same(
        "`exceptions.GetTimeoutError`",
        lambda: pending(
            lambda ref: raises(ray.exceptions.GetTimeoutError, lambda: ray.get(ref, timeout=0))
        ),
    ),
    same("`exceptions.TaskCancelledError`", cancelled),
    _catches("WorkerCrashedError", lambda: got(crashes.remote())),
    same("`exceptions.RayActorError`, `ActorDiedError`", killed),
    same("`exceptions.ActorDiedError.actor_id`", identified),
    same(
        "`exceptions.ActorUnavailableError`",
        unavailable,
        "It is an ActorDiedError, too. Calls that come while the actor is made again wait.",
    ),
    same("`exceptions.ObjectFreedError`, `ObjectLostError`", freed),
    _catches("ObjectStoreFullError", lambda: ray.put(bytes(100_000_000))),
    same(
        "`exceptions.OutOfMemoryError`",
        lambda: issubclass(ray.exceptions.OutOfMemoryError, ray.exceptions.WorkerCrashedError),
    ),
    same("`exceptions.OutOfDiskError`", lambda: issubclass(ray.exceptions.OutOfDiskError, OSError)),
    same(
        "`exceptions.RaySystemError`",
        lambda: issubclass(ray.exceptions.RaySystemError, ray.exceptions.RayError),
        "There is no session to talk to.",
    ),
    *(
        refused(f"`exceptions.{name}`", lambda name=name: getattr(ray.exceptions, name))
        for name in sorted(IN_EXCEPTIONS)
    ),
]

MISSING = [refused(f"`{name}`", lambda name=name: getattr(ray, name)) for name in sorted(IN_RAY)]


# -- init: in a session of its own -----------------------------------------------------------------


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
        "memory": session.capacity,
        "address": session["address"] == session.address_info["address"] == session.session,
        "again": ray.init(ignore_reinit_error=True) is session,
        "color": got(variable.remote("COLOR")),
        "kept": kept,
        "left": ray.shutdown() is None and not ray.is_initialized(),  # type: ignore[func-returns-value]
    }


def blocked() -> bool:
    with ray.init(num_cpus=1):
        got(one.remote())
    return not ray.is_initialized()


def no_slots() -> bool:
    with ray.init(num_cpus=0):
        refused = raises(ValueError, one.remote)
        return refused and actor() == 1 and task(num_cpus=0) == 1


OF_INIT = [
    same("`num_cpus=`", lambda: begun()["workers"] == 1, "It is `workers=`."),
    same(
        "`num_cpus=0`",
        no_slots,
        "A task that needs a processor is refused at its call; Ray's waits for ever.",
    ),
    same("`object_store_memory=`", lambda: begun()["memory"] == 1 << 26, "It is `memory=`."),
    same("`ignore_reinit_error=`", lambda: begun()["again"]),
    same("`log_to_driver=`", lambda: bool(begun())),
    same('`runtime_env={"env_vars": …}`', lambda: begun()["color"] == "red"),
    same("`shutdown()`", lambda: begun()["left"]),
    same("`with init(…):`", blocked),
    same(
        '`init(…)["address"]`, `.address_info`',
        lambda: begun()["address"],
        "The session's unique name; `init(address=…)` takes it.",
    ),
    ignored(
        '`address="local"`, `local_mode=False`, `include_dashboard=False`, `configure_logging=`',
        lambda: bool(begun()),
        "It is so.",
    ),
    refused('`address="auto"`', lambda: ray.init(address="auto")),
    refused("`num_gpus=1`", lambda: ray.init(num_gpus=1)),
    refused("`resources=`", lambda: ray.init(resources={"x": 1})),
    refused("`labels=`", lambda: ray.init(labels={"a": "b"})),
    refused("`local_mode=True`", lambda: ray.init(local_mode=True)),
    same("`namespace=`", lambda: begun()["namespace"] == [{"name": "a", "namespace": "lab"}]),
    refused("`include_dashboard=True`", lambda: ray.init(include_dashboard=True)),
    refused("`dashboard_host=`", lambda: ray.init(dashboard_host="0.0.0.0")),
    refused("`dashboard_port=`", lambda: ray.init(dashboard_port=1)),
    refused("`job_config=`", lambda: ray.init(job_config=object())),
    refused("`logging_level=`", lambda: ray.init(logging_level="info")),
    refused("`logging_format=`", lambda: ray.init(logging_format="%s")),
    refused("`logging_config=`", lambda: ray.init(logging_config=object())),
    refused("`storage=`", lambda: ray.init(storage="s3://x")),
]

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

"""Reads ray_rows.txt, the rows of the table in ``docs/coming-from-ray.md``; has what they call. No
tests; how the table is written: `ray_table`.
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
from pathlib import Path
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
    """Those of a section; ray_rows.txt says what stands there."""
    found = []
    for lines in filter(None, re.split(r"\n(?! )", text.strip("\n"))):
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


async def _as_future() -> Any:
    return await one.remote().as_future()


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


IO = {"io": 1}

LACKING: dict[str, tuple[str, Any, Iterable[str]]] = {
    "`get_runtime_context()`": ("", RuntimeContext(Any), IN_CONTEXT),  # type: ignore[arg-type]
    "`ray.util`": ("util.", ray.util, IN_UTIL),
    "`ray.exceptions`": ("exceptions.", ray.exceptions, IN_EXCEPTIONS),
    "Other names": ("", ray, IN_RAY),
}
"""By section: see `lacking`."""

_TEXT = Path(__file__).with_suffix(".txt").read_text()
SECTIONS = {
    title: [*rows(text), *lacking(*LACKING.get(title, ("", None, ())))]
    for title, _, text in (block.partition("\n") for block in _TEXT.split("\n## ")[1:])
}

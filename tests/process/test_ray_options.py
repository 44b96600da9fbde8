"""Ray's options and actors where its users look: what a row of `ray_rows` doesn't show; what ends
an actor, and what doesn't; which call is next. And its page says what is true."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from functools import partial
from typing import Any

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process import ray_rows, ray_table
from tests.process.gates import Gate, stopper
from tests.process.ray_rows import REFUSED
from workbench import options, ray_api
from workbench.engine.base import Engine
from workbench.errors import ActorDiedError, ConfigError, TaskCancelledError
from workbench.system.machine import memory_limit

VARIABLE = "WB_TEST_VARIABLE"


def variable() -> str | None:
    return os.environ.get(VARIABLE)


def test_memory_leaves_room_for_as_many_as_have_it(session: Engine, gate: Gate) -> None:
    most = memory_limit()
    large = wb.remote(memory=most * 2 // 3)(gate.stop)
    tasks = [large.remote(), large.remote()]
    visitor = gate.next()
    assert wb.snapshot().running == 1
    visitor.let_on()
    gate.next().let_on()
    wb.get(tasks)
    assert wb.get(wb.remote(memory=1000.0)(lambda: "small").remote()) == "small"
    with pytest.raises(ValueError, match=r"memory=.* bytes of it\. Ask for less"):
        large.options(memory=most * 2).remote()


def test_variables_are_a_tasks_own_and_an_actors_for_its_life(session: Engine) -> None:
    given = {"env_vars": {VARIABLE: "grün"}}
    assert wb.get(wb.remote(runtime_env=given)(variable).remote()) == "grün"
    assert wb.get([wb.remote(variable).remote() for _ in range(4)]) == [None] * 4
    actor = wb.remote(runtime_env=given)(type("Held", (), {})).remote()
    calls = [actor.__ray_call__.remote(lambda _: variable()) for _ in range(2)]
    assert wb.get(calls) == ["grün"] * 2


def test_options_stand_at_a_method(session: Engine) -> None:
    @wb.remote
    class Marked:
        @wb.method(num_returns=2)
        def two(self) -> Any:
            return 1, 2

        @wb.method(retry_exceptions=[KeyError], max_task_retries=2)
        def third_time(self) -> int:
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls < 3:
                raise KeyError(self.calls)
            return self.calls

        @wb.method(_generator_backpressure_num_objects=2)
        def items(self) -> Any:
            yield from range(100)

    actor = Marked.remote()
    assert wb.get(actor.two.remote()) == [1, 2]
    assert wb.get(actor.two.options(num_returns=1).remote()) == (1, 2)
    assert wb.get(actor.third_time.remote()) == 3
    items = actor.items.options(_generator_backpressure_num_objects=-1).remote()
    assert wb.get(items) is items
    assert eventually(lambda: items.received == 2)
    for wrong in ({"restarts": 3}, {"max_calls": 1}):
        with pytest.raises(TypeError, match=r"no max_calls|no option restarts"):
            wb.method(**wrong)(len)
    for option in ("num_cpus", "runtime_env"):
        with pytest.raises(TypeError, match=f"have no {option}: give that to the class"):
            actor.two.options(**{option: 1})


def yields(kind: str) -> Any:
    """What yields its arguments, and raises those that are errors."""

    def body(*values: Any) -> Any:
        for value in values:
            if isinstance(value, Exception):
                raise value
            yield value

    class MakesAsync:
        async def items(self, *values: Any) -> Any:
            for value in body(*values):
                yield value

    return wb.remote(body) if kind == "task" else wb.remote(MakesAsync).remote().items


@pytest.mark.parametrize("kind", ["task", "coroutine"])
def test_a_generator_may_be_one_object_or_a_number_of_them(session: Engine, kind: str) -> None:
    maker = yields(kind)
    dynamic = maker.options(num_returns="dynamic")

    @wb.remote
    def total(made: wb.DynamicObjectRefGenerator) -> tuple[int, int]:
        return len(made), sum(len(wb.get(ref)) for ref in made)

    ref = dynamic.remote(b"1", bytes(100_000), b"22")
    assert wb.get(total.remote(ref)) == (3, 100_003)
    made = wb.get(ref)
    del ref
    assert wb.get(total.remote(made)) == (3, 100_003)
    one, large, _ = made
    assert wb.get([one, large]) == [b"1", bytes(100_000)]
    one, failed = wb.get(dynamic.remote(b"1", KeyError("no"), b"3"))
    assert wb.get(one) == b"1"
    for fails in (failed, total.remote([failed, wb.put(b"")])):
        with pytest.raises(KeyError, match="no"):
            wb.get(fails)
    assert not len(wb.get(dynamic.remote()))

    three = maker.options(num_returns=3)
    assert wb.get(three.remote(1, 2, 3)) == wb.get(three.remote(1, 2, 3, 4)) == [1, 2, 3]
    assert wb.get(maker.options(num_returns=1).remote([7])) == [7]
    *there, missing = three.remote(1, 2)
    assert wb.get(there) == [1, 2]
    with pytest.raises(ValueError, match="num_returns=3 and yielded 2"):
        wb.get(missing)
    first, failed, behind = three.remote(1, KeyError("no"), 3)
    assert wb.get(first) == 1
    for ref in (failed, behind):
        with pytest.raises(KeyError, match="no"):
            wb.get(ref)


def test_a_session_may_have_actors_only(runtime: str) -> None:
    wb.init(num_cpus=0, session="actors")
    one = wb.remote(lambda: 1)

    class Asks:
        def ask(self) -> int:
            return wb.get(one.options(num_cpus=0).remote())

    several = [wb.remote(num_cpus=1)(Asks).remote() for _ in range(2)]
    assert wb.get([each.ask.remote() for each in several], timeout=TIMEOUT) == [1, 1]
    with pytest.raises(ConfigError, match=r"^Session 'actors' has no workers, only actors"):
        one.remote()
    with wb.Executor() as executor, pytest.raises(ValueError, match="has no workers"):
        executor.submit(len, "")
    wb.shutdown()


@pytest.mark.extended
def test_workers_import_from_where_their_driver_does() -> None:
    """``python -s -S``: without site-packages of the user, or any but what PYTHONPATH names."""
    code = (
        "import os, sys, workbench as wb\n"
        "look = lambda: (sys.flags.no_user_site, sys.flags.no_site, os.environ['PYTHONPATH'])\n"
        "wb.init(workers=1)\n"
        "print(wb.get(wb.remote(look).remote()) == look(), look()[:2])\n"
    )
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-s", "-S", "-c", code]
    done = subprocess.run(command, env=paths, capture_output=True, timeout=TIMEOUT)
    assert (done.stdout, done.stderr) == (b"True (1, 1)\n", b"")


def test_no_session_starts_with_what_cannot_be() -> None:
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"num_gpus": True}, ValueError, "not GPUs"),
        ({"runtime_env": {"working_dir": "."}}, ValueError, "nothing else, not 'working_dir'"),
        ({"num_cpus": 1, "workers": 2}, ValueError, "Ray's name of workers"),
        ({"num_cpus": -1}, ConfigError, "workers=-1"),
        ({"wrokers": 2}, TypeError, "init has no option wrokers. Did you mean 'workers'"),
    ]
    for given, error, complaint in wrong:
        with pytest.raises(error, match=complaint):
            wb.init(**given)
    assert not wb.is_initialized()


class Exits:
    def __init__(self) -> None:
        self.calls = 0

    def count(self) -> int:
        self.calls += 1
        return self.calls

    def add(self, value: object) -> object:
        return value

    def wait(self, path: str) -> None:
        try:
            stopper(path)()
        except KeyboardInterrupt:
            self.calls += wb.get_runtime_context().is_canceled()
            raise

    def exit(self, code: object) -> None:
        sys.exit(code)  # type: ignore[arg-type]


class ExitsOnItsLoop(Exits):
    async def exit(self, code: object) -> None:  # type: ignore[override]
        sys.exit(code)  # type: ignore[arg-type]


KINDS = {
    "plain": (Exits, {}),
    "threaded": (Exits, {"max_concurrency": 2}),
    "async": (ExitsOnItsLoop, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_exit_with_a_status_is_a_crash_without_one_an_end(session: Engine, kind: str) -> None:
    cls, options = KINDS[kind]
    actor = wb.remote(cls).options(max_restarts=1, **options).remote()
    assert wb.get(actor.count.remote()) == 1
    with pytest.raises(ActorDiedError, match=r"exited with status 3(, perhaps)? while .* `.*exit`"):
        wb.get(actor.exit.remote(3))
    assert wb.get(actor.count.options(max_task_retries=1).remote()) == 1  # it was made again
    with pytest.raises(ActorDiedError, match="exited with status 1"):
        wb.get(actor.exit.remote("a reason"))
    with pytest.raises(ActorDiedError, match="died"):
        wb.get(actor.count.remote())
    for code in (0, None):
        actor = wb.remote(cls).options(max_restarts=1, **options).remote()
        for call in (partial(actor.exit.remote, code), actor.count.remote):
            # One after the other: of two threads, the second call may end before the first.
            with pytest.raises(ActorDiedError, match="exit_actor"):
                wb.get(call())


def test_a_cancelled_call_can_see_that_it_is(session: Engine, gate: Gate) -> None:
    actor = wb.remote(Exits).remote()
    waits = actor.wait.remote(gate.path)
    gate.next()
    wb.cancel(waits)
    assert wb.get(actor.count.remote()) == 2  # it saw it, once


@pytest.mark.parametrize(
    ("kind", "asked", "overtakes"),
    [
        ("plain", None, False),
        ("plain", True, True),
        ("threaded", None, True),
        ("threaded", False, False),
        ("async", None, True),
    ],
)
def test_a_call_whose_argument_is_missing_holds_up_no_other(
    session: Engine, gate: Gate, kind: str, asked: bool | None, overtakes: bool
) -> None:
    """But where calls go in the order of their submission, as one thread's do."""
    cls, options = KINDS[kind]
    actor = wb.remote(cls).options(allow_out_of_order_execution=asked, **options).remote()
    late = actor.add.remote(wb.remote(stopper(gate.path)).remote())
    early = actor.add.remote("early")
    visitor = gate.next()
    if overtakes:
        assert wb.get(early) == "early"
    assert wb.wait([late], timeout=0)[0] == []
    assert (wb.wait([early], timeout=0)[0] == [early]) is overtakes
    visitor.let_on()
    assert wb.get([late, early]) == ["go", "early"]


def grouped(kind: str) -> Any:
    """A class with concurrency groups, whose methods come to a gate or say in which thread they
    run. ``kind``: in threads, or on loops."""

    class Threads:
        def stop(self, path: str) -> None:
            stopper(path)()

        def thread(self) -> str:
            return threading.current_thread().name

    class Loops:
        async def stop(self, path: str) -> None:
            Threads.stop(self, path)  # type: ignore[arg-type] - its loop is stuck

        async def thread(self) -> str:
            return threading.current_thread().name

    cls: Any = Threads if kind == "threads" else Loops
    wb.method(concurrency_group="io")(cls.stop)
    return wb.remote(concurrency_groups={"io": 1, "compute": 1})(cls)


@pytest.mark.parametrize("kind", ["threads", "loops"])
def test_a_concurrency_group_holds_up_no_other(session: Engine, gate: Gate, kind: str) -> None:
    actor = grouped(kind).remote()
    stuck, behind = actor.stop.remote(gate.path), actor.stop.remote(gate.path)
    visitor = gate.next()
    own, other = actor.thread.remote(), actor.thread.options(concurrency_group="compute").remote()
    names = wb.get([own, other], timeout=TIMEOUT)
    assert len(set(names)) == 2
    assert wb.wait([stuck, behind], timeout=0) == ([], [stuck, behind])
    wb.cancel(behind)
    with pytest.raises(TaskCancelledError):
        wb.get(behind)
    visitor.let_on()
    wb.get(stuck)
    of_default = actor.stop.options(concurrency_group="compute").remote(gate.path)
    visitor = gate.next()
    assert wb.get(actor.thread.remote(), timeout=TIMEOUT) == names[0]
    visitor.let_on()
    wb.get(of_default)


def test_groups_that_there_are_not_are_told(session: Engine) -> None:
    actor = grouped("threads").remote()
    with pytest.raises(ValueError, match=r"no concurrency group 'x'.*It has io, compute"):
        actor.thread.options(concurrency_group="x").remote()
    with pytest.raises(ValueError, match=r"no concurrency group 'io'.*It has compute"):
        grouped("threads").options(concurrency_groups={"compute": 1}).remote()
    for wrong, kind in (({"io": 0}, ValueError), ({"": 1}, ValueError), ("io", TypeError)):
        with pytest.raises(kind, match="concurrency_groups"):
            wb.remote(concurrency_groups=wrong)(type("A", (), {}))
    with pytest.raises(TypeError, match="has no option concurrency_group"):
        wb.remote(concurrency_group="io")(len)


@pytest.mark.parametrize("groups", [{}, {"io": 1}])
def test_an_async_actor_is_made_on_its_loop(session: Engine, groups: dict[str, int]) -> None:
    @wb.remote(concurrency_groups=groups)
    class Ticks:
        async def __init__(self, start: int) -> None:
            if start < 0:
                raise KeyError("no")
            await asyncio.to_thread(int)
            self.loop, self.asked = asyncio.get_running_loop(), asyncio.Event()
            self.ticking = asyncio.create_task(self.tick(start))

        async def tick(self, start: int) -> int:
            await self.asked.wait()
            return start + 1

        async def look(self) -> tuple[bool, int]:
            self.asked.set()
            return asyncio.get_running_loop() is self.loop, await self.ticking

    most = Ticks.options(max_concurrency=sys.maxsize)  # a limit may be as large as one likes
    for ticks in (Ticks, most):
        assert wb.get(ticks.remote(7).look.remote(), timeout=TIMEOUT) == (True, 8)
    with pytest.raises(ActorDiedError, match="no"):
        wb.get(Ticks.remote(-1).__ray_ready__.remote())


@pytest.mark.extended
def test_the_page_says_what_each_name_and_option_does() -> None:
    assert ray_table.page() == ray_table.PAGE.read_text(), (
        "the page isn't what the calls show: python -m tests.process.ray_table"
    )


def test_a_row_that_is_wrong_fails() -> None:
    for verdict, result in ((ray_rows.SAME, False), (ray_rows.IGNORED, False), (REFUSED, 1)):
        with pytest.raises(AssertionError):
            ray_table.called(ray_rows.Row("x", verdict, lambda result=result: result))


def test_every_option_has_a_row() -> None:
    """Ours and those that are refused; but for what Ray doesn't have."""
    own = {"timeout", "max_ahead"}
    known = {*options.names_in(options.TaskOptions), *options.names_in(options.ActorOptions)}
    for names, sections in (
        (known - own | ray_api.OF_TASKS.keys(), ("tasks", "actors, and what is called")),
        (ray_api.OF_INIT.keys(), ("`init`",)),
    ):
        rows = [row for each in sections for row in ray_rows.SECTIONS[f"Options of {each}"]]
        text = " ".join(row.name for row in rows)
        assert not {name for name in names if f"{name}=" not in text}

"""Ray's options, where a row of `ray_rows` doesn't show all of what they do."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from workbench.engine.base import Engine
from workbench.errors import ConfigError
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

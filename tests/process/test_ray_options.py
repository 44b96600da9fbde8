"""Ray's options: honoured, accepted where they ask for what is so anyway, else refused in words."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

import workbench as wb
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.scripts import Script
from workbench.engines.base import Engine
from workbench.errors import ConfigError
from workbench.system.machine import memory_limit

VARIABLE = "WB_TEST_VARIABLE"


def variable() -> str | None:
    return os.environ.get(VARIABLE)


def held() -> Any:
    @wb.remote(num_cpus=1)
    class Held:
        def variable(self) -> str | None:
            return variable()

    return Held


# -- those that are honoured -----------------------------------------------------------------------


def test_an_actor_takes_processors_from_tasks(session: Engine, gate: Gate) -> None:
    Held = held()
    first, second = Held.remote(), Held.remote()
    wb.get([first.__ray_ready__.remote(), second.__ray_ready__.remote()])
    third = Held.remote()
    waiting = third.__ray_ready__.remote()
    tasks = [wb.remote(gate.stop).remote() for _ in range(2)]
    gate.next().let_on()  # one runs all the same
    assert wb.wait([waiting], timeout=0) == ([], [waiting])
    assert wb.snapshot().running == 1
    del first
    assert wb.get(waiting, timeout=TIMEOUT) is True
    gate.next().let_on()
    wb.get(tasks)
    with pytest.raises(ValueError, match=r"num_cpus=3, and session .* has 2"):
        Held.options(num_cpus=3).remote()
    none_of_them = Held.options(num_cpus=0).remote()
    assert wb.get(none_of_them.__ray_ready__.remote(), timeout=TIMEOUT)


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
    actor = held().options(num_cpus=0, runtime_env=given).remote()
    assert wb.get([actor.variable.remote() for _ in range(2)]) == ["grün"] * 2


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

        @wb.method
        def plain(self) -> str:
            return "plain"

    actor = Marked.remote()
    one, two = actor.two.remote()
    assert wb.get([one, two]) == [1, 2]
    assert wb.get(actor.two.options(num_returns=1).remote()) == (1, 2)
    assert wb.get(actor.third_time.remote()) == 3
    assert wb.get(actor.plain.remote()) == "plain"
    with pytest.raises(TypeError, match="A method has no option restarts"):
        wb.method(restarts=3)(len)
    for option in ("num_cpus", "runtime_env"):
        with pytest.raises(TypeError, match=f"have no {option}: give that to the class"):
            actor.plain.options(**{option: 1})


@pytest.mark.parametrize("kind", ["task", "method", "coroutine"])
def test_a_generator_may_have_a_number_of_results(session: Engine, kind: str) -> None:
    def body(*values: Any) -> Any:
        for value in values:
            if isinstance(value, Exception):
                raise value
            yield value

    class Makes:
        def items(self, *values: Any) -> Any:
            yield from body(*values)

    class MakesAsync:
        async def items(self, *values: Any) -> Any:
            for value in body(*values):
                yield value

    actor = wb.remote(MakesAsync if kind == "coroutine" else Makes).remote()
    maker = wb.remote(body) if kind == "task" else actor.items
    three = maker.options(num_returns=3)
    assert wb.get(three.remote(1, 2, 3)) == [1, 2, 3]
    assert wb.get(three.remote(1, 2, 3, 4)) == [1, 2, 3]
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


def test_rays_older_ways_with_generators(session: Engine) -> None:
    """A ref of a generator, whose `get` gives that; how far it may be ahead, by another name."""

    @wb.remote(num_returns=None, _generator_backpressure_num_objects=2)
    def numbers() -> Any:
        yield from range(3)

    for ref in (numbers.remote(), numbers.options(num_returns="dynamic").remote()):
        found = wb.get(ref)
        assert found is ref
        assert [wb.get(each) for each in found] == [0, 1, 2]
    assert numbers.options(_generator_backpressure_num_objects=-1)._options.max_ahead == 2
    with pytest.raises(ValueError, match="max_ahead=0"):
        numbers.options(_generator_backpressure_num_objects=0)


# -- those that are accepted, or refused -----------------------------------------------------------

VAIN = {
    "num_gpus": 0, "resources": {}, "scheduling_strategy": "SPREAD", "accelerator_type": None,
    "runtime_env": {}, "memory": None, "max_calls": 0, "enable_task_events": False,
    "concurrency_groups": {},
}  # fmt: skip

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"num_gpus": 1}, "num_gpus=1 can't be had here. Workbench shares out processors, not GPUs"),
    ({"num_gpus": True}, "shares out processors"),
    ({"resources": {"tpu": 1}}, "raise num_cpus"),
    ({"accelerator_type": "A100"}, "one machine"),
    ({"scheduling_strategy": object()}, "one machine"),
    ({"max_calls": 1}, "cleaned after each task"),
    ({"concurrency_groups": {"io": 2}}, "share max_concurrency"),
    ({"runtime_env": {"pip": ["x"], "env_vars": {"A": "1"}}}, "nothing else, not 'pip'"),
    ({"memory": -1}, "number of bytes, 0 or more"),
]


def test_what_asks_for_nothing_is_accepted(session: Engine) -> None:
    assert wb.get(wb.remote(**VAIN)(lambda: 1).remote()) == 1
    actor = held().options(**VAIN).remote()
    assert wb.get(actor.__ray_ready__.remote())


@pytest.mark.parametrize(("given", "complaint"), REFUSED)
def test_what_cannot_be_had_is_refused(given: dict[str, Any], complaint: str) -> None:
    for refuse in (wb.remote(lambda: 1).options, held().options, wb.remote):
        with pytest.raises(ValueError, match=complaint):
            refuse(**given)(len)


# -- init ------------------------------------------------------------------------------------------


def test_a_session_starts_with_rays_names() -> None:
    engine = wb.init(
        num_cpus=1, object_store_memory=20_000_000, include_dashboard=False, num_gpus=0,
        configure_logging=False, runtime_env={"env_vars": {VARIABLE: "from the start"}},
    )  # fmt: skip
    assert (engine.workers, engine.capacity) == (1, 20_000_000)
    assert wb.get(wb.remote(variable).remote()) == "from the start"
    assert VARIABLE not in os.environ


def test_a_session_that_was_there_keeps_its_variables(script: Callable[..., Script]) -> None:
    other = script("""
        wb.init(session="there", workers=1)
        say("ready")
        hear()
    """)
    assert other.line() == "ready"
    with pytest.warns(UserWarning, match="runtime_env=.* changes nothing"):
        wb.init(session="there", runtime_env={"env_vars": {VARIABLE: "late"}})


@pytest.mark.parametrize(
    ("given", "error", "complaint"),
    [
        ({"address": "auto"}, ValueError, r"init\(session=...\)` joins"),
        ({"local_mode": True}, ValueError, "call the plain function"),
        ({"num_gpus": 2}, ValueError, "not GPUs"),
        ({"resources": {"x": 1}}, ValueError, "raise num_cpus"),
        ({"include_dashboard": True}, ValueError, r"`dashboard\(\)`"),
        ({"runtime_env": {"working_dir": "."}}, ValueError, "nothing else, not 'working_dir'"),
        ({"num_cpus": 1, "workers": 2}, ValueError, "Ray's name of workers"),
        ({"num_cpus": 0}, ConfigError, "workers=0"),
        ({"wrokers": 2}, TypeError, "init has no option wrokers"),
    ],
)
def test_no_session_starts_with_what_cannot_be(
    given: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        wb.init(**given)
    assert not wb.is_initialized()

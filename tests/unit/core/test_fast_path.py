"""What isn't usual isn't treated as if it were, however much it looks like it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.unit.core.conftest import Make, Stage
from tests.unit.core.peers import ABOUT, BOOM, NONE
from workbench.core import events as ev
from workbench.core import fast_path
from workbench.core import instructions as do
from workbench.core.durations import APART, BATCH_SECONDS, Durations


def days(s: Stage, seed: int) -> list[do.Anything]:
    """Two drivers and two workers do what bursts have, and some of what they haven't."""
    chance, said = random.Random(seed), list[do.Anything]()
    drivers, workers = (s.driver(), s.driver()), (s.worker(), s.worker())
    functions = {driver: s.function(driver, seconds=0.0001) for driver in drivers}
    for _ in range(300):
        driver, worker = chance.choice(drivers), chance.choice(workers)
        match chance.randrange(9):
            case 0:
                driver.submit_calls(functions[driver], chance.randrange(1, 40))
            case 1:
                deps = tuple(chance.sample(driver.held, min(len(driver.held), 1)))
                driver.submit(functions[driver], deps, (), retries=1)
            case 2 if driver.held:
                ids = [id for id in driver.held if id != functions[driver]]
                for id in chance.sample(ids, min(len(ids), 20)):
                    driver.drop(id)
            case 3 if worker.runs:
                worker.submit(worker.runs[0].function, (), ())
            case 4 if worker.runs:
                worker.finish((BOOM,), 0.00001)
            case 5 if worker.runs:
                id = worker.runs.popleft().task
                worker.post(ev.Done(id, (ev.Value(b"P" * 100),), 0.0001, (ABOUT,)))
            case _:
                for _ in range(min(len(worker.runs), chance.randrange(20))):
                    worker.finish((NONE,), 0.1 if chance.random() < 0.02 else 0.00001)
        said += s.turn(0.001)
        for peer in s.peers.values():
            while peer.inbox and chance.random() < 0.95:
                peer.read()
    return said


@pytest.mark.parametrize("seed", range(4))
def test_the_outcome_is_the_same(stage: Make, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The same events once more, with all taken as if it were unusual."""
    asked = list[bool]()

    def counted(is_usual: Callable[..., bool]) -> Callable[..., bool]:
        return lambda *args: asked.append(usual := is_usual(*args)) or usual

    names = "takes_submit", "takes_calls", "takes_done"
    for name in names:
        monkeypatch.setattr(fast_path, name, counted(getattr(fast_path, name)))
    usual = days(stage(workers=2), seed)
    assert sum(asked) > 200
    for name in names:
        monkeypatch.setattr(fast_path, name, lambda *_: False)
    assert days(stage(workers=2), seed) == usual


F = 1
LONG = 10.0


@pytest.mark.parametrize(
    ("runs", "is_short"),
    [
        # A run now and then waited for a processor.
        *[(([usual] * APART + [LONG]) * 10, True) for usual in (0.0, 1e-6, 5e-5, 1e-4)],
        # It has become long.
        *[([usual, LONG, LONG], False) for usual in (0.0, 1e-6, 1e-4, BATCH_SECONDS)],
        # It is long now and then.
        ([1e-4, 1.0, 1e-4, 1.0], False),
        # It is long at first, and then short.
        ([0.1], False),
        ([0.1, *[1e-5] * 20], True),
    ],
)
def test_which_functions_are_short(runs: list[float], is_short: bool) -> None:
    durations = Durations()
    for seconds in runs:
        durations.record_run(F, seconds)
    assert durations.is_short(F) == is_short
    durations.forget(F)
    assert not durations.is_short(F)

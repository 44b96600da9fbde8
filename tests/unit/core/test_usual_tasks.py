"""What isn't usual isn't treated as if it were, however much it looks like it."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.core.conftest import Stage
from tests.unit.core.peers import Peer
from workbench.core import events as ev
from workbench.core import instructions as do

Make = Callable[..., Stage]

NONE = ev.Value(b"N")
BOOM = ev.Value(b"!boom", failed=True)


def one_that_is_being_made(s: Stage, driver: Peer) -> tuple[int, Peer]:
    """A function's object, and the worker that runs the task which will return it."""
    (function,) = driver.submit(s.function(driver), (), ())
    s.all_read()
    (maker,) = (peer for peer in s.peers.values() if peer.runs)
    return function, maker


def test_a_function_that_is_being_made_is_waited_for(stage: Make) -> None:
    s = stage(workers=2)
    driver, workers = s.driver(), (s.worker(), s.worker())
    function, maker = one_that_is_being_made(s, driver)
    (task,) = driver.submit(function, (), ())
    s.all_read()
    assert [run.task for peer in workers for run in peer.runs] == [function]
    maker.finish((NONE,), 1.0)
    s.all_read()
    assert [run.task for peer in workers for run in peer.runs] == [task]


def test_a_task_fails_as_its_function_did(stage: Make) -> None:
    s = stage()
    driver, worker = s.driver(), s.worker()
    function, _ = one_that_is_being_made(s, driver)
    worker.finish((BOOM,), 1.0)
    s.all_read()
    (task,) = driver.submit(function, (), ())
    said = [each.message for each in s.turn() if isinstance(each, do.Send)]
    assert do.Ready(task, BOOM) in said
    assert not worker.runs


def test_a_function_that_was_freed_is_gone_though_a_task_still_reads_it(stage: Make) -> None:
    s = stage(workers=2)
    driver, workers = s.driver(), (s.worker(), s.worker())
    function = s.function(driver)
    (first,) = driver.submit(function, (), ())
    s.all_read()
    driver.post(ev.Free((function,)))
    (second,) = driver.submit(function, (), ())
    said = [each.message for each in s.turn() if isinstance(each, do.Send)]
    ready = [each for each in said if isinstance(each, do.Ready) and each.object == second]
    assert [each.value.failed for each in ready] == [True]
    assert [run.task for peer in workers for run in peer.runs] == [first]


def test_arguments_that_take_too_much_are_refused(stage: Make) -> None:
    s = stage()
    driver = s.driver()
    function = s.function(driver)
    s.all_read()
    driver.post(ev.Submit(driver.id(), function, bytes(64 << 20)))
    assert any(isinstance(each, do.Hangup) and "more arguments" in each.reason for each in s.turn())


def burst(s: Stage, at_once: bool) -> list[do.Anything]:
    """Five tasks of a function that is there, in one message or one each; what comes of it."""
    driver, _ = s.driver(), s.worker()
    function = s.function(driver, seconds=0.0001)
    if at_once:
        driver.submit_calls(function, 5)
    else:
        for _ in range(5):
            driver.submit(function, (), ())
    return s.turn()


def test_many_in_one_message_are_as_many_alone(stage: Make) -> None:
    alone, together = burst(stage(), False), burst(stage(), True)
    assert alone == together
    assert sum(isinstance(i, do.Send) and isinstance(i.message, do.Run) for i in alone) == 5


def test_of_calls_in_one_message_each_fails_by_itself(stage: Make) -> None:
    s = stage()
    driver = s.driver()
    function = s.function(driver)
    driver.post(ev.Free((function,)))
    tasks = driver.submit_calls(function, 3)
    said = [each.message for each in s.turn() if isinstance(each, do.Send)]
    assert {m.object for m in said if isinstance(m, do.Ready) and m.value.failed} >= {*tasks}

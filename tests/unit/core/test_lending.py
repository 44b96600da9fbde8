"""Objects that are lent with a worker: whom they may be given to, and how their room comes back."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.core.conftest import FUNCTION, Stage
from tests.unit.core.peers import Peer
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.leases import STREAK
from workbench.system.sizes import PAGE

Make = Callable[..., Stage]

PAGES = 8
"""Of the lent object: most of the capacity."""


def lent(s: Stage, driver: Peer, worker: Peer, function: int, id: int) -> int:
    """Have the worker lent, with the object; returns the line."""
    for _ in range(STREAK + 1):
        driver.submit(function, (id,), ())
        s.all_read()
        worker.finish((ev.Value(b"N"),), 0.0)
        out = s.turn()
    (connect,) = [each for each in out if isinstance(each, do.Connect)]
    worker.post(ev.Attached(connect.line))
    s.all_read()
    return connect.line


def begin(stage: Make, workers: int = 1) -> tuple[Stage, Peer, Peer, int, int]:
    s = stage(workers=workers, capacity=12 * PAGE)
    driver, worker = s.driver(), s.worker()
    function = driver.put(FUNCTION)
    value = driver.value(PAGES)
    while value is None:
        s.all_read()
        value = driver.value(PAGES)
    return s, driver, worker, function, driver.put(value)


def heard(peer: Peer, kind: type) -> list[do.Message]:
    return [message for message in peer.heard if type(message) is kind]


def test_the_worker_knows_the_place_before_a_task_can_come(stage: Make) -> None:
    s, driver, worker, function, id = begin(stage)
    line = lent(s, driver, worker, function, id)
    assert heard(worker, do.Lent) == [do.Lent(line, (id,), (driver.values[id],))]
    (lend,) = heard(driver, do.Lend)
    assert isinstance(lend, do.Lend)
    assert lend.objects == (id,)


def test_one_that_comes_for_the_first_time_makes_no_lease(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    function = driver.put(FUNCTION)
    for _ in range(3 * STREAK):
        driver.submit(function, (driver.put(ev.Value(b"one more")),), ())
        s.all_read()
        worker.finish((ev.Value(b"N"),), 0.0)
        assert not any(isinstance(each, do.Connect) for each in s.turn())


def test_a_lease_that_its_driver_has_not_got_yet_is_not_unused(stage: Make) -> None:
    s, driver, worker, function, id = begin(stage, workers=2)
    workers = [worker, s.worker()]
    lines = []
    for _ in range(5 * STREAK):  # the driver's end takes its time
        driver.submit(function, (id,), ())
        s.all_read()
        next(each for each in workers if each.runs).finish((ev.Value(b"N"),), 0.0)
        lines += [each for each in s.turn() if isinstance(each, do.Connect)]
    assert len(lines) == 1
    assert not any(heard(each, do.TakeBack) for each in workers)


def test_room_that_comes_back_with_a_lease_is_waited_for(stage: Make) -> None:
    """And isn't said to be missing."""
    s, driver, worker, function, id = begin(stage)
    line = lent(s, driver, worker, function, id)
    driver.post(ev.Attached(line))
    s.turn()
    driver.drop(id)
    other = s.driver()
    assert other.value(PAGES) is None  # it asks for memory
    s.all_read()
    assert heard(worker, do.TakeBack) == [do.TakeBack(line)]
    assert not heard(other, do.Granted)
    worker.post(ev.Returned(line))
    s.all_read()
    (granted,) = heard(other, do.Granted)
    assert isinstance(granted, do.Granted)
    assert not granted.text
    assert other.value(PAGES) is not None


def test_room_that_a_long_task_reads_is_not(stage: Make) -> None:
    s, driver, worker, function, id = begin(stage)
    line = lent(s, driver, worker, function, id)
    driver.post(ev.Attached(line))
    s.turn()
    driver.drop(id)
    other = s.driver()
    assert other.value(PAGES) is None
    s.all_read()
    worker.post(ev.Returned(line, False, (id,)))
    s.all_read()
    (granted,) = heard(other, do.Granted)
    assert isinstance(granted, do.Granted)
    assert granted.text

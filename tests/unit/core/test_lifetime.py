"""How long a session is kept, and who hears of its end."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Drivers, Make, Pair, Stage
from tests.unit.core.peers import NONE, Peer, of
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.lifetime import ALONE_AT_START, FINAL
from workbench.core.loop_events import DriverExited, Left, Measured, MeasuredProcess
from workbench.core.session import STARTER
from workbench.core.snapshot import ClientRecord, DeathRecord
from workbench.core.snapshot_builder import take_snapshot
from workbench.report.sessions import death_text


def test_a_session_without_a_driver_gives_up(stage: Make) -> None:
    s = stage()
    assert s.session.deadline() == ALONE_AT_START
    assert not of(do.Exit, s.turn(ALONE_AT_START - 1))
    assert of(do.Exit, s.turn(1))


def test_a_session_whose_starter_is_killed_before_its_hello_ends(stage: Make) -> None:
    s = stage()
    s.post(STARTER + 1, Left())  # somebody who only tried whether we listen
    assert not of(do.Exit, s.turn())
    s.post(STARTER, Left())
    assert of(do.Exit, s.turn())


def shut_down(s: Stage, driver: Peer) -> None:
    """As a kernel leaves that a person shut down."""
    s.say(driver, ev.Bye(lingers=True, final=True))
    s.leave(driver)


def test_a_session_whose_kernel_was_shut_down_is_kept_for_a_moment(drivers: Drivers) -> None:
    s, (driver,) = drivers(linger=60.0)
    driver.put(NONE, "kept")
    shut_down(s, driver)
    assert s.session.deadline() == s.now + FINAL
    s.turn(FINAL / 2)
    driver = s.driver(linger=60.0)  # it comes back, and crashes
    assert list(s.session.state.catalog.names) == ["kept"]
    s.leave(driver)
    assert s.session.deadline() == s.now + 60.0


@pytest.mark.parametrize("linger", [0.0, FINAL / 2])
def test_that_is_never_longer_than_its_time(stage: Make, linger: float) -> None:
    s = stage()
    shut_down(s, s.driver(linger=linger))
    assert s.session.state.linger == linger
    assert of(do.Exit, s.turn(linger))


def test_it_is_kept_for_as_long_as_anybody_asked(stage: Make) -> None:
    s = stage()
    first, last = s.driver(linger=600.0), s.driver(linger=60.0)
    s.leave(first)
    shut_down(s, last)
    assert s.session.deadline() == s.now + 600.0
    s = stage()
    last = s.driver(linger=60.0)
    last.post(ev.Keep(8000.0))
    shut_down(s, last)
    assert s.session.deadline() == s.now + 8000.0


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "runs"])
def test_it_is_kept_for_a_background_cell_whose_end_nobody_saw(pair: Pair, ends: bool) -> None:
    s, driver, worker = pair(linger=60.0)
    s.all_hear(driver.submit(s.function(driver), (), (), spec=ev.TaskSpec(job="cell 1")))
    shut_down(s, driver)
    if ends:
        s.finish(worker, (NONE,), 1.0)
    assert s.session.deadline() == s.now + 60.0


@pytest.mark.parametrize(("bye", "status", "died"), [
    (None, -9, True), (None, 3, True), (None, None, True),
    (None, -15, False), (ev.Bye(lingers=True), -9, False),  # it was told to end, and took long
])  # fmt: skip
def test_a_death_is_told_until_the_next_of_that_name_leaves_in_order(
    stage: Make, bye: ev.Bye | None, status: int | None, died: bool
) -> None:
    s = stage()
    s.driver(linger=60.0)
    driver = s.meet()
    assert do.WatchDriver(2) in s.turn()
    s.say(driver, note := ev.CellNote(7, True, 3, 100))
    s.turn(0.5)
    s.say(driver, *filter(None, [bye]))
    s.leave(driver)
    s.post(0, ended := DriverExited(2, status, 1, 1.0))
    s.turn(11.0)
    told = DeathRecord(ClientRecord(2, 1002, "driver", "", 2), ended, note, 0.5, 11.0)
    assert take_snapshot(s.session.state).deaths == ((told,) if died else ())
    s.leave(s.driver(), graceful=True)
    assert not take_snapshot(s.session.state).deaths


def test_who_goes_on_taking_the_last_memory_is_ended_and_that_is_told(drivers: Drivers) -> None:
    s, (_, second) = drivers(2, linger=60.0, headroom=100)

    def look(available: int, *sizes: int) -> list[do.EndProcess]:
        found = [
            MeasuredProcess(n, 1000 + n, size, size, 0, 999) for n, size in enumerate(sizes, 1)
        ]
        s.post(0, Measured(available, 2000, tuple(found)))
        return of(do.EndProcess, s.turn())

    assert not look(100, 900, 100)
    assert not look(10, 900, 200), "limits leave a quarter of the headroom: it may yet be stopped"
    assert not look(9, 940, 150), "it was others"
    assert look(9, 900, 200) == [do.EndProcess(1002)]
    assert not look(9, 960, 200), "it is ending"
    s.leave(second)
    s.post(0, DriverExited(second.number, -9))
    s.turn()
    (death,) = take_snapshot(s.session.state).deaths
    assert "it was ended by Workbench because memory had run out" in death_text(death, "It")


def test_an_admin_is_shown_as_what_it_is(stage: Make) -> None:
    s = stage()
    s.driver(), s.worker()
    admin = s.admin()
    (sent,) = of(do.Send, s.say(admin, ev.Ask(1, "overview")))
    assert isinstance(sent.message, do.Answer)
    assert sent.message.snapshot is not None
    assert [c.role for c in sent.message.snapshot.clients] == ["driver", "worker", "admin"]


def test_whoever_ends_a_session_has_its_drivers_told_why(stage: Make) -> None:
    s = stage()
    first, second, admin, _ = s.driver(linger=60.0), s.driver(), s.admin(), s.worker()
    admin.post(ev.EndSession("because"))
    admin.post(Left())
    s.meet()  # comes too late to prolong it
    out = s.turn()
    told = [i for i in of(do.Send, out) if isinstance(i.message, do.Ended)]
    assert told == [do.Send(n, do.Ended("because")) for n in (first.number, second.number)]
    assert of(do.Exit, out)

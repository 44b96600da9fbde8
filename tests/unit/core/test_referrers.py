"""Why an object is here: who is asked, who answers, and what if somebody doesn't."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Drivers, Pair, Stage
from tests.unit.core.peers import Peer, of
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.descriptions import Account, PinRecord
from workbench.core.referrers import PATIENCE

Three = tuple[Stage, Peer, Peer, Peer, int]
"""A session, three drivers, and an object."""

PLACES = (ev.Place("ref", "x[3]"), ev.Place("view", "df"))


def answers(peer: Peer) -> list[Account | None]:
    """The accounts that were sent to it."""
    return [found.account for found in of(do.Answer, peer.inbox)]


def answer(peer: Peer) -> Account:
    (account,) = answers(peer)
    assert account is not None
    return account


def asked(peer: Peer) -> int:
    (found,) = of(do.Explain, peer.inbox)
    return found.inquiry


@pytest.fixture
def three(drivers: Drivers) -> Three:
    """An object that three drivers hold; the second has asked."""
    s, (owner, asker, other) = drivers(3, linger=5.0)
    id = s.hears(owner.put(ev.Value(b"x"), "name"))
    for peer in (asker, other):
        peer.borrow((id,))
    s.say(asker, ev.Ask(7, "why", id))
    return s, owner, asker, other, id


def test_all_holders_are_asked_and_the_answer_waits_for_them(three: Three) -> None:
    s, owner, asker, other, _ = three
    owner.post(ev.Explained(asked(owner), PLACES))
    asker.post(ev.Explained(asked(asker), (), False, 1000))
    s.turn()
    assert not answers(asker)
    s.say(other, ev.Explained(asked(other), ()))
    account = answer(asker)
    assert account.pins == (
        PinRecord("name", detail="name"),
        PinRecord("ref", owner.number, places=PLACES[:1]),
        PinRecord("ref", asker.number, complete=False, seen=1000),
        PinRecord("ref", other.number),
    )
    assert {client.client for client in account.clients} == {1, 2, 3}


def test_who_does_not_answer_is_named_all_the_same(three: Three) -> None:
    s, owner, asker, _, _ = three
    s.say(owner, ev.Explained(asked(owner), PLACES))
    s.turn(after=2 * PATIENCE)
    assert not answers(asker)  # its own process hasn't answered
    s.say(asker, ev.Explained(asked(asker), ()))
    account = answer(asker)
    assert [pin.answered for pin in account.pins] == [True, True, True, False]
    assert [pin.complete for pin in account.pins] == [True, True, True, False]
    owner.post(ev.Explained(asked(owner), PLACES))  # late, or twice: nobody minds
    s.turn()


def test_who_makes_progress_is_waited_for_and_who_no_longer_does_is_told(three: Three) -> None:
    s, owner, asker, other, _ = three
    for peer in (asker, other):
        peer.post(ev.Explained(asked(peer), ()))
    for seen in (1000, 2000):
        s.turn(after=0.9 * PATIENCE)
        s.say(owner, ev.Explained(asked(owner), (), False, seen, done=False))
    assert s.session.deadline() == s.now + PATIENCE
    assert not answers(asker)
    s.turn(after=PATIENCE)
    (pin,) = [pin for pin in answer(asker).pins if not pin.complete]
    assert (pin.client, pin.seen, pin.answered) == (owner.number, 2000, False)


def test_who_leaves_is_not_waited_for(three: Three) -> None:
    s, owner, asker, other, _ = three
    for peer in (owner, asker):
        peer.post(ev.Explained(asked(peer), ()))
    s.turn()
    s.leave(other)
    account = answer(asker)
    assert [pin.client for pin in account.pins if pin.reason == "ref"] == [1, 2]


def test_an_asker_who_leaves_is_forgotten(three: Three) -> None:
    s, _, asker, _, _ = three
    s.leave(asker)
    assert not s.session.referrers.inquiries


def test_what_goes_meanwhile_is_nothing(three: Three) -> None:
    s, owner, asker, other, id = three
    owner.post(ev.Bind("name", 0))
    for peer in (owner, asker, other):
        peer.drop(id)
        peer.post(ev.Explained(asked(peer), ()))
    s.turn()
    assert answers(asker) == [None]


def test_tasks_containers_and_wishes_are_told(pair: Pair) -> None:
    s, driver, worker = pair(workers=1)
    id = driver.put(ev.Value(b"x"))
    container = driver.put(ev.Value(b"c", contains=(id,)), "box")
    running, waiting = (
        driver.submit(s.function(driver), (), (id,), name=name)[0] for name in ("runs", "waits")
    )
    driver.post(ev.Pin(id, "Cell In[3], line 1"))
    s.say(driver, ev.Escape(id, "Cell In[4], line 2"), ev.Ask(1, "why", id))
    s.say(driver, ev.Explained(asked(driver), ()))
    account = answer(driver)
    assert account.pins == (
        PinRecord("user", detail="Cell In[3], line 1"),
        PinRecord("ref", driver.number),
        PinRecord("task", worker.number, "runs", running),
        PinRecord("task", 0, "waits", waiting),
        PinRecord("contained", 0, "box", container),
        PinRecord("escaped", detail="Cell In[4], line 2"),
    )


def test_nobody_is_asked_of_what_is_not_there(drivers: Drivers) -> None:
    s, (driver,) = drivers()
    s.say(driver, ev.Ask(1, "why", 99))
    assert answers(driver) == [None]

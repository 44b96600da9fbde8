"""The search for what keeps an object: harmless to other threads, keeps nothing, says how far."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from tests.patience import TIMEOUT
from workbench.client import references, referrer_search
from workbench.client.collector import but_tuples
from workbench.core.events import Place


class Target:
    pass


MAIN = vars(sys.modules["__main__"])


def search(target: Any, **roots: Any) -> tuple[list[Place], bool, int]:
    """As a session asks: in a thread of its own."""
    found: list[Any] = []
    targets = {"ref": target}
    del target

    def run() -> None:
        found.append(referrer_search.find_referrers(targets, roots))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    places, complete, seen = found[0]
    return list(places), complete, seen


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine, or a process in which many tests were, is no failure."""
    monkeypatch.setattr(referrer_search, "SECONDS", TIMEOUT)


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets a person's variables."""

    def define(**variables: Any) -> None:
        for name, value in variables.items():
            monkeypatch.setitem(MAIN, name, value)

    return define


def test_long_lists_of_numbers_do_not_end_it(main: Any) -> None:
    target = Target()
    main(numbers=list(range(3_000_000)), after={"all": [target]})
    watch = weakref.ref(target)
    del target
    places, complete, seen = search(watch())
    assert [(each.path, each.cut) for each in places] == [
        ("after['all'][0]", "del after['all'][0]")
    ]
    assert complete
    assert seen > 1000


def test_what_is_near_is_little_however_long_a_list_is(
    main: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else there is no time left for all the rest."""
    main(junk=[[n] for n in range(100_000)], more={"of": {n: (n,) for n in range(15_000)}})
    target = Target()
    near = referrer_search._Search({"ref": target}, {}, 60.0)
    try:
        near._look_near()
        assert near.looked_at < 2 * referrer_search.NEAR + 5000  # variables of modules
    finally:
        near.forget()


@pytest.mark.parametrize("kind", ["dicts", "tuples", "a dict of dicts"])
def test_what_is_in_one_of_many_things_is_found_when_time_is_up(
    kind: str, main: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector looks into none of them: there is time to use what was seen of them."""
    target, many = Target(), 30_000
    holder: Any = np.array([target], dtype=object)  # which isn't tracked
    if kind == "dicts":
        found = [{"a": n, "b": (n, str(n))} for n in range(many)]
        found[many // 3]["a"] = holder
    elif kind == "tuples":
        found = [({"k": n},) for n in range(many)]
        found[many // 3][0]["k"] = holder
    else:
        found = {n: {i: (i,) for i in range(30)} for n in range(1000)}
        found[333][7] = (holder,)
    del holder
    main(found=found)
    del found

    class Clock:
        """Time is up as soon as all was looked at."""

        thread_time = staticmethod(lambda: Clock.now)
        now = 0.0

    look = referrer_search._Search._look_anywhere

    def long(self: Any) -> None:
        look(self)
        Clock.now += 1e6

    monkeypatch.setattr(referrer_search, "time", Clock)
    monkeypatch.setattr(referrer_search._Search, "_look_anywhere", long)
    watch = weakref.ref(target)
    del target
    places, complete, _ = search(watch())
    assert complete
    assert [each.path.partition("[")[0] for each in places] == ["found"]


def test_a_search_that_is_cut_short_says_so_and_tells_what_it_found(
    main: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(referrer_search, "SECONDS", 0.0)
    target = Target()
    main(plain=target)
    watch = weakref.ref(target)
    del target
    places, complete, _ = search(watch())
    assert [each.path for each in places] == ["plain"]
    assert not complete
    target = Target()
    watch = weakref.ref(target)
    monkeypatch.setattr(referrer_search, "SECONDS", -1.0)
    hidden = iter([target])
    del target
    places, complete, _ = search(watch())
    assert (places, complete) == ([], False)  # and not: there is nothing
    del hidden


def test_a_search_keeps_nothing() -> None:
    target = Target()
    holder = [target, (target,), {"a": target}]
    watch = weakref.ref(target)
    gc.disable()  # a cycle would go with the next collection, whenever that is
    try:
        for _ in range(3):
            search(target)
        del target, holder
        assert watch() is None
    finally:
        gc.enable()


def test_looking_at_what_runs_keeps_nothing() -> None:
    """In the main thread too, which the interpreter names last."""

    def look() -> weakref.ref[Target]:
        target = Target()
        references.frames()
        return weakref.ref(target)

    gc.disable()
    try:
        assert look()() is None
    finally:
        gc.enable()


def test_tuples_that_another_thread_makes_meanwhile_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`tuple` of an iterator enlarges what it makes, and fails if anybody else has that."""
    monkeypatch.setattr(referrer_search, "SECONDS", 0.2)  # all is taken in hand within that
    stop, failures = threading.Event(), list[BaseException]()

    def makes() -> None:
        while not stop.is_set():
            try:
                assert len(tuple([n, str(n)] for n in range(500))) == 500
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=makes) for _ in range(2)]
    for thread in threads:
        thread.start()
    target = Target()
    for _ in range(5):
        search(target)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures


def test_what_the_collector_finds_has_no_tuples_and_not_itself() -> None:
    found = but_tuples(gc.get_objects, None)
    assert len(found) > 1000
    assert not [each for each in found if type(each) is tuple]
    assert not any(each is found for each in found)


def test_a_variable_in_a_cell_of_a_ring_is_known() -> None:
    """To look at a frame leaves nothing in it that would then count as unknown."""
    watches = []

    def fails(kept: Any) -> None:
        watches.append(weakref.ref(kept))
        (lambda: kept)()
        raise ValueError

    gc.disable()
    try:
        try:
            fails(Target())
        except ValueError as error:
            ring: list[Any] = [error]
        ring.append(ring)
        del ring
        places, complete, _ = search(watches[0]())
        assert not complete or [place.keeper for place in places] == ["cycle"]
    finally:
        gc.enable()
    gc.collect()
    assert watches[0]() is None


def test_a_cycle_is_told_from_what_only_c_code_has() -> None:
    target = Target()
    ring: list[Any] = [target]
    ring.append(ring)
    watch = weakref.ref(target)
    gc.disable()
    try:
        del target, ring
        places, complete, _ = search(watch())
        found = [(p.keeper, p.cut) for p in places]
        assert not complete or found == [("cycle", "import gc; gc.collect()")]
    finally:
        gc.enable()
    gc.collect()
    assert watch() is None
    target = Target()
    watch = weakref.ref(target)
    hidden = map(str, [target].__iter__())
    next_to_come = hidden.__next__  # a method of C code, in a running function: it is named
    del target, hidden
    places, complete, _ = search(watch())
    assert not complete or [p.path for p in places] == ["next_to_come"]  # in time, or it says so
    del next_to_come

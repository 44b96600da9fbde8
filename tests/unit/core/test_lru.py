"""The order of last use against a list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workbench.core.lru import LruList, LruNode

THINGS = st.integers(0, 5)


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "sweep"]), THINGS)))
def test_it_is_a_list_with_the_newest_last(steps: list[tuple[str, int]]) -> None:
    things = [LruNode() for _ in range(6)]
    order: LruList[LruNode] = LruList()
    model: list[LruNode] = []
    for what, n in steps:
        thing = things[n]
        if what == "sweep":  # some go while all are looked at
            for each in order:
                if things.index(each) < n:
                    order.discard(each)
                    model.remove(each)
            continue
        if thing in model:
            model.remove(thing)
        if what == "add":
            order.add(thing)
            model.append(thing)
        else:
            order.discard(thing)
        assert list(order) == model
        assert [thing in order for thing in things] == [thing in model for thing in things]
        assert [t for t in things if order.is_newest(t)] == model[-1:]

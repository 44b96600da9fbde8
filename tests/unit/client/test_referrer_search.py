"""The search for what keeps an object: harmless to other threads, keeps nothing, says how far."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from workbench.client.referrer_search import find_referrers
from workbench.client.search_budget import SearchBudget
from workbench.core.events import Place


class Target:
    pass


def search(*targets: Any, most: int = 10**9) -> tuple[list[Place], bool, int]:
    """As a session asks: in a thread of its own."""
    by_kind = {f"ref {number}": target for number, target in enumerate(targets)}
    del targets
    with ThreadPoolExecutor(1) as apart:
        found = apart.submit(find_referrers, by_kind, {}, SearchBudget(most=most)).result()
    return list(found[0]), *found[1:]


@contextmanager
def no_collection() -> Iterator[None]:  # a cycle would go with the next one, whenever that is
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets a person's variables."""

    def define(**variables: Any) -> None:
        for name, value in variables.items():
            monkeypatch.setitem(vars(sys.modules["__main__"]), name, value)

    return define


def holders(many: int) -> tuple[list[Target], dict[str, Any]]:
    """Things of which the collector looks into none, and what one of each has in it."""
    targets = [Target() for _ in range(3)]
    arrays = [np.array([target], dtype=object) for target in targets]  # aren't tracked
    dicts: list[Any] = [{"a": n, "b": (n, str(n))} for n in range(many)]
    tuples: list[Any] = [({"k": n},) for n in range(many)]
    nested: dict[int, Any] = {n: {i: (i,) for i in range(30)} for n in range(many // 30)}
    dicts[many // 3]["a"], tuples[many // 3][0]["k"], nested[33][7] = *arrays[:2], (arrays[2],)
    return targets, {"dicts": dicts, "tuples": tuples, "nested": nested}


def test_what_the_collector_does_not_look_into_is_found(main: Any) -> None:
    """Nor do long lists of numbers end it."""
    targets, found = holders(3000)
    main(numbers=list(range(300_000)), **found)
    watches = [weakref.ref(target) for target in targets]
    del targets, found
    places, complete, seen = search(*(watch() for watch in watches))
    paths = ["dicts[1000]['a'][0]", "nested[33][7][0][0]", "tuples[1000][0]['k'][0]"]
    assert sorted(each.path for each in places) == paths
    assert complete
    assert seen > 1000


def test_a_search_that_is_cut_short_says_so_and_tells_what_it_found(main: Any) -> None:
    target = Target()
    main(plain=target)
    watch = weakref.ref(target)
    del target
    places, complete, _ = search(watch(), most=0)
    assert ([each.path for each in places], complete) == (["plain"], False)
    target = Target()
    watch, hidden = weakref.ref(target), iter([target])
    del target
    places, complete, _ = search(watch(), most=-1)
    assert (places, complete) == ([], False)  # and not: there is nothing
    del hidden


def test_a_search_keeps_nothing() -> None:
    target = Target()
    holder = [target, (target,), {"a": target}]
    watch = weakref.ref(target)
    with no_collection():
        search(target)
        del target, holder
        assert watch() is None


def test_a_variable_in_a_cell_of_a_ring_is_known() -> None:
    """To look at a frame leaves nothing in it that would then count as unknown."""
    watches = []

    def fails(kept: Any) -> None:
        watches.append(weakref.ref(kept))
        (lambda: kept)()
        raise ValueError

    with no_collection():
        try:
            fails(Target())
        except ValueError as error:
            ring: list[Any] = [error]
        ring.append(ring)
        del ring
        places, complete, _ = search(watches[0]())
        assert complete
        assert [(p.keeper, p.cut) for p in places] == [("cycle", "import gc; gc.collect()")]
    gc.collect()
    assert watches[0]() is None

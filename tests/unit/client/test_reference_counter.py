"""Handles that come and go: while a process knows an object's place, the server counts a hold; who
waits is woken for a ref that is known already. What was put twice is known, too."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workbench.client import duplicate_puts
from workbench.client.completion_queue import CompletionQueue
from workbench.client.duplicate_puts import LARGE, DuplicatePuts
from workbench.client.objects import KnownObjects
from workbench.client.reference_counter import ReferenceCounter
from workbench.engine.base import Engine
from workbench.engine.following import Arrivals
from workbench.ref import ObjectRef

NOBODY = cast(Engine, object())  # nothing here asks a handle for more than its id

STEPS = st.sampled_from(["borrow", "let go", "send one", "send one, interrupted", "send all"])


@example(["borrow", "send all", "let go", "borrow", "send one"])
@given(st.lists(STEPS, max_size=20))
def test_who_knows_the_place_is_told_if_the_object_moves(steps: list[str]) -> None:
    queue: deque[Any] = deque()  # what is to be said: "hold", "want", the watches of dead handles
    handles = ReferenceCounter(queue.append, lambda _: None)
    handles.engine = NOBODY
    ref = None
    held = 0  # as the server counts
    known = False  # whether the place is
    for step in [*steps, "send all", "let go", "send all"]:
        if step == "borrow" and ref is None:
            ref = handles.new(1)
            queue.extend(["hold", "want"])
        elif step == "let go":
            ref = None
        elif step.startswith("send"):
            drops = 0
            for _ in range(len(queue) if step == "send all" else min(len(queue), 1)):
                said = queue.popleft()
                if said == "hold":
                    held += 1
                elif said == "want":
                    known = handles.alive(1)
                else:
                    if step.endswith("interrupted"):
                        handles.finalized(said)
                    if handles.finalized(said):
                        known = False
                    drops += said.grants
            held -= drops
            assert held >= 0
            assert held or not known, "it could move now, and nobody would tell us"
    assert not held


class AllKnown:
    """Objects that are all ready, and which of them woke the reader."""

    def __init__(self) -> None:
        self.asked_again: list[int] = []

    def announce(self, ids: Sequence[int], to: Arrivals) -> None:
        for id in ids:
            to.arrived(id)

    def ask_again(self, id: int) -> None:
        self.asked_again.append(id)


class Ref:
    def __init__(self, id: int) -> None:
        self.id = id


@pytest.mark.parametrize("meanwhile", [False, True])
def test_who_waits_is_woken_for_what_is_known(meanwhile: bool) -> None:
    objects, ref = AllKnown(), cast(ObjectRef, Ref(7))

    def wait(*_: Any) -> bool:
        queue.add([ref])  # as another thread does
        return True

    queue = CompletionQueue(
        len, cast(KnownObjects, objects), wait, lambda missing: Future(), lambda: None
    )
    if not meanwhile:
        queue.add([ref])
    assert queue.next() is ref
    assert objects.asked_again == [7] * meanwhile


def array(nbytes: int = LARGE) -> np.ndarray:
    return np.zeros(nbytes, np.uint8)


def test_the_same_array_its_views_and_its_parts() -> None:
    counted, one, other = DuplicatePuts(), array(2 * LARGE), array(2 * LARGE)
    assert [counted.count([one]) for _ in range(3)] == [0, 1, 2]
    assert counted.count([other]) == 0
    assert counted.count([one.reshape(2, -1)]) == 3  # the same bytes
    assert counted.count([one[LARGE:]]) == 0  # not all of them


def test_of_several_the_largest_counts_if_it_is_large() -> None:
    counted, large, small = DuplicatePuts(), array(2 * LARGE), array(LARGE - 1)
    assert [counted.count([small, large]), counted.count([large])] == [0, 1]
    assert [counted.count([small]), counted.count([small]), counted.count([])] == [0, 0, 0]


def test_another_array_in_the_same_place_is_another() -> None:
    counted = DuplicatePuts()
    for _ in range(20):
        made = array()
        assert counted.count([made]) == 0
        del made


def test_it_forgets_the_oldest() -> None:
    counted = DuplicatePuts()
    kept = [array() for _ in range(duplicate_puts.MOST + 1)]
    for each in kept:
        counted.count([each])
    assert counted.count([kept[-1]]) == 1
    assert counted.count([kept[0]]) == 0

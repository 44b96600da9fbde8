"""A reader that waits is woken for a ref that is known already when another thread adds it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest

from workbench.client.completion_queue import CompletionQueue
from workbench.client.objects import KnownObjects
from workbench.engine.following import Arrivals
from workbench.ref import ObjectRef


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

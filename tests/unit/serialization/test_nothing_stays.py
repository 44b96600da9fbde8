"""After an inspection nothing of it stays: no object until the next collection, no setting."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.unit.serialization.samples import LOCK, Holder, closing_over
from workbench.errors import SerializationError
from workbench.serialization import codec
from workbench.serialization.costs import explain
from workbench.serialization.inspection import inspect

WAYS: dict[str, Callable[[Any], Any]] = {
    "inspect": lambda value: inspect(value, {}),
    "explain": lambda value: explain(value, {}),
    "serialize": lambda value: codec.serialize(value, {}),
    "debug": lambda value: codec.serialize(value, {}, trace=True),
}


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("fails", [False, True])
def test_what_was_looked_at_dies_at_once(
    no_collection: None, way: Callable[[Any], Any], fails: bool
) -> None:
    held = Holder(lock=LOCK if fails else None)
    seen = weakref.ref(held)
    with contextlib.suppress(SerializationError):
        way([held, closing_over(held)])
    del held
    assert seen() is None


def test_two_threads_leave_the_recursion_limit_as_it_was() -> None:
    limit = sys.getrecursionlimit()
    both_inside = threading.Barrier(2)

    class Waits:
        def __reduce__(self) -> Any:
            with contextlib.suppress(threading.BrokenBarrierError):
                both_inside.wait(0.2)  # never both: the second waits outside
            return int, ()

    with ThreadPoolExecutor(2) as threads:
        for _ in threads.map(lambda n: inspect([Waits() for _ in range(n)], {}), (1, 3)):
            pass
    assert sys.getrecursionlimit() == limit

"""What a process hears of the keys that it holds at Dask's scheduler."""

from __future__ import annotations

import gc
import threading
from typing import Any

import msgspec

from tests.patience import TIMEOUT
from workbench.engines.cluster.backend import StoredValue, StreamItem, TaskEnd
from workbench.engines.dask.holds import Holds, KeyHold, keys_of, refs
from workbench.engines.dask.packed import DaskRef, pack
from workbench.engines.dask.streams import ItemStream
from workbench.errors import TaskCancelledError

encode = msgspec.msgpack.Encoder().encode


class Foreign:
    """A future of Dask's."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.status = "pending"
        self.callbacks: list[Any] = []

    def add_done_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)

    def finish(self, status: str) -> None:
        self.status = status
        for callback in self.callbacks:
            callback(self)


def ended(holds: Holds, key: str, value: StoredValue | None = None) -> None:
    end = TaskEnd(7, "done", 0.5, 0, (False,), (None,))
    holds.ended_with(key, encode(end), None if value is None else encode([pack(value)[0]]))


def test_an_end_brings_small_results_along() -> None:
    holds = Holds(Foreign)
    hold = holds.add("k", None)
    heard: list[KeyHold] = []
    holds.on_ready(hold, heard.append)
    assert not holds.wait([hold], 1, 0.0)
    ended(holds, "k", StoredValue(b"P42"))
    assert heard == [hold]
    assert holds.wait([hold], 1, 0.0)
    assert hold.end is not None
    assert hold.end.seconds == 0.5
    assert hold.bundle is not None
    assert hold.bundle.stored(0).header == b"P42"
    holds.on_ready(hold, heard.append)  # it was over already
    assert heard == [hold, hold]


def test_large_ones_are_left_where_they_are() -> None:
    holds = Holds(Foreign)
    hold = holds.add("k", None)
    ended(holds, "k")
    assert hold.is_ready
    assert hold.bundle is None


def test_only_the_first_word_counts() -> None:
    holds = Holds(Foreign)
    hold = holds.add("k", None)
    error = TaskCancelledError("It was stopped.")
    holds.failed("k", error)
    ended(holds, "k", StoredValue(b"P42"))
    assert hold.error is error


def test_of_a_key_from_elsewhere_its_future_says_when_it_is_there() -> None:
    made: list[Foreign] = []
    holds = Holds(lambda key: made.append(Foreign(key)) or made[-1])
    ref, same = DaskRef("k", 1), DaskRef("k", 2)
    hold = holds.of(ref)
    assert holds.of(same) is hold
    assert len(made) == 1
    made[0].finish("finished")
    assert hold.is_ready
    assert hold.error is None
    gone = holds.of(DaskRef("f-1", 1))
    made[1].finish("lost")
    assert "`f` was freed, or is gone" in str(gone.error)


def test_a_result_that_is_lost_says_so_unless_it_is_here() -> None:
    holds = Holds(Foreign)
    large, small, stored = (holds.add(key, None) for key in ("f-1", "f-2", "put-3"))
    ended(holds, "f-2", StoredValue(b"P42"))
    holds.settle(large)
    for hold in (large, small, stored):
        holds.lost(hold.key)
    assert "`max_retries` doesn't allow" in str(large.error)
    assert small.error is None
    assert "Store it again" in str(stored.error)
    assert stored.is_ready


def test_nobody_holds_a_key_whose_refs_are_gone() -> None:
    holds = Holds(Foreign)
    natives = refs(holds.add("k", None), 2)
    assert [(native.key, native.index) for native in natives] == [("k", 0), ("k", 1), ("k", 2)]
    assert keys_of(natives) == ["k"]
    assert holds.known("k") is not None
    del natives
    gc.collect()
    assert holds.known("k") is None


def test_all_end_with_the_scheduler() -> None:
    holds = Holds(Foreign)
    hold = holds.add("k", None)
    waiting = threading.Thread(target=holds.wait, args=([hold], 1, TIMEOUT))
    waiting.start()
    holds.end_all("It is gone.", TaskCancelledError("It is gone."))
    waiting.join(TIMEOUT)
    assert not waiting.is_alive()
    assert holds.ended == "It is gone."
    assert holds.add("later", None).error is hold.error


class Taker:
    def __init__(self) -> None:
        self.told: list[int] = []

    def took(self, key: str, task: int, taken: int) -> None:
        self.told.append(taken)


def test_a_stream_gives_its_items_then_its_end() -> None:
    taker = Taker()
    stream = ItemStream(taker, "k", 7)
    stream.hold = KeyHold("k", None)
    stream.hold.end = end = TaskEnd(7, "done", 0.0)
    first = DaskRef("k-item-1", 1)
    stream.came(1, first, False)
    stream.ended()
    assert stream.next() == StreamItem(first, None, False)
    assert stream.next() is end
    assert stream.next() is end
    stream.close()
    stream.took(1)
    assert taker.told == [-1, 1]

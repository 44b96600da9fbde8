"""A stream's items as they come from Dask's scheduler: in order, each once, and then the end."""

from __future__ import annotations

from workbench.engines.cluster.backend import StreamItem, TaskEnd
from workbench.engines.dask.holds import KeyHold
from workbench.engines.dask.packed import DaskRef
from workbench.engines.dask.streams import ItemStream
from workbench.engines.dask.topics import item_key, number_of


class Taker:
    """Notes how far the reader is."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def took(self, key: str, task: int, taken: int) -> None:
        self.taken.append(taken)


def test_each_item_comes_once_though_its_task_is_tried_again() -> None:
    taker = Taker()
    stream = ItemStream(taker, "k", 7)
    stream.hold = KeyHold("k", None)
    for number in (1, 2, 1, 2, 3):
        stream.came(number, DaskRef(f"item {number}", 1), False)
    stream.ended()
    found = [stream.next() for _ in range(4)]
    items = [each.native.key for each in found if isinstance(each, StreamItem)]
    assert items == ["item 1", "item 2", "item 3"]
    assert isinstance(found[-1], TaskEnd)
    assert taker.taken == [1, 2]  # the new process may go on


def test_of_a_process_that_died_the_last_item_says_so() -> None:
    stream = ItemStream(Taker(), "k", 7)
    stream.hold = KeyHold("k", None)
    stream.hold.end = TaskEnd(7, "failed", 0.0, 0, (True,))
    stream.ended()
    last = stream.next()
    assert isinstance(last, StreamItem)
    assert (last.native.key, last.failed) == ("k", True)
    assert stream.next() == stream.hold.end


def test_an_items_key_says_which_it_is() -> None:
    assert number_of(item_key("f-12", 30)) == 30

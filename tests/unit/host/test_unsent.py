"""What is kept of output until it is sent, for another process to read."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from workbench.host.unsent import MOST, Unsent


@pytest.fixture
def unsent() -> Iterator[Unsent]:
    unsent = Unsent()
    unsent.open()
    yield unsent
    unsent.close()


def test_pieces_come_back_in_their_order_until_they_are_sent(unsent: Unsent) -> None:
    pieces = [(7, "stdout", b"one\n"), (8, "stderr", "zwei ä\n".encode()), (7, "display", b"{}")]
    for piece in pieces:
        unsent.add(*piece)
    assert list(unsent.read()) == pieces
    unsent.mark_sent(unsent.mark(), pieces[2:])
    assert list(unsent.read()) == pieces[2:]
    unsent.mark_sent(unsent.mark(), [])
    assert list(unsent.read()) == []


def test_what_another_thread_shows_meanwhile_stays(unsent: Unsent) -> None:
    one, two, three = ((7, "stdout", text) for text in (b"one\n", b"two\n", b"three\n"))
    unsent.add(*one)
    mark = unsent.mark()
    unsent.add(*two)
    unsent.mark_sent(mark, [three])
    unsent.tidy()
    assert list(unsent.read()) == [two, three]


def test_what_was_sent_takes_no_room_for_long(unsent: Unsent) -> None:
    for n in range(3000):
        unsent.add(1, "stdout", b"%d" % n * 20)
        unsent.mark_sent(unsent.mark(), [])
        unsent.tidy()
        assert list(unsent.read()) == []
        assert unsent.mark()[1] < MOST


def test_of_a_flood_the_latest_is_kept(unsent: Unsent) -> None:
    for n in range(3000):
        unsent.add(1, "stdout", b"%d" % n * 20)
    kept = [int(data[: len(data) // 20]) for _, _, data in unsent.read()]
    assert kept == list(range(kept[0], 3000))
    assert 0 < sum(20 * len(str(n)) for n in kept) <= 2 * MOST
    unsent.add(1, "stdout", b"x" * (3 * MOST))
    assert len(list(unsent.read())[-1][2]) == MOST


def test_one_that_was_torn_is_left_out(unsent: Unsent) -> None:
    unsent.add(1, "stdout", b"whole\n")
    unsent.add(1, "stdout", b"torn\n")
    fd = unsent.fileno()
    for size in range(os.fstat(fd).st_size - 1, -1, -1):
        os.ftruncate(fd, size)
        assert [data for _, _, data in unsent.read()] in ([b"whole\n"], [])


def test_a_mark_from_before_it_was_emptied(unsent: Unsent) -> None:
    unsent.add(1, "stdout", b"one\n")
    mark = unsent.mark()
    for _ in range(3):
        unsent.add(1, "stdout", b"x" * MOST)  # a flood
    kept = list(unsent.read())
    unsent.mark_sent(mark, [])
    assert list(unsent.read()) == kept

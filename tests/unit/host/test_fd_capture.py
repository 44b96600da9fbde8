"""What is read of a captured descriptor: all of it, or of a flood its first lines and its end."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from workbench.host.fd_capture import HOLE, KEPT, MOST, FdCapture

LINE = "a line with ä\n".encode()


@pytest.fixture
def capture() -> Iterator[FdCapture]:
    capture = FdCapture()
    yield capture
    capture.close()


def write(capture: FdCapture, data: bytes) -> None:
    with open(capture.path, "ab", buffering=0) as file:
        file.write(data)


def test_what_is_usual_is_read_whole(capture: FdCapture) -> None:
    write(capture, LINE * 10 + "ä".encode()[:1])
    assert capture.read(capture.size(), final=False) == (b"", 0, LINE * 10)
    assert capture.has_news()
    assert capture.read(capture.size(), final=True) == (b"", 0, "ä".encode()[:1])
    assert not capture.has_news()


def test_of_a_flood_the_first_lines_and_the_end_are_read(capture: FdCapture) -> None:
    write(capture, LINE * 3)
    capture.read(capture.size(), final=False)
    flood = b"first\n" + LINE * ((MOST + 2 * KEPT) // len(LINE)) + b"last\n"
    write(capture, flood)
    first, left_out, rest = capture.read(capture.size(), final=False)
    assert first.startswith(b"first\n" + LINE)
    assert first.endswith(LINE)
    assert len(first) > KEPT - len(LINE)
    assert rest == flood[-MOST:]
    assert len(first) + left_out + len(rest) == len(flood)


def test_a_flood_without_lines_and_a_file_that_was_truncated(capture: FdCapture) -> None:
    write(capture, b"x" * (MOST + KEPT + 1000))
    assert capture.read(capture.size(), final=False) == (b"", KEPT + 1000, b"x" * MOST)
    os.truncate(capture.path, 0)
    write(capture, LINE)
    assert capture.read(capture.size(), final=False) == (b"", 0, LINE)


def test_what_was_read_is_given_back_but_for_its_end(capture: FdCapture) -> None:
    """The last words of a process that dies are among it."""
    written = LINE * ((HOLE + 2 * KEPT) // len(LINE))
    write(capture, written)
    assert capture.read(capture.size(), final=False) == (b"", 0, written)
    assert capture.last(since=0) == written[-KEPT:]

"""What people read, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.units import (
    count,
    human_bytes,
    human_count,
    human_seconds,
    human_time,
    parse_bytes,
)


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1234567, "1.23 MB"), (8e9, "8 GB"),
     (999_600, "1 MB"), (2.5e12, "2.5 TB"), (-4096, "-4.1 kB")],
)  # fmt: skip
def test_bytes(n: float, text: str) -> None:
    assert human_bytes(n) == text


@pytest.mark.parametrize(
    ("s", "text"),
    [(1e-6, "1 µs"), (9.996e-4, "1 ms"), (0.0123, "12.3 ms"), (0.9999, "1 s"), (75, "75 s")],
)  # fmt: skip
def test_seconds(s: float, text: str) -> None:
    assert human_seconds(s) == text


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0"), (999, "999"), (1000, "1 000"), (1234567, "1 234 567")]
)
def test_counts(n: int, text: str) -> None:
    assert human_count(n) == text


@pytest.mark.parametrize(
    ("s", "text"),
    [(28800.0, "8 h"), (3600, "1 h"), (5400, "90 min"), (120.0, "2 min"), (90, "90 s")],
)
def test_spans_that_people_set(s: float, text: str) -> None:
    assert human_time(s) == text


@given(st.integers(1, 10**15))
def test_what_is_shown_can_be_typed(n: int) -> None:
    assert parse_bytes(human_bytes(n)) == pytest.approx(n, rel=0.006)


@pytest.mark.parametrize(
    ("text", "n"),
    [("8GB", 8 * 10**9), ("512MiB", 512 << 20), ("1.5 g", 15 * 10**8), ("1000", 1000),
     ("1e9", 10**9)],
)  # fmt: skip
def test_sizes_people_type(text: str, n: int) -> None:
    assert parse_bytes(text) == n


@pytest.mark.parametrize("text", ["", "GB", "1.2.3GB", "0", "five", "1XB", "-1MB", "."])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="MB"):
        parse_bytes(text)


def test_things_that_are_counted() -> None:
    assert [count(1, "task"), count(2, "task")] == ["1 task", "2 tasks"]
    assert count(2, "notebook or script") == "2 notebooks or scripts"

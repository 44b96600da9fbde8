"""Sizes as people type them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.format import human_bytes
from workbench.system.sizes import parse_bytes


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

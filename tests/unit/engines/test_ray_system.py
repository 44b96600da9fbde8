"""Ray's values and errors as ours. No cluster."""

from __future__ import annotations

import re

import pytest

from workbench import errors
from workbench.core.events import About
from workbench.engines.cluster.backend import StoredValue
from workbench.engines.ray.slim import MOST, slim, whole


@pytest.mark.parametrize(
    ("name", "ours", "words"),
    [
        ("OwnerDiedError", errors.ObjectLostError, "owned it has ended.*Make it again"),
        ("ObjectLostError", errors.ObjectLostError, "nodes.*have gone.*Run again"),
        ("ObjectFetchTimedOutError", errors.ObjectLostError, "in time.*Try again"),
        ("ObjectFreedError", errors.ObjectFreedError, "freed.*Put it again"),
    ],
)
def test_what_is_lost_is_told_in_our_words(
    name: str, ours: type[errors.WorkbenchError], words: str
) -> None:
    ray = pytest.importorskip("ray")
    from workbench.engines.ray.failures import translated

    error = getattr(ray.exceptions, name)("ab" * 28, owner_address=b"", call_site="")
    found = translated(error)
    assert type(found) is ours
    assert re.search(words, str(found))
    assert "abab" not in str(found)
    assert "RAY_" not in str(found)


def test_small_values_travel_as_bytes_and_come_back_whole() -> None:
    about = About("int", 5, 0, 0, 0.0, 0.0, "result of f")
    small = StoredValue(b"P\x80", inside=(), about=about, failed=True)
    assert isinstance(slim(small), bytes)
    assert whole(slim(small)) == small
    for other in (
        StoredValue(b"", (b"buffer",)),
        StoredValue(b"", inside=(7,), natives=(object(),)),  # a ref, which Ray has to see
        StoredValue(bytes(MOST + 1)),
    ):
        assert whole(slim(other)) is other

"""Ray's errors as ours. No cluster."""

from __future__ import annotations

import re

import pytest

from workbench import errors


@pytest.mark.parametrize(
    ("name", "ours", "words"),
    [
        ("OwnerDiedError", errors.ObjectLostError, "owned it has ended.*Make it again"),
        ("ObjectLostError", errors.ObjectLostError, "nodes.*have gone.*Run again"),
        ("ObjectFetchTimedOutError", errors.ObjectLostError, "in time.*Try again"),
        ("ObjectFreedError", errors.ObjectFreedError, "freed.*Put it again"),
    ],
)
def test_losses_are_in_our_words(name: str, ours: type[errors.WorkbenchError], words: str) -> None:
    ray = pytest.importorskip("ray")
    from workbench.engines.ray.system import translated

    error = getattr(ray.exceptions, name)("ab" * 28, owner_address=b"", call_site="")
    found = translated(error)
    assert type(found) is ours
    assert re.search(words, str(found))
    assert "abab" not in str(found)
    assert "RAY_" not in str(found)

"""Changes of one object in two places: merged, or refused so that none is lost."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.serialization.merging import ConflictError, merged
from workbench.serialization.object_state import object_state_of


@pytest.mark.parametrize(
    ("before", "ours", "theirs", "becomes"),
    [
        ([1], [1, 2], [1, 2], [1, 2, 2]),
        ([1, 2], [2, 1], [1, 2, 3], [2, 1, 3]),
        ([1], [1, 3], [0], [0, 3]),
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "c": 3}, {"a": 2, "c": 3}),
        ({"a": 1}, {}, {"a": 1, "b": 2}, {"b": 2}),
        ({1, 2}, {1, 3}, {2, 4}, {3, 4}),
    ],
)
def test_no_change_is_lost(before: Any, ours: Any, theirs: Any, becomes: Any) -> None:
    states = [object_state_of(each, {}) for each in (before, ours, theirs)]
    parts = merged(*states).parts
    assert (set(parts) if isinstance(becomes, set) else parts) == becomes


@pytest.mark.parametrize(
    ("before", "ours", "theirs"),
    [([1, 2], [2], [1]), ({"a": 1}, {"a": 2}, {"a": 3}), ({"a": 1}, {}, {"a": 3})],
)
def test_one_part_that_both_changed_is_refused(before: Any, ours: Any, theirs: Any) -> None:
    with pytest.raises(ConflictError):
        merged(*[object_state_of(each, {}) for each in (before, ours, theirs)])

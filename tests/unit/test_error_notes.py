"""Which arrays a value holds."""

from __future__ import annotations

from typing import Any, cast

import pytest

from workbench.error_notes.readonly import arrays_in
from workbench.ref import ObjectRef


def test_a_ref_holds_no_array() -> None:
    """Its session may: whoever has any ref would have all of that session's arrays."""
    np = pytest.importorskip("numpy")
    array = np.zeros(3)
    engine = cast("Any", {"of another object": array})
    assert list(arrays_in([ObjectRef(1, engine)])) == []
    found = list(arrays_in([ObjectRef(1, engine), array]))
    assert len(found) == 1
    assert found[0] is array

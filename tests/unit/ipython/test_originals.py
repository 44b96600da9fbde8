"""What a cell takes along: what of it can be changed in place, and what that costs the others."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from workbench.engine.base import Engine
from workbench.engine.queries import Pack
from workbench.ipython.originals import Originals
from workbench.ref import ObjectRef
from workbench.serialization.packing import PackedValues

PACKED = PackedValues(b"", [], [])


class Packing:
    def __init__(self) -> None:
        self.packed: list[Any] = []

    def ask(self, query: Pack) -> tuple[Any, Any]:
        self.packed.append(query.value)
        return PACKED, {}


NO_ENGINE = cast(Engine, None)  # nothing is packed with it


def helper(n: int) -> int:
    return len(str(n))


@pytest.mark.parametrize("value", [(1, ("b", b"c")), np, np.float64(1), len])
def test_what_cannot_change_is_passed_as_it_is(value: Any) -> None:
    originals = Originals(NO_ENGINE, {"x": value}, {"x": value})
    assert (originals.packed, originals.tracked.names) == (None, ())
    assert originals.names == {"x": value}


def test_what_can_change_is_packed_with_the_rest() -> None:
    engine = Packing()
    captured = {"x": [1], "n": 1, "f": helper}
    originals = Originals(cast(Engine, engine), captured, captured)
    assert (originals.packed, originals.names, originals.tracked.names) == (PACKED, {}, ("x",))
    assert engine.packed == [captured]


def test_of_what_is_stored_arrays_cannot_change() -> None:
    ref = ObjectRef(1, cast(Any, object()))
    stored = {"array": ref, "lst": ref, "elsewhere": ref}
    originals = Originals(NO_ENGINE, stored, {"array": np.zeros(2), "lst": [1], "elsewhere": ref})
    assert originals.tracked.names == ("lst", "elsewhere")
    assert originals.tracked.foreign == ("elsewhere",)
    assert originals.objects() == {-1: [1]}

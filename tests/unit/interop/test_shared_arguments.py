"""A value that was put isn't stored again, however long it takes to see that it is the same."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from tests.unit.serialization.clocks import Looks
from workbench.core import events as ev
from workbench.engine.base import Engine
from workbench.engine.queries import Answering, Compare, StoredAs
from workbench.interop.shared_arguments import LARGE, SharedArguments
from workbench.ref import ObjectRef
from workbench.serialization import comparison
from workbench.serialization.arrays import Reducers
from workbench.serialization.comparison import ChangeCheck, Comparison

NONE: Reducers = {}


class Store(Answering):
    """As much of an engine as it needs, with one value that was put."""

    ended = None

    def __init__(self, value: Any) -> None:
        self._stored = comparison.remember(value, NONE, 1 << 30)
        self.ref = ObjectRef(1, cast(Engine, self))
        self.answers = {StoredAs: self._stored_as, Compare: self._compare}

    def _stored_as(self, value: Any, changed: bool) -> ObjectRef | None:
        return self.ref if changed else None

    def _compare(self, ref: ObjectRef, value: Any, check: ChangeCheck, spent: float) -> Comparison:
        assert self._stored is not None
        return check.run(value, self._stored, NONE, spent)

    def put(self, value: Any) -> tuple[ObjectRef, ev.About]:
        return ObjectRef(2, cast(Engine, self)), ev.About("ndarray", 0, 0, 0, 0.0, 0.0)


@pytest.mark.parametrize(
    "value",
    [np.array([*map(str, range(LARGE // 8))], object), np.zeros((LARGE, 16), np.uint8)[:, ::2]],
    ids=["objects", "strided"],
)
def test_it_is_not_stored_again_by_a_machine_that_has_no_time(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the clock is a second later than the one before."""
    store, arguments = Store(value), SharedArguments()
    monkeypatch.setattr(comparison, "time", Looks(1.0))
    for _ in range(3):
        arguments.begin()
        assert arguments.ref_of(cast(Engine, store), value) is store.ref
    value[-1] = 1
    arguments.begin()
    assert arguments.ref_of(cast(Engine, store), value) is not store.ref

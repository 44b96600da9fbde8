"""What the tracing pickler writes is what the fast one writes, opcode for opcode."""

from __future__ import annotations

import collections
import functools
import pickle
import pickletools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.serialization.samples import Holder, Slotted, looped, nested
from workbench.serialization.arrays import out_of_band
from workbench.serialization.paths import LARGE_DICT
from workbench.serialization.pickler import Pickler
from workbench.serialization.tracing import BATCH, SHORT, TracingPickler


class Sink(list[bytes]):
    """A file, in pieces."""

    def write(self, data: Any) -> None:
        self.append(bytes(data))


def opcodes(sink: Sink) -> list[tuple[str, str]]:
    """What is in a pickle. Frames are but a way to read it."""
    ops = pickletools.genops(b"".join(sink))
    return [(op.name, repr(arg)) for op, arg, _ in ops if op.name != "FRAME"]


def assert_same(value: Any) -> None:
    traced, real = Sink(), Sink()
    buffers: list[pickle.PickleBuffer] = []
    real_buffers: list[pickle.PickleBuffer] = []
    TracingPickler(traced, {}, buffers.append, "value").trace(value)
    Pickler(real, {}, real_buffers.append).dump(value)
    assert opcodes(traced) == opcodes(real)
    assert [out_of_band(b).tobytes() for b in buffers] == [
        out_of_band(b).tobytes() for b in real_buffers
    ]


ARRAY = np.arange(4.0)
TEXT = "a text " * SHORT

VALUES = {
    "list": [1, "a", None, -1, 2**70, True, b"x", 0.5, ..., 1j, NotImplemented, int, type(None)],
    "object": Holder(a=[1], b={2}, c=Holder(), d=Slotted(1, [2]), e=(*range(10),)),
    "function": lambda x: x + ARRAY,
    "shared": [ARRAY, ARRAY, TEXT, TEXT],
    "objects": np.array([[1, "a"], [None, ARRAY]], dtype=object),
    "frame": pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": np.array([1, "z"], object)}),
    "partial": functools.partial(print, 1, end=""),
    "loop": looped(),
    "large text": [TEXT * 100, TEXT.encode() * 100, bytearray(10**5)],
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    assert_same(VALUES[name])


@pytest.mark.parametrize(
    "kind",
    [list, tuple, set, frozenset, dict.fromkeys, collections.deque,
     collections.OrderedDict.fromkeys],
)  # fmt: skip
def test_batches(kind: Any) -> None:
    for count in (0, 1, 2, LARGE_DICT + 1, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH):
        assert_same(kind(range(count)))
        assert_same(kind([(i, str(i)) for i in range(count)]))


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(max_size=SHORT + 9),
    st.complex_numbers(), st.sampled_from([ARRAY, TEXT, "shared", ()]),
)  # fmt: skip


@given(nested(LEAVES))
def test_any_nested_value(value: Any) -> None:
    assert_same(value)


def test_registered_types_are_asked_for_their_reducer_if_the_fast_one_asks() -> None:
    never = {kind: lambda n: (str, ("never",)) for kind in (int, str, list, tuple, dict, set)}
    reducers = {complex: lambda z: (str, ("seen",)), **never}
    sink = Sink()
    value = [1j, 1, "a", (1,), {1: 2}, {3}]
    TracingPickler(sink, reducers, lambda buffer: None, "value").trace(value)
    assert pickle.loads(b"".join(sink)) == ["seen", *value[1:]]

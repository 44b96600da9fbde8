"""A node's store: segments are written once, found by name, and gone with their last user."""

from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np

from workbench.engines.cluster.backend import StoredValue
from workbench.engines.cluster.parcels import Packer
from workbench.engines.dask import packed
from workbench.engines.dask.node_store import (
    LARGE,
    this_process,
)
from workbench.engines.dask.packed import Bundle, DaskActor, DaskRef, pack


def large() -> StoredValue:
    """A value of two large buffers, with refs in it."""
    ref, actor = DaskRef("k", 1), (DaskActor(5, "a", "tcp://x", "d"), DaskRef("d", 1))
    return StoredValue(b"Emeta", (b"a" * LARGE, b"bc"), (7, 5), (ref, actor))


def test_small_values_are_whole_and_large_ones_lie_in_segments() -> None:
    small, fd = pack(StoredValue(b"Ptext", (b"12",)))
    assert (fd, small.buffers, small.lengths) == (-1, [b"12"], [])
    value, fd = pack(large())
    try:
        assert (value.buffers, value.lengths) == ([], [LARGE, 2])
        again = packed.unpack(value, fd)
    finally:
        os.close(fd)
    assert [bytes(part) for part in again.buffers] == [b"a" * LARGE, b"bc"]
    assert again.inside == (7, 5)
    assert repr(again.natives[0]) == "DaskRef('k', 1)"
    actor, described = again.natives[1]
    assert (actor.actor, actor.address, actor.described, described.key) == (5, "tcp://x", "d", "d")


def test_a_copy_on_write_is_a_private_mapping_of_the_segment() -> None:
    def no_refs(ref: object) -> Any:
        raise AssertionError("there are none")

    packer = Packer("s~1", 1, no_refs, "here")
    value, fd = pack(packer.pack(np.ones(LARGE), None))
    try:
        stored = packed.unpack(value, fd)
    finally:
        os.close(fd)  # not needed any more
    mine = packer.open(1, stored, "on write")
    mine[0] = 7
    assert (mine[0], packer.open(1, stored)[0], mine.sum()) == (7, 1, LARGE + 6)
    copied = packer.open(1, stored, True)
    copied[0] = 7
    assert packer.open(1, stored)[0] == 1


def test_nothing_stays_of_a_bundle_that_nobody_has() -> None:
    value, fd = pack(large())
    first = Bundle.of("key", b"end", [value], [fd])
    token = first.tokens[0]
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    del first
    gc.collect()
    assert this_process().get(token) is None
    assert len(os.listdir("/proc/self/fd")) == before - 2

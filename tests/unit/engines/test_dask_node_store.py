"""A node's store: segments are written once, found by name, and gone with their last user."""

from __future__ import annotations

import gc
import mmap
import os
import resource
import threading
from typing import Any

import numpy as np
import pytest

from tests.leaks import eventually
from tests.patience import TIMEOUT
from workbench.engines.cluster.backend import StoredValue
from workbench.engines.cluster.parcels import Packer
from workbench.engines.dask import packed
from workbench.engines.dask.leases import LEASE, Leases
from workbench.engines.dask.node_store import (
    LARGE,
    NodeStore,
    offsets,
    open_segment,
    this_process,
    write_segment,
)
from workbench.engines.dask.packed import Bundle, DaskActor, DaskRef, from_handle, from_whole, pack


def test_parts_lie_apart_at_multiples_of_a_cache_line_where_nobody_can_write() -> None:
    parts = [b"abc", b"", b"x" * 100]
    assert offsets(map(len, parts)) == [0, 64, 64, 192]
    fd = write_segment(parts)
    try:
        found = open_segment(fd, list(map(len, parts)))
        assert [bytes(part) for part in found] == parts
        assert found[0].readonly
        with pytest.raises(OSError, match=r"ermission|not permitted"):
            mmap.mmap(fd, 100)
    finally:
        os.close(fd)


def test_a_segment_is_found_by_its_name_while_somebody_has_it() -> None:
    has, wants = NodeStore(), NodeStore()
    kept = has.add("one", write_segment([b"abc"]))
    found = wants.ask("one")
    assert found is not None
    assert bytes(open_segment(found.fd, [3])[0]) == b"abc"
    assert has.claim("one") is None  # it is served already
    del kept
    gc.collect()
    assert NodeStore().ask("one") is None
    assert bytes(open_segment(found.fd, [3])[0]) == b"abc"  # who has it keeps it


def test_who_asks_early_waits_for_who_fetches() -> None:
    fetches, waits = NodeStore(), NodeStore()
    listener = fetches.claim("two")
    assert listener is not None
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(waits.ask("two")))
    thread.start()
    kept = fetches.add("two", write_segment([b"abc"]), listener)
    thread.join(TIMEOUT)
    assert found[0] is not None
    assert kept.token == "two"


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


def test_without_descriptors_a_large_value_is_whole() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, limits[1]))
    try:
        value, fd = pack(large())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert fd == -1
    assert value.buffers == [b"a" * LARGE, b"bc"]


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


def bundle() -> Bundle:
    value, fd = pack(large())
    return Bundle.of("key", b"end", [value], [fd])


def test_a_handle_is_small_and_finds_its_segment_on_the_node() -> None:
    first = bundle()
    second = from_handle(first.handle())
    assert second.segment(0) is first.segment(0)  # of one process: the same
    assert sum(len(str(part)) for part in first.handle()) < 2000
    assert first.__sizeof__() > LARGE  # what Dask's scheduler reckons with


def test_what_a_handle_is_on_its_way_for_stays_until_it_was_fetched() -> None:
    """Dask may drop the copy that it was made from before who gets it has asked."""
    first = bundle()
    (token,) = first.tokens
    state = first.handle()
    del first
    gc.collect()
    assert this_process().get(token) is not None
    (lease,) = state[-1]
    found = NodeStore().ask(token, TIMEOUT, lease)
    assert found is not None
    assert eventually(lambda: this_process().get(token) is None)


def test_a_lease_lasts_while_it_is_used_and_not_for_ever() -> None:
    now = 0.0
    leases = Leases(lambda: now)
    first, second = leases.begin("one"), leases.begin("two")
    now = LEASE - 1
    assert leases.used(first) == "one"
    now = LEASE + 1
    leases.expire()
    assert (leases.used(first), leases.used(second)) == ("one", None)
    leases.end(first)
    assert leases.used(first) is None


def test_to_a_disk_it_goes_with_its_bytes() -> None:
    first = bundle()
    again = from_whole(*first.whole())
    assert again.tokens != first.tokens
    assert bytes(again.stored(0).buffers[0]) == b"a" * LARGE
    assert (again.key, again.end) == ("key", b"end")


def test_nothing_stays_of_a_bundle_that_nobody_has() -> None:
    first = bundle()
    token = first.tokens[0]
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    del first
    gc.collect()
    assert this_process().get(token) is None
    assert len(os.listdir("/proc/self/fd")) == before - 2

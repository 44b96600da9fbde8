"""`get(copy_on_write=True)`: writable, and only the pages that are written are copied."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process import limits
from tests.process.processes import address, mapping_of, place_of, private_memory, private_pages
from workbench.engine.base import Engine
from workbench.engine.queries import StoredAs
from workbench.system.sizes import PAGE

PRIVATE = "rw-p /memfd:workbench"
N = 2_000_000  # 16 MB of floats


def get(ref: wb.ObjectRef) -> Any:
    return wb.get(ref, copy_on_write=True)


def test_only_the_pages_that_are_written_are_copied(session: Engine) -> None:
    ref = wb.put(np.ones(N))
    shown = wb.get(ref)
    before = private_memory()
    own = get(ref)
    assert own.sum() == N  # to read copies nothing
    assert own.flags.writeable
    assert mapping_of(address(own)) == PRIVATE
    assert address(own) != address(shown)
    assert place_of(address(own)) == place_of(address(shown))
    assert private_pages(address(own)) == 0
    own[0] = own[1] = own[N // 2] = 7
    assert private_pages(address(own)) == 2 * PAGE
    assert private_memory() - before < own.nbytes / 8
    assert (shown == 1).all()
    own[:] = 3
    assert private_pages(address(own)) >= own.nbytes
    assert private_memory() - before >= own.nbytes


def test_nobody_else_sees_it(session: Engine) -> None:
    ref = wb.put(np.zeros(N))
    one, other = get(ref), get(ref)
    one[:] = 1
    other[3] = 2

    @wb.remote
    def total(array: Any, again: list[wb.ObjectRef]) -> tuple[float, float]:
        own = wb.get(again[0], copy_on_write=True)
        own += 1
        return array.sum(), own.sum()

    assert wb.get(total.remote(ref, [ref])) == (0, N)
    assert (wb.get(ref).sum(), one.sum(), other.sum()) == (0, N, 2)
    # What is passed on is what is there now, not what is stored.
    assert wb.get(total.remote(one, [ref]))[0] == wb.get(wb.put(one)).sum() == N


def test_what_has_arrays_inside(session: Engine) -> None:
    x = np.arange(float(N))
    frame = pd.DataFrame({"x": x, "s": pd.array(["a"] * N, "string[pyarrow]")})

    def write_frame(value: Any) -> Any:
        value["a"][0].loc[3, "x"] = -1
        return value["a"][0]["x"].to_numpy()

    def write_table(table: Any) -> Any:
        column = np.frombuffer(table["x"].chunk(0).buffers()[1])
        column[3] = -1
        return column

    for value, write in (({"a": [frame, 1]}, write_frame), (pa.table({"x": x}), write_table)):
        ref = wb.put(value)
        written = write(get(ref))
        assert written[:5].tolist() == [0, 1, 2, -1, 4]
        assert mapping_of(address(written)) == PRIVATE
        assert private_pages(address(written)) <= 8 * PAGE
        assert write(wb.get(ref, copy=True))[4] == 4


def test_what_is_small_or_finds_no_descriptor_is_copied(session: Engine) -> None:
    """Inline, or in an extent: a mapping would take longer."""
    for length in (0, 3, 3000, 30_000):
        ref = wb.put([np.zeros(length), {"n": length}])
        own, rest = get(ref)
        own[:] = 1
        assert rest == {"n": length}
        assert "memfd" not in mapping_of(address(own))
        assert not wb.get(ref)[0].any()
    ref = wb.put(np.zeros(N))
    wb.get(ref)
    with limits.descriptors(os.getpid()):
        own = get(ref)
        own[:] = 1
    assert (own.sum(), wb.get(ref).sum()) == (N, 0)
    with pytest.raises(ValueError, match="Say one"):
        wb.get(ref, copy=True, copy_on_write=True)


def test_it_keeps_the_bytes_and_dies_with_the_last_view(session: Engine) -> None:
    ref = wb.put(np.arange(float(N)))
    own = get(ref)
    assert "`own`" in str(wb.why(ref, deep=True))
    part = own[10:20]
    del own
    wb.free(ref)
    assert wb.snapshot().live >= 8 * N  # `part` needs them
    again = wb.put(np.zeros(N))
    assert part.tolist() == [*range(10, 20)]
    part[0] = 5
    del part
    wb.free(again)
    assert eventually(lambda: wb.snapshot().live < 8 * N)


def test_several_refs_have_a_mapping_each_and_small_arrays_none(session: Engine) -> None:
    refs = [wb.put(np.full(N // 8, i)) for i in range(3)]
    refs.append(wb.put([np.zeros(N // 8)] + [np.zeros(40) for _ in range(500)]))
    wb.get(refs)  # their segment is mapped
    before = len(os.listdir("/proc/self/fd"))
    *owns, mixed = wb.get(refs, copy_on_write=True)
    assert len(os.listdir("/proc/self/fd")) - before == 4
    for own in [*owns, mixed[500]]:
        own += 1
    assert [int(own[0]) for own in owns] == [1, 2, 3]
    assert [int(each[0]) for each in wb.get(refs[:3])] == [0, 1, 2]


def test_on_disk_and_after_the_session(tmp_path: Path) -> None:
    engine = wb.init(workers=0, memory="64MB", spill_dir=str(tmp_path))
    ref = wb.put(np.zeros(N))
    wb.spill(ref)
    own = get(ref)
    own[5] = 1
    assert own.sum() == 1
    assert private_pages(address(own)) == PAGE
    shown = wb.get(ref)
    assert shown.sum() == 0
    assert engine.ask(StoredAs(shown)) is ref
    later = get(wb.put(np.zeros(N)))
    later[0] = 1
    wb.shutdown()
    later[N // 2] = 1
    assert later.sum() == 2
    assert engine.ask(StoredAs(shown)) is None

"""Stored data in the hands of other libraries, by the interfaces in which arrays are exchanged."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import workbench as wb
from tests.process.processes import address, mapping_of, place_of
from tests.unit.serialization import test_interchange as classes
from workbench.engine.base import Engine
from workbench.errors import SerializationError

READ_ONLY = "r--s /memfd:workbench"
N = 100_000


def dlpack_flags(array: Any) -> int:
    """Of DLPack's version 1: 1 is read-only."""
    capsule = array.__dlpack__(max_version=(1, 0))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = pointer(capsule, b"dltensor_versioned")
    return ctypes.c_uint64.from_address(tensor + 24).value  # behind version, owner, deleter


def test_dlpack_says_that_a_stored_array_is_read_only(session: Engine) -> None:
    ref = wb.put(np.arange(float(N)))
    stored = wb.get(ref)
    assert dlpack_flags(stored) & 1
    other = np.from_dlpack(stored)
    assert address(other) == address(stored)
    assert not other.flags.writeable
    with pytest.raises(BufferError, match="read"):
        stored.__dlpack__()  # to somebody who doesn't know the flag
    own = wb.get(ref, copy_on_write=True)
    assert not dlpack_flags(own) & 1
    np.from_dlpack(own)[0] = 7
    assert (own[0], stored[0]) == (7, 0)


def test_arrow_data_is_handed_on_as_it_lies(session: Engine) -> None:
    ref = wb.put(pa.table({"n": np.arange(float(N))}))
    stored = wb.get(ref)
    column = stored["n"].chunk(0).to_numpy()
    assert mapping_of(address(column)) == READ_ONLY
    frame: Any = pl.DataFrame(stored)  # by PyCapsule
    shown = frame["n"].to_numpy()
    assert address(shown) == address(column)
    assert not shown.flags.writeable
    assert not np.from_dlpack(stored["n"].chunk(0)).flags.writeable

    @wb.remote
    def place(frame: Any) -> tuple[tuple[int, int], bool]:
        shown = frame["n"].to_numpy()
        return place_of(address(shown)), bool(shown.flags.writeable)

    # A frame of polars is the same bytes of the same file in every process.
    ref = wb.put(frame)
    mine = wb.get(ref)["n"].to_numpy()
    assert mapping_of(address(mine)) == READ_ONLY
    assert wb.get(place.remote(ref)) == (place_of(address(mine)), False)


def test_what_knows_no_flag_writes_to_pages_of_its_own(session: Engine) -> None:
    ref = wb.put([classes.OldVector(np.zeros(N)), classes.Vector(np.zeros(N))])
    old, new = wb.get(ref)
    assert mapping_of(address(new.data)) == READ_ONLY
    assert mapping_of(address(old.data)) == "rw-p /memfd:workbench"
    (ctypes.c_double * N).from_address(address(old.data))[3] = 1.0  # as a library in C would
    assert old.data[3] == 1
    assert not wb.get(ref)[0].data.any()


@pytest.mark.slow
def test_other_arrow_libraries(session: Engine) -> None:
    import arro3.core as arro3
    import nanoarrow

    table = pa.table({"n": np.arange(float(N)), "s": ["text"] * N}, metadata={"made": "here"})
    column, batch = table["n"].chunk(0), table.to_batches()[0]
    for value, read in (
        (arro3.Table.from_arrow(table), pa.table),
        (arro3.RecordBatch.from_arrow(batch), pa.record_batch),
        (arro3.Array.from_arrow(column), pa.array),
        (arro3.ChunkedArray.from_arrow(table["n"]), pa.chunked_array),
        (nanoarrow.Array(batch), pa.record_batch),
        (nanoarrow.c_array(column), pa.array),
    ):
        got = wb.get(wb.put({"value": value}))["value"]
        assert type(got) is type(value)
        data = read(got)
        assert data.equals(read(value))
        if isinstance(data, pa.Table | pa.RecordBatch):
            assert data.schema.equals(read(value).schema, check_metadata=True)
            data = data["n"]
        data = data.chunk(0) if isinstance(data, pa.ChunkedArray) else data
        assert mapping_of(address(data.to_numpy())) == READ_ONLY
    for stream in (arro3.RecordBatchReader.from_arrow(table), nanoarrow.ArrayStream(table)):
        with pytest.raises(SerializationError, match="can be read only once"):
            wb.put(stream)
        assert pa.table(stream).num_rows == N


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_arrays_of_jax(session: Engine) -> None:
    import jax
    from jax import numpy as jnp

    for value in (jnp.ones((300, 400)).T, jnp.asarray(3.0), jnp.ones(N, jnp.bfloat16)):
        got = wb.get(wb.put(value))
        assert type(got) is type(value)
        assert (got.dtype, got.weak_type) == (value.dtype, value.weak_type)
        assert (got == value).all()
    ref = wb.put(jnp.arange(float(N)))
    got = wb.get(ref)
    assert mapping_of(got.unsafe_buffer_pointer()) == "rw-p /memfd:workbench"
    jax.jit(lambda x: x * 2, donate_argnums=0)(got)  # which may be put in its place
    assert wb.get(ref)[3] == 3

"""Stored data in the hands of other libraries, by the interfaces in which arrays are exchanged; of
dask.array and xarray: nothing is copied, neither here nor in tasks."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import workbench as wb
from tests.process.processes import address, mapping_of, place_of, private_memory
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


ROWS, CHUNK = 4000, 1000
SIZE = ROWS * 500 * 8  # 16 MB


def places_of(chunk: Any) -> Any:
    """Where a chunk of rows lies: in a row of its own, and as wide as what is expected."""
    return np.array([[*place_of(address(chunk)), mapping_of(address(chunk)) == READ_ONLY]])


def places(array: Any) -> Any:
    return array.map_blocks(places_of, dtype=int, chunks=(1, 3))


def stored_array() -> wb.ObjectRef:
    return wb.put(np.arange(ROWS * 500.0).reshape(ROWS, 500))


def expected(ref: wb.ObjectRef) -> list[list[int]]:
    inode, offset = place_of(address(wb.get(ref)))
    return [[inode, offset + start * 500 * 8, 1] for start in range(0, ROWS, CHUNK)]


def test_here_and_in_tasks_it_is_computed_where_it_lies(session: Engine) -> None:
    import dask.array as da

    ref = stored_array()

    @wb.remote
    def compute(array: Any) -> tuple[Any, float, int]:
        before = private_memory()
        total = float(array.max().compute(scheduler="synchronous"))
        return places(array).compute(scheduler="threads"), total, private_memory() - before

    array = da.from_array(wb.StoredArray(ref), chunks=(CHUNK, 500))
    assert places(array).compute(scheduler="synchronous").tolist() == expected(ref)
    part = array[:7, ::3].compute(scheduler="synchronous")
    assert (part == wb.get(ref)[:7, ::3]).all()
    before = wb.snapshot().live
    found, total, grown = wb.get(compute.remote(array))
    assert found.tolist() == expected(ref)
    assert total == ROWS * 500 - 1
    assert grown < SIZE / 2
    assert wb.snapshot().live - before < SIZE / 4  # its arguments are no copies either


@pytest.mark.extended
def test_a_graph_is_computed_on_the_pool(session: Engine) -> None:
    import dask
    import dask.array as da

    array = da.from_array(wb.StoredArray(ref := stored_array()), chunks=(CHUNK, 500))
    with wb.Executor() as executor, dask.config.set(scheduler=executor):
        assert places(array).compute().tolist() == expected(ref)
        with pytest.raises(ZeroDivisionError):
            dask.delayed(divmod)(1, dask.delayed(abs)(0)).compute()


def test_what_it_is_made_of(session: Engine) -> None:
    import dask.array as da

    ref = wb.put(np.arange(6.0).reshape(2, 3))
    array = wb.StoredArray(ref)
    assert (array.shape, array.ndim, array.dtype, len(array)) == ((2, 3), 2, np.dtype("f8"), 2)
    assert np.array_equal(array, wb.get(ref))
    assert np.array(array, "i4").dtype == "i4"
    assert np.asarray(array)[1, 1] == array[1, 1] == 4
    assert np.array(array, copy=True).flags.writeable
    assert "float64 (2, 3)" in repr(array)
    large = np.zeros(ROWS)
    stored = wb.put(large)
    assert wb.StoredArray(wb.get(stored)).ref == stored  # a view of it: nothing is stored again
    assert wb.StoredArray(large).ref != stored
    assert da.from_array(array).name == da.from_array(wb.StoredArray(ref)).name
    with pytest.raises(TypeError, match="this is of type dict"):
        wb.StoredArray(wb.put({"a": 1}))
    with pytest.raises(TypeError, match="this is of type list"):
        wb.StoredArray([1, 2])

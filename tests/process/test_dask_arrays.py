"""dask.array and xarray over stored arrays: nothing is copied, neither here nor in tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.process.processes import mapping_of, place_of, private_memory
from workbench.engine.base import Engine

READ_ONLY = "r--s /memfd:workbench"
ROWS, CHUNK = 4000, 1000
SIZE = ROWS * 500 * 8  # 16 MB


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


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

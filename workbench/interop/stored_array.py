"""A stored array as a data set that other libraries slice, like one in a file."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.api import engine, get, put
from workbench.engine.queries import StoredAs
from workbench.ref import ObjectRef


class StoredArray:
    """A stored array as a data set that dask and xarray slice without a copy.

    ``dask.array.from_array(x)`` copies a numpy array, even a stored one. It leaves a StoredArray in
    shared memory, as it leaves h5py's data sets in their files: each chunk is a view, also in
    tasks. It is pickled as a ref, so that a graph with it is small to send.

    Parameters
    ----------
    array : ObjectRef or array
        A stored array, or any object with a shape and a dtype. A view of a whole stored object
        stands for that object; anything else is stored first.

    Attributes
    ----------
    ref : ObjectRef
        The stored object.
    shape : tuple of int
        The array's shape.
    dtype : numpy.dtype
        The array's dtype.

    Raises
    ------
    TypeError
        If it isn't an array: it has no shape or no dtype.

    Examples
    --------
    >>> x = da.from_array(wb.StoredArray(ref), chunks=(10_000, 100))  # doctest: +SKIP
    >>> x.mean(axis=0).compute()  # doctest: +SKIP
    """

    def __init__(self, array: Any) -> None:
        value = get(array) if isinstance(array, ObjectRef) else array
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if type(shape) is not tuple or dtype is None:
            kind = type(value).__name__
            raise TypeError(f"StoredArray takes an array, or a ref to one: this is of type {kind}.")
        if isinstance(array, ObjectRef):
            self.ref = array
        else:
            stored = engine().ask(StoredAs(value))
            self.ref = put(value) if stored is None else stored
        self.shape, self.dtype = shape, dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(get(self.ref))

    def __getitem__(self, index: Any) -> Any:
        return get(self.ref)[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = np.asarray(get(self.ref), dtype)
        return array.copy() if copy else array

    def __dask_tokenize__(self) -> tuple[str, str, str]:
        return type(self).__name__, self.ref.session, self.ref.hex()

    def __repr__(self) -> str:
        return f"StoredArray({self.dtype} {self.shape}, {self.ref})"

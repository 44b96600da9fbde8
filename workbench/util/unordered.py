"""Ray's `as_completed` and `map_unordered`: results as they come. Uses only `api`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from workbench import api
from workbench.api.functions import RemoteFunction
from workbench.api.gathering import as_completed as refs_as_completed
from workbench.ref import ObjectRef


def as_completed(
    refs: Iterable[ObjectRef],
    *,
    yield_obj_refs: bool = False,
    chunk_size: int = 10,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> Iterator[Any]:
    """Yield the values of refs as they become ready. `workbench.as_completed` yields the refs.

    Parameters
    ----------
    refs : iterable of ObjectRef
        A duplicate comes once.
    yield_obj_refs : bool
        Yield the refs instead.
    chunk_size, timeout, fetch_local : object, optional
        They change nothing: each value comes as soon as it is ready, and in Ray too, the iteration
        goes on after a ``timeout``.

    Yields
    ------
    object
        Raises a task's error in its place, which ends the iteration.
    """
    for ref in refs_as_completed(refs):
        yield ref if yield_obj_refs else api.get(ref)


def map_unordered(
    fn: RemoteFunction[..., Any],
    items: Iterable[Any],
    *,
    backpressure_size: int | None = 100,
    yield_obj_refs: bool = False,
    chunk_size: int = 10,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> Iterator[Any]:
    """Call a remote function with each item, and yield the results as they become ready.

    Parameters
    ----------
    fn : RemoteFunction
        A function of one argument.
    items : iterable
        May be endless.
    backpressure_size : int, optional
        How many unfinished calls there are at most. None: all are submitted at once.
    yield_obj_refs : bool
        Yield refs instead of values.
    chunk_size, timeout, fetch_local : object, optional
        See `as_completed`.

    Yields
    ------
    object
        Raises a call's error in its place, which ends the iteration; the other calls go on.

    Raises
    ------
    ValueError
        If ``backpressure_size`` is less than 1.
    """
    if backpressure_size is not None and backpressure_size < 1:
        raise ValueError(f"backpressure_size must be greater than 0, not {backpressure_size!r}.")
    left: list[Any] = []  # of ObjectRef
    for item in items:
        left.append(fn.remote(item))
        if len(left) == backpressure_size:
            (ref,), left = api.wait(left)
            yield ref if yield_obj_refs else api.get(ref)
    yield from as_completed(left, yield_obj_refs=yield_obj_refs)

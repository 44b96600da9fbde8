"""Who owns an object on Ray, and copies of it that another process owns: objects die with their
owner, and can't be given to another.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import ray

from workbench.engines.cluster.backend import Native
from workbench.engines.cluster.parcels import again
from workbench.engines.ray.slim import slim, whole


def owner_of(native: Native) -> bytes:
    """Ray's address of the process that owns an object; of none behind Ray Client."""
    module: Any = importlib.import_module("ray._private.worker")
    try:
        found: bytes = module.global_worker.core_worker.get_owner_address(native)
    except AttributeError:
        return b""
    return found


@cache
def own_address() -> bytes:
    """That of this process."""
    return owner_of(ray.put(None))


async def owned(native: Native, copies: dict[Native, Native]) -> Native:
    """An object that is there, as one of this process's own: itself, or a copy, in which what it
    refers to is this process's own too. ``copies`` are those made by now, by their originals.

    What is lost already is returned as it is: reading it says so.
    """
    if type(native) is tuple:  # an actor, which nobody owns a copy of, and its description
        return native[0], await owned(native[1], copies)
    if native not in copies:
        copies[native] = await _copied(native, copies)
    return copies[native]


async def _copied(native: Native, copies: dict[Native, Native]) -> Native:
    if owner_of(native) == own_address():
        return native
    try:
        stored = whole(await native)
    except ray.exceptions.RayError:
        return native
    mine = [await owned(each, copies) for each in stored.natives]
    return ray.put(slim(again(stored)._replace(natives=tuple(mine))))

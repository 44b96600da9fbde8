"""Values one can recognise: made from a number, named after what they hold. Stores nothing."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

LARGEST = 3_000_000
"""Bytes of the largest."""


def make(number: int) -> Any:
    """An array, a table or a dict of arrays, from a few bytes to `LARGEST`."""
    chance = np.random.default_rng(number)
    sizes = [int(10 ** chance.uniform(1, np.log10(LARGEST / 3))) for _ in range(3)]
    arrays = [chance.integers(0, 256, size, np.uint8) for size in sizes]
    match number % 4:
        case 0:
            return arrays[0]
        case 1:
            return chance.integers(0, 256, (3, LARGEST // 3), np.uint8)
        case 2:
            return chance.random((sizes[0] // 16 + 1, 2))
        case _:
            return {f"column {i}": array for i, array in enumerate(arrays)}


def name_of(number: int, value: Any) -> str:
    """The value's name, by which it can be told later whether it is the same still."""
    return f"v{number}_{_digest(value)}"


def is_right(name: str, value: Any) -> bool:
    """Whether this is, byte by byte, the value that was given that name."""
    return name.endswith(f"_{_digest(value)}")


def _digest(value: Any) -> str:
    hasher = hashlib.sha256()
    parts = value.items() if isinstance(value, dict) else [("", value)]
    for key, array in parts:
        hasher.update(f"{key} {array.dtype} {array.shape};".encode())
        hasher.update(np.ascontiguousarray(array))
    return hasher.hexdigest()[:12]

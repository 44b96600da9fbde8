"""Loads a stored value only to show it: if it is small, and imports nothing."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.report.format import human_bytes
from workbench.serialization import codec

MOST = 64 << 10
"""Bytes of pickle that are read: about a millisecond's worth."""


def peek(header: bytes, extent: npt.NDArray[np.uint8] | None) -> Any:
    """Build a value, its arrays without a copy.

    Unlike `codec.deserialize` it imports nothing, looks for no causes when it fails, and refuses
    what would take long. Without an ``extent`` its bytes are in the header.

    Raises
    ------
    LookupError
        If it is too large, or of a module that isn't imported; the text says which.
    """
    size = codec.inband_of(header)
    if size > MOST:
        raise LookupError(f"{human_bytes(size)} of it are pickled")
    if extent is None:
        return codec.deserialize_inline(header, load=_load)
    return codec.deserialize(header, extent, load=_load)


def _load(stream: memoryview, buffers: Sequence[Any], where: object) -> Any:
    return _Unpickler(io.BytesIO(stream), buffers=buffers).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """A class or function of a module that is imported here."""
        if name == "subimport":  # cloudpickle's, of a module that a function uses
            return _module
        _module(module)
        return super().find_class(module, name)


def _module(name: str) -> Any:
    if name not in sys.modules:
        raise LookupError(f"{name} isn't imported here")
    return sys.modules[name]

"""Makes ``numpy.add.at`` and the like refuse read-only arrays, as all else in numpy does.

numpy (1.26 to 2.4 at least) doesn't check the flag there: a write to a mapped object would kill the
process.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import types
from typing import Any

import numpy as np


def guard_ufunc_at() -> bool:
    """Have ``numpy.ufunc.at`` check the flag, in this process, from now on. Idempotent.

    Arrays outlive their session, so this is never undone. Any thread may call it. True if it
    refuses read-only arrays now. False if this Python keeps its types' methods somewhere else:
    then nothing has changed.
    """
    if _refuses():
        return True
    at: Any = np.ufunc.at
    kind: Any = np.ufunc
    methods = next(iter(gc.get_referents(kind.__dict__)), None)
    if type(at) is not types.MethodDescriptorType or type(methods) is not dict:
        return False

    @functools.wraps(at)
    def guarded(self: np.ufunc, /, *args: Any) -> Any:
        if args and isinstance(args[0], np.ndarray) and not args[0].flags.writeable:
            raise ValueError("output array is read-only")
        return at(self, *args)

    guarded.__module__ = "numpy"  # where a pickle looks for it
    methods["at"] = guarded
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))  # drops cached lookups
    return _refuses()


def _refuses() -> bool:
    array = np.zeros(1)
    array.flags.writeable = False
    try:
        np.add.at(array, 0, 1)
    except ValueError:
        return True
    return False

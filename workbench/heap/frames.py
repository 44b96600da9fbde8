"""The variables of functions that run, or that a traceback keeps."""

from __future__ import annotations

import sys
import types
from inspect import CO_OPTIMIZED
from typing import Any


def locals_of(frame: types.FrameType | None) -> dict[str, Any]:
    """Return a frame's variables. The caller must let go of them at once.

    Before Python 3.13 the frame keeps the dict that it returns, and so its values even after a
    ``del`` in the function: emptied here, unless another holder or a debugger may use it.
    """
    if frame is None:
        return {}
    given = frame.f_locals
    found = dict(given)
    is_dict = frame.f_code.co_flags & CO_OPTIMIZED
    if is_dict and sys.version_info < (3, 13) and frame.f_trace is None:
        if sys.getrefcount(given) <= _ITS_OWN:
            given.clear()
    return found


_ITS_OWN = 3
"""References to a frame's dict if no one else has it: the frame, a variable, `getrefcount`."""

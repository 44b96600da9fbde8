"""The variables of functions that run, or that a traceback keeps."""

from __future__ import annotations

import sys
import threading
import types
from inspect import CO_OPTIMIZED
from typing import Any


def running(own: bool = False) -> list[tuple[types.FrameType, str]]:
    """Return the frames that run, each with `` in thread 'name'`` unless that is the main thread.

    ``own``: also those of this thread, but for the one that asks; else no frame refers to itself,
    which would keep it and all that its callers refer to. So a generator should ask, whose frame
    goes with it.
    """
    names = {thread.ident: f" in thread {thread.name!r}" for thread in threading.enumerate()}
    names[threading.main_thread().ident] = ""
    innermost: dict[int, Any] = sys._current_frames()
    ours = innermost.pop(threading.get_ident(), None)
    if own and ours is not None:
        innermost[threading.get_ident()] = ours.f_back.f_back
    del ours
    found = []
    for ident, frame in innermost.items():
        while frame is not None:
            found.append((frame, names.get(ident, "")))
            frame = frame.f_back
    return found


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

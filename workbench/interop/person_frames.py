"""Removes our frames from tracebacks of executors and pools: only one line of ours is shown."""

from __future__ import annotations

import os
from concurrent import futures
from types import TracebackType
from typing import TypeVar

from workbench.call_site import OURS

E = TypeVar("E", bound=BaseException)

_OURS = (OURS, os.path.join(os.path.dirname(futures.__file__), ""))
"""Directories of files whose frames are removed."""


def without_ours(error: E) -> E:
    """Remove our frames from the error and its causes; return it. A person's frames stay, as those
    of a class that couldn't be unpickled."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        each.__traceback__ = _of_others(each.__traceback__)
        each = each.__cause__  # its context may be an error that the caller handles
    return error


def _of_others(tb: TracebackType | None) -> TracebackType | None:
    kept = []
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith(_OURS):
            kept.append(tb)
        tb = tb.tb_next
    after = None
    for each in reversed(kept):
        after = TracebackType(after, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return after

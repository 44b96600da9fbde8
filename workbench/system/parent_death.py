"""A process that ends with its parent, whatever it is doing then."""

from __future__ import annotations

import os
import signal

_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36  # prctl(2)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, whatever it is doing then.

    ``parent`` was that before the call: if it is gone already, we go too. Processes whose parent,
    started here, ends before them become our children: so they are found when we end. The kernel
    means the parent's thread that made us: that one has to live as long as we shall.
    """
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        prctl(_SET_SUBREAPER, 1)
    if os.getppid() != parent:
        os._exit(1)

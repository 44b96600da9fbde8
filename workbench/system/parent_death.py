"""Makes a process end with its parent."""

from __future__ import annotations

import os
import signal

_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36  # prctl(2)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, whatever it is doing then.

    ``parent``: the parent's pid, read before the call; if it is gone already, this process exits.
    Orphaned descendants become our children, so that they can be found when we end. The kernel
    watches the parent's thread that forked us: it has to live as long as we should.
    """
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        prctl(_SET_SUBREAPER, 1)
    if os.getppid() != parent:
        os._exit(1)

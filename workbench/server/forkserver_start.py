"""Starts the forkserver.

Imports little: the server does this first, so that both processes import at the same time.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from contextlib import ExitStack

MODULE = "workbench.worker.forkserver"

OWN_PYTHONPATH = "WORKBENCH_PYTHONPATH"
"""Variable that keeps the user's PYTHONPATH while the forkserver starts with another."""

_THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
)

Started = tuple[subprocess.Popen[bytes], socket.socket]
"""The process, and our end of its socket."""


def start(text: str, limits: tuple[int, int]) -> Started:
    """Start it with the settings in this text and these limits of open files (soft, hard).

    The server forks nothing itself: a fork of it would inherit every client's socket. OSError if no
    process or descriptor is left at this moment.
    """
    settings = json.loads(text)
    env = os.environ.copy()
    for variable in _THREAD_LIMITS:  # so that workers' threads don't compete for the cores
        env.setdefault(variable, str(settings["threads"]))
    flags: list[str] = settings["flags"]
    if "-S" in flags:  # it finds this package there, then restores the variable
        env[OWN_PYTHONPATH] = env.get("PYTHONPATH", "")
        env["PYTHONPATH"] = os.pathsep.join(settings["path"])
    ours, theirs = socket.socketpair()
    with theirs, ExitStack() as on_failure:
        on_failure.callback(ours.close)
        fd = theirs.fileno()
        process = subprocess.Popen(
            [sys.executable, *flags, "-P", "-m", MODULE, str(fd), text],
            env=env,
            pass_fds=[fd],
            stdin=subprocess.DEVNULL,
        )
        on_failure.pop_all()
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
    ours.setblocking(False)
    return process, ours

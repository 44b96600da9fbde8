"""The least a call can cost: no server, a socket between caller and worker, and both sides look for
a moment before they sleep. A prototype of what a pool could reach, not one."""

from __future__ import annotations

import os
import pickle
import socket
import time
from collections.abc import Collection
from typing import Any

import tasks
from pools import Effort, Sample, times

LOOK = 0.0003
"""Seconds for which each side looks whether something has come before it sleeps."""


def measure(rows: Collection[str], effort: Effort) -> Sample:
    return _empty("empty", LOOK, effort) | _empty("empty_asleep", 0.0, effort)


def _empty(name: str, look: float, effort: Effort) -> Sample:
    """Seconds of one empty task."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if not pid:
        ours.close()
        while message := _receive(theirs, look):
            function, arguments = pickle.loads(message)
            theirs.send(pickle.dumps(function(*arguments)))
        os._exit(0)
    theirs.close()

    def call() -> Any:
        ours.send(pickle.dumps((tasks.empty, ())))
        return pickle.loads(_receive(ours, look))

    call()
    sample = times(effort, 20, **{name: call})
    ours.close()
    os.waitpid(pid, 0)
    return sample


def _receive(sock: socket.socket, look: float) -> bytes:
    """One message; empty at the end."""
    end = time.perf_counter() + look
    while time.perf_counter() < end:
        try:
            return sock.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            os.sched_yield()
    return sock.recv(4096)

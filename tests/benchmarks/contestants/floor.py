"""The least a call can cost: no server, a socket between caller and worker, and both sides look for
a moment before they sleep. A prototype of what a pool could reach, not one."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import time
from collections.abc import Callable, Collection

import msgspec
import tasks
from pools import Effort, Sample, times

LOOK = 0.0003
"""Seconds for which each side looks whether something has come before it sleeps."""

_HEAD = struct.Struct("<I")
_pack, _unpack = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode


def measure(rows: Collection[str], effort: Effort) -> Sample:
    return {"empty": _empty(LOOK, effort), "empty_asleep": _empty(0.0, effort)}


def _empty(look: float, effort: Effort) -> float:
    """Seconds of one empty task."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        ours.close()
        _serve(theirs, look)
        os._exit(0)
    theirs.close()

    def call() -> None:
        _send(ours, ("empty", b"", 1))
        pickle.loads(_receive(ours, look)[1])

    call()
    (seconds,) = times(effort, call, least=20)
    ours.close()
    os.waitpid(pid, 0)
    return seconds


def _serve(sock: socket.socket, look: float) -> None:
    functions: dict[str, Callable[[], object]] = {"empty": tasks.empty}
    while True:
        try:
            name, _, number = _receive(sock, look)
        except EOFError:
            return
        _send(sock, (number, pickle.dumps(functions[name]())))


def _send(sock: socket.socket, message: tuple[object, ...]) -> None:
    payload = _pack(message)
    sock.sendall(_HEAD.pack(len(payload)) + payload)


def _receive(sock: socket.socket, look: float) -> list[bytes]:
    end = time.perf_counter() + look
    while True:
        try:
            data = sock.recv(4096, socket.MSG_DONTWAIT)
            break
        except BlockingIOError:
            if time.perf_counter() >= end:
                data = sock.recv(4096)
                break
            os.sched_yield()
    if not data:
        raise EOFError
    message: list[bytes] = _unpack(data[_HEAD.size :])
    return message

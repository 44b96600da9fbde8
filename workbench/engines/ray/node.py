"""On each node of a Ray cluster: who runs which task, and how it is stopped there. No notebook's.

Ray's own cancelling can't end a `time.sleep`, and after it nothing is killed any more. So each
worker process says in a file which task it runs (which C code that holds the interpreter can't keep
from being read), and hears on a socket what to stop; an actor on its node tells it, or kills it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import mmap
import os
import shutil
import signal
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

SLOTS = 64
"""Calls of one process that are noted at a time. An actor may run more: they can't be found."""

MOST_FREED = 1000
"""Numbers in a message that says which objects were freed: it is small enough for any socket."""

PREFIX = "workbench-ray-"

SETTLED = 60.0
"""Seconds after which somebody who made a directory has put something there."""

MOST_ASKED = 1 << 20
"""Bytes of a question or an answer; the kernel may take less."""

Reply = Callable[[bytes], object]

_ID = struct.Struct("=q")
_SIZE = SLOTS * _ID.size


def place_of(session: str, node: str) -> str:
    """A session's part on one node: several nodes may be on one machine, or share a `/dev/shm`, and
    each has an agent, of which only one shall stop a task."""
    return f"{session}@{node}"


def directory_of(place: str) -> Path:
    """Where the processes of a place say what they run: in memory, ours alone."""
    digest = hashlib.blake2b(place.encode(), digest_size=8).hexdigest()
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
    return Path(base) / f"{PREFIX}{os.getuid()}-{digest}"


def _socket_of(directory: Path, pid: int) -> str:
    return f"\0{directory.name}-{pid}"


class RunningTasks:
    """Of this process. ``stop`` is told what to stop, ``let_go`` what was freed, in a thread of
    ours; ``asked`` what this process is asked, and how to reply: it must not wait."""

    def __init__(
        self, place: str, stop: Callable[[int], object],
        asked: Callable[[bytes, Reply], object] = lambda question, reply: None,
        let_go: Callable[[list[int]], object] = bool,
    ) -> None:  # fmt: skip
        directory = directory_of(place)
        directory.mkdir(mode=0o700, exist_ok=True)
        path = directory / str(os.getpid())
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.ftruncate(fd, _SIZE)
        self._table = mmap.mmap(fd, _SIZE)
        os.close(fd)
        self._slots: dict[int, int] = {}
        self._stop = stop
        self._asked = asked
        self._let_go = let_go
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError):
            self._socket.bind(_socket_of(directory, os.getpid()))
        name = "workbench-stops"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def begin(self, task: int) -> None:
        """It runs from now on."""
        with self._lock:
            used = set(self._slots.values())
            slot = next((n for n in range(SLOTS) if n not in used), None)
            if slot is not None:
                self._slots[task] = slot
                _ID.pack_into(self._table, slot * _ID.size, task)

    def end(self, task: int) -> None:
        """It is over."""
        with self._lock:
            slot = self._slots.pop(task, None)
            if slot is not None:
                _ID.pack_into(self._table, slot * _ID.size, 0)

    def _serve(self) -> None:
        while True:
            data, sender = self._socket.recvfrom(MOST_ASKED)
            with contextlib.suppress(Exception):
                if len(data) == _ID.size:
                    self._stop(_ID.unpack(data)[0])
                elif sender:
                    self._asked(data[_ID.size :], partial(self._reply, sender))
                else:
                    self._let_go([id for (id,) in _ID.iter_unpack(data) if id])

    def _reply(self, sender: str, answer: bytes) -> None:
        with contextlib.suppress(OSError):  # who asked has gone, or it is too long
            self._socket.sendto(_ID.pack(os.getpid()) + answer, sender)


class NodeAgent:
    """An actor, one a node."""

    def __init__(self, place: str) -> None:
        self._directory = directory_of(place)
        sweep(self._directory.parent)

    async def running(self) -> dict[int, int]:
        """The tasks that run here, with their processes."""
        return self._running()

    async def processes(self) -> dict[int, int]:
        """The session's processes here, with the number of tasks that they run."""
        running = list(self._running().values())
        return {pid: running.count(pid) for pid in self._pids()}

    def _pids(self) -> list[int]:
        return [int(file.name) for file in self._directory.glob("*")]

    def _running(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for file in self._directory.glob("*"):
            pid = int(file.name)
            if not _is_alive(pid):
                file.unlink(missing_ok=True)
                continue
            with contextlib.suppress(OSError):
                data = file.read_bytes()
                found.update((id, pid) for (id,) in _ID.iter_unpack(data) if id)
        return found

    async def stop(self, tasks: Sequence[int], force: bool) -> list[int]:
        """Stop those that run here; returns which."""
        running = self._running()
        mine = [task for task in tasks if task in running]
        for task in mine:
            pid = running[task]
            if force:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                continue
            with (
                contextlib.suppress(OSError),
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
            ):
                sender.sendto(_ID.pack(task), _socket_of(self._directory, pid))
        return mine

    async def explain(
        self, question: bytes, pids: Sequence[int], seconds: float
    ) -> tuple[list[bytes], list[int]]:
        """Ask those of these processes that live; what they say, and which didn't in time."""
        return await asyncio.to_thread(self._explain, question, pids, seconds)

    def _explain(
        self, question: bytes, pids: Sequence[int], seconds: float
    ) -> tuple[list[bytes], list[int]]:
        until = time.monotonic() + seconds
        waiting = {pid for pid in pids if _is_alive(pid)}
        answers: list[bytes] = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asker:
            asker.bind("")  # a name of the kernel's choice, to which they reply
            for pid in list(waiting):
                asker.settimeout(max(until - time.monotonic(), 0.01))
                with contextlib.suppress(TimeoutError):
                    try:
                        asker.sendto(_ID.pack(0) + question, _socket_of(self._directory, pid))
                    except ConnectionRefusedError:  # it has just ended
                        waiting.discard(pid)
            while waiting and (left := until - time.monotonic()) > 0:
                asker.settimeout(left)
                with contextlib.suppress(TimeoutError):
                    data = asker.recv(MOST_ASKED)
                    waiting.discard(_ID.unpack_from(data)[0])
                    answers.append(data[_ID.size :])
        return answers, sorted(waiting)

    async def let_go(self, ids: Sequence[int]) -> None:
        """Tell all processes here that these objects were freed."""
        for start in range(0, len(ids), MOST_FREED - 1):
            part = (0, *ids[start : start + MOST_FREED - 1])
            for pid in self._pids():
                with (
                    contextlib.suppress(OSError),  # it has ended
                    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
                ):
                    data = b"".join(map(_ID.pack, part))
                    sender.sendto(data, socket.MSG_DONTWAIT, _socket_of(self._directory, pid))

    async def close(self) -> None:
        """Nothing of the session stays here."""
        shutil.rmtree(self._directory, ignore_errors=True)

    async def ready(self) -> bool:
        """It is here."""
        return True


def sweep(base: Path) -> None:
    """Remove what sessions left whose processes are all gone: of a cluster that was killed."""
    for directory in base.glob(f"{PREFIX}{os.getuid()}-*"):
        with contextlib.suppress(OSError, ValueError):
            is_new = time.time() - directory.stat().st_mtime < SETTLED
            if not is_new and not any(_is_alive(int(file.name)) for file in directory.iterdir()):
                shutil.rmtree(directory, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

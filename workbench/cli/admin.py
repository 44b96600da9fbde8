"""Access to this machine's sessions for shell commands: list them, query one, end one.

Not a `Client`: it makes no objects, needs no thread, and has timeouts. It keeps no session alive.
"""

from __future__ import annotations

import math
import os
import secrets
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from workbench.client.requests import Requests
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.descriptions import Account
from workbench.core.snapshot import ACTOR_PREFIX, ObjectRecord, Snapshot
from workbench.engines.local import (
    SOCKET,
    address_of,
    locked,
    names_found,
    runtime_directory,
    sweep,
)
from workbench.errors import NotAnsweringError, SessionError
from workbench.report.mistyped import did_you_mean
from workbench.server.settings import settings_of
from workbench.system import machine
from workbench.wire.buffers import Inbox, Outbox
from workbench.wire.codec import decode_from_server
from workbench.wire.framing import LARGEST_OF_SERVER


class Patience(NamedTuple):
    """Timeouts in seconds: ``answered`` for a running server's answer; ``gone`` for the end of a
    session that was told to end."""

    answered: float = 1.0
    gone: float = 5.0


USUAL = Patience()

_MODULES = {"workbench.server", "workbench.worker.forkserver"}
"""Modules that a session's processes run; workers keep the forkserver's command line."""


class AdminConnection:
    """A connection to a running session. Each call has a timeout.

    Raises `SessionError` if no such session runs (its text names those that do), and, as all
    methods do, `NotAnsweringError` if it doesn't answer.
    """

    def __init__(self, name: str, patience: Patience = USUAL) -> None:
        self.name = name
        self._seconds = patience.answered
        self._requests = Requests(self)
        self.summary = self._requests.summary
        self._inbox = Inbox(decode_from_server, largest=LARGEST_OF_SERVER)
        sock = _dial(address_of(name)) if name in names_found() else None  # others: no path
        if sock is None:
            raise SessionError(_missing(name))
        self._sock = sock
        try:
            prefix = secrets.randbits(31) | 1 << 30
            self.post(ev.Hello(os.getpid(), prefix, label="workbench", admin=True))
        except BaseException:
            self._sock.close()
            raise

    def __enter__(self) -> AdminConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def objects(self) -> Iterator[ObjectRecord]:
        """Yield all objects. They come in parts: the server does other work in between."""
        for change in self._requests.read_parts():
            yield from change.objects

    def names(self) -> list[str]:
        """Return the names of objects and actors; some of them, if they are very many."""
        return sorted([*self._requests.names(), *self._requests.names(ACTOR_PREFIX)])

    def why(self, what: int | str, deep: bool = False) -> Account | None:
        self._requests.catch_up()  # it answers, so it will: it waits for those that search
        self._seconds = math.inf
        return self._requests.why(what, deep)

    def end(self, reason: str) -> None:
        """End the session for everybody; return before it has ended."""
        self.post(ev.EndSession(reason))

    # -- what `Requests` needs --------------------------------------------------------------------

    end_reason = None

    def check_open(self) -> None:
        """Do nothing: without a connection there is no answer."""

    def wait_for(self, done: Callable[[], bool], timeout: float | None = None) -> bool:
        deadline = time.monotonic() + self._seconds
        while not done():
            messages = self._inbox.messages()
            if not messages:
                self._read(deadline - time.monotonic())
            while messages:
                message = messages.popleft()
                if isinstance(message, do.Ended):
                    raise SessionError(message.reason)
                if isinstance(message, do.Changed):
                    self._requests.answer(message.request, message.change)
                elif isinstance(message, do.Answer):
                    self._requests.answer(message.request, message)
        return True

    def post(self, message: Any) -> None:
        outbox = Outbox()
        outbox.put(message)
        try:
            sent = outbox.send(self._sock.sendmsg)
        except OSError:
            raise SessionError(_missing(self.name)) from None
        if not sent:
            raise _silent(self.name)

    def _read(self, seconds: float) -> None:
        timeout = None if seconds == math.inf else seconds
        if seconds <= 0 or not select.select([self._sock], [], [], timeout)[0]:
            raise _silent(self.name)
        try:
            more = self._inbox.receive(self._sock.recvmsg)
        except ConnectionResetError:
            more = False
        if not more:
            raise SessionError(_missing(self.name))


def sessions() -> list[str]:
    """Return the names of this user's running sessions, even if a server is stopped (SIGSTOP)."""
    return [name for name in names_found() if _listens(address_of(name))]


def processes(name: str) -> list[int]:
    """Return pids of the session's server (first), forkserver and workers, and of their forks.

    They are found by their command lines, which works even if the server doesn't answer. The
    socket can't tell: its listener was made by the driver, whose pid the kernel remembers.
    """
    address = os.path.realpath(address_of(name))
    found = []
    for pid, arguments in machine.command_lines().items():
        if _MODULES.intersection(arguments):
            with suppress(ValueError, msgspec.ValidationError):
                settings = settings_of(arguments[-1])
                if os.path.realpath(settings.address) == address:
                    found.append(("workbench.server" not in arguments, pid))
    return [pid for _, pid in sorted(found)]


@dataclass(frozen=True)
class Stopped:
    """How a session ended: after how many seconds, and how many processes had to be killed.
    ``was``: its state before, None if it didn't answer."""

    seconds: float
    killed: int
    was: Snapshot | None


def stop(name: str, patience: Patience = USUAL) -> Stopped:
    """End a session for everybody, and wait until its processes are gone.

    Its drivers get the reason. Processes that don't end in time are killed: see `Patience`. Raises
    `SessionError` if no such session runs, or if something is left that can't be killed.
    """
    began, was = time.monotonic(), None
    with suppress(NotAnsweringError), AdminConnection(name, patience) as connection:
        with suppress(NotAnsweringError):
            was = connection.summary()
        connection.end(f"The session was stopped from a shell: `workbench stop {name}`.")
    killed = clear(name, patience)
    return Stopped(time.monotonic() - began, killed, was)


def clear(name: str, patience: Patience = USUAL) -> int:
    """Wait until a session's processes are gone, and kill those that don't end in time.

    Returns how many it killed. Raises `SessionError` if something is left that can't be killed.
    """
    killed = 0
    if not _end(name, patience.gone):
        killed = _kill(name)
        if not _end(name, USUAL.gone):
            left = ", ".join(map(str, processes(name)))
            raise SessionError(
                f"Processes of session {name!r} are still there though they were killed (pid "
                f"{left}): Linux keeps them, as it does while they wait for a disk."
            )
    directory = runtime_directory()
    with locked(directory):
        sweep(directory)  # the files of a killed server are still there
    return killed


def _end(name: str, seconds: float) -> bool:
    """True if the session's processes, and those they still start, end in this many seconds."""
    deadline = time.monotonic() + seconds
    while pids := processes(name):
        for _, fd in _opened(pids):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                return False
    return True


def _kill(name: str) -> int:
    killed = 0
    for pid, fd in _opened(processes(name)):
        if pid in processes(name):  # the pid is still theirs, so the descriptor is of that process
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                killed += 1
    return killed


def _opened(pids: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (pid, descriptor) of live processes: a descriptor never means another process."""
    for pid in pids:
        with suppress(ProcessLookupError):
            fd = os.pidfd_open(pid)
            try:
                yield pid, fd
            finally:
                os.close(fd)


# -- the runtime directory ------------------------------------------------------------------------


def _listens(address: Path) -> bool:
    try:
        sock = _dial(address)
    except NotAnsweringError:
        return True
    if sock is not None:
        sock.close()
    return sock is not None


def _dial(address: Path) -> socket.socket | None:
    """Return a connected, non-blocking socket; None if nobody listens there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        sock.connect(str(address))
    except OSError as error:
        sock.close()
        if isinstance(error, BlockingIOError):  # the queue of the listener is full
            raise _silent(address.name.removesuffix(SOCKET)) from None
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return None
        raise
    return sock


def _missing(name: str) -> str:
    others = [other for other in sessions() if other != name]
    return (
        f"No session {name!r} is running on this machine.{did_you_mean(name, others)} There are: "
        f"{', '.join(others) or 'none'} (in {runtime_directory()}; another XDG_RUNTIME_DIR or "
        "WORKBENCH_RUNTIME_DIR has others). Sessions on Ray or Dask aren't seen from here: join "
        "one in a notebook with `%workbench start --engine ... --address ...`."
    )


def _silent(name: str) -> NotAnsweringError:
    pids = processes(name)
    return NotAnsweringError(
        f"Session {name!r} doesn't answer: its server"
        f"{f' (pid {pids[0]})' if pids else ''} is stopped or hangs. "
        f"`workbench stop {name}` ends it."
    )

"""This machine's sessions, for shell commands: which there are, what one says of itself, its end.

Not a `Client`: it makes no objects, needs no thread, and gives up waiting. It keeps no session up.
"""

from __future__ import annotations

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
    """Seconds in which a server that runs has ``answered``; the same for `why`, ``deep`` if all is
    looked at (the server itself waits for whoever holds the object); and in which a session that
    was told to end is ``gone``."""

    answered: float = 1.0
    why: float = 7.0
    deep: float = 152.0
    gone: float = 5.0


USUAL = Patience()

_MODULES = {"workbench.server", "workbench.worker.forkserver"}
"""What a session's processes run; workers keep the command line of the forkserver."""


class AdminConnection:
    """A connection to a running session. Each call takes a bounded time.

    Raises `SessionError` if no such session runs (its text names those that do), and, as all
    methods do, `NotAnsweringError` if it doesn't answer.
    """

    def __init__(self, name: str, patience: Patience = USUAL) -> None:
        self.name = name
        self._patience = patience
        self._seconds = patience.answered
        self._requests = Requests(self)
        self.summary = self._requests.summary
        self._inbox = Inbox(decode_from_server, largest=LARGEST_OF_SERVER)
        sock = _dial(address_of(name)) if name in names_found() else None  # others become no paths
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
        """All objects. They come in parts: the server goes on in between."""
        for change in self._requests.look():
            yield from change.objects

    def names(self) -> list[str]:
        """What objects and actors are called; of very many, some."""
        return sorted([*self._requests.names(), *self._requests.names(ACTOR_PREFIX)])

    def why(self, what: int | str, deep: bool = False) -> Account | None:
        self._seconds = self._patience.deep if deep else self._patience.why
        return self._requests.why(what, deep)

    def end(self, reason: str) -> None:
        """End the session for everybody; returns before it has ended."""
        self.post(ev.EndSession(reason))

    # -- what `Requests` needs --------------------------------------------------------------------

    ended = None

    def check_open(self) -> None:
        """If it isn't, there will be no answer."""

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
        if seconds <= 0 or not select.select([self._sock], [], [], seconds)[0]:
            raise _silent(self.name)
        try:
            more = self._inbox.receive(self._sock.recvmsg)
        except ConnectionResetError:
            more = False
        if not more:
            raise SessionError(_missing(self.name))


def sessions() -> list[str]:
    """Names of this user's sessions that run; one whose server is stopped does."""
    return [name for name in names_found() if _listens(address_of(name))]


def processes(name: str) -> list[int]:
    """Pids of the session's server (first), forkserver and workers, and of what those forked.

    Found by their command lines, so that it works whether or not the server answers. The
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
    """How a session ended: in how many seconds, and how many processes had to be killed. ``was``:
    as it was then, None if it didn't answer."""

    seconds: float
    killed: int
    was: Snapshot | None


def stop(name: str, patience: Patience = USUAL) -> Stopped:
    """End a session for everybody, and wait until its processes are gone.

    Its drivers are told why. What hasn't ended by then is killed: see `Patience`.

    Raises
    ------
    SessionError
        If no such session runs, or if something is left that can't be killed.
    """
    began, was = time.monotonic(), None
    with suppress(NotAnsweringError), AdminConnection(name, patience) as connection:
        with suppress(NotAnsweringError):
            was = connection.summary()
        connection.end(f"The session was stopped from a shell: `workbench stop {name}`.")
    killed = clear(name, patience)
    return Stopped(time.monotonic() - began, killed, was)


def clear(name: str, patience: Patience = USUAL) -> int:
    """Wait until a session's processes are gone, killing what hasn't ended by then.

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
        sweep(directory)  # of a killed server the files are still there
    return killed


def _end(name: str, seconds: float) -> bool:
    """Whether the session's processes end within so many seconds, with those it still starts."""
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
        if pid in processes(name):  # the number is still theirs, so what was opened is it
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                killed += 1
    return killed


def _opened(pids: list[int]) -> Iterator[tuple[int, int]]:
    """(pid, descriptor) of those that live: a descriptor never means another process."""
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
    """A connected socket that doesn't block; None if nobody listens there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        sock.connect(str(address))
    except OSError as error:
        sock.close()
        if isinstance(error, BlockingIOError):  # too many wait to be accepted
            raise _silent(address.name.removesuffix(SOCKET)) from None
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return None
        raise
    return sock


ELSEWHERE = (
    "Sessions on Ray or Dask aren't seen from here: join one in a notebook with "
    "`%workbench start --engine ... --address ...`; there `%workbench` and `%objects` tell of it."
)
"""What a person is told who may look for one that isn't this machine's."""


def _missing(name: str) -> str:
    others = [other for other in sessions() if other != name]
    return (
        f"No session {name!r} is running on this machine.{did_you_mean(name, others)} There are: "
        f"{', '.join(others) or 'none'} (in {runtime_directory()}; another XDG_RUNTIME_DIR or "
        f"WORKBENCH_RUNTIME_DIR has others). {ELSEWHERE}"
    )


def _silent(name: str) -> NotAnsweringError:
    pids = processes(name)
    return NotAnsweringError(
        f"Session {name!r} doesn't answer: its server"
        f"{f' (pid {pids[0]})' if pids else ''} is stopped or hangs. "
        f"`workbench stop {name}` ends it."
    )

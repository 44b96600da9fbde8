"""The local engine: finds or starts this machine's server for a session, and connects to it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.config import Config, is_interactive
from workbench.core.snapshot import INCARNATION
from workbench.errors import SessionError
from workbench.options import Variables
from workbench.server.settings import Settings
from workbench.system import data_limit, limits

if TYPE_CHECKING:
    from workbench.client.driver import Driver

BACKLOG = 64

LONGEST_PATH = 40
"""Bytes of the runtime directory's path: with a session's name in it, a socket takes 107."""

SOCKET = ".workbench"
"""What a session's socket is called behind the session's name: nobody else's files are, so that
`sweep` can't take one of theirs for a dead session's, whatever directory a person names."""

_LOG = f"{SOCKET}.log"
_LOCK = "workbench.lock"

ATTEMPTS = 5
"""How often a session that ends while we join it is looked for again."""


@limits.explained(SessionError, "The session can't be started or joined")
def connect(config: Config, variables: Variables = (), namespace: str = "") -> Driver:
    """Join the session ``config`` names, or start it. Returns before the server has come up.

    ``variables`` of the environment are those of the processes that it starts, beside ours;
    ``namespace`` is that of names of actors.

    A session's unique name, as `Engine.session` gives it, is joined and never started.
    SessionError if the runtime directory can't be used, or the session won't have us.
    """
    if config.headroom:
        data_limit.prepare(config.headroom)
    directory = runtime_directory()
    name, unique, _ = config.session.partition(INCARNATION)
    name = name or f"{os.getpid()}-{secrets.token_hex(3)}"
    address = str(address_of(name))
    for attempt in range(1, ATTEMPTS + 1):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with locked(directory):
            try:
                sock.connect(address)
            except (FileNotFoundError, ConnectionRefusedError):
                sweep(directory)
                if unique:
                    sock.close()
                    raise _is_over(config.session) from None
                process, session = _launch(config, name, address, sock, variables)
                return _driver(sock, session, config, namespace, ServerProcess(process))
        engine = _driver(sock, "", config, namespace)
        try:
            engine.wait_welcome()
        except SessionError:  # it was just ending, and its file goes with it: look again
            engine.close()
            if attempt == ATTEMPTS:
                raise
        else:
            if not unique or engine.session == config.session:
                return engine
            engine.close()
            raise _is_over(config.session)
    raise AssertionError("unreachable")


def _is_over(session: str) -> SessionError:
    name = session.partition(INCARNATION)[0]
    return SessionError(
        f"Session {session!r} is over. `init(session={name!r})` joins or starts another of its "
        "name."
    )


def _driver(
    sock: socket.socket,
    session: str,
    config: Config,
    namespace: str,
    started: ServerProcess | None = None,
) -> Driver:
    """This process as a driver; ``started`` is the server if it has just been started for it."""
    # Late: while these are imported, numpy among them, the processes of the session come up.
    from workbench.client.base import ClientBase
    from workbench.client.driver import Driver
    from workbench.engine.presentation import process_label

    base = ClientBase(
        sock,
        session,
        linger=config.linger,
        label=process_label(),
        threads=config.cpus,
        huge=config.huge_pages,
        glance=config.glance,
    )
    if started is not None:
        base.workers, base.capacity = config.workers, config.memory  # as Welcome will say
        base.arena.welcome(config.memory, config.spill_dir)
    reap = started.reap if started is not None else None
    return Driver(base, config.linger, reap, config.log_to_driver, namespace)


def _launch(
    config: Config, name: str, address: str, sock: socket.socket, variables: Variables
) -> tuple[subprocess.Popen[bytes], str]:
    """Start a server on a socket that listens already, so that nobody has to wait for it.

    ``sock`` is connected before: should we be killed meanwhile, the server knows from its first
    connection that it is alone.
    """
    session = f"{name}{INCARNATION}{secrets.token_hex(4)}"
    log = f"{address}.log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, open(log, "wb") as output:
        listener.bind(address)
        listener.listen(BACKLOG)
        sock.connect(address)
        settings = Settings(
            session=session,
            listener=listener.fileno(),
            address=address,
            files=(log, address),
            config=config,
            threads=config.threads,
            path=tuple(p or os.getcwd() for p in sys.path),
            flags=_flags(),
            cells=is_interactive(),
        )
        process = subprocess.Popen(
            # -P: what lies in the notebook's directory is not the server's business.
            [sys.executable, "-P", "-m", "workbench.server", settings.text()],
            pass_fds=[listener.fileno()],
            env={**os.environ, **dict(variables)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # the notebook's interrupts and its end are not the server's
        )
    return process, session


def _flags() -> tuple[str, ...]:
    """What this Python was told about site-packages: workers import from the same places."""
    given = {"-s": sys.flags.no_user_site, "-S": sys.flags.no_site}
    return tuple(flag for flag, on in given.items() if on)


class ServerProcess:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def reap(self, timeout: float) -> None:
        """Wait for its end. If others still use the session it goes on, as it should."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        with warnings.catch_warnings():
            # If it runs on, Popen warns now, and reaps it when it starts another child.
            warnings.simplefilter("ignore", ResourceWarning)
            del self._process


# -- the runtime directory ------------------------------------------------------------------------


def runtime_directory() -> Path:
    """Where sockets lie: ours alone, mode 0700; SessionError if it is somebody else's, or open.

    Not a link in its place, but if a person has named one: who may write where the default lies
    could lead us anywhere.
    """
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    fallback = os.path.join(tempfile.gettempdir(), f"workbench-{os.getuid()}")
    named = os.environ.get("WORKBENCH_RUNTIME_DIR")
    directory = Path(
        os.path.realpath(named)
        if named
        else os.path.join(base, "workbench")
        if os.access(base, os.W_OK)
        else fallback
    )
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SessionError(
            f"{directory} can't be made, to keep sockets in: {error.strerror}. Set "
            "WORKBENCH_RUNTIME_DIR to a directory that can."
        ) from None
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise SessionError(
            f"{directory} must belong to you alone (mode 0700) and be no link, because "
            "whoever can enter it can reach your objects. Correct it with chmod, or set "
            "WORKBENCH_RUNTIME_DIR to another directory."
        )
    if len(os.fsencode(directory)) > LONGEST_PATH:
        raise SessionError(
            f"{directory} is too long a path for a unix socket (108 bytes in all). Set "
            "WORKBENCH_RUNTIME_DIR to a shorter one."
        )
    return directory


def address_of(name: str) -> Path:
    """Where the server of the session of that name listens."""
    return runtime_directory() / f"{name}{SOCKET}"


def names_found() -> list[str]:
    """Sessions that have a socket there; those whose server was killed too."""
    return sorted(_name(path) for path in _ours(runtime_directory(), SOCKET, stat.S_ISSOCK))


def sweep(directory: Path) -> list[str]:
    """Remove what servers that were killed left behind; returns their sessions' names.

    Called with the directory's lock held, so that no session is being born meanwhile. Only what
    has our names and is what we make is touched: the directory may hold other things.
    """
    gone = []
    for path in _ours(directory, SOCKET, stat.S_ISSOCK):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
                gone.append(_name(path))
            except OSError:
                pass
    for path in _ours(directory, _LOG, stat.S_ISREG):  # also of who was killed before its socket
        if not path.with_suffix("").exists():
            path.unlink(missing_ok=True)
    return gone


def _name(path: Path) -> str:
    return path.name.removesuffix(SOCKET)


def _ours(directory: Path, suffix: str, is_kind: Callable[[int], bool]) -> Iterator[Path]:
    """Files there with a name of ours, made by us, of that kind; links aren't."""
    for path in list(directory.glob(f"*{suffix}")):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if is_kind(status.st_mode) and status.st_uid == os.getuid():
                yield path


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """While nobody else starts a session there, or sweeps."""
    fd = os.open(directory / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)

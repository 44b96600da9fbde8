"""The server's end of the forkserver: starts that process, and again when it dies, and talks to it.

The server forks nothing itself: a fork of it would inherit every client's socket.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import msgspec

from workbench.core.instructions import Fork, Kill
from workbench.core.loop_events import WorkerExited, WorkerForked
from workbench.server.settings import OWN_PYTHONPATH, Settings
from workbench.wire.buffers import Inbox, Outbox

MODULE = "workbench.worker.forkserver"

_THREAD_LIMITS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "BLIS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
)  # fmt: skip

_decode = msgspec.msgpack.Decoder(list[WorkerForked | WorkerExited]).decode


class ForkserverClient:
    """The process that forks workers. ``sock`` is for the loop to poll; each start makes one.

    ``limits``: how many open files it may have, which is the server's own affair otherwise.
    """

    def __init__(self, settings: Settings, limits: tuple[int, int]) -> None:
        self._settings = settings
        self._limits = limits
        self.pids: dict[int, int] = {}  # of those that were asked for and live; 0: not yet forked
        self._turned_away: set[int] = set()  # pids of those of them that there was no room for
        self._start()

    def _start(self) -> None:
        env = os.environ.copy()
        for variable in _THREAD_LIMITS:  # so that N workers don't fight over the cores
            env.setdefault(variable, str(self._settings.threads))
        if "-S" in self._settings.flags:  # it finds us there, and gives the variable its own value
            env[OWN_PYTHONPATH] = env.get("PYTHONPATH", "")
            env["PYTHONPATH"] = os.pathsep.join(self._settings.path)
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as on_failure:
            on_failure.callback(ours.close)
            fd, settings = theirs.fileno(), self._settings.text()
            self._process = subprocess.Popen(
                [sys.executable, *self._settings.flags, "-P", "-m", MODULE, str(fd), settings],
                env=env, pass_fds=[fd], stdin=subprocess.DEVNULL,
            )  # fmt: skip
            on_failure.pop_all()
        resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE, self._limits)
        ours.setblocking(False)
        self.sock = ours
        self._outbox = Outbox()
        self._inbox = Inbox(_decode)

    def send(self, instruction: Fork | Kill) -> Iterator[WorkerExited]:
        """Tell it to fork, or to kill one of its own. If it died, a Fork starts another; yields
        what comes of it if that can't be."""
        if isinstance(instruction, Fork):
            if self.sock.fileno() < 0:
                try:
                    self._start()
                except OSError as error:  # out of processes, of descriptors, at this moment
                    why = os.strerror(error.errno or 0)
                    yield WorkerExited(instruction.worker, 0, unforked=why)
                    return
            self.pids[instruction.worker] = 0
        self._outbox.put(instruction)
        try:
            self._outbox.send(self.sock.sendmsg)
        except OSError:
            pass  # it died; the loop reads the end of the stream next

    def read(self) -> list[WorkerForked | WorkerExited]:
        """What it says. If it died, its workers did too: say so."""
        events: list[WorkerForked | WorkerExited] = []
        try:
            more = self._inbox.receive(self.sock.recvmsg)
        except BlockingIOError:
            return events
        except ConnectionResetError:
            more = False
        while messages := self._inbox.messages():
            events.append(messages.popleft())
        for place, event in enumerate(events):
            if isinstance(event, WorkerForked):
                self.pids[event.worker] = event.pid
                continue
            pid = self.pids.pop(event.worker, 0)
            if pid in self._turned_away:  # as if it had never been
                self._turned_away.discard(pid)
                events[place] = WorkerExited(event.worker, 0, unforked="no file descriptors left")
        if not more:
            with suppress(subprocess.TimeoutExpired):  # how it ended, not how we would end it
                self._process.wait(1)
            self.close()
            status = self._process.returncode or 1
            for worker, pid in self.pids.items():  # the kernel has killed them, or they never were
                if pid:
                    events.append(WorkerExited(worker, -signal.SIGKILL))
                else:
                    why = "the process that forks workers ended"
                    events.append(WorkerExited(worker, status, unforked=why))
            self.pids.clear()
            self._turned_away.clear()
        return events

    def turned_away(self, pid: int) -> None:
        """The server has no descriptor for this process's connection; it may be a worker."""
        if pid in self.pids.values():
            self._turned_away.add(pid)

    def close(self) -> None:
        """Hang up: it ends its workers and itself. Waits for that."""
        self.sock.close()
        if not any(self.pids.values()):  # it may be busy importing, and has nothing to end
            self._process.kill()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()  # and the kernel kills the workers after it
            self._process.wait()

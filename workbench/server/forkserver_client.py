"""The server's end of the forkserver: starts that process, and again when it dies, and talks to it.

The server forks nothing itself: a fork of it would inherit every client's socket.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import msgspec

from workbench.core.instructions import Fork, Kill
from workbench.core.loop_events import WorkerExited, WorkerForked
from workbench.server.settings import Settings
from workbench.wire.buffers import Inbox, Outbox

_THREAD_LIMITS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip

_decode = msgspec.msgpack.Decoder(list[WorkerForked | WorkerExited]).decode


class ForkserverClient:
    """The process that forks workers. ``sock`` is for the loop to poll; each start makes one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.pids: dict[int, int] = {}  # of those that were asked for and live; 0: not yet forked
        self._start()

    def _start(self) -> None:
        self.sock, theirs = socket.socketpair()
        self.sock.setblocking(False)
        self._outbox = Outbox()
        self._inbox = Inbox(_decode)
        env = os.environ.copy()
        for variable in _THREAD_LIMITS:  # so that N workers don't fight over the cores
            env.setdefault(variable, str(self._settings.threads))
        with theirs:
            fd, settings = theirs.fileno(), self._settings.text()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "workbench.worker.forkserver", str(fd), settings],
                env=env, pass_fds=[fd], stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def send(self, instruction: Fork | Kill) -> None:
        """Tell it to fork, or to kill one of its own. If it died, a Fork starts another."""
        if isinstance(instruction, Fork):
            self.pids[instruction.worker] = 0
            if self.sock.fileno() < 0:
                self._start()
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
        for event in events:
            if isinstance(event, WorkerForked):
                self.pids[event.worker] = event.pid
            else:
                self.pids.pop(event.worker, None)
        if not more:
            self.close()
            for worker, pid in self.pids.items():  # the kernel has killed them, or they never were
                unforked = "" if pid else "the process that forks workers ended"
                events.append(WorkerExited(worker, -signal.SIGKILL, unforked=unforked))
            self.pids.clear()
        return events

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

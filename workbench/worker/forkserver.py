"""`python -m workbench.worker.forkserver FD SETTINGS`: preloads what workers need, and forks them.

Single-threaded, so that a fork is safe. It talks only to the server, and ends with it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import math
import os
import select
import signal
import socket
import sys
import time
import traceback

import msgspec

from workbench.core.instructions import Fork, Kill
from workbench.core.loop_events import WorkerExited, WorkerForked
from workbench.server.forkserver_start import OWN_PYTHONPATH
from workbench.server.settings import Settings, settings_of
from workbench.system import limits
from workbench.system.machine import be_ended_first
from workbench.system.parent_death import die_with_parent
from workbench.wire.buffers import Inbox, Outbox
from workbench.worker.process import run_worker
from workbench.worker.remains import Remains

GRACE = 2.0
"""Seconds that a worker has to end by itself. One with a running task doesn't use them."""

ORPHANS_GRACE = 1.0
"""Seconds that what a worker leaves behind has after SIGTERM."""

REAPED = 0.5
"""Seconds for which the end waits for killed processes: some can't be killed, as another user's."""

_decode = msgspec.msgpack.Decoder(list[Fork | Kill]).decode


class Forkserver:
    def __init__(self, sock: socket.socket, settings: Settings) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._settings = settings
        self._inbox = Inbox(_decode)
        self._outbox = Outbox()
        self._children: dict[int, int] = {}  # pid → worker
        self._remains: dict[int, Remains] = {}  # by worker
        self._killed_at: dict[int, float] = {}  # pid → end of its grace; inf: it was killed
        self._ends_at = math.inf  # when no process has any more grace
        self._poll = select.poll()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only for the wakeup
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def run(self) -> None:
        """Serve until the server hangs up; then end all workers."""
        self._poll.register(self._sock, select.POLLIN)
        self._poll.register(self._wake_read, select.POLLIN)
        more = True
        while more:
            for fd, _ in self._poll.poll(self._timeout()):
                if fd == self._sock.fileno():
                    more = self._read()
                else:
                    os.read(self._wake_read, 4096)
            self._reap()
            self._kill_late()
            try:
                self._outbox.send(self._sock.sendmsg)
            except OSError:
                more = False
        self._end()

    def _read(self) -> bool:
        try:
            more = self._inbox.receive(self._sock.recvmsg)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        while messages := self._inbox.messages():
            instruction = messages.popleft()
            if isinstance(instruction, Fork):
                self._fork(instruction.worker)
            else:
                until = time.monotonic() + GRACE if instruction.grace else 0.0
                pids = [pid for pid, w in self._children.items() if w == instruction.worker]
                self._killed_at |= dict.fromkeys(pids, until)
        return more

    def _timeout(self) -> float | None:
        """Return the milliseconds until the next process is killed."""
        until = min(self._killed_at.values(), default=math.inf)
        return None if until == math.inf else max(until - time.monotonic(), 0.0) * 1000

    def _kill_late(self) -> None:
        now = time.monotonic()
        for pid in [pid for pid, until in self._killed_at.items() if until <= now]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            self._killed_at[pid] = math.inf

    def _fork(self, worker: int) -> None:
        forkserver = os.getpid()
        remains = None
        try:
            remains = Remains()
            pid = os.fork()
        except OSError as error:  # out of processes, of descriptors or of memory, at this moment
            if remains is not None:
                remains.close()
            why = limits.reason(error) or os.strerror(error.errno or 0)
            self._outbox.put(WorkerExited(worker, 0, unforked=why))
            return
        if pid:
            self._remains[worker] = remains
            self._children[pid] = worker
            self._outbox.put(WorkerForked(worker, pid))
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd, capture in enumerate(remains.captures, 1):
                capture.divert(fd)
            faulthandler.enable(2, all_threads=False)
            for fd in (self._sock.fileno(), self._wake_read, self._wake_write):
                os.close(fd)
            for other in self._remains.values():
                other.close()
            self._remains.clear()
            be_ended_first()
            run_worker(worker, forkserver, self._settings, remains)
            status = 0
        except Exception as error:
            os.write(2, (limits.reason(error) or traceback.format_exc()).encode())
        finally:
            os._exit(status)

    def _reap(self) -> bool:
        """Reap ended workers, and end processes that they started and left behind; False if no
        process is left.

        These have become our children: we are a subreaper, as each worker is while it lives.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            self._end_orphans()
            self._killed_at.pop(pid, None)
            worker = self._children.pop(pid, None)
            if worker is not None:
                remains = self._remains.pop(worker)
                self._outbox.put(remains.exit_event(worker, os.waitstatus_to_exitcode(status)))
                remains.close()

    def _end(self) -> None:
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        self._ends_at = until = time.monotonic() + GRACE
        for pid in self._children:
            self._killed_at[pid] = min(until, self._killed_at.get(pid, until))
        while self._reap() and (left := until + REAPED - time.monotonic()) > 0:
            timeout = self._timeout()
            if poll.poll(left * 1000 if timeout is None else min(left * 1000, timeout)):
                os.read(self._wake_read, 4096)
            self._kill_late()

    def _end_orphans(self) -> None:
        """Ask them to end, and kill them later: a process that removes what libraries keep on disk
        or in shared memory ignores SIGTERM, and ends by itself when all others have."""
        me, until = os.getpid(), min(time.monotonic() + ORPHANS_GRACE, self._ends_at)
        with contextlib.suppress(OSError), open(f"/proc/self/task/{me}/children", "rb") as file:
            for pid in map(int, file.read().split()):
                if pid not in self._children and pid not in self._killed_at:
                    self._killed_at[pid] = until
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGTERM)


def main() -> None:
    parent = os.getppid()
    settings = settings_of(sys.argv[2])
    die_with_parent(parent)
    if OWN_PYTHONPATH in os.environ:
        os.environ["PYTHONPATH"] = os.environ.pop(OWN_PYTHONPATH)
        if not os.environ["PYTHONPATH"]:
            del os.environ["PYTHONPATH"]
    own = [p for p in sys.path if p not in settings.path]
    sys.path.extend(p for p in settings.path if p not in sys.path)
    # What every worker needs, loaded once and shared by all of them copy-on-write. `freeze`
    # keeps the collector from touching (and so copying) those pages in each.
    import workbench.worker.preload  # noqa: F401

    if settings.cells:
        from workbench.host.shell import worker_shell

        worker_shell()

    # The driver's order is for tasks. If set earlier, a file beside the notebook that has the name
    # of a module of the standard library would have kept us from starting.
    sys.path[:] = [*settings.path, *own]
    gc.collect()
    gc.freeze()
    Forkserver(socket.socket(fileno=int(sys.argv[1])), settings).run()


if __name__ == "__main__":
    main()

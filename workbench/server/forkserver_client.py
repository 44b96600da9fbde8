"""The server's client of the forkserver: talks to it, and starts another one if it dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from workbench.core.instructions import Fork, Kill
from workbench.core.loop_events import WorkerExited, WorkerForked
from workbench.server.forkserver_start import Started, start
from workbench.system import limits
from workbench.wire.buffers import Inbox, Outbox

_decode = msgspec.msgpack.Decoder(list[WorkerForked | WorkerExited]).decode


class ForkserverClient:
    """The forkserver's process and socket. The loop polls ``sock``; each start makes a new one.

    ``started`` is the first process, None if it couldn't be started: the first Fork tries again;
    ``settings``: the text that it is started with; ``files``: how many it may have open, as the
    server had before it raised its own limit.
    """

    def __init__(self, started: Started | None, settings: str, files: tuple[int, int]) -> None:
        self._settings = settings
        self._files = files
        self.pids: dict[int, int] = {}  # of workers that were asked for and live; 0: not yet forked
        self._turned_away: set[int] = set()  # pids of workers that couldn't connect
        self._process: subprocess.Popen[bytes] | None = None
        self.sock = socket.socket()
        self.sock.close()
        self._outbox = Outbox()
        if started is not None:
            self._takes(started)

    def _takes(self, started: Started) -> None:
        self._process, self.sock = started
        self._outbox = Outbox()
        self._inbox = Inbox(_decode)

    def send(self, instruction: Fork | Kill) -> Iterator[WorkerExited]:
        """Have a worker forked or killed. If the forkserver died, a Fork starts another; if that
        fails, yield a WorkerExited."""
        if isinstance(instruction, Fork):
            if self.sock.fileno() < 0:
                try:
                    self._takes(start(self._settings, self._files))
                except OSError as error:  # no process or descriptor left now
                    why = limits.reason(error) or os.strerror(error.errno or 0)
                    yield WorkerExited(instruction.worker, 0, unforked=why)
                    return
            self.pids[instruction.worker] = 0
        self._outbox.put(instruction)
        try:
            self._outbox.send(self.sock.sendmsg)
        except OSError:
            pass  # it died; the loop reads the end of the stream next

    def read(self) -> list[WorkerForked | WorkerExited]:
        """Return its events. If it died, so did its workers: return their ends, too."""
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
            if pid in self._turned_away:  # as if it had not been forked
                self._turned_away.discard(pid)
                events[place] = WorkerExited(event.worker, 0, unforked="no file descriptors left")
        if not more:
            assert self._process is not None
            with suppress(subprocess.TimeoutExpired):  # its own exit status, not that of our kill
                self._process.wait(1)
            self.close()
            status = self._process.returncode or 1
            for worker, pid in self.pids.items():  # killed by the kernel, or never forked
                if pid:
                    events.append(WorkerExited(worker, -signal.SIGKILL))
                else:
                    why = "the process that forks workers ended"
                    events.append(WorkerExited(worker, status, unforked=why))
            self.pids.clear()
            self._turned_away.clear()
        return events

    def turned_away(self, pid: int) -> None:
        """Note that a process, which may be a worker, was refused: the server has no descriptor."""
        if pid in self.pids.values():
            self._turned_away.add(pid)

    def close(self) -> None:
        """Hang up, and wait until the forkserver has ended its workers and itself."""
        self.sock.close()
        if self._process is None:
            return
        if not any(self.pids.values()):  # it may be busy importing, and has nothing to end
            self._process.kill()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()  # and the kernel kills the workers after it
            self._process.wait()

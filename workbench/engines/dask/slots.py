"""The slots of a Dask worker: each task runs in a child process, so that it can be stopped, or
killed without the data that the worker keeps. The other side of it is `child`.

By a channel a child is sent a `RunHead`, and says bytes: messages for the keeper; True: its task
waits for others; False: it wants its slot back, and an answer; at last `HeadDone`. By another one
it is sent the id of a task to stop.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from workbench.engines.cluster.backend import Head, Native, StoredValue, TaskEnd
from workbench.engines.cluster.parcels import again
from workbench.host.remains import ChildRemains
from workbench.host.unsent import Piece
from workbench.options import Variables
from workbench.system.ki_protection import ki_protection

Heard = Callable[["SlotChild", Any], None]  # told of what a child says while its task runs


class RunHead(NamedTuple):
    """Run a ``head`` with the ``values`` of its deps and the natives ``inside``. Its session is at
    the ``scheduler``: an address, and Dask's security or None."""

    head: Head
    inside: tuple[Native, ...]
    values: tuple[StoredValue, ...] = ()
    scheduler: tuple[str, Any] = ("", None)


class HeadDone(NamedTuple):
    """It is over; descriptor 2 was read up to ``position``. ``leaves``: the process ends now."""

    end: TaskEnd
    values: tuple[StoredValue, ...]
    position: int
    leaves: bool


class Channel:
    """One end, with blocking calls. Several threads may ``send``; one may ``receive``."""

    def __init__(self, sock: socket.socket) -> None:
        self._connection = Connection(sock.detach())
        self._lock = threading.Lock()
        self.close = self._connection.close

    def send(self, message: Any) -> None:
        """Send a message; an interrupt waits until all of it is out. OSError if nobody listens."""
        if hasattr(message, "values"):
            message = message._replace(values=tuple(map(again, message.values)))
        buffers: list[pickle.PickleBuffer] = []
        body = pickle.dumps(message, 5, buffer_callback=buffers.append)
        with ki_protection(), self._lock:
            self._connection.send_bytes(len(buffers).to_bytes(4, "big") + body)
            for buffer in buffers:
                self._connection.send_bytes(buffer.raw())

    def receive(self) -> Any:
        """Return the next message. EOFError or OSError at the end. The wait may be interrupted."""
        self._connection.poll(None)
        with ki_protection():
            body = self._connection.recv_bytes()
            count = int.from_bytes(body[:4], "big")
            buffers = [self._connection.recv_bytes() for _ in range(count)]
        return pickle.loads(memoryview(body)[4:], buffers=buffers)


class ChildDied(Exception):  # noqa: N818 - it is told to people in other words
    """A child has ended amid its task. ``unsent``: what it showed last; ``worker``: its number."""

    def __init__(self, process: Any, words: str, unsent: Sequence[Piece]) -> None:
        super().__init__()
        self.worker, self.unsent = process.pid, unsent
        code: int = process.returncode
        self._how = f"was killed by signal {-code}" if code < 0 else f"ended ({code})"
        self._words = f" It last wrote:\n{words}" if words else ""

    def said(self, name: str) -> str:
        """Return what people are told, with the name of what it ran."""
        return f"The worker process {self._how} while it ran `{name}`.{self._words}"


class SlotChild:
    """One child process. One thread at a time runs tasks in it; any thread may stop them."""

    def __init__(self, variables: Variables = ()) -> None:
        self.killed = False
        self._task = 0  # what runs in it; 0: nothing
        self._position = 0
        self._lock = threading.Lock()  # or a stop would meet the next task
        self._remains = ChildRemains()
        ours, theirs = zip(*(socket.socketpair() for _ in range(2)), strict=True)
        fds = [*(each.fileno() for each in theirs), *self._remains.descriptors]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "workbench.engines.dask.child", *map(str, (os.getpid(), *fds))],
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **dict(variables)},
            start_new_session=True,  # its own programs are found by that, and Ctrl-C isn't ours
        )
        for each in theirs:
            each.close()
        self.work, self._control = Channel(ours[0]), Channel(ours[1])

    def run(self, message: RunHead, heard: Heard, is_stopped: Callable[[], bool]) -> HeadDone:
        """Run a task to its end; ChildDied if it kills its process."""
        with self._lock:
            self._task = task = message.head.task
        try:
            if is_stopped():
                self.stop(task, False)
            with suppress(OSError):  # who reads says it better
                self.work.send(message)
            while type(said := self.work.receive()) is not HeadDone:
                heard(self, said)
            self._position = said.position
            return said
        except (EOFError, OSError):
            self._end()
            words, unsent = self._remains.words(self._position), self._remains.pieces(task)
            raise ChildDied(self._process, words, unsent) from None
        finally:
            with self._lock:
                self._task = 0

    def stop(self, task: int, force: bool) -> None:
        """Interrupt the task, or kill its process, if the task runs here."""
        with self._lock:
            if self._task == task and force:
                self.kill()
            elif self._task == task:
                with suppress(OSError):
                    self._control.send(task)

    def kill(self) -> None:
        """Kill it, and what it has started."""
        self.killed = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it, and what it has started. Once."""
        self._end()
        self._remains.close()

    def _end(self) -> None:
        self.work.close()  # it hears that
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.01)  # if it ends by itself, its exit code is known
        self._control.close()
        self.kill()
        self._process.wait()


class Slots:
    """The children of one worker: as many as it has threads, and more while tasks wait."""

    def __init__(self, count: int, variables: Variables = ()) -> None:
        self._count, self._variables = count, variables
        self._idle = deque[SlotChild]()
        # Children live as long as the thread that made them: this one.
        self._maker = ThreadPoolExecutor(1, "workbench-slots")
        for _ in range(count):
            self._maker.submit(lambda: self._idle.append(SlotChild(variables)))

    def lease(self) -> SlotChild:
        """Return a child with nothing to do: behind those that are being made, if need be."""
        return (
            self._taken()
            or self._maker.submit(lambda: self._taken() or SlotChild(self._variables)).result()
        )

    def _taken(self) -> SlotChild | None:
        with suppress(IndexError):
            return self._idle.pop()
        return None

    def release(self, child: SlotChild, alive: bool = True) -> None:
        """Its task is over; ``alive``: it may have another one."""
        if alive and not child.killed and len(self._idle) < self._count:
            self._idle.append(child)
        else:
            child.close()

    def close(self) -> None:
        """End all children, and what they run: who reads one sees its end."""
        self._count = 0
        self._maker.shutdown()
        while (child := self._taken()) is not None:
            child.close()

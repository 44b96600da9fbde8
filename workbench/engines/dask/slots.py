"""The slots of a worker of Dask's: each task runs in a child process, so that it can be stopped, or
killed without the data that the worker keeps. This is the worker's side; the child's is `child`.

Dask's threads lease a child for a task, and read what it says until that is over. A child that has
died is replaced, and what it was doing is a `ChildDied`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import workbench
from workbench.engines.dask.channel import (
    AskHolder,
    Channel,
    ChildReady,
    Credentials,
    HeadDone,
    RunHead,
    StopTask,
)
from workbench.engines.dask.remains import ChildRemains
from workbench.host.unsent import Piece
from workbench.options import Variables
from workbench.system.machine import MemoryGauge

GRACE = 2.0
"""Seconds that a child has to end by itself."""

LAST_WORDS = 2000
"""Bytes of what a child wrote to stderr past Python that the error tells."""

Heard = Callable[[Any, list[int]], None]
"""Told of what a child says while its task runs, with descriptors that are the callee's."""


ChildSeen = tuple[int, int, list[int], bool, int, int]
"""What is told of a child: its number, pid, tasks, whether those wait for others, its actor (0:
none), and the bytes of memory that it has to itself."""

_gauge = functools.cache(MemoryGauge)


class ChildDied(Exception):  # noqa: N818 - it is told to people in other words
    """A child has ended in the middle of its task: with this exit code (negative: a signal).

    ``unsent`` is what it showed last, and hadn't sent; None if nobody knows.
    """

    def __init__(
        self, code: int, words: str, killed: bool, worker: int = 0,
        unsent: Sequence[Piece] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(code, words, killed)
        self.code, self.words, self.killed = code, words, killed
        self.worker, self.unsent = worker, unsent


class SlotChild:
    """One child process. One thread at a time runs tasks in it; any thread may stop them."""

    def __init__(self, number: int, security: bytes = b"", variables: Variables = ()) -> None:
        self.number = number
        self.task = 0
        """What runs in it; 0: nothing."""
        self.whose_output: Callable[[], int] = lambda: self.task
        """The task that is told to have shown what C code wrote last, should it die."""
        self.is_lent = False
        """Whether that waits for others."""
        self.killed = False
        """Whether a person wanted it to end."""
        self._position = 0
        self._remains: ChildRemains | None = None
        self._asking, self._asked = threading.Lock(), 0
        ours, theirs = zip(*(socket.socketpair() for _ in range(2)), strict=True)
        numbers = [str(each.fileno()) for each in theirs]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "workbench.engines.dask.child", *numbers, str(os.getpid()),
             str(number)],
            pass_fds=[each.fileno() for each in theirs],
            stdin=subprocess.DEVNULL,
            env={**_environment(), **dict(variables)},
            start_new_session=True,  # its own programs are found by that, and Ctrl-C isn't ours
        )  # fmt: skip
        for each in theirs:
            each.close()
        self._work, self._control = Channel(ours[0]), Channel(ours[1])
        self.pid = self._process.pid
        with contextlib.suppress(OSError):  # `wait_ready` says it better
            self._work.send(Credentials(security))

    def wait_ready(self) -> None:
        """Until it can take tasks. EOFError if it never will."""
        message, fds = self._work.receive()
        assert type(message) is ChildReady
        self._remains = ChildRemains(fds)

    def run(self, message: RunHead, fds: Sequence[int], heard: Heard) -> tuple[HeadDone, list[int]]:
        """Run a task to its end; ChildDied if it kills its process."""
        self.task, self.is_lent = message.task, False
        try:
            with contextlib.suppress(OSError):  # `hear` says it better
                self.begin(message, fds)
            while True:
                said, beside = self.hear()
                if type(said) is HeadDone:
                    return said, beside
                heard(said, beside)
        finally:
            self.task = 0

    def begin(self, message: RunHead, fds: Sequence[int]) -> None:
        """Send a task. OSError if nobody is there."""
        self._work.send(message, fds)

    def hear(self) -> tuple[Any, list[int]]:
        """What it says next, and the descriptors beside that. ChildDied if it has ended."""
        try:
            said, beside = self._work.receive()
        except (EOFError, OSError):
            raise self._died() from None
        if type(said) is HeadDone:
            self._position = said.position
        return said, beside

    def stop(self, task: int, force: bool) -> None:
        if force:
            self.kill()
        else:
            self.tell(StopTask(task))

    def say(self, message: Any) -> None:
        """To the task that runs, while `run` hears it."""
        self._work.send(message)

    def tell(self, message: Any) -> None:
        """To the child's second thread: any thread."""
        with contextlib.suppress(OSError):
            self._control.send(message)

    def ask_holder(self, session: str, question: bytes, seconds: float) -> bytes | None:
        """What it has of an object; None if it doesn't say so in time, or has ended. Any thread."""
        until = time.monotonic() + seconds
        with self._asking:
            self._asked += 1
            try:
                self._control.send(AskHolder(self._asked, session, question))
                while True:
                    told = self._control.receive_within(until - time.monotonic())
                    if told.number == self._asked:
                        answer: bytes = told.answer
                        return answer
            except (TimeoutError, EOFError, OSError, ValueError):
                return None

    def seen(self, tasks: list[int], actor: int = 0) -> ChildSeen:
        memory = _gauge().private(self.pid)
        return self.number, self.pid, tasks, self.is_lent, actor, memory

    def kill(self) -> None:
        self.killed = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _died(self) -> ChildDied:
        self._end(0.0)
        words, unsent = "", None
        if self._remains is not None:
            data = self._remains.words(self._position)[-LAST_WORDS:]
            words = data.decode(errors="backslashreplace").strip()
            unsent = self._remains.pieces(self.whose_output())
        self.close(0.0)
        return ChildDied(self._process.returncode, words, self.killed, self.number, unsent)

    def close(self, grace: float = GRACE) -> None:
        """End it, and what it has started. Idempotent."""
        self._end(grace)
        if self._remains is not None:
            self._remains.close()
            self._remains = None

    def _end(self, grace: float) -> None:
        self._work.close()  # it hears that, and ends in order
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace or 0.01)
        self._control.close()
        self._signal(signal.SIGKILL)
        self._process.wait()


def _environment() -> dict[str, str]:
    """Ours; and where Workbench is, if it was sent here as a file."""
    place = workbench.__file__.rpartition("/workbench/")[0]
    if not place.endswith(".zip"):
        return dict(os.environ)
    paths = [place, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class Slots:
    """The children of one worker. Any thread."""

    def __init__(
        self, count: int, first_number: int = 1, security: bytes = b"", variables: Variables = ()
    ) -> None:
        self._security, self._variables = security, variables
        self._lock = threading.Lock()
        self._count = count
        self._idle: deque[SlotChild] = deque()
        self._used: set[SlotChild] = set()
        self._numbers = deque(range(first_number, first_number + count))
        self._next = first_number + count
        self._stopping: dict[int, None] = {}  # tasks to be stopped when they begin
        self._closed = False
        # Children live as long as the thread that made them: this one.
        self._maker = ThreadPoolExecutor(1, "workbench-slots")
        self._coming = [self._maker.submit(self._make) for _ in range(count)]

    def lease(self) -> SlotChild:
        """A child with nothing to do; waits for a new one if there is none."""
        while True:
            coming: Future[SlotChild | None] | None = None
            with self._lock:
                if self._idle:
                    child = self._idle.pop()
                    self._used.add(child)
                    return child
                coming = self._coming.pop(0) if self._coming else self._maker.submit(self._make)
            made = coming.result()
            if made is None:
                raise RuntimeError("the worker is closing")
            with self._lock:
                self._used.add(made)
            try:
                made.wait_ready()
            except (EOFError, OSError):
                with self._lock:
                    self._used.discard(made)
                made.close(0.0)
                self._give_back(made.number)
                raise RuntimeError(
                    "A process for tasks could not be started; the worker's log says why."
                ) from None
            return made

    def release(self, child: SlotChild, alive: bool = True) -> None:
        """Its task is over; not ``alive``: another takes its place."""
        with self._lock:
            self._used.discard(child)
            has_enough = len(self._idle) >= self._count  # more were there while some waited
            if alive and not self._closed and not has_enough:
                self._idle.append(child)
                return
            self._numbers.appendleft(child.number)
            if not self._closed and not has_enough:
                self._coming.append(self._maker.submit(self._make))
        child.close(0.0 if not alive else GRACE)

    def run(
        self,
        message: RunHead,
        fds: Sequence[int],
        heard: Callable[[SlotChild, Any, list[int]], None],
    ) -> tuple[HeadDone, list[int]]:
        """Run a task in a child of ours. ChildDied if it kills it."""
        child, alive = self.lease(), False
        try:
            if message.task in self._stopping:
                del self._stopping[message.task]
                child.tell(StopTask(message.task))
            done, beside = child.run(message, fds, lambda said, fds: heard(child, said, fds))
            # It may have been killed just after its end.
            alive = not done.leaves and not child.killed
            return done, beside
        finally:
            self.release(child, alive)

    def stop(self, task: int, force: bool) -> bool:
        """Interrupt a task, or kill its process; whether it runs here.

        One that is yet to begin here is stopped when it does.
        """
        with self._lock:
            children = [child for child in self._used if child.task == task]
            if not children:
                self._stopping[task] = None
                while len(self._stopping) > 10_000:
                    del self._stopping[next(iter(self._stopping))]
                return False
            for child in children:  # with the lock: or it could run another one by then
                child.stop(task, force)
        return True

    def abandon(self, task: int) -> None:
        """Kill the process that runs a task, if one does."""
        with self._lock:
            for child in self._used:
                if child.task == task:
                    child.kill()

    def tell(self, task: int, message: Any) -> None:
        """To the child that runs that task, if one does."""
        with self._lock:
            children = [child for child in self._used if child.task == task]
        for child in children:
            child.tell(message)

    def own(self, child: SlotChild) -> None:
        """It is somebody's for good, who closes it, and then gives back its number: there will be
        another one for tasks."""
        with self._lock:
            self._used.discard(child)
            if not self._closed:
                self._coming.append(self._maker.submit(self._make))

    def free_number(self, child: SlotChild) -> None:
        with self._lock:
            self._numbers.appendleft(child.number)

    def running(self) -> int:
        """Tasks that are at work, not those that wait for others."""
        with self._lock:
            return sum(bool(child.task) and not child.is_lent for child in self._used)

    def children(self) -> list[SlotChild]:
        """Those that are at work or wait for some."""
        with self._lock:
            return [*self._used, *self._idle]

    def processes(self) -> list[ChildSeen]:
        """All children, also those to which no task has come yet."""
        with self._lock:
            coming = [c.result() for c in self._coming if c.done() and c.exception() is None]
            children = [*self._used, *self._idle, *filter(None, coming)]
        return [child.seen([child.task] if child.task else []) for child in children]

    def _make(self) -> SlotChild | None:
        with self._lock:
            if self._closed:
                return None
            if self._numbers:
                number = self._numbers.popleft()
            else:
                number, self._next = self._next, self._next + 1
        return SlotChild(number, self._security, self._variables)

    def _give_back(self, number: int) -> None:
        with self._lock:
            self._numbers.appendleft(number)

    def close(self) -> None:
        """End all children, and what they run."""
        with self._lock:
            self._closed = True
            idle, self._idle = list(self._idle), deque()
            coming, self._coming = self._coming, []
            used = list(self._used)
        for child in used:
            child.kill()  # the thread that reads it sees its end
        for each in coming:
            made = each.result()
            if made is not None:
                idle.append(made)
        for child in idle:
            child.close(GRACE)
        self._maker.shutdown()

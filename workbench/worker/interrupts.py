"""Stops running tasks: which thread each runs in, and which one an interrupt is meant for."""

from __future__ import annotations

import signal
import threading

from workbench.client.ki_protection import interrupt


class Interrupts:
    """See the module.

    Attributes
    ----------
    interruptible : int
        The task whose own code the main thread is in; 0 while it is in ours.
    """

    def __init__(self) -> None:
        self.interruptible = 0
        self._threads: dict[int, int] = {}  # task → the thread it runs in
        self._stopped: set[int] = set()  # tasks that somebody cancelled
        self._signals = 0  # those we sent ourselves, and that haven't come

    def stop(self, task: int) -> None:
        """Somebody cancelled it. The reading thread."""
        self._stopped.add(task)
        thread = self._threads.get(task)
        if thread is None:
            return
        if thread == threading.main_thread().ident:
            self._signals += 1
            signal.pthread_kill(thread, signal.SIGINT)  # ends a blocking system call too
        else:
            interrupt(thread)

    def was_stopped(self, task: int) -> bool:
        """Whether somebody cancelled it."""
        return task in self._stopped

    def on_signal(self, signum: int, frame: object) -> None:
        """SIGINT. Ours may come late, when another task runs: it isn't for that one."""
        ours, self._signals = self._signals > 0, 0
        here = self._threads.get(self.interruptible) == threading.get_ident()  # not in a thread
        if here and (not ours or self.interruptible in self._stopped):
            raise KeyboardInterrupt

    # -- the thread that runs the task ------------------------------------------------------------

    def enter(self, task: int) -> None:
        """It runs in this thread."""
        self._threads[task] = threading.get_ident()

    def check(self, task: int) -> None:
        """Raise KeyboardInterrupt if somebody cancelled it."""
        if task in self._stopped:
            raise KeyboardInterrupt

    def leave(self, task: int) -> None:
        """Its code has ended: from here on nobody interrupts it."""
        self.interruptible = 0
        self._threads.pop(task, None)

    def done(self, task: int) -> None:
        """It is over."""
        self._stopped.discard(task)

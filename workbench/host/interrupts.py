"""Stopping a running task: an interrupt in its thread, and in no other task's code.

The main thread gets a signal, which ends a blocking system call too; a task in another thread
gets a KeyboardInterrupt at its next bytecode.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time

from workbench.system.ki_protection import interrupt

AGAIN = 0.05, 0.1, 0.2, 0.4
"""Seconds after which a signal that its thread hasn't handled is sent again: a signal that arrives
just before a system call begins doesn't end that call."""


class Interrupts:
    """Stops tasks that run in this process."""

    def __init__(self) -> None:
        # The task whose own code the main thread is in, or 0: then signals don't raise.
        # Assigned, not set by a method: a signal can be delivered where a method begins.
        self.inside = 0
        self._threads: dict[int, int] = {}  # by task
        self._stopping: set[int] = set()
        self._signals = 0  # sent by us and not handled yet

    def begin(self, task: int) -> None:
        self._threads[task] = threading.get_ident()

    def enter(self, task: int) -> None:
        """Note that the task's own code comes next. Raises KeyboardInterrupt if it was stopped."""
        self.inside = task
        self.check(task)

    def check(self, task: int) -> None:
        if task in self._stopping:
            raise KeyboardInterrupt

    def end(self, task: int) -> None:
        """Note that the task's own code is over: it isn't interrupted any more."""
        self._threads.pop(task, None)

    def is_stopping(self, task: int) -> bool:
        return task in self._stopping

    def forget(self, task: int) -> None:
        self._stopping.discard(task)

    def stop(self, task: int) -> None:
        """Interrupt the task, now or when its code begins. Any thread but the task's."""
        self._stopping.add(task)
        thread = self._threads.get(task)
        if thread is None:
            return
        if thread == threading.main_thread().ident:
            self._signals += 1
            signal.pthread_kill(thread, signal.SIGINT)
            with contextlib.suppress(RuntimeError):  # no more threads allowed
                threading.Thread(target=self._insist, args=(task,), daemon=True).start()
        else:
            interrupt(thread)

    def _insist(self, task: int) -> None:
        """Send the signal again while it isn't handled and the task runs."""
        for seconds in AGAIN:
            time.sleep(seconds)
            thread = self._threads.get(task)
            is_ours = signal.getsignal(signal.SIGINT) == self.handle  # not one of the task's own
            if thread is None or not self._signals or not is_ours:
                return
            self._signals += 1
            signal.pthread_kill(thread, signal.SIGINT)

    def handle_own(self, signum: int, frame: object) -> None:
        """Handle SIGINT where others send it, too, for reasons of theirs: only `stop` counts."""
        if self._signals:
            self.handle(signum, frame)

    def handle(self, signum: int, frame: object) -> None:
        """Handle SIGINT. Ours may come late, when another task runs: it doesn't stop that one."""
        ours, self._signals = self._signals > 0, 0
        here = self._threads.get(self.inside) == threading.get_ident()  # not in a thread
        if here and (not ours or self.inside in self._stopping):
            raise KeyboardInterrupt

"""Whose code a thread runs: the task's that started it, also when that is over."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from weakref import WeakSet

from tests.patience import TIMEOUT
from workbench.host.task_context import MANY, TaskContext


@dataclass(frozen=True)
class Named:
    task: int
    name: str = ""


class Talker(threading.Thread):
    """Notes whose code it runs, each time it is asked."""

    def __init__(self, work: TaskContext[Named]) -> None:
        super().__init__(daemon=True)
        self.found: list[int | None] = []
        self._work = work
        self._ask, self._told = threading.Semaphore(0), threading.Semaphore(0)
        self._over = False
        work.starts(self)
        self.start()

    def run(self) -> None:
        while self._ask.acquire() and not self._over:
            run = self._work.current
            self.found.append(None if run is None else run.task)
            self._told.release()

    def ask(self) -> int | None:
        self._ask.release()
        assert self._told.acquire(timeout=TIMEOUT)
        return self.found[-1]

    def end(self) -> None:
        self._over = True
        self._ask.release()
        self.join(TIMEOUT)


def test_a_thread_is_its_tasks_as_long_as_it_lives() -> None:
    work = TaskContext[Named]()
    one, two, three = Named(1), Named(2), Named(3)
    with work.task(one):
        talker = Talker(work)
        assert talker.ask() == 1
        assert work.leaves_threads(one)
    assert talker.ask() == 1
    assert work.is_active(1)
    with work.task(two):
        assert talker.ask() == 1
        assert not work.leaves_threads(two)
    assert not work.is_active(2)
    assert work.current is None
    talker.end()
    with work.task(three):
        assert not work.leaves_threads(three)
    assert not work.is_active(1)


def test_an_executors_thread_works_for_who_runs() -> None:
    work = TaskContext[Named]()
    start = threading.Thread.start
    with ThreadPoolExecutor(1) as pool:
        executor_starts = threading.Event()

        def noted(thread: threading.Thread) -> None:
            work.starts(thread)
            executor_starts.set()
            start(thread)

        def ask() -> int | None:
            run = pool.submit(lambda: work.current).result(TIMEOUT)
            return None if run is None else run.task

        threading.Thread.start = noted  # type: ignore[method-assign]
        try:
            with work.task(Named(1)):
                assert ask() == 1
                assert work.leaves_threads(Named(1))
        finally:
            threading.Thread.start = start  # type: ignore[method-assign]
        assert executor_starts.is_set()
        assert ask() == 1
        with work.task(Named(2)):
            assert ask() == 2


def test_threads_that_have_ended_are_forgotten_within_a_long_task() -> None:
    work, kept = TaskContext[Named](), WeakSet[threading.Thread]()
    with work.task(Named(1)):
        for _ in range(2 * MANY):
            thread = threading.Thread(target=int)
            kept.add(thread)
            work.starts(thread)
            thread.start()
            thread.join()
        assert len(kept) <= MANY + 1

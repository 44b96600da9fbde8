"""Chunks of `Executor.map`: each has as many calls as take a few milliseconds."""

from __future__ import annotations

import contextvars
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from workbench.engine.lending_future import when_over
from workbench.errors import TaskError
from workbench.interop import calls
from workbench.interop.task_futures import stop
from workbench.system.ki_protection import ki_protection

AHEAD = 4
"""Submitted chunks per worker, from the start on, while the duration of calls isn't known."""

CHUNK_SECONDS = 0.005
"""Seconds that a chunk should take: some fifty times the cost of submitting one."""

MOST_CALLS = 1000
"""Most calls in one chunk."""


class MapChunks:
    """One `Executor.map`: chunks of calls, in order, each a future.

    With a ``size`` all chunks are submitted at once, or ``most`` ahead of the results' reader.
    Without, the end of each chunk submits the next, of about `CHUNK_SECONDS`.
    """

    def __init__(
        self,
        submit: Callable[[calls.Chunk], Future[calls.ChunkResult]],
        workers: int,
        each: Iterable[Any],
        size: int | None,
        most: int | None,
    ) -> None:
        self._submit_chunk = submit
        self._size = size
        if most is None:
            each = each if isinstance(each, list) else list(each)
            self._left = len(each)  # used without a ``size``
        self._calls = iter(each)
        self._workers = workers
        self._context = contextvars.copy_context()  # says where its prints appear
        self._chunks: deque[Future[calls.ChunkResult]] = deque()
        self._is_over = False  # all calls were submitted
        self._error: BaseException | None = None  # what kept the next chunk from being submitted
        self._done = 0  # calls, and how long they took
        self._seconds = 0.0
        self._changed = threading.Condition()  # guards all of the above
        if size is None:
            most = AHEAD * workers
        for _ in itertools.count() if most is None else range(most):
            if not self._submit():
                break

    def _submit(self) -> bool:
        """Submit the next chunk; False if there is none."""
        with self._changed:
            if self._is_over:
                return False
            chunk = list(itertools.islice(self._calls, self._size or self._best_size()))
            if not chunk:
                self._is_over = True
                return False
            if self._size is None:
                self._left -= len(chunk)
            future = self._submit_chunk(chunk)
            self._chunks.append(future)
        if self._size is None:
            when_over(future, self._next)
        return True

    def _best_size(self) -> int:
        each = self._seconds / self._done if self._done else CHUNK_SECONDS
        share = self._left // (2 * self._workers)  # so that no worker has long ones alone at last
        return max(1, min(MOST_CALLS, share, int(CHUNK_SECONDS / max(each, 1e-7))))

    def _next(self, future: Future[calls.ChunkResult]) -> None:
        """Submit the next chunk after one is over. In the executor's or the cancelling thread."""
        with self._changed:
            try:
                if future.cancelled():
                    self._is_over, self._calls = True, iter(())  # the reader wants no more
                elif future.exception() is None:
                    ran = future.result()
                    self._done += len(ran.results)
                    self._seconds += ran.seconds
                    self._context.run(self._submit)
            except BaseException as error:  # the session has ended
                self._error = error
            self._changed.notify_all()

    def results(self, end: float | None) -> Iterator[Any]:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._chunks or self._is_over or self._error)
                    if not self._chunks:
                        if self._error is not None:
                            raise self._error
                        return
                    first = self._chunks[0]
                left = None if end is None else end - time.monotonic()
                try:
                    ran = first.result(left)
                finally:
                    del first  # an error refers to this frame: a cycle would keep both
                with self._changed:
                    self._chunks.popleft()
                if self._size is not None:
                    self._submit()
                results, errors = ran.results, [ran.error]
                del ran
                results.reverse()
                for _ in range(len(results)):  # only the caller holds each result
                    yield results.pop()
                _raise_last(errors)
        finally:
            with ki_protection():  # Python ignores what a dropped iterator raises
                stop(self._end(), begun=False)

    def _end(self) -> deque[Future[calls.ChunkResult]]:
        """Submit no more chunks; return those that nobody has read. They refer to us."""
        with self._changed:
            self._is_over, self._calls = True, iter(())
            chunks, self._chunks = self._chunks, deque()
        return chunks


def _raise_last(errors: list[TaskError | None]) -> None:
    """Raise the last error, if it is one; then only whoever catches it has it."""
    error = errors.pop()
    if error is not None:
        try:
            raise error
        finally:
            del error

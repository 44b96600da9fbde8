"""What `Pool`'s calls return beside values: results to wait for, and iterators of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from multiprocessing import TimeoutError as PoolTimeoutError
from multiprocessing import pool as processes
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from workbench.engine.lending_future import when_over
from workbench.errors import SerializationError, TaskError
from workbench.interop import calls
from workbench.interop.person_frames import without_ours
from workbench.interop.task_futures import waiting

T = TypeVar("T")


class AsyncResult(Generic[T]):
    """The result of calls that may still run, as `multiprocessing.pool.AsyncResult`.

    ``value`` makes it from all that the calls returned.
    """

    def __init__(
        self,
        futures: list[Future[Any]],
        value: Callable[[list[Any]], T],
        callback: Callable[[T], object] | None,
        error_callback: Callable[[BaseException], object] | None,
    ) -> None:
        self._done: Future[T] = Future()
        self._futures = futures
        self._value = value
        self._left = len(futures)
        self._is_over = False
        self._lock = threading.Lock()
        if callback is not None or error_callback is not None:
            self._done.add_done_callback(lambda done: _call_back(done, callback, error_callback))
        for future in futures:
            when_over(future, self._one_done)
        if not futures:
            self._done.set_result(value([]))

    def _one_done(self, future: Future[Any]) -> None:
        with self._lock:
            self._left -= 1
            error = _error_of(future)
            if self._is_over or (self._left and error is None):
                return
            self._is_over = True
        futures, self._futures = self._futures, []  # they refer to us: a cycle keeps results
        if error is not None:
            self._done.set_exception(error)
        else:
            self._done.set_result(self._value([each.result() for each in futures]))

    def get(self, timeout: float | None = None) -> T:
        """Wait for the result and return it, or raise what was raised.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        object

        Raises
        ------
        multiprocessing.TimeoutError
            If time is up.
        """
        try:
            with waiting(self._futures):
                return self._done.result(timeout)
        except BaseException as error:
            if isinstance(error, TimeoutError) and not self._done.done():
                raise PoolTimeoutError(f"The result wasn't there after {timeout} s.") from error
            without_ours(error)  # the call's own error, or an interrupt
            raise

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the calls are over.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.
        """
        with waiting(self._futures):
            wait([self._done], timeout)

    def ready(self) -> bool:
        """Return True if the calls are over.

        Returns
        -------
        bool
        """
        return self._done.done()

    def successful(self) -> bool:
        """Return True if there is a result, False if a call failed.

        Returns
        -------
        bool

        Raises
        ------
        ValueError
            If the calls aren't over.
        """
        if not self.ready():
            raise ValueError("It isn't known yet: the calls aren't over.")
        return self._done.exception() is None


class Results(Generic[T]):
    """Iterator of `Pool.imap` and `Pool.imap_unordered`. Results of one chunk come together."""

    def __init__(
        self,
        submitted: Iterator[Future[calls.ChunkResult]],
        ahead: int,
        ordered: bool,
    ) -> None:
        self._submitted = submitted  # asking for the next future submits a chunk
        self._ordered = ordered
        self._finished: SimpleQueue[Future[calls.ChunkResult]] = SimpleQueue()
        self._waiting: deque[Future[calls.ChunkResult]] = deque()
        self._results: deque[T] = deque()
        self._error: BaseException | None = None  # raised after these results
        self._failure: Exception | None = None  # raised after all submitted chunks
        for _ in range(ahead):
            self._submit()

    def _submit(self) -> None:
        try:
            future = next(self._submitted, None)
        except Exception as error:  # raised by the items' iterable: passed on in its place
            self._failure, self._submitted = error, iter(())
            return
        if future is not None:
            self._waiting.append(future)
            if not self._ordered:
                when_over(future, self._finished.put)

    def __iter__(self) -> Iterator[T]:
        return self

    def next(self, timeout: float | None = None) -> T:
        """Return the next result.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        object

        Raises
        ------
        StopIteration
            If there are no more.
        multiprocessing.TimeoutError
            If time is up.
        """
        while not self._results:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if not self._waiting and self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if not self._waiting:
                raise StopIteration
            future = self._next(timeout)
            self._waiting.remove(future)
            self._submit()
            if future.cancelled() or future.exception() is not None:
                raise _error_of(future) or CancelledError()
            ran = future.result()
            self._results.extend(ran.results)
            self._error = ran.error
        return self._results.popleft()

    __next__ = next  # noqa: A003 - the method above, which is multiprocessing's

    def _next(self, timeout: float | None) -> Future[calls.ChunkResult]:
        late = PoolTimeoutError(f"The next result wasn't there after {timeout} s.")
        if not self._ordered:
            try:
                with waiting(self._waiting, some=True):
                    return self._finished.get(timeout=timeout)
            except Empty:
                raise late from None
        with waiting([self._waiting[0]]):
            if not wait([self._waiting[0]], timeout).done:
                raise late
        return self._waiting[0]


def _error_of(future: Future[Any]) -> BaseException | None:
    if future.cancelled():
        return CancelledError()
    error = future.exception()
    if error is None and isinstance(future.result(), calls.ChunkResult):
        error = future.result().error
    if isinstance(error, TaskError) and isinstance(error, SerializationError) and not error.frames:
        return _as_multiprocessing(error)
    return error


def _as_multiprocessing(error: TaskError) -> Exception:
    """Return multiprocessing's error for a result that couldn't be pickled."""
    kind: Any = processes.MaybeEncodingError  # type: ignore[attr-defined]
    told: Exception = kind(error, f"what {error.task} returned")
    vars(told).update(exc=str(error), value=f"what {error.task} returned")  # the text as it is
    return told


def _call_back(
    done: Future[T],
    callback: Callable[[T], object] | None,
    error_callback: Callable[[BaseException], object] | None,
) -> None:
    error = done.exception()
    if error is None and callback is not None:
        callback(done.result())
    elif error is not None and error_callback is not None:
        error_callback(error)

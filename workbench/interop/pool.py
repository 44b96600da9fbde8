"""`Pool`: the interface of `multiprocessing.Pool` over the session's pool."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, wait
from multiprocessing import TimeoutError as PoolTimeoutError
from queue import Empty, SimpleQueue
from typing import Any, Generic, NoReturn, Self, TypeVar

from workbench.interop import calls
from workbench.interop.executor import Executor
from workbench.interop.task_futures import stop

T = TypeVar("T")

CHUNKS = 4
"""Chunks for each worker that `Pool.map` makes of its calls, as multiprocessing's does."""


class Pool:
    """Runs calls on the session's pool: for code that has a `multiprocessing.Pool`.

    Parameters
    ----------
    processes : int, optional
        How many of its calls run at a time. Default, and most: as many as the pool has workers.
    initializer : callable, optional
        Called in each worker before the first of the calls there.
    initargs : tuple
        Its arguments.
    maxtasksperchild : int, optional
        multiprocessing's; the workers are the session's, so it changes nothing.
    context : object, optional
        multiprocessing's; it changes nothing.

    Raises
    ------
    ValueError
        If ``processes`` is less than 1.
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: object = None,
    ) -> None:
        if maxtasksperchild is not None and maxtasksperchild < 1:
            raise ValueError(f"maxtasksperchild={maxtasksperchild!r} must be 1 or more, or None.")
        self._executor = Executor(processes, initializer=initializer, initargs=tuple(initargs))
        self._futures: set[Future[Any]] = set()
        self._is_closed = False

    # -- one call ---------------------------------------------------------------------------------

    def apply(
        self,
        func: Callable[..., T],
        args: Iterable[Any] = (),
        kwds: Mapping[str, Any] | None = None,
    ) -> T:
        """Call a function on a worker, and wait.

        Parameters
        ----------
        func : callable
            What to call.
        args : iterable
            Its positional arguments.
        kwds : mapping, optional
            Its keyword arguments.

        Returns
        -------
        object
            What it returns; what it raises is raised.
        """
        return self.apply_async(func, args, kwds).get()

    def apply_async(
        self,
        func: Callable[..., T],
        args: Iterable[Any] = (),
        kwds: Mapping[str, Any] | None = None,
        callback: Callable[[T], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> AsyncResult[T]:
        """The same, without waiting.

        Parameters
        ----------
        func : callable
            What to call.
        args : iterable
            Its positional arguments.
        kwds : mapping, optional
            Its keyword arguments.
        callback, error_callback : callable, optional
            Called with the result, or with what was raised, in a thread of this process.

        Returns
        -------
        AsyncResult
        """
        future = self._submit(func, *args, **(kwds or {}))
        return AsyncResult([future], _first, callback, error_callback)

    # -- many -------------------------------------------------------------------------------------

    def map(
        self, func: Callable[[Any], T], iterable: Iterable[Any], chunksize: int | None = None
    ) -> list[T]:
        """Call a function with each item, and wait for all.

        Parameters
        ----------
        func : callable
            Called with one item.
        iterable : iterable
            The items.
        chunksize : int, optional
            How many calls are sent as one. Default: such that each worker gets four chunks.

        Returns
        -------
        list
            The results, in order.
        """
        return self.map_async(func, iterable, chunksize).get()

    def map_async(
        self,
        func: Callable[[Any], T],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callable[[list[T]], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> AsyncResult[list[T]]:
        """The same, without waiting.

        Parameters
        ----------
        func : callable
            Called with one item.
        iterable : iterable
            The items.
        chunksize : int, optional
            How many calls are sent as one.
        callback, error_callback : callable, optional
            Called with the list of results, or with what was raised, in a thread of this process.

        Returns
        -------
        AsyncResult
        """
        each = ((item,) for item in iterable)
        return self._map_async(func, each, chunksize, callback, error_callback)

    def starmap(
        self,
        func: Callable[..., T],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
    ) -> list[T]:
        """`map` with several arguments for each call.

        Parameters
        ----------
        func : callable
            Called with the arguments of one item.
        iterable : iterable of iterable
            The arguments.
        chunksize : int, optional
            How many calls are sent as one.

        Returns
        -------
        list
            The results, in order.
        """
        return self.starmap_async(func, iterable, chunksize).get()

    def starmap_async(
        self,
        func: Callable[..., T],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Callable[[list[T]], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> AsyncResult[list[T]]:
        """`map_async` with several arguments for each call.

        Parameters
        ----------
        func : callable
            Called with the arguments of one item.
        iterable : iterable of iterable
            The arguments.
        chunksize : int, optional
            How many calls are sent as one.
        callback, error_callback : callable, optional
            Called with the list of results, or with what was raised, in a thread of this process.

        Returns
        -------
        AsyncResult
        """
        return self._map_async(func, map(tuple, iterable), chunksize, callback, error_callback)

    def imap(
        self, func: Callable[[Any], T], iterable: Iterable[Any], chunksize: int = 1
    ) -> Results[T]:
        """The results one after the other, in order.

        Parameters
        ----------
        func : callable
            Called with one item.
        iterable : iterable
            The items. They are gone through as results come, some ahead.
        chunksize : int
            How many calls are sent as one.

        Returns
        -------
        iterator
            Its ``next`` takes a timeout in seconds.
        """
        return Results(self, func, iterable, chunksize, ordered=True)

    def imap_unordered(
        self, func: Callable[[Any], T], iterable: Iterable[Any], chunksize: int = 1
    ) -> Results[T]:
        """The results one after the other, as they come.

        Parameters
        ----------
        func : callable
            Called with one item.
        iterable : iterable
            The items. They are gone through as results come, some ahead.
        chunksize : int
            How many calls are sent as one.

        Returns
        -------
        iterator
            Its ``next`` takes a timeout in seconds.
        """
        return Results(self, func, iterable, chunksize, ordered=False)

    # -- its end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Take no more calls."""
        self._is_closed = True
        self._executor.shutdown(wait=False)

    def terminate(self) -> None:
        """Take no more calls, cancel those that haven't begun, and stop those that run."""
        self.close()
        for future in list(self._futures):
            stop(future)

    def join(self) -> None:
        """Wait for all calls.

        Raises
        ------
        ValueError
            Unless it was closed or terminated before.
        """
        if not self._is_closed:
            raise ValueError("This pool still takes calls: call close() or terminate() first.")
        self._executor.shutdown(wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.terminate()

    def __reduce__(self) -> NoReturn:
        raise NotImplementedError("A pool can't be sent to another process: make one there.")

    # -- for all of them --------------------------------------------------------------------------

    def _submit(self, func: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if self._is_closed:
            raise ValueError("This pool was closed: it takes no more calls.")
        future = self._executor.submit(func, *args, **kwargs)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def _map_async(
        self,
        func: Callable[..., T],
        each: Iterable[tuple[Any, ...]],
        chunksize: int | None,
        callback: Callable[[list[T]], object] | None,
        error_callback: Callable[[BaseException], object] | None,
    ) -> AsyncResult[list[T]]:
        arguments = list(each)
        if chunksize is None:
            chunksize = -(-len(arguments) // (CHUNKS * self._executor.workers()))
        function = calls.Each(func)
        futures = [self._submit(function, chunk) for chunk in _chunks(arguments, chunksize)]
        return AsyncResult(futures, _all, callback, error_callback)


class AsyncResult(Generic[T]):
    """What will come of calls: `multiprocessing.pool.AsyncResult`.

    Parameters
    ----------
    futures : list of Future
        Of the calls.
    value : callable
        What the result is, of what all of them returned.
    callback, error_callback : callable, optional
        Called with the result, or with what was raised.
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
        self._lock = threading.Lock()
        if callback is not None or error_callback is not None:
            self._done.add_done_callback(lambda done: _tell(done, callback, error_callback))
        for future in futures:
            future.add_done_callback(self._one_done)
        if not futures:
            self._done.set_result(value([]))

    def _one_done(self, future: Future[Any]) -> None:
        with self._lock:
            self._left -= 1
            error = _error_of(future)
            over = self._left == 0 or error is not None
            if not over or self._done.done():
                return
        if error is not None:
            self._done.set_exception(error)
        else:
            self._done.set_result(self._value([each.result() for each in self._futures]))

    def get(self, timeout: float | None = None) -> T:
        """The result; what was raised is raised.

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
            return self._done.result(timeout)
        except TimeoutError as error:
            if self._done.done():  # it is the call's own
                raise
            raise PoolTimeoutError(f"The result wasn't there after {timeout} s.") from error

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.
        """
        wait([self._done], timeout)

    def ready(self) -> bool:
        """Whether it is over.

        Returns
        -------
        bool
        """
        return self._done.done()

    def successful(self) -> bool:
        """Whether there is a result.

        Returns
        -------
        bool

        Raises
        ------
        ValueError
            If it isn't over.
        """
        if not self.ready():
            raise ValueError("It isn't known yet: the calls aren't over.")
        return self._done.exception() is None


class Results(Generic[T]):
    """The iterator of `Pool.imap` and `Pool.imap_unordered`. Results of one chunk come together."""

    def __init__(
        self,
        pool: Pool,
        func: Callable[..., T],
        iterable: Iterable[Any],
        chunksize: int,
        ordered: bool,
    ) -> None:
        if chunksize < 1:
            raise ValueError(f"chunksize={chunksize!r} must be 1 or more.")
        self._pool = pool
        self._function = calls.Each(func)
        self._chunks = _chunks(((item,) for item in iterable), chunksize)
        self._ordered = ordered
        self._came: SimpleQueue[Future[calls.Ran]] = SimpleQueue()
        self._waiting: deque[Future[calls.Ran]] = deque()
        self._results: deque[T] = deque()
        self._error: BaseException | None = None  # what comes after those
        for _ in range(CHUNKS * pool._executor.workers()):
            self._submit()

    def _submit(self) -> None:
        for chunk in itertools.islice(self._chunks, 1):
            future = self._pool._submit(self._function, chunk)
            self._waiting.append(future)
            if not self._ordered:
                future.add_done_callback(self._came.put)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        return self.next()

    def next(self, timeout: float | None = None) -> T:
        """The next result.

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
            if not self._waiting:
                raise StopIteration
            future = self._next(timeout)
            self._waiting.remove(future)
            self._submit()
            ran = future.result()
            self._results.extend(ran.results)
            self._error = ran.error
        return self._results.popleft()

    def _next(self, timeout: float | None) -> Future[calls.Ran]:
        late = PoolTimeoutError(f"The next result wasn't there after {timeout} s.")
        if not self._ordered:
            try:
                return self._came.get(timeout=timeout)
            except Empty:
                raise late from None
        if not wait([self._waiting[0]], timeout).done:
            raise late
        return self._waiting[0]


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    each = iter(items)
    return iter(lambda: list(itertools.islice(each, max(size, 1))), [])


def _error_of(future: Future[Any]) -> BaseException | None:
    if future.cancelled():
        return CancelledError()
    error = future.exception()
    if error is None and isinstance(future.result(), calls.Ran):
        error = future.result().error
    return error


def _first(results: list[Any]) -> Any:
    return results[0]


def _all(chunks: list[calls.Ran]) -> list[Any]:
    return [result for ran in chunks for result in ran.results]


def _tell(
    done: Future[T],
    callback: Callable[[T], object] | None,
    error_callback: Callable[[BaseException], object] | None,
) -> None:
    error = done.exception()
    if error is None and callback is not None:
        callback(done.result())
    elif error is not None and error_callback is not None:
        error_callback(error)

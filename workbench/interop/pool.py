"""`Pool`: the interface of `multiprocessing.Pool` over the session's pool."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, NoReturn, Self, TypeVar

from workbench.engine.lending_future import when_over
from workbench.interop import calls
from workbench.interop.executor import Executor, at_least_one
from workbench.interop.pool_results import AsyncResult, Results
from workbench.interop.sent_functions import Kind
from workbench.interop.task_futures import stop

T = TypeVar("T")

CHUNKS = 4
"""Chunks per worker that `Pool.map` makes of its calls, as multiprocessing does."""


class Pool:
    """Runs calls on the session's pool: for code that uses a `multiprocessing.Pool`.

    Parameters
    ----------
    processes : int, optional
        How many of its calls run at a time. Default and maximum: the workers of the pool.
    initializer : callable, optional
        Called in each worker before the first call there.
    initargs : tuple
        Arguments of ``initializer``.
    maxtasksperchild : int, optional
        As in multiprocessing; the workers are the session's, so it changes nothing.
    context : object, optional
        As in multiprocessing; it changes nothing.

    Raises
    ------
    ValueError
        If ``processes`` is less than 1, or ``maxtasksperchild`` isn't a whole number from 1 on.
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: object = None,
    ) -> None:
        try:
            at_least_one("maxtasksperchild", maxtasksperchild)
        except TypeError as error:
            raise ValueError(str(error)) from None
        size = at_least_one("processes", processes)
        self._executor = Executor(size, initializer=initializer, initargs=tuple(initargs))
        self._futures: dict[Future[Any], None] = {}
        self._is_closed = self._is_terminated = False

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
            What it returns. If it raises, the error is raised here.
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
        """Call a function on a worker, without waiting.

        Parameters
        ----------
        func, args, kwds
            As in `apply`.
        callback, error_callback : callable, optional
            Called with the result, or with what was raised, in a thread of this process.

        Returns
        -------
        AsyncResult
        """
        future = self._note(self._open().submit(func, *args, **(kwds or {})))
        return AsyncResult([future], operator.itemgetter(0), callback, error_callback)

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
        """Call a function with each item, without waiting.

        Parameters
        ----------
        func, iterable, chunksize
            As in `map`.
        callback, error_callback : callable, optional
            Called with the list of results, or with what was raised, in a thread of this process.

        Returns
        -------
        AsyncResult
        """
        return self._map_async(calls.Each, func, iterable, chunksize, callback, error_callback)

    def starmap(
        self,
        func: Callable[..., T],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
    ) -> list[T]:
        """Do as `map`, with several arguments for each call.

        Parameters
        ----------
        func : callable
            Called with the arguments of one item.
        iterable : iterable of iterable
            The arguments.
        chunksize : int, optional
            As in `map`.

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
        """Do as `map_async`, with several arguments for each call.

        Parameters
        ----------
        func, iterable, chunksize
            As in `starmap`.
        callback, error_callback
            As in `map_async`.

        Returns
        -------
        AsyncResult
        """
        each = map(tuple, iterable)
        return self._map_async(calls.EachStar, func, each, chunksize, callback, error_callback)

    def imap(
        self, func: Callable[[Any], T], iterable: Iterable[Any], chunksize: int = 1
    ) -> Results[T]:
        """Return an iterator of the results, in order.

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
        return self._imap(func, iterable, chunksize, ordered=True)

    def imap_unordered(
        self, func: Callable[[Any], T], iterable: Iterable[Any], chunksize: int = 1
    ) -> Results[T]:
        """Return an iterator of the results, as they come.

        Parameters
        ----------
        func, iterable, chunksize
            As in `imap`.

        Returns
        -------
        iterator
            As from `imap`.
        """
        return self._imap(func, iterable, chunksize, ordered=False)

    # -- its end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Take no more calls."""
        self._is_closed = True
        self._executor.shutdown(wait=False)

    def terminate(self) -> None:
        """Take no more calls, cancel those that haven't begun, and stop those that run."""
        self.close()
        self._is_terminated = True
        stop(self._futures)

    def join(self) -> None:
        """Wait for all calls.

        Raises
        ------
        ValueError
            If it wasn't closed or terminated before.
        """
        if not self._is_closed:
            raise ValueError("This pool still takes calls: call close() or terminate() first.")
        self._executor.shutdown(wait=True)

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.terminate()

    def __repr__(self) -> str:
        state = "TERMINATE" if self._is_terminated else "CLOSE" if self._is_closed else "RUN"
        size, left = self._executor.size, len(self._futures)
        return f"<workbench.Pool state={state} pool_size={size or 'all workers'} pending={left}>"

    def __reduce__(self) -> NoReturn:  # raises as multiprocessing does
        raise NotImplementedError("A pool can't be sent to another process: make one there.")

    # -- for all of them --------------------------------------------------------------------------

    def _chunks_of(
        self, func: Callable[..., Any], kind: Kind = calls.Each
    ) -> Callable[[calls.Chunk], Future[calls.ChunkResult]]:
        """Return a function that submits chunks, also after `close` but not after `terminate`."""
        submit = self._open().chunks_of(func, kind)

        def submit_chunk(chunk: calls.Chunk) -> Future[calls.ChunkResult]:
            if self._is_terminated:
                raise CancelledError
            return self._note(submit(chunk))

        return submit_chunk

    def _open(self) -> Executor:
        if self._is_closed:
            raise ValueError("This pool was closed: it takes no more calls.")
        return self._executor

    def _note(self, future: Future[T]) -> Future[T]:
        self._futures[future] = None
        when_over(future, lambda done: self._futures.pop(done, None))
        return future

    def _imap(
        self, func: Callable[[Any], T], iterable: Iterable[Any], chunksize: int, ordered: bool
    ) -> Results[T]:
        at_least_one("chunksize", chunksize)
        submit = self._chunks_of(func)
        chunks = _chunks(iterable, chunksize)
        submitted = map(submit, chunks)
        return Results(submitted, CHUNKS * self._executor.workers(), ordered)

    def _map_async(
        self,
        kind: Kind,
        func: Callable[..., T],
        each: Iterable[Any],
        chunksize: int | None,
        callback: Callable[[list[T]], object] | None,
        error_callback: Callable[[BaseException], object] | None,
    ) -> AsyncResult[list[T]]:
        arguments = list(each)
        submit, chunksize = self._chunks_of(func, kind), at_least_one("chunksize", chunksize)
        if chunksize is None:
            chunksize = -(-len(arguments) // (CHUNKS * self._executor.workers()))
        with self._executor.together():
            futures = [submit(chunk) for chunk in _chunks(arguments, chunksize)]
        return AsyncResult(futures, _all, callback, error_callback)


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    each = iter(items)
    return iter(lambda: list(itertools.islice(each, max(size, 1))), [])


def _all(chunks: list[calls.ChunkResult]) -> list[Any]:
    return [result for ran in chunks for result in ran.results]

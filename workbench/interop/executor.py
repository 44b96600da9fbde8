"""`Executor`: the interface of `concurrent.futures` over the pool."""

from __future__ import annotations

import operator
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ParamSpec, TypeVar

from workbench import api
from workbench.engine.base import Call, Engine, Exported
from workbench.engine.tally import CallTally
from workbench.errors import SerializationError, SessionError
from workbench.interop import calls
from workbench.interop.map_chunks import MapChunks
from workbench.interop.sent_functions import Kind, SentFunctions
from workbench.interop.task_futures import FutureResolver, TaskFuture
from workbench.options import ExecutorOptions, TaskOptions
from workbench.ref import ObjectRef

P = ParamSpec("P")
T = TypeVar("T")


def at_least_one(name: str, value: int | None) -> int | None:
    """Return the value if it is None or a whole number from 1 on; else TypeError or ValueError."""
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r} must be a whole number, or None.") from None
    if number < 1:
        raise ValueError(f"{name} must be greater than 0, not {value!r}.")
    return number


class Executor(futures.Executor):
    """Runs calls on the pool: for code that takes an executor of `concurrent.futures`.

    The session's pool runs them by its rules: arrays in arguments and results go through shared
    memory, prints appear under the cell that has submitted the call, and Stop stops it. A ref
    among the arguments stands for its object. A script doesn't end before its calls have ended.
    A task that waits for its calls in any way lets others run in its place.

    Parameters
    ----------
    max_workers : int, optional
        How many of its calls run at a time. Default and maximum: the workers of the pool.
    initializer : callable, optional
        Called in each worker before the first call there; one defined in a notebook, before the
        first call of each function, whose global variables it sets. If it fails, all calls fail.
    initargs : tuple
        Arguments of ``initializer``.
    mp_context, max_tasks_per_child : object, optional
        As in ProcessPoolExecutor; the workers are the session's, so they change nothing.

    Raises
    ------
    ValueError
        If ``max_workers`` or ``max_tasks_per_child`` is less than 1.
    TypeError
        If ``initializer`` can't be called, or ``max_workers`` isn't a whole number.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        mp_context: object = None,
        max_tasks_per_child: int | None = None,
    ) -> None:
        at_least_one("max_tasks_per_child", max_tasks_per_child)
        max_workers = at_least_one("max_workers", max_workers)
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer must be a function, not {initializer!r}.")
        self._most = max_workers
        self._id = secrets.randbits(62)
        with_setup: Kind | None = None
        if initializer is not None:
            with_setup = partial(calls.WithSetup, self._id, initializer, initargs)
        self._functions = SentFunctions(with_setup)
        self._engine: Engine | None = None
        self._settler: FutureResolver | None = None
        self._options = TaskOptions()
        self._lock = threading.RLock()
        self._is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> futures.Future[T]:
        """Submit a call.

        Parameters
        ----------
        fn : callable
            The function to call on a worker. It is sent once, with what it refers to.
        *args, **kwargs
            Arguments of ``fn``. A ref among them stands for its object.

        Returns
        -------
        concurrent.futures.Future
            The future of the call. Its ``cancel`` succeeds only if the call hadn't begun. If the
            function or an argument can't be pickled, it has failed with a SerializationError,
            which is a ``pickle.PicklingError`` and names the place.

        Raises
        ------
        RuntimeError
            After `shutdown`.
        BrokenExecutor
            If the session that it uses has ended, or its initializer has failed.
        """
        return self.submit_batch(1, fn, args, kwargs)

    def submit_batch(
        self,
        count: int,
        fn: Callable[..., T],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None = None,
        more: bool = False,
    ) -> futures.Future[T]:
        """Submit one call that makes several, and count it as several.

        Parameters
        ----------
        count : int
            How many calls it makes.
        fn : callable
            The function to call on a worker.
        args : tuple
            Its positional arguments.
        kwargs : mapping, optional
            Its keyword arguments.
        more : bool
            Nobody knows how many calls will come later.

        Returns
        -------
        concurrent.futures.Future
            As from `submit`.
        """
        with self._lock:
            self._check_open()
            function, sent = self._functions.call(fn, args)
            return self._submit(function, sent, kwargs or {}, count, more=more)

    def chunks_of(
        self,
        fn: Callable[..., Any],
        kind: Kind = calls.Each,
        known: int = 0,
        more: bool = False,
    ) -> Callable[..., futures.Future[Any]]:
        """Return a function that submits calls of ``fn`` several at a time, also after `shutdown`.

        Parameters
        ----------
        fn : callable
            The function to call on a worker.
        kind : callable
            Makes of it the function that is called with the arguments of several calls.
        known : int
            How many calls there will be in all, if known.
        more : bool
            As for `submit_batch`.

        Returns
        -------
        callable
            Takes the arguments of a chunk, and returns its future.

        Raises
        ------
        RuntimeError
            After `shutdown`.
        """
        with self._lock:
            self._check_open()
            function = self._functions.for_chunks(fn, kind)
            tally = self._bound()[0].listener.tally() if known else None
        if tally is not None:
            tally.expect(known)

        def submit(*chunk: Any) -> futures.Future[Any]:
            with self._lock:
                return self._submit(function, chunk, {}, len(chunk[0]), tally, more)

        return submit

    def _check_open(self) -> None:
        if self._is_shut:
            raise RuntimeError("This executor was shut down: it takes no more calls.")

    def _submit(
        self,
        function: Exported,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        count: int,
        tally: CallTally | None = None,
        more: bool = False,
    ) -> futures.Future[Any]:
        """Submit a call. A ``tally`` that is passed has counted its calls already."""
        engine, settler = self._bound()
        try:
            ref = engine.submit(function, Call(args, kwargs, self._options))
        except SessionError as error:
            raise BrokenProcessPool(str(error)) from error
        except SerializationError as error:
            if tally is not None:  # they were expected
                tally.count(count)
            future: futures.Future[Any] = futures.Future()
            future.set_exception(error)
            return future
        assert isinstance(ref, ObjectRef)
        call: TaskFuture[Any] = TaskFuture(engine, ref)
        if tally is None and (tally := engine.listener.tally()) is not None:
            tally.expect(count, more)
        call.tally, call.calls = tally, count
        settler.add(call)
        return call

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """Map like the builtin `map`, with calls that run on the pool.

        Parameters
        ----------
        fn : callable
            Called with one item of each iterable.
        *iterables : iterable
            The shortest ends it. They are read completely now, unless there is a ``buffersize``.
        timeout : float, optional
            Seconds from now after which ``next`` of the result raises TimeoutError.
        chunksize : int, optional
            How many calls are sent as one. Default: as many as take a few milliseconds, measured
            on the calls before.
        buffersize : int, optional
            Most submitted chunks (of one call, by default) whose results aren't taken yet.

        Returns
        -------
        iterator
            The results, in order. Closing it, or an error, cancels calls that haven't begun.

        Raises
        ------
        ValueError
            If ``chunksize`` or ``buffersize`` is less than 1.
        """
        chunksize = at_least_one("chunksize", chunksize)
        buffersize = at_least_one("buffersize", buffersize)
        end = None if timeout is None else time.monotonic() + timeout
        each: Iterator[Any] = zip(*iterables, strict=False)
        kind: Kind = calls.EachStar
        if len(iterables) == 1:
            each, kind = iter(iterables[0]), calls.Each
        if chunksize is None and buffersize is not None:
            chunksize = 1
        known = 0
        items: Iterable[Any] = each
        if buffersize is None:
            items = listed = list(each)
            known = len(listed)
        submit, workers = self.chunks_of(fn, kind, known), self.workers()
        with self.together():
            chunks = MapChunks(submit, workers, items, chunksize, buffersize)
        return chunks.results(end)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. The pool stays: it is the session's.

        Parameters
        ----------
        wait : bool
            Wait until all calls are over.
        cancel_futures : bool
            Cancel calls that haven't begun. Without ``wait``, they are cancelled a moment later.
        """
        with self._lock:
            self._is_shut = True
            settler = self._settler
        if settler is not None:
            settler.close(cancel_futures, wait)

    def workers(self) -> int:
        """Return how many of its calls can run at a time.

        Returns
        -------
        int
        """
        with self._lock:
            engine, _ = self._bound()
        return max(min(self._most or engine.workers, engine.workers), 1)

    @property
    def size(self) -> int | None:
        """Number of its calls that can run at a time, if known without a session.

        Returns
        -------
        int or None
        """
        if self._engine is None or self.is_broken:
            return self._most
        return min(self._most or self._engine.workers, self._engine.workers)

    def __repr__(self) -> str:
        state = "broken" if self.is_broken else "shut down" if self._is_shut else "open"
        left = 0 if self._settler is None else self._settler.pending
        size = self.size or "all workers"
        return f"<workbench.Executor state={state} max_workers={size} pending={left}>"

    @property
    def is_broken(self) -> bool:
        """True if it takes no more calls, because its initializer failed or its session ended.

        Returns
        -------
        bool
        """
        return self._settler is not None and bool(self._settler.broken)

    @property
    def _max_workers(self) -> int:  # dask looks for it
        return self.workers()

    def together(self) -> AbstractContextManager[None]:
        """Return a context for several calls of `submit`, which are sent together.

        Returns
        -------
        context manager
        """
        with self._lock:
            engine, _ = self._bound()
        return engine.together()

    def _bound(self) -> tuple[Engine, FutureResolver]:
        """Return the session and the settler, fixed by the first call."""
        if self._engine is None or self._settler is None:
            try:
                self._engine = engine = api.engine()
            except SessionError as error:  # a forked child
                raise BrokenProcessPool(str(error)) from error
            self._settler = FutureResolver(engine, self._functions.forget)
            if self._most is not None and self._most < engine.workers:
                self._options = ExecutorOptions(executor=self._id, max_workers=self._most)
        if self._settler.broken:
            raise BrokenProcessPool(self._settler.broken)
        return self._engine, self._settler

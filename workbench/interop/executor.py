"""`Executor`: the interface of `concurrent.futures` over the pool."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any, ParamSpec, TypeVar

from workbench import api
from workbench.engines.base import Call, Engine, Exported
from workbench.interop import calls
from workbench.interop.map_chunks import MapChunks
from workbench.interop.sent_functions import SentFunctions
from workbench.interop.task_futures import Settler, TaskFuture
from workbench.options import ExecutorOptions, TaskOptions
from workbench.ref import ObjectRef

P = ParamSpec("P")
T = TypeVar("T")


class Executor(futures.Executor):
    """Runs calls on the pool: for code that takes an executor of `concurrent.futures`.

    The pool is the session's, and so are its rules: arrays in arguments and results go through
    shared memory, prints appear under the cell that has submitted the call, and Stop stops it. A
    ref among the arguments stands for its object. A script doesn't end before its calls have.

    Parameters
    ----------
    max_workers : int, optional
        How many of its calls run at a time. Default, and most: as many as the pool has workers.
    initializer : callable, optional
        Called in each worker before the first of the calls there. If it fails, all fail.
    initargs : tuple
        Its arguments.

    Raises
    ------
    ValueError
        If ``max_workers`` is less than 1.
    TypeError
        If ``initializer`` can't be called.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        if max_workers is not None and max_workers < 1:
            raise ValueError(f"max_workers={max_workers!r} must be 1 or more.")
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer must be a function, not {initializer!r}.")
        self._most = max_workers
        self._id = secrets.randbits(62)
        setup = None if initializer is None else calls.Setup(self._id, initializer, initargs)
        self._functions = SentFunctions(setup)
        self._engine: Engine | None = None
        self._settler: Settler | None = None
        self._options = TaskOptions()
        self._lock = threading.RLock()
        self._is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> futures.Future[T]:
        """Submit a call.

        Parameters
        ----------
        fn : callable
            What to call on a worker. It is sent once, with what it refers to.
        *args, **kwargs
            Its arguments. A ref among them stands for its object.

        Returns
        -------
        concurrent.futures.Future
            Of what it returns. Its ``cancel`` says truly whether the call hadn't begun.

        Raises
        ------
        RuntimeError
            After `shutdown`.
        BrokenExecutor
            If the session that it uses has ended.
        SerializationError
            If the function or an argument can't be pickled. Nothing is submitted then.
        """
        if self._is_shut:
            raise RuntimeError("This executor was shut down: it takes no more calls.")
        with self._lock:
            function, sent = self._functions.call(fn, args)
            return self._submit(function, sent, kwargs)

    def submit_chunk(
        self, fn: Callable[..., Any], chunk: calls.Chunk
    ) -> futures.Future[calls.ChunkResult]:
        """Submit several calls as one, also after `shutdown`: see `calls.Each`.

        Parameters
        ----------
        fn : callable
            What to call on a worker.
        chunk : list of tuple
            The positional arguments of each call.

        Returns
        -------
        concurrent.futures.Future
        """
        with self._lock:
            return self._submit(self._functions.of(fn, True), (chunk,), {})

    def _submit(
        self, function: Exported, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> futures.Future[Any]:
        engine, settler = self._bound()
        ref = engine.submit(function, Call(args, kwargs, self._options))
        assert isinstance(ref, ObjectRef)
        future: TaskFuture[Any] = TaskFuture(engine, ref)
        settler.add(future)
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """The builtin `map`, with calls that run on the pool.

        Parameters
        ----------
        fn : callable
            Called with one item of each iterable.
        *iterables : iterable
            The shortest ends it. They are gone through now, unless there is a ``buffersize``.
        timeout : float, optional
            Seconds from now after which ``next`` of the result raises TimeoutError.
        chunksize : int, optional
            How many calls are sent as one. Default: as many as take a few milliseconds, by what
            those before have taken.
        buffersize : int, optional
            How many chunks (of one call, by default) may be submitted whose results weren't taken.

        Returns
        -------
        iterator
            The results, in order. Closing it, or an error, cancels what hasn't begun.

        Raises
        ------
        ValueError
            If ``chunksize`` or ``buffersize`` is less than 1.
        """
        if chunksize is not None and chunksize < 1:
            raise ValueError(f"chunksize={chunksize!r} must be 1 or more.")
        if buffersize is not None and buffersize < 1:
            raise ValueError(f"buffersize={buffersize!r} must be 1 or more, or None.")
        end = None if timeout is None else time.monotonic() + timeout
        each = zip(*iterables, strict=False)
        if chunksize is None and buffersize is not None:
            chunksize = 1
        if self._is_shut:
            raise RuntimeError("This executor was shut down: it takes no more calls.")
        submit = partial(self.submit_chunk, fn)
        return MapChunks(submit, self.workers(), each, chunksize, buffersize).results(end)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. The pool stays: it is the session's.

        Parameters
        ----------
        wait : bool
            Return when all calls are over.
        cancel_futures : bool
            Cancel those that haven't begun.
        """
        with self._lock:
            self._is_shut = True
            settler = self._settler
        if settler is not None:
            settler.close(cancel_futures, wait)
        with self._lock:
            self._functions.clear()

    def workers(self) -> int:
        """How many of its calls can run at a time.

        Returns
        -------
        int
        """
        with self._lock:
            engine, _ = self._bound()
        return min(self._most or engine.workers, engine.workers)

    def _bound(self) -> tuple[Engine, Settler]:
        """The session that it uses, from its first call on."""
        if self._engine is None or self._settler is None:
            self._engine = engine = api.engine()
            self._settler = Settler(engine)
            if self._most is not None and self._most < engine.workers:
                self._options = ExecutorOptions(executor=self._id, max_workers=self._most)
        if self._settler.broken:
            raise BrokenProcessPool(self._settler.broken)
        return self._engine, self._settler

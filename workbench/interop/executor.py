"""`Executor`: the interface of `concurrent.futures` over the pool."""

from __future__ import annotations

import contextvars
import itertools
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from types import BuiltinFunctionType, FunctionType
from typing import Any, ParamSpec, TypeVar

from workbench import api
from workbench.engines.base import Arrivals, Call, Engine, Exported
from workbench.errors import (
    OutOfMemoryError,
    SessionError,
    TaskCancelledError,
    WorkerCrashedError,
)
from workbench.interop import calls
from workbench.options import ExecutorOptions, TaskOptions
from workbench.ref import ObjectRef

P = ParamSpec("P")
T = TypeVar("T")

FUNCTIONS = 100
"""Functions whose stored form an executor remembers, so that each is sent once."""

LINGER = 0.05
"""Seconds that an executor's thread waits for more to do before it ends. A script's exit waits
for it."""


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
        self._setup = None if initializer is None else calls.Setup(self._id, initializer, initargs)
        self._engine: Engine | None = None
        self._settler: _Settler | None = None
        self._options = TaskOptions()
        self._functions: OrderedDict[int, Exported] = OrderedDict()
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
        with self._lock:
            if self._is_shut:
                raise RuntimeError("This executor was shut down: it takes no more calls.")
            engine, settler = self._bound()
            function = self._exported(fn)
            if function is None:
                function, args = _APPLY, (fn, *args)  # type: ignore[assignment]
            ref = engine.submit(function, Call(args, kwargs, self._options))
            assert isinstance(ref, ObjectRef)
            future: TaskFuture[T] = TaskFuture(engine, ref)
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
        run = _MapRun(self, calls.Each(fn), each, chunksize, buffersize)
        return run.results(end)

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

    def _bound(self) -> tuple[Engine, _Settler]:
        """The session that it uses, from its first call on."""
        if self._engine is None or self._settler is None:
            self._engine = engine = api.engine()
            self._settler = _Settler(engine)
            if self._most is not None and self._most < engine.workers:
                self._options = ExecutorOptions(executor=self._id, max_workers=self._most)
        if self._settler.broken:
            raise BrokenProcessPool(self._settler.broken)
        return self._engine, self._settler

    def _exported(self, fn: Callable[..., Any]) -> Exported | None:
        """The function as it is sent; None if it is to be sent as an argument, each time."""
        known = self._functions.get(id(fn))
        if known is not None:
            return known
        if not isinstance(fn, FunctionType | BuiltinFunctionType | type | calls.Each):
            if self._setup is None:
                return None
        target = fn if self._setup is None else calls.WithSetup(self._setup, fn)
        known = Exported(target, getattr(fn, "__qualname__", type(fn).__name__))
        self._functions[id(fn)] = known
        if len(self._functions) > FUNCTIONS:
            self._functions.popitem(last=False)
        return known


AHEAD = 4
"""Chunks submitted for each worker, while it isn't known how long calls take, and later."""

CHUNK_SECONDS = 0.005
"""What a chunk of calls shall take: some fifty times what it costs to submit one."""

MOST_CALLS = 1000
"""In one chunk."""

_APPLY = Exported(calls.apply, "call")


class TaskFuture(futures.Future[T]):
    """The future of a task. It is settled once, by the executor's thread or by `cancel`.

    Parameters
    ----------
    engine : Engine
        That runs the task.
    ref : ObjectRef
        Its result.
    """

    def __init__(self, engine: Engine, ref: ObjectRef) -> None:
        super().__init__()
        self.engine = engine
        self.ref = ref
        self._unsettled = threading.Lock()  # whoever gets it settles; never given back

    def cancel(self) -> bool:
        """Cancel the call if it hasn't begun.

        Returns
        -------
        bool
            Whether it will never run.
        """
        if not self.done():
            try:
                withdrawn = self.engine.withdraw(self.ref)
            except SessionError:  # its end is on its way
                withdrawn = False
            if withdrawn:
                self.withdraw()
        return self.cancelled()

    def running(self) -> bool:
        """Whether the call was sent to a worker, and isn't over.

        Returns
        -------
        bool
        """
        if self.done():
            return False
        try:
            return self.engine.has_begun(self.ref) and not self.done()
        except SessionError:
            return False

    def withdraw(self) -> None:
        """It was cancelled."""
        if self._unsettled.acquire(blocking=False):
            super().cancel()
            self.set_running_or_notify_cancel()

    def settle(self) -> None:
        """It is known what came of it: any thread but the one that reads."""
        try:
            value = self.engine.get([self.ref], None, False)[0]
        except TaskCancelledError:
            self.withdraw()
        except calls.SetupError as error:
            self.fail(BrokenProcessPool(str(error)), error)
        except (WorkerCrashedError, OutOfMemoryError, SessionError) as error:
            self.fail(BrokenProcessPool(str(error)), error)
        except BaseException as error:
            self.fail(error, error.__cause__)
        else:
            if self._unsettled.acquire(blocking=False):
                self.set_running_or_notify_cancel()
                self.set_result(value)

    def fail(self, error: BaseException, cause: BaseException | None) -> None:
        """It has no value."""
        if self._unsettled.acquire(blocking=False):
            error.__cause__ = cause
            self.set_running_or_notify_cancel()
            self.set_exception(error)


class _Settler:
    """The thread that settles an executor's futures, and runs their callbacks.

    It lives while there is something to wait for. It is no daemon: a script's exit waits for it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._arrivals: Arrivals = engine.arrivals(())
        self._pending: dict[int, TaskFuture[Any]] = {}
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()  # guards all of the above
        self.broken = ""  # why it settles no more

    def add(self, future: TaskFuture[Any]) -> None:
        with self._changed:
            self._pending[future.ref.id] = future
            self._arrivals.add([future.ref])
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="workbench-executor")
                self._thread.start()
            elif len(self._pending) == 1:
                self._changed.notify_all()

    def close(self, cancel: bool, wait: bool) -> None:
        with self._changed:
            pending, thread = list(self._pending.values()), self._thread
            self._changed.notify_all()
        if cancel:
            for future in reversed(pending):  # so that none begins meanwhile
                future.cancel()
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        try:
            while self._has_more():
                ref = self._arrivals.next()
                while ref is not None:
                    future = self._pending.pop(ref.id)
                    future.settle()
                    del future, ref  # the result is the caller's now
                    ref = self._arrivals.take()
        except SessionError as error:
            self.broken = str(error)
            for future in list(self._pending.values()):
                future.fail(BrokenProcessPool(self.broken), error)
            self._pending.clear()

    def _has_more(self) -> bool:
        with self._changed:
            if not self._pending:
                self._changed.wait(LINGER)
            if not self._pending:
                self._thread = None
            return bool(self._pending)


class _MapRun:
    """One `Executor.map`: chunks of calls, in order, each a future.

    With a ``size`` all are submitted at once, or ``most`` ahead of who takes the results. Without,
    each that ends has more submitted, of as many calls as take about `CHUNK_SECONDS`.
    """

    def __init__(
        self,
        executor: Executor,
        function: calls.Each,
        each: Iterator[tuple[Any, ...]],
        size: int | None,
        most: int | None,
    ) -> None:
        self._executor = executor
        self._function = function
        self._size = size
        self._calls = each if most is not None else iter(list(each))
        self._context = contextvars.copy_context()  # where its prints go
        self._chunks: deque[futures.Future[calls.Ran]] = deque()
        self._is_over = False  # all calls were submitted
        self._error: BaseException | None = None  # what kept the next chunk from being submitted
        self._done = 0  # calls, and how long they took
        self._seconds = 0.0
        self._changed = threading.Condition()  # guards all of the above
        if size is None:
            most = AHEAD * executor.workers()
        for _ in itertools.count() if most is None else range(most):
            if not self._submit():
                break

    def _submit(self) -> bool:
        """Submit the next chunk; False if there is none."""
        with self._changed:
            chunk = list(itertools.islice(self._calls, self._size or self._best_size()))
            if not chunk:
                self._is_over = True
                return False
            future = self._executor.submit(self._function, chunk)
            self._chunks.append(future)
        if self._size is None:
            future.add_done_callback(self._next)
        return True

    def _best_size(self) -> int:
        each = self._seconds / self._done if self._done else CHUNK_SECONDS
        return max(1, min(MOST_CALLS, int(CHUNK_SECONDS / max(each, 1e-7))))

    def _next(self, future: futures.Future[calls.Ran]) -> None:
        """The executor's thread, or whoever cancels: one is over."""
        with self._changed:
            try:
                if not future.cancelled() and future.exception() is None:
                    ran = future.result()
                    self._done += len(ran.results) + 1
                    self._seconds += ran.seconds
                    self._context.run(self._submit)
            except BaseException as error:  # the session has ended
                self._error = error
            self._changed.notify_all()

    def results(self, end: float | None) -> Iterator[Any]:
        try:
            while True:
                with self._changed:
                    while not (self._chunks or self._is_over or self._error):
                        self._changed.wait()
                    if not self._chunks:
                        if self._error is not None:
                            raise self._error
                        return
                    first = self._chunks[0]
                left = None if end is None else end - time.monotonic()
                ran = first.result(left)
                with self._changed:
                    self._chunks.popleft()
                if self._size is not None:
                    self._submit()
                yield from ran.results
                if ran.error is not None:
                    raise ran.error
        finally:
            with self._changed:
                self._is_over, self._calls = True, iter(())
                left_over = list(self._chunks)
            for each in reversed(left_over):
                each.cancel()

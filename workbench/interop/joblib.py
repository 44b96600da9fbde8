"""The pool as a backend of joblib, and so of everything that has an ``n_jobs``.

This module is imported only when the backend is registered, or joblib is imported.
"""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from operator import is_
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import FallbackToBackend, ParallelBackendBase, SequentialBackend

from workbench import api
from workbench.call_site import warn
from workbench.engine.base import Engine
from workbench.engine.lending_future import waiting, when_over
from workbench.errors import SessionError
from workbench.interop import calls
from workbench.interop.executor import Executor
from workbench.interop.shared_arguments import SharedArguments
from workbench.interop.task_futures import stop

if TYPE_CHECKING:
    from joblib.parallel import BatchedCalls, Parallel

NO_WORKERS = (
    "The session has no workers, so joblib's calls run in this process, one after the other. Leave "
    "it (`%workbench stop`, `shutdown()`), and start one with workers (`%workbench start --workers "
    "2`, `init(workers=2)`)."
)

BATCH_SECONDS = 0.02
"""Seconds a batch of calls should take: a tenth of other backends', as a batch costs a tenth."""

MOST_CALLS = 2000
"""Most calls in one batch."""

GROWTH = 4
"""A batch has at most `GROWTH` times as many calls as were measured."""

SHORT = 0.1
"""Seconds for which we wait for the batches of a Parallel call before joblib starts to poll
them."""

_arguments = SharedArguments()

_counts: WeakKeyDictionary[FunctionType, int] = WeakKeyDictionary()
"""Number of calls of each function in its last Parallel call."""

_SMALL = frozenset({int, float, complex, bool, str, bytes, type(None), slice, range, FunctionType})
"""Types of arguments that are never stored."""


class _Batches:
    """Unfinished futures of one call of Parallel."""

    def __init__(self) -> None:
        self.unfinished: dict[Future[Any], None] = {}
        self._has_failed = False
        self._changed = threading.Condition()

    def add(self, future: Future[Any], callback: Callable[[Future[Any]], object] | None) -> None:
        self.unfinished[future] = None
        when_over(future, partial(self._over, callback))

    def _over(self, callback: Callable[[Future[Any]], object] | None, future: Future[Any]) -> None:
        """Note that a future is over; submit the next. Executor's thread, or a cancelling one."""
        try:
            if callback is not None:
                callback(future)
        finally:
            with self._changed:
                del self.unfinished[future]
                if future.cancelled() or future.exception() is not None:
                    self._has_failed = True
                self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until all are over, one has failed, or time is up."""
        with self._changed:
            self._changed.wait_for(lambda: not self.unfinished or self._has_failed, seconds)


class WorkbenchBackend(ParallelBackendBase):  # type: ignore[misc]
    """Runs Parallel's calls on the session's pool; large arguments are stored once.

    Options for `joblib.parallel_config` beside the number of jobs: ``initializer`` and
    ``initargs``, as for `Executor`.
    """

    default_n_jobs = -1
    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    _executor: Executor
    _batches: _Batches  # of the running or last call of Parallel
    _kind: tuple[Any, ...] = ()  # what the executor was made with
    _function: Any = None  # of the last batch
    _chunks: Callable[..., Future[Any]] | None = None  # submits batches of that function
    _submitted = 0  # calls in this Parallel call, and how many to expect
    _expected = 0
    _measured = 0  # calls, and the seconds of a recent one
    _each = 0.0

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many calls run at a time: at most the pool's workers."""
        if n_jobs == 0:
            raise ValueError(
                "n_jobs == 0 in Parallel has no meaning: -1 stands for all workers of the pool."
            )
        if n_jobs is None:
            return 1
        workers = _engine().workers
        return max(workers + 1 + n_jobs if n_jobs < 0 else min(n_jobs, workers), 1)

    def configure(self, n_jobs: int = 1, parallel: Parallel | None = None, **options: Any) -> int:
        asked, n_jobs = n_jobs, self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            if asked != 1 and not _engine().workers:
                warn(NO_WORKERS)
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        running = self.__dict__.get("_batches")
        if running and running.unfinished:  # of another Parallel, which stops only its own
            another = copy.copy(self)
            another._submitted = 0
            another.terminate()
            raise FallbackToBackend(another)
        given = {**self.backend_kwargs, **options}
        self._nested = pickle.dumps(self.get_nested_backend())  # once, not for each batch
        self.parallel = parallel
        self._engine, self._n_jobs = _engine(), n_jobs
        initializer, initargs = given.get("initializer"), given.get("initargs", ())
        # Several Parallel calls share one executor, whose initializer runs once. Compared by
        # identity: arrays among the arguments can't be compared by ==.
        kind = self._engine, n_jobs, initializer, initargs
        is_same = self._kind and all(a is b for a, b in zip(kind, self._kind, strict=True))
        if not is_same or self._executor.is_broken:
            self._kind = kind
            self._executor = Executor(n_jobs, initializer=initializer, initargs=initargs)
        return n_jobs

    def start_call(self) -> None:
        _arguments.begin()
        self._begin()

    def _begin(self) -> None:
        """Prepare for the next call of Parallel."""
        if self._submitted and isinstance(self._function, FunctionType):
            _counts[self._function] = self._submitted
        self._batches = _Batches()
        self._function, self._chunks, self._submitted, self._expected = None, None, 0, 0

    def submit(
        self, func: BatchedCalls, callback: Callable[[Future[Any]], object] | None = None
    ) -> Future[Any]:
        functions, args, kwargs = zip(*func.items, strict=True)
        self._submitted += len(functions)
        values: list[Any] = []  # for which placeholders stand
        if not all(map(_SMALL.issuperset, (map(type, each) for each in args))):
            args = tuple([tuple([self._slot(a, values) for a in each]) for each in args])
        named = kwargs if any(kwargs) else ()
        kwargs = tuple([{n: self._slot(a, values) for n, a in each.items()} for each in named])
        batch = args, kwargs, self._nested, self.inner_max_num_threads, *values
        future: Any
        with _as_loky():
            if self._is_one(functions):
                if self._chunks is None:
                    self._chunks = self._executor.chunks_of(functions[0], calls.Batch, more=True)
                future = self._chunks(*batch)
            else:
                call = functions, *batch
                count = len(functions)
                future = self._executor.submit_batch(count, calls.run_batch, call, more=True)
        self._batches.add(future, callback)
        return future  # type: ignore[no-any-return]

    def _is_one(self, functions: tuple[Any, ...]) -> bool:
        """True if all batches call one and the same function: then it is sent only once."""
        first, before = functions[0], self._function
        if before is None and type(first) is FunctionType:
            self._expected = _counts.get(first, 0)
        if first is not before:
            self._chunks = None
        self._function = first
        is_known = type(first) is FunctionType and (before is None or first is before)
        return is_known and all(map(is_, functions, repeat(first)))

    def _slot(self, value: Any, values: list[Any]) -> Any:
        """Return the value, or a placeholder for it."""
        if type(value) in _SMALL:
            return value
        sent: Any
        if isinstance(value, np.memmap):
            sent = calls.MappedFile.from_array(value)
        else:
            sent = _arguments.ref_of(self._engine, value)
        if sent is None:
            return value
        if sent not in values:
            values.append(sent)
        return calls.Placeholder(values.index(sent))

    @contextmanager
    def retrieval_context(self) -> Iterator[None]:
        """Lend the task's slot while joblib waits, and first wait for the batches ourselves.

        joblib polls the next batch every 10 ms: for a list of short calls that would be most of the
        time. Other things that it polls for it finds a little later.
        """
        with waiting(self._engine.lending):
            parallel: Any = self.parallel
            if parallel.timeout is None and not parallel.return_generator:
                self._batches.wait(SHORT)
            yield

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        with _as_loky():
            results, seconds, _ = out.result()
        latest = seconds / len(results)
        self._each = max(latest, (self._each + latest) / 2)  # a slow batch counts at once
        self._measured += len(results)
        return results

    def compute_batch_size(self) -> int:
        """Return how many calls take `BATCH_SECONDS`, measured on the last ones on the workers.

        Not many more than were measured: the first ones may be short by chance. And no more than
        each worker's share of the rest, if there are as many as last time: joblib cuts the last
        calls into ten small batches per worker if they don't fill one batch per worker.
        """
        ideal = BATCH_SECONDS / max(self._each, BATCH_SECONDS / MOST_CALLS)
        most = min(GROWTH * self._measured, int(ideal))
        if self._expected > self._submitted:
            most = min(most, (self._expected - self._submitted) // self._n_jobs)
        return max(1, most)

    def abort_everything(self, ensure_ready: bool = True) -> None:
        stop(self._batches.unfinished)

    def terminate(self) -> None:
        self._begin()
        self._measured, self._each = 0, 0.0


def _engine() -> Engine:
    try:
        return api.engine()
    except SessionError as error:  # a forked child
        raise TerminatedWorkerError(str(error)) from error


@contextmanager
def _as_loky() -> Iterator[None]:
    """Turn BrokenProcessPool into loky's exception, which users of joblib know."""
    try:
        yield
    except BrokenProcessPool as error:
        if isinstance(error, TerminatedWorkerError):  # a call's own
            raise
        raise TerminatedWorkerError(str(error)) from error.__cause__

"""The pool as a backend of joblib, so of everything that has an ``n_jobs``.

joblib is imported when somebody registers the backend, or has imported joblib.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import repeat
from operator import is_
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import FallbackToBackend, ParallelBackendBase, SequentialBackend

from workbench import api
from workbench.engines.base import Engine
from workbench.engines.lending_future import when_over
from workbench.errors import SessionError
from workbench.interop import calls
from workbench.interop.executor import Executor
from workbench.interop.shared_arguments import SharedArguments
from workbench.interop.task_futures import stop

if TYPE_CHECKING:
    from joblib.parallel import BatchedCalls, Parallel

BATCH_SECONDS = 0.02
"""What a batch of calls shall take: a tenth of other backends', because one costs a tenth here."""

MOST_CALLS = 2000
"""In one batch."""

GROWTH = 4
"""A batch has at most so many times the calls that were measured."""

_arguments = SharedArguments()

_SMALL = frozenset({int, float, complex, bool, str, bytes, type(None), slice, range, FunctionType})
"""Types of which no value is an argument that is stored."""


class WorkbenchBackend(ParallelBackendBase):  # type: ignore[misc]
    """Parallel's calls run on the session's pool; large arguments are stored once.

    What `joblib.parallel_config` is given beside the number of jobs: ``initializer`` and
    ``initargs``, as of `Executor`.
    """

    default_n_jobs = -1
    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    _executor: Executor
    _kind: tuple[Any, ...] = ()  # of executor
    _function: Any = None  # of the batch before
    _measured = 0  # calls, and how long one of the last ones took
    _each = 0.0

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many run at a time: no more than the pool has workers."""
        if n_jobs == 0:
            raise ValueError("n_jobs=0 has no meaning. -1 stands for all workers of the pool.")
        if n_jobs is None:
            return 1
        workers = _engine().workers
        return max(workers + 1 + n_jobs if n_jobs < 0 else min(n_jobs, workers), 1)

    def configure(self, n_jobs: int = 1, parallel: Parallel | None = None, **options: Any) -> int:
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        given = {**self.backend_kwargs, **options}
        self._nested = pickle.dumps(self.get_nested_backend())  # once, and not with each batch
        self.parallel = parallel
        self._engine = _engine()
        self._futures: dict[Future[Any], None] = {}
        initializer, initargs = given.get("initializer"), given.get("initargs", ())
        # Of several calls one executor, and one call of its initializer. Compared by identity:
        # arrays among the arguments can't be compared so.
        kind = self._engine, n_jobs, initializer, initargs
        is_same = self._kind and all(a is b for a, b in zip(kind, self._kind, strict=True))
        if not is_same or self._executor.is_broken:
            self._kind = kind
            self._executor = Executor(n_jobs, initializer=initializer, initargs=initargs)
        return n_jobs

    def start_call(self) -> None:
        _arguments.begin()

    def submit(
        self, func: BatchedCalls, callback: Callable[[Future[Any]], object] | None = None
    ) -> Future[Any]:
        functions, args, kwargs = zip(*func.items, strict=True)
        values: list[Any] = []  # that placeholders stand for
        if not all(map(_SMALL.issuperset, (map(type, each) for each in args))):
            args = tuple([tuple([self._slot(a, values) for a in each]) for each in args])
        kwargs = tuple([self._slots(each, values) for each in kwargs]) if any(kwargs) else ()
        batch = args, kwargs, self._nested, self.inner_max_num_threads, *values
        future: Any
        with _as_loky():
            if self._is_one(functions):
                future = self._executor.chunks_of(functions[0], calls.Batch)(*batch)
            else:
                call = functions, *batch
                future = self._executor.submit_batch(len(functions), calls.run_batch, call)
        self._futures[future] = None
        when_over(future, lambda done: self._futures.pop(done, None))
        if callback is not None:
            when_over(future, callback)
        return future  # type: ignore[no-any-return]

    def _is_one(self, functions: tuple[Any, ...]) -> bool:
        """Whether it is one function, and no new one for each batch: then it is sent but once."""
        first, before = functions[0], self._function
        self._function = first
        is_known = type(first) is FunctionType and (before is None or first is before)
        return is_known and all(map(is_, functions, repeat(first)))

    def _slots(self, kwargs: dict[str, Any], values: list[Any]) -> dict[str, Any]:
        return {name: self._slot(value, values) for name, value in kwargs.items()}

    def _slot(self, value: Any, values: list[Any]) -> Any:
        """The value, or what stands for it."""
        if type(value) in _SMALL:
            return value
        sent: Any
        if isinstance(value, np.memmap):
            sent = calls.MappedFile.of(value)
        else:
            sent = _arguments.ref_of(self._engine, value)
        if sent is None:
            return value
        if sent not in values:
            values.append(sent)
        return calls.Placeholder(values.index(sent))

    @contextmanager
    def retrieval_context(self) -> Iterator[None]:
        """In a task: what it waits for may need its place in the pool."""
        with self._engine.waiting():
            yield

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        with _as_loky():
            results, seconds = out.result()
        latest = seconds / len(results)
        self._each = max(latest, (self._each + latest) / 2)  # slow ones count at once
        self._measured += len(results)
        return results

    def compute_batch_size(self) -> int:
        """As many calls as take `BATCH_SECONDS`, by what the last ones took on the workers.

        Not much more than were measured: the first ones may be short by chance.
        """
        ideal = BATCH_SECONDS / max(self._each, BATCH_SECONDS / MOST_CALLS)
        return max(1, min(GROWTH * self._measured, int(ideal)))

    def abort_everything(self, ensure_ready: bool = True) -> None:
        stop(self._futures)

    def terminate(self) -> None:
        self._function, self._measured, self._each = None, 0, 0.0


def _engine() -> Engine:
    try:
        return api.engine()
    except SessionError as error:  # a forked child
        raise TerminatedWorkerError(str(error)) from error


@contextmanager
def _as_loky() -> Iterator[None]:
    """Who uses joblib knows loky's exceptions."""
    try:
        yield
    except BrokenProcessPool as error:
        if isinstance(error, TerminatedWorkerError):  # a call's own
            raise
        raise TerminatedWorkerError(str(error)) from error.__cause__

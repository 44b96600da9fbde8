"""The pool as a backend of joblib, so of everything that has an ``n_jobs``.

joblib is imported when somebody registers the backend, or has imported joblib.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib.parallel import (
    AutoBatchingMixin,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
)

from workbench import api
from workbench.engines.base import Engine
from workbench.interop import calls
from workbench.interop.executor import Executor
from workbench.interop.shared_arguments import SharedArguments
from workbench.interop.task_futures import stop

if TYPE_CHECKING:
    from joblib.parallel import BatchedCalls, Parallel

_arguments = SharedArguments()


class WorkbenchBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """Parallel's calls run on the session's pool; large arguments are stored once.

    What `joblib.parallel_config` is given beside the number of jobs: ``initializer`` and
    ``initargs``, as of `Executor`.
    """

    MIN_IDEAL_BATCH_DURATION = 0.02
    """Seconds: a tenth of that of other backends, because a call here costs a tenth."""

    default_n_jobs = -1
    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    _kind: tuple[Any, ...] = ()  # of executor

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many run at a time: no more than the pool has workers."""
        if n_jobs == 0:
            raise ValueError("n_jobs=0 has no meaning. -1 stands for all workers of the pool.")
        if n_jobs is None:
            return 1
        workers = api.engine().workers
        return max(workers + 1 + n_jobs if n_jobs < 0 else min(n_jobs, workers), 1)

    def configure(self, n_jobs: int = 1, parallel: Parallel | None = None, **options: Any) -> int:
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        given = {**self.backend_kwargs, **options}
        self.parallel = parallel
        self._engine: Engine = api.engine()
        self._futures: dict[Future[Any], None] = {}
        initializer, initargs = given.get("initializer"), given.get("initargs", ())
        # Of several calls one executor, and one call of its initializer. Compared by identity:
        # arrays among the arguments can't be compared so.
        kind = self._engine, n_jobs, initializer, initargs
        if not self._kind or any(a is not b for a, b in zip(kind, self._kind, strict=True)):
            self._kind = kind
            self._executor = Executor(n_jobs, initializer=initializer, initargs=initargs)
        return n_jobs

    def start_call(self) -> None:
        _arguments.begin()

    def submit(
        self, func: BatchedCalls, callback: Callable[[Future[Any]], object] | None = None
    ) -> Future[Any]:
        refs: list[Any] = []
        items = [
            (f, tuple(self._slot(a, refs) for a in args), self._slots(kwargs, refs))
            for f, args, kwargs in func.items
        ]
        backend = func._backend, func._n_jobs
        call = calls.Batch(items, backend, self.inner_max_num_threads)
        future: Any = self._executor.submit(calls.run_batch, call, *refs)
        self._futures[future] = None
        future.add_done_callback(lambda done: self._futures.pop(done, None))
        if callback is not None:
            future.add_done_callback(callback)
        return future  # type: ignore[no-any-return]

    def _slots(self, kwargs: dict[str, Any], refs: list[Any]) -> dict[str, Any]:
        return {name: self._slot(value, refs) for name, value in kwargs.items()}

    def _slot(self, value: Any, refs: list[Any]) -> Any:
        if isinstance(value, np.memmap):
            return calls.MappedFile.of(value) or value
        ref = _arguments.ref_of(self._engine, value)
        if ref is None:
            return value
        if ref not in refs:
            refs.append(ref)
        return calls.Placeholder(refs.index(ref))

    @contextmanager
    def retrieval_context(self) -> Iterator[None]:
        """In a task: what it waits for may need its place in the pool."""
        with self._engine.waiting():
            yield

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        stop(self._futures)

    def terminate(self) -> None:
        self.reset_batch_stats()

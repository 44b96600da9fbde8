"""Code that runs in a worker for executors and joblib: calls, and setup before the first one."""

from __future__ import annotations

import mmap
import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

import numpy as np

from workbench.errors import TaskError
from workbench.host.tracebacks import clear_frames, describe_error
from workbench.surroundings.modules import MODULES
from workbench.surroundings.parts import parts
from workbench.surroundings.seeding import GENERATORS
from workbench.surroundings.surroundings import Changes, Surroundings, add

T = TypeVar("T")

PREPARED = "_workbench_prepared"
"""Variable in an initializer's namespace: what it has set in its process, by the id of the executor
for which it ran. A notebook's function is sent with its own namespace, where the initializer sets
what it reads."""


class SetupError(Exception):
    """An executor's initializer failed."""


class WithSetup:
    """A function whose worker needs an executor's setup before its first call there."""

    def __init__(
        self,
        id: int,
        initializer: Callable[..., object],
        initargs: tuple[Any, ...],
        function: Callable[..., Any],
    ) -> None:
        self._id = id
        self._initializer = initializer
        self._initargs = initargs
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._prepare()
        return self._function(*args, **kwargs)

    def _prepare(self) -> None:
        variables = getattr(self._initializer, "__globals__", globals())
        prepared: dict[int, Changes] = variables.setdefault(PREPARED, {})
        if self._id in prepared:
            add(prepared[self._id])  # the process forgets settings after each task
            return
        used = [part for name, part in parts().items() if name not in (MODULES, GENERATORS)]
        try:
            with Surroundings(used) as before:
                self._initializer(*self._initargs)
        except Exception as error:
            name = getattr(self._initializer, "__qualname__", "The initializer")
            raise SetupError(
                f"The executor's initializer, {name}, failed: {type(error).__name__}: {error}"
            ) from error
        prepared[self._id] = before.changes()


def apply(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a function that is cheaper to send with each call than to keep."""
    return function(*args, **kwargs)


class ChunkResult(NamedTuple):
    """Results of several calls, up to the one that failed, and the seconds they took."""

    results: list[Any]
    seconds: float
    error: TaskError | None = None

    def _workbench_parts_(self, name: str) -> dict[str, Any]:
        """Return the results by their names in errors; ``name`` is that of the whole."""
        name = name.replace("the result of", "the results of", 1)
        return {f"{name}[{n}]": result for n, result in enumerate(self.results)}


Chunk = list[Any]
"""Arguments of several calls: for each its only argument, or a tuple of all."""


class Several:
    """Several calls of one function as one, which is named as that function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__qualname__ = getattr(function, "__qualname__", type(function).__name__)


class Each(Several):
    """Calls with one argument each."""

    def __call__(self, chunk: Chunk) -> ChunkResult:
        started = time.perf_counter()
        results: list[Any] = []
        error: TaskError | None = None
        try:
            self._run(chunk, results.append)
        except Exception as caught:
            if not results:
                raise
            error = describe_error(caught, self.__qualname__)  # the calls before have results
            clear_frames(caught)
        return ChunkResult(results, time.perf_counter() - started, error)

    def _run(self, chunk: Chunk, on_result: Callable[[Any], object]) -> None:
        function = self._function
        for item in chunk:
            on_result(function(item))


class EachStar(Each):
    """Calls with a tuple of arguments each."""

    def _run(self, chunk: Chunk, on_result: Callable[[Any], object]) -> None:
        function = self._function
        for args in chunk:
            on_result(function(*args))


@dataclass(frozen=True, slots=True)
class MappedFile:
    """Stands for an array that is a mapped file: the worker maps the file, too."""

    arguments: tuple[Any, ...]  # of `np.memmap`

    @classmethod
    def from_array(cls, array: Any) -> MappedFile | None:
        """Return the stand-in of an array; None if it isn't all of a mapped file."""
        whole: Any = array.base
        if type(array) is not np.memmap or type(whole) is not mmap.mmap or not array.filename:
            return None
        order: Any = "C" if array.flags.c_contiguous else "F"
        mode = "r+" if array.mode == "w+" else array.mode  # "w+" would empty it
        path = str(array.filename)
        return cls((path, array.dtype, mode, array.offset, array.shape, order))

    def map(self) -> Any:
        return np.memmap(*self.arguments)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Stands for one of the values that are sent beside a batch."""

    index: int


def run_batch(
    functions: Iterable[Callable[..., Any]],
    args: Sequence[tuple[Any, ...]],
    kwargs: Sequence[dict[str, Any]],
    nested: bytes,
    threads: int | None,
    *values: Any,
) -> ChunkResult:
    """Run several of joblib's calls, one after the other.

    ``kwargs`` are empty if no call has any. ``nested``: the backend for joblib's nested calls and
    its number of jobs, pickled. ``values``: what placeholders among the arguments stand for.
    """
    from joblib.parallel import BatchedCalls

    if values:
        filled = [value.map() if type(value) is MappedFile else value for value in values]

        def fill(value: Any) -> Any:
            return filled[value.index] if type(value) is Placeholder else value

        args = [tuple([fill(a) for a in each]) for each in args]
        kwargs = [{name: fill(a) for name, a in each.items()} for each in kwargs]
    items = zip(functions, args, kwargs or repeat({}), strict=False)
    with _limited(threads):
        started = time.perf_counter()
        results = BatchedCalls(items, pickle.loads(nested))()
        return ChunkResult(results, time.perf_counter() - started)


class Batch(Several):
    """Several of joblib's calls."""

    def __call__(self, *batch: Any) -> ChunkResult:
        return run_batch(repeat(self._function), *batch)


def _limited(threads: int | None) -> AbstractContextManager[object]:
    if threads is None:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    return threadpool_limits(threads)  # type: ignore[no-any-return]

"""Turns what a task's function has returned or yielded into the task's results; and errors.

Shared by our workers and those of Ray and Dask.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from itertools import islice
from typing import Any, Protocol

from workbench.core.events import TaskSpec
from workbench.errors import ActorDiedError
from workbench.host.link import Failed
from workbench.host.tracebacks import error_text
from workbench.serialization import codec

Types = tuple[type[BaseException], ...]

STOPPED = (KeyboardInterrupt, asyncio.CancelledError)
"""Exceptions that end a task which a person stopped."""


_OPTIONS = codec.Where("retry_exceptions", "on the worker")


class HasResults(Protocol):
    """A task and the number of its results."""

    @property
    def name(self) -> str: ...
    @property
    def returns(self) -> int: ...


def check_count(run: HasResults, result: Any) -> Sequence[Any]:
    """Return the results of a task with several; ValueError if there are more or fewer."""
    if not isinstance(result, tuple | list) or len(result) != run.returns:
        size = f"{len(result)} value(s)" if isinstance(result, tuple | list) else "one value"
        raise ValueError(
            f"The task was submitted with num_returns={run.returns} and returned {size}. "
            "Return a tuple of that length, or change num_returns."
        )
    return result


def yields_results(run: HasResults, function: Callable[..., Any]) -> bool:
    """True if the items of a generator are the task's results; else the generator is the result."""
    if run.returns != 1:
        return run.returns > 1
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def retry_types(spec: TaskSpec) -> Types:
    """Return the exceptions after which a task is retried: its `retry_exceptions`."""
    if not spec.retry_on:
        return ()
    types: Types = codec.deserialize_inline(spec.retry_on, where=_OPTIONS)
    return types


def no_actor(error: BaseException, actor: int) -> ActorDiedError:
    """Return the error that an actor's calls raise if it could not be made."""
    died = ActorDiedError(f"The actor could not be made: {error_text(error)}")
    died.actor_id = f"{actor:016x}"
    died.__cause__ = error
    return died.with_traceback(error.__traceback__)


def collect_yielded(run: HasResults, items: Generator[Any, Any, Any], retry_on: Types) -> Any:
    """Return a generator's items as the results of a task that was submitted with their number."""
    made: list[Any] = []
    with contextlib.closing(items):
        try:
            made.extend(islice(items, run.returns + 1))  # one more, if it yields too many
        except retry_on:
            raise
        except Exception as error:
            return _results(run, made, error)
    return _results(run, made)


async def take_async(run: HasResults, items: AsyncGenerator[Any, Any], retry_on: Types) -> Any:
    made: list[Any] = []
    async with contextlib.aclosing(items):
        try:
            await _take_from_async(items, made, run.returns)
        except retry_on:
            raise
        except Exception as error:
            return _results(run, made, error)
    return _results(run, made)


async def _take_from_async(items: AsyncGenerator[Any, Any], made: list[Any], enough: int) -> None:
    """Append ``enough`` items to ``made``, and one more if there are too many."""
    async for item in items:
        made.append(item)
        if len(made) > enough:
            return


def _results(run: HasResults, made: list[Any], error: Exception | None = None) -> Any:
    """Return as many results as the task has. Missing ones fail; surplus ones are lost."""
    if len(made) > run.returns:
        text = f"`{run.name}` was submitted with num_returns={run.returns}, and yields more"
        print(f"{text}: the rest is lost.", file=sys.stderr)
        del made[run.returns :]
    if error is None:
        error = ValueError(
            f"`{run.name}` was submitted with num_returns={run.returns} and yielded {len(made)}."
        )
    results = [*made, *(Failed(error) for _ in range(run.returns - len(made)))]
    return results if run.returns > 1 else results[0]


def check_generator(run: HasResults, items: Any) -> Any:
    """Return a function's generator; TypeError if it returned something else."""
    if hasattr(items, "__next__") or hasattr(items, "__anext__"):
        return items
    raise TypeError(
        f"`{run.name}` was submitted with num_returns='dynamic', so it has to yield; it returned "
        f"{type(items).__name__}."
    )


def iterable(run: HasResults, items: Any) -> Iterable[Any]:
    """Return the task's result as an iterable; TypeError names the task if it isn't one."""
    if hasattr(items, "__iter__"):
        return items  # type: ignore[no-any-return]
    hint = ", in an actor with `async def` methods" if hasattr(items, "__aiter__") else ""
    raise TypeError(
        f"`{run.name}` was submitted with num_returns='streaming', so it has to yield{hint}; it "
        f"returned {type(items).__name__}."
    )


async def async_iterator(run: HasResults, items: Any) -> AsyncGenerator[Any, None]:
    if hasattr(items, "__aiter__"):
        closing: Any = contextlib.aclosing if hasattr(items, "aclose") else contextlib.nullcontext
        async with closing(items):
            async for item in items:
                yield item
    else:
        for item in iterable(run, items):
            yield item

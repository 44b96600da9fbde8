"""Pool of actors that share many calls: an idle one gets the next. Uses only `api`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from workbench import api
from workbench.api.actors import ActorHandle
from workbench.errors import GetTimeoutError
from workbench.ref import ObjectRef

Call = Callable[[ActorHandle, Any], Any]
"""Calls an actor with one value, and returns the ref or the list of refs."""


class _Running(NamedTuple):
    result: ObjectRef | list[ObjectRef]
    actor: ActorHandle

    @property
    def refs(self) -> list[ObjectRef]:
        return self.result if isinstance(self.result, list) else [self.result]


class ActorPool:
    """Calls shared among actors: each runs one at a time, other calls wait.

    An actor gets its next call when the result of its last one is fetched. For one thread.

    Parameters
    ----------
    actors : iterable of ActorHandle
        The actors that do the work.

    Examples
    --------
    >>> pool = ActorPool([Model.remote() for _ in range(4)])  # doctest: +SKIP
    >>> list(pool.map(lambda model, x: model.predict.remote(x), batches))  # doctest: +SKIP
    """

    def __init__(self, actors: Iterable[ActorHandle]) -> None:
        self._idle = list(actors)
        self._running: dict[int, _Running] = {}  # by number of the submit, oldest first
        self._pending_submits: deque[tuple[Call, Any]] = deque()
        self._submitted = 0

    def map(self, fn: Call, values: Iterable[Any]) -> Iterator[Any]:
        """Return the results of one call for each value, in the order of the values.

        Calls that were submitted before still run, but their results are dropped.

        Parameters
        ----------
        fn : callable(actor, value) → ObjectRef, or list of ObjectRef
            Makes the call.
        values : iterable
            All are read at once.

        Returns
        -------
        iterator
            Raises a call's error in its place; the next result can still be fetched.
        """
        self._submit_all(fn, values)
        return self._results(self.get_next)

    def map_unordered(self, fn: Call, values: Iterable[Any]) -> Iterator[Any]:
        """Do as `map`, in order of completion.

        Parameters
        ----------
        fn, values
            As in `map`.

        Returns
        -------
        iterator
            As from `map`.
        """
        self._submit_all(fn, values)
        return self._results(self.get_next_unordered)

    def submit(self, fn: Call, value: Any) -> None:
        """Submit one call, to run as soon as an actor is idle.

        Parameters
        ----------
        fn : callable(actor, value) → ObjectRef, or list of ObjectRef
            Makes the call.
        value : object
            Its second argument.

        Raises
        ------
        TypeError
            If ``fn`` returned no ref.
        """
        if not self._idle:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle.pop()
        try:
            result = fn(actor, value)
            running = _Running(result, actor)
            if not running.refs or not all(isinstance(r, ObjectRef) for r in running.refs):
                raise TypeError(
                    f"The function must return what `actor.method.remote(...)` returned, not "
                    f"{type(result).__name__}."
                )
        except BaseException:
            self._idle.append(actor)  # or the pool would lose it
            raise
        self._running[self._submitted] = running
        self._submitted += 1

    def has_next(self) -> bool:
        """True if there is a result to fetch, now or later.

        Returns
        -------
        bool
        """
        return bool(self._running)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Return the result of the earliest call that wasn't fetched.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.
        ignore_if_timedout : bool
            If time is up, drop this result: the actor runs its next call after this one.

        Returns
        -------
        object
            A list of values, if the call has several results.

        Raises
        ------
        StopIteration
            If all results have been fetched.
        GetTimeoutError
            If time is up. Also a TimeoutError.
        TaskError
            What the call raised.
        """
        number = self._oldest()
        refs = self._running[number].refs
        if timeout is not None:
            ready, _ = api.wait(refs, num_returns=len(refs), timeout=timeout)
            if len(ready) < len(refs):
                self._time_is_up(number, timeout, ignore_if_timedout)
        return self._value_of(number)

    def get_next_unordered(
        self, timeout: float | None = None, ignore_if_timedout: bool = False
    ) -> Any:
        """Return the result of the call that is done first.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.
        ignore_if_timedout : bool
            If time is up, drop the earliest call's result: its actor gets its next call.

        Returns
        -------
        object
            As from `get_next`.

        Raises
        ------
        StopIteration, GetTimeoutError, TaskError
            As `get_next` does.
        """
        oldest = self._oldest()
        # A call's results become ready together, so the last one is enough.
        numbers: dict[Any, int] = {
            running.refs[-1]: number for number, running in self._running.items()
        }
        ready, _ = api.wait(list(numbers), num_returns=1, timeout=timeout)
        if not ready:
            self._time_is_up(oldest, timeout, ignore_if_timedout)
        return self._value_of(numbers[ready[0]])

    def has_free(self) -> bool:
        """True if an actor is idle, and no call waits.

        Returns
        -------
        bool
        """
        return bool(self._idle) and not self._pending_submits

    def pop_idle(self) -> ActorHandle | None:
        """Take an idle actor out of the pool.

        Returns
        -------
        ActorHandle or None
            None if none is idle.
        """
        return self._idle.pop() if self.has_free() else None

    def push(self, actor: ActorHandle) -> None:
        """Add an actor.

        Parameters
        ----------
        actor : ActorHandle
            It gets the first waiting call.

        Raises
        ------
        ValueError
            If the pool has it already.
        """
        if actor in self._idle or any(actor == each.actor for each in self._running.values()):
            raise ValueError("This actor belongs to the pool already.")
        self._give_back(actor)

    def _submit_all(self, fn: Call, values: Iterable[Any]) -> None:
        while self._running:
            self._release(self._oldest())
        for value in values:
            self.submit(fn, value)

    def _results(self, get: Callable[[], Any]) -> Iterator[Any]:
        while self._running:
            yield get()

    def _oldest(self) -> int:
        if not self._running:
            raise StopIteration("All results of this pool have been fetched.")
        return next(iter(self._running))

    def _value_of(self, number: int) -> Any:
        return api.get(self._release(number))

    def _time_is_up(self, number: int, timeout: float | None, ignore: bool) -> None:
        if ignore:
            self._release(number)
        after = "Its result is given up." if ignore else "It goes on: ask again later."
        raise GetTimeoutError(f"The call was not done after {timeout} s. {after}")

    def _release(self, number: int) -> Any:
        """Return its result, and free the actor for the next call."""
        running = self._running.pop(number)
        self._give_back(running.actor)
        return running.result

    def _give_back(self, actor: ActorHandle) -> None:
        self._idle.append(actor)
        if self._pending_submits:
            self.submit(*self._pending_submits.popleft())

"""A queue that all processes of a session can share: an actor with an asyncio queue in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from queue import Empty, Full
from typing import Any

from workbench import api
from workbench.api.actor_control import exit_actor, kill
from workbench.api.actors import ActorHandle
from workbench.api.functions import remote
from workbench.errors import ActorDiedError
from workbench.ref import ObjectRef

__all__ = ["Empty", "Full", "Queue"]

MOST_WAITING = 1_000_000
"""Calls that may wait in the actor at a time. A lower limit could be reached by waiting `get`s,
and keep out the `put` that they wait for."""


class Queue:
    """First in, first out, for any number of tasks, actors and drivers.

    It can be passed to tasks, stored in objects and used from threads; it lives as long as
    a process refers to it. Items are pickled, as arguments are: a ref that is put itself stands for
    its object, one inside a list stays a ref.

    Parameters
    ----------
    maxsize : int
        Number of items from which `put` waits. 0: no limit.
    actor_options : dict, optional
        Options for ``.options()`` of its actor, a ``name`` for example.

    Examples
    --------
    >>> queue = Queue(maxsize=100)  # doctest: +SKIP
    >>> producer.remote(queue)  # doctest: +SKIP
    >>> queue.get(timeout=10)  # doctest: +SKIP
    """

    def __init__(self, maxsize: int = 0, actor_options: Mapping[str, Any] | None = None) -> None:
        self.maxsize = maxsize
        options = {"max_concurrency": MOST_WAITING, **(actor_options or {})}
        self.actor: ActorHandle | None = remote(_Items).options(**options).remote(maxsize)
        """The actor that has the items; None after `shutdown`."""

    @property
    def _items(self) -> ActorHandle:
        if self.actor is None:
            raise ActorDiedError("This queue was shut down, and its items are gone.")
        return self.actor

    def qsize(self) -> int:
        """Return the number of items in it.

        Returns
        -------
        int
        """
        size: int = api.get(self._items.qsize.remote())
        return size

    size = __len__ = qsize

    def empty(self) -> bool:
        """True if there is no item in it.

        Returns
        -------
        bool
        """
        return self.qsize() == 0

    def full(self) -> bool:
        """True if the next `put` would wait.

        Returns
        -------
        bool
        """
        return 0 < self.maxsize <= self.qsize()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Put an item at the end; wait for room.

        Parameters
        ----------
        item : object
            Anything that can be stored.
        block : bool
            Whether to wait.
        timeout : float, optional
            Seconds to wait at most.

        Raises
        ------
        Full
            If there is no room, or none within the timeout. It is the standard library's class.
        ValueError
            If the timeout is below 0.
        """
        limit = _limit(block, timeout)
        if not _done(self._items.put.remote(item, limit)):
            raise Full

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Put an item at the end; wait for room, and let other coroutines run meanwhile.

        Parameters
        ----------
        item, block, timeout
            As in `put`.

        Raises
        ------
        Full, ValueError
            As `put` does.
        """
        limit = _limit(block, timeout)
        if not await _done_async(self._items.put.remote(item, limit)):
            raise Full

    def put_nowait(self, item: Any) -> None:
        """Put an item at the end, if there is room now.

        Parameters
        ----------
        item : object
            Anything that can be stored.

        Raises
        ------
        Full
            If there is no room. It is the standard library's class.
        """
        self.put(item, block=False)

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Put all items at the end, or none.

        Parameters
        ----------
        items : iterable
            Anything that can be stored.

        Raises
        ------
        Full
            If there isn't room for all now. It is the standard library's class.
        TypeError
            If ``items`` is not iterable.
        """
        if not isinstance(items, Iterable):
            raise TypeError(f"put_nowait_batch takes several items, not {type(items).__name__}.")
        items = list(items)
        if not api.get(self._items.put_all.remote(items)):
            raise Full(f"There is no room for {len(items)} items (maxsize={self.maxsize}).")

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the first item; wait for one.

        Parameters
        ----------
        block : bool
            Whether to wait.
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        object

        Raises
        ------
        Empty
            If there is no item, or none within the timeout. It is the standard library's class.
        ValueError
            If the timeout is below 0.
        """
        found = _done(self._items.get.remote(_limit(block, timeout)))
        if not found:
            raise Empty
        return found[0]

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the first item; wait for one, and let other coroutines run meanwhile.

        Parameters
        ----------
        block, timeout
            As in `get`.

        Returns
        -------
        object

        Raises
        ------
        Empty, ValueError
            As `get` does.
        """
        found = await _done_async(self._items.get.remote(_limit(block, timeout)))
        if not found:
            raise Empty
        return found[0]

    def get_nowait(self) -> Any:
        """Take the first item, if there is one now.

        Returns
        -------
        object

        Raises
        ------
        Empty
            If there is no item. It is the standard library's class.
        """
        return self.get(block=False)

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Take ``num_items`` items, or none.

        Parameters
        ----------
        num_items : int
            Number of items.

        Returns
        -------
        list

        Raises
        ------
        Empty
            If there are fewer now. It is the standard library's class.
        TypeError, ValueError
            If ``num_items`` is no whole number, or below 0.
        """
        if isinstance(num_items, bool) or not isinstance(num_items, int):
            raise TypeError(f"num_items={num_items!r} must be a whole number.")
        if num_items < 0:
            raise ValueError(f"num_items={num_items} must be 0 or more.")
        items: list[Any] | None = api.get(self._items.get_all.remote(num_items))
        if items is None:
            raise Empty(f"There are fewer than {num_items} items.")
        return items

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """Stop the actor; the items are lost, for every process that has the queue.

        Parameters
        ----------
        force : bool
            Kill its process now.
        grace_period_s : float
            Otherwise, seconds for its process to exit before it is killed.
        """
        if self.actor is None:
            return
        if force or not api.wait([self.actor.leave.remote()], timeout=grace_period_s)[0]:
            kill(self.actor)
        self.actor = None


class _Items:
    """The actor's class. Returns whether a call worked: an exception would cost a traceback."""

    def __init__(self, maxsize: int) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue(maxsize)

    async def put(self, item: Any, limit: float | None) -> bool:
        try:
            if limit == 0:
                self._queue.put_nowait(item)
            else:
                await asyncio.wait_for(self._queue.put(item), limit)
        except (asyncio.QueueFull, TimeoutError):
            return False
        return True

    async def get(self, limit: float | None) -> tuple[Any, ...]:
        try:
            if limit == 0:
                return (self._queue.get_nowait(),)
            return (await asyncio.wait_for(self._queue.get(), limit),)
        except (asyncio.QueueEmpty, TimeoutError):
            return ()

    async def put_all(self, items: list[Any]) -> bool:
        room = self._queue.maxsize - self._queue.qsize()
        if self._queue.maxsize > 0 and len(items) > room:
            return False
        for item in items:
            self._queue.put_nowait(item)
        return True

    async def get_all(self, count: int) -> list[Any] | None:
        if count > self._queue.qsize():
            return None
        return [self._queue.get_nowait() for _ in range(count)]

    async def qsize(self) -> int:
        return self._queue.qsize()

    async def leave(self) -> None:
        exit_actor()


def _limit(block: bool, timeout: float | None) -> float | None:
    if not block:
        return 0
    if timeout is not None and timeout < 0:
        raise ValueError(f"timeout={timeout!r} must be 0 or more.")
    return timeout


def _done(ref: ObjectRef) -> Any:
    try:
        return api.get(ref)
    except Exception:
        raise
    except BaseException:  # Ctrl-C: otherwise this call would still take an item, and lose it
        api.cancel(ref)
        raise


async def _done_async(ref: ObjectRef) -> Any:
    try:
        return await ref
    except Exception:
        raise
    except BaseException:
        api.cancel(ref)
        raise

"""Generators of the refs of a task that yields. Getting the items is the engine's business."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future
from typing import NoReturn, Protocol

from workbench.ref import ObjectRef


class StreamEngine(Protocol):
    """The part of an engine that a generator uses: `Client`'s, as others have no streams."""

    def state(self, ref: ObjectRef) -> str: ...
    def cancel(self, refs: Sequence[ObjectRef]) -> object: ...

    def wait_for_item(self, stream: ObjectRefGenerator) -> None:
        """Wait until the next item is there, or there won't be one."""

    def next_item(self, stream: ObjectRefGenerator) -> Future[None] | None:
        """Return a future of that; None if it is so already."""

    def took(self, stream: ObjectRefGenerator, taken: int, at_once: bool) -> None:
        """Report how many items were taken: `max_ahead` more may be made. Soon, or ``at_once``."""


class ObjectRefGenerator:
    """The refs of a task that yields, one by one, while it runs; ``for`` and ``async for``.

    The task is at most ``max_ahead`` items ahead of its reader, then it waits. When the
    generator is dropped, or closed, the task is cancelled. If the task fails, the last ref
    is that of the failure: `get` raises it.

    Parameters
    ----------
    end : ObjectRef
        The task's own result, the number of items.
    engine : Engine
        The session in which it runs.
    ahead : int
        Number of items that the task may be ahead.

    Attributes
    ----------
    items : deque of ObjectRef
        Items that are there and weren't taken. For the engine.
    """

    __slots__ = (
        "__weakref__", "_ahead", "_end", "_engine", "_over", "_received", "_reported", "items",
    )  # fmt: skip

    def __init__(self, end: ObjectRef, engine: StreamEngine, ahead: int) -> None:
        self.items: deque[ObjectRef] = deque()
        self._end = end
        self._engine = engine
        self._ahead = ahead
        self._received = 0  # items received so far
        self._reported = 0  # taken items that were reported to the engine
        self._over = False  # the last item was taken, or there is none

    @property
    def id(self) -> int:
        """The task's id."""
        return self._end.id

    @property
    def received(self) -> int:
        """Number of items received so far, whether taken or not. For the engine."""
        return self._received

    def add_item(self, ref: ObjectRef) -> None:
        """Add the next item, which is there now. For the engine.

        Parameters
        ----------
        ref : ObjectRef
            The item's ref.
        """
        if not self._over:
            self.items.append(ref)
        self._received += 1

    def completed(self) -> ObjectRef:
        """Return the ref that is ready when the task has ended.

        Returns
        -------
        ObjectRef
            Of the number of items that it made.
        """
        return self._end

    def close(self) -> None:
        """Stop: cancel the task, and drop items that weren't taken."""
        if not self._over:
            self._over = True  # first: items from now on aren't kept
            self.items.clear()
            self._engine.cancel([self._end])

    def __iter__(self) -> Iterator[ObjectRef]:
        return self

    def __next__(self) -> ObjectRef:
        while (ref := self._take()) is None:
            if self._over:
                raise StopIteration
            self.report_taken()  # before the wait: the task may wait for this
            self._engine.wait_for_item(self)
        return ref

    def __aiter__(self) -> AsyncIterator[ObjectRef]:
        return self

    async def __anext__(self) -> ObjectRef:
        import asyncio

        while (ref := self._take()) is None:
            if self._over:
                raise StopAsyncIteration
            self.report_taken()
            stirred = self._engine.next_item(self)
            if stirred is not None:
                await asyncio.wrap_future(stirred)
        return ref

    def _take(self) -> ObjectRef | None:
        """Return the next ref; None if it isn't there yet, or all is over."""
        state = self._engine.state(self._end)  # before the items: all items precede the end
        try:
            ref = self.items.popleft()
        except IndexError:
            if self._over or state not in ("ready", "failed"):
                return None
            self._over = True
            return self._end if state == "failed" else None
        self.report_taken(at_once=not self.taken % ((self._ahead + 1) // 2))
        return ref

    @property
    def taken(self) -> int:
        """Number of items taken so far. For the engine."""
        return self._received - len(self.items)

    def report_taken(self, at_once: bool = True) -> None:
        """Report the number of taken items. For the engine.

        Reports the total each time: if Ctrl-C interrupts after an item is taken, or before it is
        reported, the next call makes up for it.

        Parameters
        ----------
        at_once : bool
            If False, within a few milliseconds, in one message with others that are taken then.
        """
        taken = self.taken
        if taken > self._reported:
            self._engine.took(self, taken, at_once)
            self._reported = taken

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A stream has one reader, in this process: pass the refs it gives, one by one, or when "
            "all are there (`list(generator)`)."
        )

    def __repr__(self) -> str:
        state = "over" if self._over else f"{len(self.items)} waiting"
        return f"ObjectRefGenerator({self._end.hex()}, {state})"


class DynamicObjectRefGenerator:
    """The refs to all that a task with ``num_returns="dynamic"`` has yielded, in order.

    It is that task's result: an object that can be passed on, and keeps the objects alive.
    If the task failed, the last ref is that of its error.

    Parameters
    ----------
    refs : list of ObjectRef
        The refs.
    """

    __slots__ = ("_refs",)

    def __init__(self, refs: list[ObjectRef]) -> None:
        self._refs = refs

    def __iter__(self) -> Iterator[ObjectRef]:
        return iter(self._refs)

    def __len__(self) -> int:
        return len(self._refs)

    def __reduce__(self) -> tuple[type[DynamicObjectRefGenerator], tuple[list[ObjectRef]]]:
        return DynamicObjectRefGenerator, (self._refs,)

    def __repr__(self) -> str:
        return f"DynamicObjectRefGenerator({len(self._refs)} refs)"

"""What holds the refs of a task that yields. How a stream's items come is the engine's business."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import NoReturn, Protocol

from workbench.ref import ObjectRef


class StreamEngine(Protocol):
    """What a stream asks of the engine it belongs to: `Client`, as others have no streams."""

    def state(self, ref: ObjectRef) -> str: ...
    def cancel(self, ref: ObjectRef) -> object: ...

    def wait_for_item(self, stream: ObjectRefGenerator) -> None:
        """Wait until the next item is there, or there won't be one."""

    def next_item(self, stream: ObjectRefGenerator) -> Future[None] | None:
        """A future of that; None if it is so already."""

    def took(self, stream: ObjectRefGenerator, taken: int, at_once: bool) -> None:
        """So many were taken in all: `max_ahead` more may be made. If not ``at_once``, soon."""


class ObjectRefGenerator:
    """The refs of a task that yields, one by one, while it runs; ``for`` and ``async for``.

    The task is at most ``max_ahead`` items ahead of its reader, and waits then. When the
    generator is dropped, or closed, the task is cancelled. If the task fails, the ref of that
    failure is the last one: `get` raises it.

    Parameters
    ----------
    end : ObjectRef
        The task's one result, the number of items.
    engine : Engine
        The session it runs in.
    ahead : int
        How many items the task may be ahead.

    Attributes
    ----------
    items : deque of ObjectRef
        Those that are there and weren't taken. The engine's.
    """

    __slots__ = ("__weakref__", "_ahead", "_came", "_end", "_engine", "_over", "_told", "items")

    def __init__(self, end: ObjectRef, engine: StreamEngine, ahead: int) -> None:
        self.items: deque[ObjectRef] = deque()
        self._end = end
        self._engine = engine
        self._ahead = ahead
        self._came = 0  # items that were there by now
        self._told = 0  # of those that were taken: so many the engine knows of
        self._over = False  # the last one was given, or won't be

    @property
    def id(self) -> int:
        """The task's."""
        return self._end.id

    @property
    def received(self) -> int:
        """How many items have come by now, whether they were taken or not. The engine's."""
        return self._came

    def came(self, ref: ObjectRef) -> None:
        """Add the next item, which is there now. The engine's.

        Parameters
        ----------
        ref : ObjectRef
            The item's.
        """
        if not self._over:
            self.items.append(ref)
        self._came += 1

    def completed(self) -> ObjectRef:
        """The ref that is ready when the task has ended.

        Returns
        -------
        ObjectRef
            Of the number of items it made.
        """
        return self._end

    def close(self) -> None:
        """Take no more: the task is cancelled, items that weren't taken are dropped."""
        if not self._over:
            self._over = True  # before the rest: what comes from now on isn't kept
            self.items.clear()
            self._engine.cancel(self._end)

    def __iter__(self) -> Iterator[ObjectRef]:
        return self

    def __next__(self) -> ObjectRef:
        while (ref := self._take()) is None:
            if self._over:
                raise StopIteration
            self.tell()  # before we wait: the task may wait for this
            self._engine.wait_for_item(self)
        return ref

    def __aiter__(self) -> AsyncIterator[ObjectRef]:
        return self

    async def __anext__(self) -> ObjectRef:
        import asyncio

        while (ref := self._take()) is None:
            if self._over:
                raise StopAsyncIteration
            self.tell()
            stirred = self._engine.next_item(self)
            if stirred is not None:
                await asyncio.wrap_future(stirred)
        return ref

    def _take(self) -> ObjectRef | None:
        """The next ref, or None: then it is not there yet, or all is over."""
        state = self._engine.state(self._end)  # before we look: all items come before the end
        try:
            ref = self.items.popleft()
        except IndexError:
            if self._over or state not in ("ready", "failed"):
                return None
            self._over = True
            return self._end if state == "failed" else None
        self.tell(at_once=not self.taken % ((self._ahead + 1) // 2))
        return ref

    @property
    def taken(self) -> int:
        """How many items were taken by now. The engine's."""
        return self._came - len(self.items)

    def tell(self, at_once: bool = True) -> None:
        """Let the engine know what was taken. The engine's.

        All that were taken, each time: should Ctrl-C have taken one, or come before the engine
        was told, the next call makes up for it.

        Parameters
        ----------
        at_once : bool
            If False, within a few milliseconds, in one message with others that are taken then.
        """
        taken = self.taken
        if taken > self._told:
            self._engine.took(self, taken, at_once)
            self._told = taken

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A stream has one reader, in this process: pass the refs it gives, one by one, or when "
            "all are there (`list(generator)`)."
        )

    def __repr__(self) -> str:
        state = "over" if self._over else f"{len(self.items)} waiting"
        return f"ObjectRefGenerator({self._end.hex()}, {state})"


class DynamicObjectRefGenerator:
    """The refs of all that a task with ``num_returns="dynamic"`` has yielded, in order.

    It is that task's result: an object that can be passed on, and keeps what the refs stand for.
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

"""Generators in the worker that runs them: each item is sent to its reader as it is made."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from workbench.client.arena_writer import Claims
from workbench.client.base import ClientBase
from workbench.client.role import Role
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.engine.lending_future import waiting
from workbench.errors import StoreFullError
from workbench.expressions import describe
from workbench.host.interrupts import Interrupts
from workbench.host.results import Types, async_iterator, check_generator, iterable
from workbench.ref import ObjectRef
from workbench.ref_generator import DynamicObjectRefGenerator as Refs
from workbench.system.ki_protection import ki_protection

_END = object()

Fails = Callable[[BaseException, str], tuple[ev.Value, Sequence[ObjectRef]]]
"""Makes the value of a ref that stands for an error of the named task; and the refs in that."""


class Backpressure:
    """How far one generator may be ahead of its reader.

    The reading thread makes this when the task comes, as the reader may still take what an earlier
    try made, and calls `took`. The rest runs where the task runs.
    """

    def __init__(self, run: do.Run) -> None:
        assert run.spec is not None
        self._ahead = run.spec.ahead
        self._taken = run.taken
        self._skip = run.made  # items that a worker which died had sent
        self.made = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._took = asyncio.Event()

    def has_room(self) -> bool:
        return self.made - self._taken < self._ahead

    def is_new(self) -> bool:
        return self.made >= self._skip

    def narrow(self) -> bool:
        """Limit the unread items to their current number: the store has no room for more. False if
        none is unread: then the reader can't make room."""
        unread = self.made - self._taken
        if unread > 0:
            self._ahead = unread
        return unread > 0

    async def room(self) -> None:
        """Wait until the reader has taken enough for the next item."""
        self._loop = asyncio.get_running_loop()
        while not self.has_room():
            self._took.clear()
            if not self.has_room():
                await self._took.wait()

    def took(self, taken: int) -> None:
        self._taken = taken
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._took.set)


class GeneratorSender:
    """Sends the items of generators that are queued or run in this worker."""

    def __init__(self, base: ClientBase, role: Role, interrupts: Interrupts) -> None:
        self._base = base
        self._role = role
        self._interrupts = interrupts
        self._backpressures: dict[int, Backpressure] = {}

    # -- the reading thread -----------------------------------------------------------------------

    def add(self, run: do.Run) -> None:
        if run.spec is not None and run.spec.ahead > 0:
            self._backpressures[run.task] = Backpressure(run)

    def took(self, message: ev.Took) -> None:
        if message.task in self._backpressures:
            self._backpressures[message.task].took(message.taken)

    def remove(self, task: int) -> None:
        self._backpressures.pop(task, None)

    # -- where the task runs ----------------------------------------------------------------------

    def hand_out(self, run: do.Run, items: Any) -> int:
        """Send each item to the reader as it is made, when there is room; return how many."""
        interrupts, backpressure = self._interrupts, self._backpressures[run.task]
        own = interrupts.inside  # in an actor's thread it isn't this task
        iterator = iter(iterable(run, items))
        try:
            while True:
                self._wait_for_room(backpressure)
                item = next(iterator, _END)
                if item is _END:
                    return backpressure.made
                if backpressure.is_new():
                    interrupts.inside = 0  # no interrupt while an item is sent
                    while True:
                        if self._deliver(run, item, backpressure):
                            break
                        interrupts.inside = own
                        self._wait_for_room(backpressure)
                        interrupts.inside = 0
                    interrupts.inside = own
                    interrupts.check(run.task)
                backpressure.made += 1
        finally:
            getattr(iterator, "close", int)()

    async def hand_out_async(self, run: do.Run, items: Any) -> int:
        """Do the same on a loop: waits for items and room without blocking other calls."""
        backpressure = self._backpressures[run.task]
        async with contextlib.aclosing(async_iterator(run, items)) as iterator:
            while True:
                await backpressure.room()
                item = await anext(iterator, _END)
                if item is _END:
                    return backpressure.made
                while backpressure.is_new() and not self._deliver(run, item, backpressure):
                    await backpressure.room()
                backpressure.made += 1

    def store(self, run: do.Run, items: Any, retry_on: Types, failed: Fails) -> Refs:
        """Store each item as an object; return their refs. An error becomes the last one."""
        items = check_generator(run, items)
        try:
            with self._storing(run, retry_on, failed) as refs:
                for item in items:
                    refs.append(self._put(run, item))
        finally:
            getattr(items, "close", int)()
        return Refs(refs)

    async def store_async(self, run: do.Run, items: Any, retry_on: Types, failed: Fails) -> Refs:
        items = check_generator(run, items)
        with self._storing(run, retry_on, failed) as refs:
            async with contextlib.aclosing(async_iterator(run, items)) as iterator:
                async for item in iterator:
                    refs.append(self._put(run, item))
        return Refs(refs)

    @contextlib.contextmanager
    def _storing(self, run: do.Run, retry_on: Types, failed: Fails) -> Iterator[list[ObjectRef]]:
        """Yield the list for the refs; an error is added to it, unless the task is tried again."""
        refs: list[ObjectRef] = []
        try:
            yield refs
        except retry_on:
            raise
        except Exception as error:
            value, _ = failed(error, run.name)
            about = ev.About("an error", len(value.header), 0, 0, 0.0, 0.0, f"item of {run.name}")
            refs.append(self._base.seal(value, about))

    def _put(self, run: do.Run, item: Any) -> ObjectRef:
        claims: Claims = []
        try:
            names = {f"an item of {run.name}": item}
            encoded = self._base.marshal.encode(item, claims, lambda: names)
            about = encoded.about(describe(item), f"item of {run.name}")
            return self._base.seal(encoded.stored, about, claims)
        except BaseException:
            self._base.arena.withdraw(claims)
            raise

    def _wait_for_room(self, backpressure: Backpressure) -> None:
        if not backpressure.has_room():
            with waiting(self._role.lending):
                self._base.connection.wait_for(backpressure.has_room)

    def _deliver(self, run: do.Run, item: Any, backpressure: Backpressure) -> bool:
        """Send one item; False if it has to wait until its reader has taken others."""
        base = self._base
        claims: Claims = []
        try:
            encoded = base.marshal.encode(item, claims, lambda: {f"an item of {run.name}": item})
            about = encoded.about_large(item, f"item of {run.name}")
            with ki_protection():
                base.connection.send(ev.Yielded(run.task, base.next_id(), encoded.stored, about))
                claims.clear()  # the server's business now
        except StoreFullError:
            base.arena.withdraw(claims)
            if not backpressure.narrow():
                raise
            return False
        except BaseException:
            base.arena.withdraw(claims)
            raise
        return True

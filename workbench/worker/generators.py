"""A stream in the worker that makes it: how far it may be ahead of its reader. Sends nothing."""

from __future__ import annotations

import asyncio

from workbench.core import instructions as do


class Outflow:
    """Counts of one stream. `took` runs in the reading thread, which makes it when the task comes:
    the reader may go on with what an earlier try made. The rest runs where its task does.
    """

    def __init__(self, run: do.Run) -> None:
        assert run.spec is not None
        self._ahead = run.spec.ahead
        self._taken = run.taken
        self._skip = run.made  # a worker that died had sent so many
        self.made = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stirred = asyncio.Event()

    def has_room(self) -> bool:
        """Whether one more may be made now."""
        return self.made - self._taken < self._ahead

    def is_new(self) -> bool:
        """Whether the reader hasn't had the next item from an earlier try."""
        return self.made >= self._skip

    def narrow(self) -> bool:
        """The store has no room for one more: so many may wait there unread, and no more. False
        if none does: then it isn't the reader's turn."""
        unread = self.made - self._taken
        if unread > 0:
            self._ahead = unread
        return unread > 0

    async def room(self) -> None:
        """Wait, on this loop, until there is some."""
        self._loop = asyncio.get_running_loop()
        while not self.has_room():
            self._stirred.clear()
            if not self.has_room():
                await self._stirred.wait()

    def took(self, taken: int) -> None:
        """The reader has taken so many."""
        self._taken = taken
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stirred.set)

"""Memory that pickles are written to: chunks that are reused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.errors import StoreFullError
from workbench.format import human_bytes

LARGE_PIECE = 256 << 10
"""Bytes of a piece from which it is stored as it is, instead of joined with others."""

CHUNK = 1 << 20
"""Bytes of one chunk of scratch memory."""

MOST_SPARE = 16
"""Chunks kept for the next stream."""


class Scratch:
    """Buffers for pickles on their way into the store, reused.

    The first touch of new memory takes as long as copying into it. Any thread may use it; each
    chunk belongs to one stream at a time.
    """

    def __init__(self) -> None:
        self._spare: list[bytearray] = []

    def take(self) -> bytearray:
        try:
            return self._spare.pop()
        except IndexError:
            return bytearray(CHUNK)

    def give_back(self, chunks: list[bytearray]) -> None:
        """Take back chunks whose streams nobody reads any more."""
        self._spare += chunks
        del self._spare[MOST_SPARE:]


class Sink:
    """File for a pickler: copies small pieces into chunks, keeps large ones as they are.

    `write` is a Python method, so that Ctrl-C is handled whenever a frame is full. It takes
    ``limit`` bytes; when they are used up, it calls ``beyond`` once for how many more.
    """

    def __init__(self, limit: int, scratch: Scratch, beyond: Callable[[], int] = int) -> None:
        self.chunks: list[bytearray] = []
        self._pieces: list[Any] = []
        self._scratch = scratch
        self._left = limit
        self._beyond = beyond
        self._filled = 0  # of the last chunk; 0: its piece is complete

    def write(self, data: Any) -> None:
        size = len(data)
        self._left -= size
        if self._left < 0:
            more, self._beyond = self._beyond(), int
            self._left += more
            if self._left < 0:
                raise self._too_much()
        if size >= LARGE_PIECE or not self._pieces:  # most pickles are a single piece
            self._complete()
            self._pieces.append(data)
            return
        if not self._filled or self._filled + size > CHUNK:
            self._complete()
            self.chunks.append(self._scratch.take())
        end = self._filled + size
        self.chunks[-1][self._filled : end] = data
        self._filled = end

    def _too_much(self) -> StoreFullError:
        return StoreFullError(
            f"Pickling was given up after {human_bytes(sum(map(len, self.pieces())))}, which is "
            "more than the whole store holds, or the memory that is left. Put it in pieces, or "
            "start a larger store (`%workbench start --memory …`, `init(memory=…)`), unless "
            "something in the object has no end."
        )

    def _complete(self) -> None:
        if self._filled:
            self._pieces.append(memoryview(self.chunks[-1])[: self._filled])
            self._filled = 0

    def pieces(self) -> list[Any]:
        self._complete()
        return self._pieces

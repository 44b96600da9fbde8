"""Memory that has the bytes of stored buffers, but for the pages that were written since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from workbench.serialization.arrays import Array, address, owner_of
from workbench.system.page_watch import Mark, mark

WATCHED = 1 << 20
"""Bytes from which pages are watched: reading less takes 50 µs."""

KnownMemory = dict[tuple[int, int, int], Mark]
"""Marks of when a value's large buffers had the stored bytes, by number, address and length."""

_put: ContextVar[tuple[Any, KnownMemory]] = ContextVar("put", default=(None, {}))


def marked(array: Array, as_file: bool = False) -> Mark | None:
    """Mark the memory of an array, if it is large and all writes to it can be seen. ``as_file``: it
    has the sealed bytes that it was opened with."""
    if array.nbytes < WATCHED or not array.flags.c_contiguous:
        return None
    return mark(
        address(array), array.nbytes, sealed=hasattr(owner_of(array), "keeps"), as_file=as_file
    )


def unread(number: int, array: Array, old: KnownMemory, new: KnownMemory) -> list[tuple[int, int]]:
    """Return the parts of a buffer, from byte to byte, that may have changed. Read them after this;
    if they are the same, ``new`` is known."""
    begin, length = address(array), array.nbytes
    now, before = marked(array), old.get((number, begin, length))
    if now is not None:
        new[number, begin, length] = now
    if now is None or before is None or before.watch is not now.watch:  # that of before a fork
        return [(0, length)]
    parts = {(first - begin, end - begin) for first, end in before.written}
    parts |= {(0, now.begin - begin), (now.end - begin, length)}  # others use these pages, too
    return sorted(part for part in parts if part[0] < part[1])


@contextmanager
def noting(value: Any) -> Iterator[KnownMemory]:
    """Return what is known of a value's memory once it was put in this context."""
    known: KnownMemory = {}
    token = _put.set((value, known))
    try:
        yield known
    finally:
        _put.reset(token)


def note(value: Any, buffers: Sequence[Array]) -> None:
    """Note the buffers of a value, which are copied after this, if it is put in `noting`."""
    putting, known = _put.get()
    if putting is value is not None:
        known.clear()
        for number, buffer in enumerate(buffers):
            unread(number, buffer, {}, known)

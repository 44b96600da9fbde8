"""What a lesson measures: where bytes lie, what memory grew, how long it took. Shows nothing.

Also imported in tasks: it needs no session and no notebook, and what `where` gives can be pickled.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from workbench import context
from workbench.course.words import Said, say
from workbench.report.format import human_bytes, human_seconds
from workbench.report.reasons import chips

Row = tuple[Said | str, ...]

POINTER = 8
"""Bytes: what an array of Python objects has of each."""

NOTICED = 1_000_000
"""Bytes of memory that count as growth: less comes and goes by itself."""


@dataclass
class Measurement:
    """An answer that was measured, and the figures it was made from.

    Attributes
    ----------
    answer : str or float or bool or tuple
        What is compared with the guess.
    choices : tuple of str
        The words that a guess can be; empty if it is no word.
    rows : list of tuple
        The figures, a row each: what it is, and one or two values.
    head : tuple
        What stands above the columns; empty if there is one value a row.
    unit : str
        Of a number: ``s``.
    """

    answer: Any
    choices: tuple[str, ...] = ()
    rows: list[Row] = field(default_factory=list)
    head: Row = ()
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Location:
    """Where the bytes of a value lie in one process; made by `where`.

    Attributes
    ----------
    pid : int
        The process.
    address, nbytes : int
        The first byte's address there, and how many there are.
    inode : int
        Of the file that is mapped there; 0 if it is the process's own memory.
    device : str
        The file's device.
    offset : int
        The first byte's place in that file, in bytes.
    writable : bool
        Whether the process may write to it.
    own_pages, pages : int
        In how many of its pages the process has a copy of its own.
    """

    pid: int
    address: int
    nbytes: int
    inode: int = 0
    device: str = ""
    offset: int = 0
    writable: bool = True
    own_pages: int = 0
    pages: int = 1

    def shares(self, other: Location) -> bool:
        """Whether some of its bytes are the very same memory as the other's."""
        if self.pid == other.pid and _overlap(
            self.address, self.nbytes, other.address, other.nbytes
        ):
            return True
        same_file = (self.inode, self.device) == (other.inode, other.device)
        return bool(
            self.inode
            and same_file
            and self.own_pages < self.pages
            and other.own_pages < other.pages
            and _overlap(self.offset, self.nbytes, other.offset, other.nbytes)
        )


def _overlap(first: int, length: int, second: int, other: int) -> bool:
    return first < second + other and second < first + length


# -- where it lies ---------------------------------------------------------------------------------


def where(value: Any) -> Location:
    """Where the bytes of a value lie, in the process that asks; in tasks too.

    Parameters
    ----------
    value : object
        An array, a column of a table, an Arrow array, or anything with a buffer. Of anything else
        it is the Python object itself.

    Returns
    -------
    Location
    """
    address, nbytes = _bounds(value)
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, access, offset, device, inode = line.split()[:5]
        start, end = (int(part, 16) for part in span.split("-"))
        if start <= address < end:
            break
    else:
        return Location(os.getpid(), address, nbytes)
    if inode == "0":
        return Location(os.getpid(), address, nbytes)
    first, last = address // mmap.PAGESIZE, (address + max(nbytes, 1) - 1) // mmap.PAGESIZE
    pages = last - first + 1
    return Location(
        os.getpid(),
        address,
        nbytes,
        int(inode),
        device,
        int(offset, 16) + address - start,
        access[1] == "w",
        _own_pages(first, pages) if access[3] == "p" else 0,
        pages,
    )


def _own_pages(first: int, pages: int) -> int:
    """How many pages of a private mapping this process has written to, and so has copied.

    From ``/proc/self/pagemap`` (the kernel's Documentation/admin-guide/mm/pagemap.rst): bit 63, a
    page is in memory; 62, swapped; 61, it is the file's.
    """
    try:
        with open("/proc/self/pagemap", "rb") as file:
            file.seek(8 * first)
            entries = memoryview(file.read(8 * pages)).cast("Q")
    except OSError:
        return 0
    return sum(1 for entry in entries if entry >> 62 & 1 or entry >> 61 & 5 == 4)


def _bounds(value: Any) -> tuple[int, int]:
    """(address, bytes) of what a value shows, or of its Python object."""
    if isinstance(value, Location):
        raise TypeError("This is a place already: give it to `sharing` as it is.")
    if hasattr(value, "columns") and hasattr(value, "iloc"):
        raise TypeError("A table's columns lie apart from each other: give one of them.")
    if any(base.__name__ == "ArrowExtensionArray" for base in _bases(value)):
        value = value.array.__arrow_array__()  # as pandas keeps text, and what Arrow's types are of
    if hasattr(value, "chunk") and hasattr(value, "num_chunks"):
        value = value.chunk(0)
    if isinstance(value, np.generic):  # a Python object, as any other number is
        return id(value), value.__sizeof__()
    if callable(getattr(value, "buffers", None)):
        buffers = [each for each in value.buffers() if each is not None]
        largest = max(buffers, key=lambda each: each.size)
        return largest.address, largest.size
    if not hasattr(value, "__array_interface__") and hasattr(value, "to_numpy"):
        value = value.to_numpy()
    interface = getattr(value, "__array_interface__", None)
    if interface is None:
        try:
            return _of_buffer(memoryview(value))
        except TypeError:
            return id(value), value.__sizeof__()
    address, shape = interface["data"][0], interface["shape"]
    item = int(interface["typestr"][2:] or POINTER)
    low = high = 0
    for length, stride in zip(shape, interface["strides"] or _strides(shape, item), strict=True):
        reach = (length - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return address + low, (high - low + item) if 0 not in shape else 0


def _bases(value: Any) -> tuple[type, ...]:
    """Of what a pandas column has its values in."""
    return type(getattr(value, "array", None)).__mro__


def _strides(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    strides = []
    for length in reversed(shape):
        strides.append(item)
        item *= length
    return tuple(reversed(strides))


def _of_buffer(view: memoryview) -> tuple[int, int]:
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0]), view.nbytes


def sharing(first: Any, second: Any) -> Measurement:
    """Whether two values are the same memory, in one process or in two.

    The same bytes have the same inode and offset in every process, whatever their addresses are.

    Parameters
    ----------
    first, second : object or Location
        Values of this process, or what `where` gave, here or in a task.

    Returns
    -------
    Measurement
        ``shared`` or ``copy``.

    Examples
    --------
    >>> x = bytearray(10)
    >>> sharing(memoryview(x)[:5], x).answer
    'shared'
    """
    places = [each if isinstance(each, Location) else where(each) for each in (first, second)]
    one, two = places
    rows: list[Row] = [
        (say("process"), *(str(place.pid) for place in places)),
        (say("address"), *(f"{place.address:#x}" for place in places)),
        (say("shared file (inode)"), *(_inode(place) for place in places)),
        (say("offset in that file"), *(_offset(place) for place in places)),
    ]
    if any(place.own_pages for place in places):
        rows.append((say("pages copied on write"), *map(_pages, places)))
    head = "", say("first"), say("second")
    return Measurement("shared" if one.shares(two) else "copy", ("shared", "copy"), rows, head)


def _inode(place: Location) -> Said | str:
    return str(place.inode) if place.inode else say("none: private memory")


def _offset(place: Location) -> str:
    return f"{place.offset:,}".replace(",", " ") if place.inode else "–"


def _pages(place: Location) -> Said:
    return say("{own} of {all}", own=place.own_pages, all=place.pages)


def identity(first: Any, second: Any) -> Measurement:
    """Whether two names mean the same Python object, as ``is`` says.

    Parameters
    ----------
    first, second : object
        Values of this process.

    Returns
    -------
    Measurement
        ``same object`` or ``another object``.
    """
    answer = "same object" if first is second else "another object"
    rows: list[Row] = [(say("id"), f"{id(first):#x}", f"{id(second):#x}")]
    return Measurement(answer, ("same object", "another object"), rows, ("", *_FIRST_SECOND))


_FIRST_SECOND = say("first"), say("second")


# -- what grew, how long it took -------------------------------------------------------------------


class Growth(Measurement):
    """What grew while a block ran; made by `memory`.

    Attributes
    ----------
    kernel : int
        By how many bytes this process's own memory grew (``RssAnon``).
    store : int
        By how many bytes the store's objects grew.
    """

    kernel: int = 0
    store: int = 0


@contextmanager
def memory() -> Iterator[Growth]:
    """Around a block: whose memory grew, this process's own or the store's.

    Own memory is ``RssAnon`` of ``/proc/self/status``: what no other process has.

    Yields
    ------
    Growth
        ``kernel``, ``store``, ``both`` or ``neither``, when the block has ended.
    """
    found = Growth("neither", ("kernel", "store", "both", "neither"))
    before = own_memory(), occupancy()
    yield found
    after = own_memory(), occupancy()
    found.kernel, found.store = (now - then for now, then in zip(after, before, strict=True))
    grew = found.kernel > NOTICED, found.store > NOTICED
    found.answer = {(True, True): "both", (True, False): "kernel", (False, True): "store"}.get(
        grew, "neither"
    )
    found.head = "", say("before"), say("after")
    found.rows = [
        (say("this process's own memory"), human_bytes(before[0]), human_bytes(after[0])),
        (say("objects in the store"), human_bytes(before[1]), human_bytes(after[1])),
    ]


def own_memory() -> int:
    """Bytes that only this process has: ``RssAnon``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def occupancy() -> int:
    """Bytes that the objects of the current session take in memory; 0 without a session."""
    engine = context.get()
    if engine is None or engine.ended is not None:
        return 0
    engine.settle()
    return engine.summary().live or 0


def kept(id: str) -> Measurement:
    """How many megabytes the store still has of one object.

    Parameters
    ----------
    id : str
        The object's id, as ``ref.hex()`` gives it: who has only that doesn't keep the object.

    Returns
    -------
    Measurement
        A number of MB, 0 if the object is gone.
    """
    engine = context.get()
    found = None
    if engine is not None and engine.ended is None:
        engine.settle()
        records = engine.snapshot().objects
        found = next((each for each in records if f"{each.id:016x}" == id), None)
    if found is None:
        return Measurement(0.0, unit="MB", rows=[(say("in the store"), say("nothing of it"))])
    rows: list[Row] = [
        (say("in the store"), human_bytes(found.size)),
        (say("kept by"), ", ".join(chips(found))),
    ]
    return Measurement(found.size / 1e6, unit="MB", rows=rows)


@contextmanager
def bars() -> Iterator[Measurement]:
    """Around a block: which part of the store's bar grew most.

    Yields
    ------
    Measurement
        ``live``, ``reusable`` or ``available``, when the block has ended.
    """
    found = Measurement("", BARS, head=("", say("before"), say("after")))
    before = _bars()
    yield found
    after = _bars()
    growth = [now - then for now, then in zip(after, before, strict=True)]
    found.answer = BARS[growth.index(max(growth))]
    found.rows = [
        (say(bar), human_bytes(then), human_bytes(now))
        for bar, then, now in zip(BARS, before, after, strict=True)
    ]


BARS = "live", "reusable", "available"


def _bars() -> tuple[int, int, int]:
    """Bytes of each part, as the view of the store shows them."""
    engine = context.get()
    if engine is None or engine.ended is not None:
        return 0, 0, 0
    engine.settle()
    now = engine.summary()
    live, reusable = now.live or 0, now.warm_free or 0
    return live, reusable, max(0, (now.capacity or 0) - live - reusable)


@contextmanager
def seconds() -> Iterator[Measurement]:
    """Around a block: how long it takes.

    Yields
    ------
    Measurement
        A number of seconds, when the block has ended.
    """
    found = Measurement(0.0, unit="s")
    began = time.perf_counter()
    yield found
    found.answer = time.perf_counter() - began
    found.rows = [(say("time"), human_seconds(found.answer))]


def answer(value: Any, facts: Mapping[str, Any], choices: tuple[str, ...] = ()) -> Measurement:
    """An answer that a cell has measured itself.

    Parameters
    ----------
    value : object
        What came out: a word, a number, or a tuple of words in an order.
    facts : mapping
        The figures it comes from: what each is, and its value.
    choices : tuple of str, optional
        The words that a guess can be.

    Returns
    -------
    Measurement
    """
    return Measurement(value, choices, [(say(label), str(each)) for label, each in facts.items()])

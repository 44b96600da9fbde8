"""Where the bytes of a value lie in a process, as the kernel tells it. Shows and compares nothing
but that.

Also imported in tasks: it needs no session and no notebook, and what `where` gives can be pickled.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workbench.serialization.shared_memory import bounds


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
    own_pages, pages : int
        In how many of its pages the process has a copy of its own.
    """

    pid: int
    address: int
    nbytes: int
    inode: int = 0
    device: str = ""
    offset: int = 0
    own_pages: int = 0
    pages: int = 1

    def shares(self, other: Location) -> bool:
        """True if some of its bytes are the very same memory as the other's."""
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
    kinds = type(getattr(value, "array", None)).__mro__  # of what has a pandas column's values
    if any(base.__name__ == "ArrowExtensionArray" for base in kinds):
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
    if not hasattr(value, "__array_interface__"):
        try:
            value = np.frombuffer(value, np.uint8)
        except TypeError:
            return id(value), value.__sizeof__()
    begin, end = bounds(np.asarray(value))
    return begin, end - begin

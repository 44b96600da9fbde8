"""How the kernel and the allocators divide this process's memory. Looks at no Python object."""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path

import numpy as np

from workbench.system.sizes import PAGE

LARGE = 256 << 10
"""Bytes from which on it is seen which pages of an allocation have been written."""

READ_AT_ONCE = 1 << 16
"""Pages whose entries are read at once, 8 bytes each."""

_MAPPING = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)\n"
    r"(?:\w+: .*\n)*?Rss: +(\d+) kB\nPss: +(\d+) kB\n(?:\w+: .*\n)*?Anonymous: +(\d+) kB\n",
    re.MULTILINE,
)
"""Of ``smaps``: a mapping's bounds, access and path; its memory, this process's share of that, and
what of it is no file's."""

_PRESENT, _EXCLUSIVE = np.uint64(1 << 63), np.uint64(1 << 63 | 1 << 56)
_FILES = np.uint64(1 << 61)
"""Bits of ``pagemap``: the page is in memory, and in this process alone; it is (still) a file's. Of
a page that was read and never written, the kernel's page of zeros is present, which is no memory of
the process."""

_KINDS = (
    ("store", re.compile(r".... /memfd:workbench")),
    ("shared", re.compile(r"...s")),
    ("files", re.compile(r".... (/|\[v)")),
)
"""Kinds of mappings, by access and path; all others are ``private``."""


class ProcessMemory:
    """This process's memory when it was made. Bytes.

    ``resident`` is all of it: ``private`` (of no file, shared with nobody), ``files`` that are
    mapped, the ``store`` as far as it was used here, and other ``shared`` memory. ``python`` and
    ``malloc`` are (used, kept free) of the private memory: in Python's arenas of small objects,
    and by the C library; zeros if these don't tell.
    """

    def __init__(self) -> None:
        sizes = dict.fromkeys(("private", "files", "store", "shared"), 0)
        self._mappings: list[tuple[int, int, str, bool]] = []
        text = ""
        with suppress(OSError):  # no Linux
            text = Path("/proc/self/smaps").read_text()
        for found in _MAPPING.finditer(text):
            begin, end = (int(part, 16) for part in found.group(1, 2))
            named = f"{found[3]} {found[4]}"
            kind = next((kind for kind, form in _KINDS if form.match(named)), "private")
            resident, proportional, anonymous = (int(kB) * 1024 for kB in found.group(5, 6, 7))
            if kind == "store":  # pages that were copied to be written to are private
                sizes["private"] += anonymous
                resident -= anonymous
            sizes[kind] += resident
            is_forked = proportional < resident  # a child has the pages, too
            is_shared = kind == "files" or not found[3].endswith("p")
            self._mappings.append((begin, end, "shared" if is_shared else kind, is_forked))
        self.private, self.files, self.store, self.shared = sizes.values()
        self.resident = sum(sizes.values())
        self.python, self.malloc = _python(), _malloc()

    def taken(self, address: int, nbytes: int) -> tuple[int, int]:
        """Return how many bytes of a range are private memory, and how many will be once they are
        written to.

        A large array of ``numpy.empty`` or ``zeros`` takes memory only where somebody has written,
        and so does one whose pages are copies of the store's.
        """
        place = bisect_right(self._mappings, (address + 1,)) - 1
        _, end, kind, is_forked = self._mappings[place] if place >= 0 else (0, 0, "", False)
        kind = kind if address < end else "private"  # mapped since
        is_private = kind == "private"
        if kind == "shared" or (is_private and nbytes < LARGE):
            return nbytes * is_private, 0
        wanted = _PRESENT if is_forked else _EXCLUSIVE
        first, last = address // PAGE, -(-(address + nbytes) // PAGE)
        pages = 0
        try:
            with open("/proc/self/pagemap", "rb", buffering=0) as file:
                file.seek(8 * first)
                for left in range(last - first, 0, -READ_AT_ONCE):
                    entries = np.frombuffer(file.read(8 * min(left, READ_AT_ONCE)), np.uint64)
                    # The bits are those of the kernel's pagemap.rst.
                    pages += int((entries & (wanted | _FILES) == wanted).sum())
        except OSError:  # it doesn't tell
            return nbytes * is_private, 0
        found = min(pages * PAGE, nbytes)
        return found, (nbytes - found) * is_private


def _python() -> tuple[int, int]:
    """Read pymalloc's figures from the text that it writes for `sys._debugmallocstats`."""
    libc, text = ctypes.CDLL(None), ctypes.c_char_p()
    try:
        write = ctypes.pythonapi._PyObject_DebugMallocStats
        libc.open_memstream.restype = ctypes.c_void_p
        file = libc.open_memstream(ctypes.byref(text), ctypes.byref(ctypes.c_size_t()))
        write(ctypes.c_void_p(file))
        libc.fclose(ctypes.c_void_p(file))
        said = (text.value or b"").replace(b",", b"")
        libc.free(text)
        (used,) = re.findall(rb"^# bytes in allocated blocks += +(\d+)", said, re.MULTILINE)
        (arenas,) = re.findall(rb"bytes/arena += +(\d+)", said)
        return int(used), int(arenas) - int(used)
    except (AttributeError, ValueError):  # hidden, or without pymalloc
        return 0, 0


def _malloc() -> tuple[int, int]:
    """Ask glibc: see mallinfo(3)."""
    fields = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    members = [(name, ctypes.c_size_t) for name in fields.split()]
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except AttributeError:  # an old one, or another library
        return 0, 0
    ask.restype = type("mallinfo2", (ctypes.Structure,), {"_fields_": members})
    told = ask()
    return told.uordblks + told.hblkhd, told.fordblks

"""Which files in some directories are opened by anybody: Linux tells (inotify), also of what code
in C opens."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterable, Iterator
from typing import Self

MOST_DIRECTORIES = 200

_IN_OPEN, _IN_IS_DIRECTORY, _IN_OVERFLOW = 0x20, 0x40000000, 0x4000
_EVENT = struct.Struct("iIII")


class OpenedFiles:
    """Files that are opened in directories from now on; of the ``whole`` ones, also in those inside
    them. A context.

    ``is_complete``: False if there were more directories or files than could be watched.
    """

    def __init__(self, whole: Iterable[str], directories: Iterable[str] = ()) -> None:
        libc = ctypes.CDLL(None)
        self._fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watched: dict[int, str] = {}
        self.is_complete = self._fd >= 0
        for directory in dict.fromkeys([*directories, *_all_inside(whole)]):
            if len(self._watched) >= MOST_DIRECTORIES:
                self.is_complete = False
                break
            watch = libc.inotify_add_watch(self._fd, os.fsencode(directory), _IN_OPEN)
            if watch >= 0:
                self._watched[watch] = directory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def take(self) -> set[str]:
        """Return the paths of the files that were opened."""
        found: set[str] = set()
        with contextlib.suppress(BlockingIOError, OSError):
            while data := os.read(self._fd, 1 << 16):
                for watch, mask, name in _events(data):
                    if mask & _IN_OVERFLOW:
                        self.is_complete = False
                    elif not mask & _IN_IS_DIRECTORY and name and watch in self._watched:
                        found.add(os.path.join(self._watched[watch], name))
        return found


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    place = 0
    while place < len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, place)
        place += _EVENT.size
        yield watch, mask, os.fsdecode(data[place : place + length].rstrip(b"\0"))
        place += length


def _all_inside(directories: Iterable[str]) -> Iterator[str]:
    """Yield directories and those inside them, the outer ones first; no hidden ones."""
    queue = list(dict.fromkeys(directories))
    for directory in queue:  # grows while it is read
        yield directory
        queue += _inside(directory)


def _inside(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            found = list(entries)
    except OSError:
        return []
    return [
        entry.path
        for entry in found
        if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
    ]

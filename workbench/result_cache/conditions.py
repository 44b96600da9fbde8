"""What lies outside of a process and a result depends on: files, directories, versions of packages.

Taken when the result is made; held against what is there when it is asked for.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import packages_distributions
from typing import NamedTuple

import xxhash

SETTLED = 2.0
"""Seconds after its last change from which on a file's time tells that it is unchanged: clocks of
file systems are coarse, and two changes may have one time."""

_PACKAGE = re.compile(r"(.+)-([^-]+)\.(?:dist|egg)-info$")


class FileState(NamedTuple):
    """A regular file. ``time``: of the last change, in ns; 0: it doesn't tell."""

    size: int
    time: int
    digest: str


class LookedAt(NamedTuple):
    """A regular file as `os.stat` tells it; ``size`` is -1 of a directory, which only is there."""

    size: int
    time: int


def look_at(path: str) -> LookedAt | None:
    """Return what tells whether a file changes; None if there is neither it nor a directory."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(found.st_mode):
        return LookedAt(-1, 0)
    # The second time is Linux's own: nobody sets it, as `cp -p` or a rename does the first.
    time = max(found.st_mtime_ns, found.st_ctime_ns)
    return LookedAt(found.st_size, time) if stat.S_ISREG(found.st_mode) else None


def read_state(path: str) -> FileState | None:
    """Return a file's state; None if it can't be read. Reads all of it."""
    before = look_at(path)
    if before is None or before.size < 0:
        return before and FileState(*before, "")
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, xxhash.xxh3_128)
    except OSError:
        return None
    is_settled = time.time_ns() - before.time > SETTLED * 1e9
    return FileState(before.size, before.time if is_settled else 0, digest.hexdigest())


def digest_of_file(path: str) -> str:
    """Return a digest of a file's content; '' if it can't be read."""
    state = read_state(path)
    return "" if state is None else state.digest


def directory_state(path: str) -> str:
    """Return a digest of the names in a directory; '' if there is none."""
    try:
        return xxhash.xxh3_128_hexdigest(os.fsencode("\0".join(sorted(os.listdir(path)))))
    except OSError:
        return ""


@dataclass
class Conditions:
    """``files`` by path, None where there was none; ``directories`` by path; ``versions`` by
    package."""

    files: dict[str, FileState | None] = field(default_factory=dict)
    directories: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def changed(self) -> list[str]:
        """Return what isn't as it was: names of files, directories, packages; empty: all is."""
        there = installed()
        return [
            *(path for path, was in self.files.items() if not _is_as(path, was)),
            *(path for path, was in self.directories.items() if directory_state(path) != was),
            *(name for name, was in self.versions.items() if there.get(name) != was),
        ]


def _is_as(path: str, was: FileState | None) -> bool:
    now = look_at(path)
    if now is None or was is None:
        return now is None and was is None and not os.path.lexists(path)
    if now.size != was.size:
        return False
    if now.time == was.time:
        return True
    state = read_state(path)
    return state is not None and state.digest == was.digest


def installed() -> Mapping[str, str]:
    """Return the versions of the packages that this process can import, by normalized name."""
    found: dict[str, str] = {}
    for place in reversed(sys.path):
        try:
            changed = os.stat(place or ".").st_mtime_ns
        except OSError:
            continue
        found |= _packages_in(os.path.abspath(place or "."), changed)
    return found


@functools.lru_cache(100)
def _packages_in(directory: str, changed: int) -> Mapping[str, str]:
    """Return the versions of the packages in a directory, which was last changed then."""
    try:
        matches = map(_PACKAGE.match, os.listdir(directory))
    except OSError:
        return {}
    return {_normalized(match[1]): match[2] for match in matches if match is not None}


def versions_of(modules: Iterable[str]) -> dict[str, str]:
    """Return the versions of the packages that the modules are of. Takes some 100 ms."""
    there = installed()
    packages = _packages_by_module(tuple(there.items()))
    tops = {name.partition(".")[0] for name in modules}
    names = {_normalized(each) for top in tops for each in packages.get(top, ())}
    return {name: there[name] for name in sorted(names) if name in there}


@functools.lru_cache(1)
def _packages_by_module(installed: tuple[tuple[str, str], ...]) -> Mapping[str, list[str]]:
    return packages_distributions()


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

"""Limits: a cgroup's (v1 or v2) on the memory of a test's process and its children, as a container
has; and on the descriptors of any process."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import psutil

from tests.leaks import eventually

_LIMITS = ("memory.limit_in_bytes", "memory.max")


def _parent() -> Path | None:
    """The directory of this process's memory cgroup, if we may make another below."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(",") or not controllers:
            for root in ("memory", "", "unified"):
                directory = Path("/sys/fs/cgroup", root, path.lstrip("/"))
                if any((directory / name).exists() for name in _LIMITS) and os.access(
                    directory, os.W_OK
                ):
                    return directory
    return None


@contextlib.contextmanager
def memory(nbytes: int) -> Iterator[Path | None]:
    """A cgroup with that limit, for who writes his pid to its ``cgroup.procs``.

    None where we may not make one. It has to be empty at the end.
    """
    parent = _parent()
    if parent is None:
        yield None
        return
    group = parent / f"workbench-test-{os.getpid()}"
    group.mkdir()
    try:
        limit = next((group / name for name in _LIMITS if (group / name).exists()), None)
        if limit is None:
            yield None
        else:
            limit.write_text(str(nbytes))
            yield group
    finally:
        group.rmdir()


@contextlib.contextmanager
def descriptors(pid: int, others: int = 0) -> Iterator[None]:
    """A process has no other descriptors than those it has, or only so many. What it forks
    meanwhile takes that over, and is given the usual ones at the end, too."""
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    unused = (number for number in range(limits[1]) if number not in used)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (next(islice(unused, others, None)), limits[1]))
    try:
        yield
    finally:
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError), _halted(pid):
            for each in chain((pid,), _children(pid)):
                with contextlib.suppress(ProcessLookupError):
                    resource.prlimit(each, resource.RLIMIT_NOFILE, limits)


@contextlib.contextmanager
def _halted(pid: int) -> Iterator[None]:
    """Not in the middle of a fork: what comes of that has the limits from before it."""
    if pid == os.getpid():
        yield
        return
    process = psutil.Process(pid)
    process.suspend()
    try:
        halts = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
        assert eventually(lambda: process.status() in halts)
        yield
    finally:
        process.resume()


def _children(pid: int) -> Iterator[int]:
    """Looked for when the first is asked for."""
    with contextlib.suppress(psutil.NoSuchProcess):
        yield from (child.pid for child in psutil.Process(pid).children(recursive=True))

"""Limits: a cgroup's (v1 or v2) on the memory of a test's process and its children, as a container
has; and on the descriptors of any process."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

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
    """A process has no other descriptors than those it has, or only so many."""
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    unused = (number for number in range(limits[1]) if number not in used)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (next(islice(unused, others, None)), limits[1]))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

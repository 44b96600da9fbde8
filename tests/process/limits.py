"""A memory limit for a test's process and its children, as a container has: a cgroup, v1 or v2."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
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

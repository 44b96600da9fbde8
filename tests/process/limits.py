"""A limit on the descriptors of any process."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from itertools import islice


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

"""Events that the server's own loop notices: connections that end, workers, memory, copies.

They never come from a client; the forkserver sends two of them.
"""

from __future__ import annotations

from workbench.core.events import Event


class Left(Event, tag=101):
    """A client's connection is gone, for whatever reason."""


class WorkerForked(Event, tag=102):
    """The pool's process for worker number ``worker`` exists."""

    worker: int
    pid: int


class WorkerExited(Event, tag=103):
    """That process is gone. ``status`` as from ``os.waitstatus_to_exitcode``.

    ``stderr`` is the end of what it wrote to that descriptor: a C library's last words, or the
    fault handler's traceback. ``running`` is the last task it began, 0 if none is known; ``begun``:
    of each of its lines, as far as they are noted, the number of the last call that it began.
    ``unsent`` is what its tasks had shown and it hadn't sent: of each piece the task, what kind it
    is of, and its content. ``unforked`` says why there never was a process, if there wasn't; then
    ``status`` is 0, or what the forkserver ended with.
    """

    worker: int
    status: int
    stderr: str = ""
    running: int = 0
    unforked: str = ""
    unsent: tuple[tuple[int, str, bytes], ...] = ()
    begun: tuple[tuple[int, int], ...] = ()


class Measured(Event, tag=105):
    """The answer to Measure. Bytes: what is ``available`` before the machine, or our container,
    runs out; the ``total``; and what each worker's process has to itself."""

    available: int
    total: int
    workers: tuple[tuple[int, int], ...]


class Copied(Event, tag=106):
    """The answer to Copy. ``error`` says why it failed, and nothing was written, or it is ''.

    ``passing``: it was for want of a descriptor, at this moment.
    """

    object: int
    digest: int = 0
    error: str = ""
    passing: bool = False


class Tick(Event, tag=104):
    """Nothing but time has passed."""

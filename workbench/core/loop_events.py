"""Events that the server's own loop notices: connections that end, workers, memory, copies.

Clients never send them; the forkserver sends two of them.
"""

from __future__ import annotations

from typing import NamedTuple

from workbench.core.events import Event


class Left(Event, tag=101):
    """A client's connection is gone, for whatever reason."""


class WorkerForked(Event, tag=102):
    """The pool's process for worker number ``worker`` exists."""

    worker: int
    pid: int


class WorkerExited(Event, tag=103):
    """A worker's process is gone. ``status`` as from ``os.waitstatus_to_exitcode``.

    ``stderr`` is the end of what it wrote there: a C library's message, or the fault handler's
    traceback. ``running`` is the last task it began, 0 if unknown. ``begun`` has pairs (line,
    number of the last call by it that began), as far as noted. ``unsent`` is output of its tasks
    that it hadn't sent, as (task, kind, data). ``unforked`` says why the process couldn't be
    started; then ``status`` is 0, or the forkserver's exit status.
    """

    worker: int
    status: int
    stderr: str = ""
    running: int = 0
    unforked: str = ""
    unsent: tuple[tuple[int, str, bytes], ...] = ()
    begun: tuple[tuple[int, int], ...] = ()


class DriverExited(Event, tag=107):
    """The process of a driver has ended, after its connection. ``status`` as in WorkerExited; None
    if Linux doesn't tell.

    In the last ``seconds`` Linux killed ``oom_kills`` processes of the machine because memory ran
    out; None: it doesn't tell.
    """

    client: int
    status: int | None
    oom_kills: int | None = None
    seconds: float = 0.0


class MeasuredProcess(NamedTuple):
    """A process that was measured: a client's, or one that it has started. Sizes in bytes."""

    client: int
    pid: int
    private: int  # memory that it alone has, and has touched: Linux's RssAnon
    data: int  # the same, touched or not: VmData
    code: int  # of its libraries: VmLib
    limit: int  # its soft limit for that


class Measured(Event, tag=105):
    """The answer to Measure, in bytes: memory that is ``available`` on the machine or in our
    container, and the ``total``."""

    available: int
    total: int
    processes: tuple[MeasuredProcess, ...]


class Copied(Event, tag=106):
    """The answer to Copy. ``error`` says why it failed, '' if it didn't.

    ``passing``: it failed because the server had no descriptor left at that moment.
    """

    object: int
    digest: int = 0
    error: str = ""
    passing: bool = False


class Tick(Event, tag=104):
    """Nothing but time has passed."""

"""Instructions: everything that a session asks to be done. Plain data; no behaviour.

The first part are messages to clients; the last part is for the server's own loop.
"""

from __future__ import annotations

import msgspec

from workbench.core.descriptions import Account, ObjectDescription
from workbench.core.events import Event, Output, Refresh, Register, Relay, TaskSpec, Took, Value
from workbench.core.snapshot import Change, JobRecord, Snapshot


class Welcome(Event, tag=1):
    """The answer to Hello."""

    session: str
    workers: int
    capacity: int
    spill_dir: str = ""


class Ready(Event, tag=2):
    """The object's value: where its bytes are, or (``value.failed``) the error that reading
    raises."""

    object: int
    value: Value


class Found(Event, tag=3):
    """The answer to Find; carries one hold on ``object``. 0: no object has that name."""

    request: int
    object: int


class Shared(Event, tag=4):
    """A segment that is new to the client; its read-only descriptor travels with this message."""

    segment: int
    size: int


class Run(Event, tag=5):
    """Run this task, or ``method`` of this worker's actor (``__init__`` makes it).

    ``values`` has one Value per dep, then the function's if the worker doesn't have it.

    A worker keeps a function's Value, even of a task that it gives back, until Forget. ``last``:
    the task can't be retried, so its results are sent before all else. Of a generator that runs
    again, ``made`` items were made before, and its reader took ``taken``. An actor was made again
    ``made`` times. ``line``: that it came by, if the server didn't send it. ``root``: see `Submit`.
    """

    task: int
    function: int
    args: bytes
    deps: tuple[int, ...]
    values: tuple[Value, ...]
    returns: int
    name: str
    origin: int
    method: str = ""
    last: bool = False
    spec: TaskSpec | None = None
    made: int = 0
    taken: int = 0
    line: int = 0
    root: int = 0


class Recall(Event, tag=6):
    """Give back up to ``count`` tasks that you haven't started."""

    count: int


class Forget(Event, tag=7):
    """These objects are freed: answer with Unview, once for each.

    ``unused``: no task needs them either, so drop the functions that were loaded from them.
    """

    objects: tuple[int, ...]
    unused: bool = False


class Release(Event, tag=8):
    """These extents (offset, length) of your arena are free again.

    ``cold``: their memory has been given back to the machine, and your grant is smaller by it.
    """

    extents: tuple[tuple[int, int], ...]
    cold: bool = False


class Trim(Event, tag=9):
    """Give up to ``nbytes`` of free warm memory back to the machine; answer with Trimmed."""

    nbytes: int


class Grown(Event, tag=10):
    """The answer to Grow. With a ``text`` it is refused: the text says why nothing can move to
    disk, and ``snapshot`` has the largest objects.

    Memory that the asker got back meanwhile (Release) is subtracted, so 0 may mean yes.
    """

    request: int
    granted: int
    text: str = ""
    snapshot: Snapshot | None = None


class Answer(Event, tag=11):
    """The answer to Ask."""

    request: int
    snapshot: Snapshot | None = None
    account: Account | None = None
    text: str = ""
    description: ObjectDescription | None = None
    names: tuple[str, ...] = ()
    jobs: tuple[JobRecord, ...] = ()
    outputs: tuple[Output, ...] | None = None


class Stop(Event, tag=14):
    """Interrupt this task if it runs, drop it if it hasn't begun."""

    task: int


class Explain(Event, tag=16):
    """Find what holds this object in your process. Answered by Explained.

    ``deep``: search all objects, however long that takes.
    """

    inquiry: int
    object: int
    deep: bool = False


class Moved(Event, tag=18):
    """The object's bytes have moved; answered by Noted.

    The old place isn't reused until you have answered and your last view of it is gone.
    """

    object: int
    value: Value


class Unshare(Event, tag=19):
    """Unmap this segment: no object is in it any more."""

    segment: int


class Item(Event, tag=15):
    """The next item of a generator that the client reads; carries one hold on ``object``."""

    task: int
    object: int
    value: Value


class Collected(Event, tag=20):
    """The answer to Collect, after the output that the job has shown so far.

    Carries one hold on each of the ``results``; 0 stands for a freed one. ``job`` is None if there
    is no such job any more.
    """

    request: int
    job: JobRecord | None
    results: tuple[int, ...] = ()


class Began(Event, tag=21):
    """A job that you submitted or collected runs now, on this worker, perhaps once more."""

    job: int
    worker: int


class JobComplete(Event, tag=23):
    """All tasks of this job are submitted: you had collected it when only some of them were.

    ``size``: its number of tasks, fewer than announced if its submitter was stopped or left.
    ``results``: those after the ones that you had, as in Collected.
    """

    job: int
    size: int
    results: tuple[int, ...]


class Changed(Event, tag=22):
    """Changes since the last such message, or the next part of the whole session: see Subscribe."""

    request: int
    change: Change


class Ended(Event, tag=40):
    """The session has ended for you; ``reason`` is a sentence. A hang-up follows."""

    reason: str


class Reopen(Event, tag=44):
    """Send Opened once more: the descriptors of your segment got lost on their way."""

    segment: int


class CollectGarbage(Event, tag=46):
    """Run the garbage collector: the store fills up, and cycles may hold refs."""


class Attach(Event, tag=47):
    """To a worker: its end of a new line travels with this message. Answered by Attached."""

    line: int


class Offer(Event, tag=48):
    """To a caller of ``actor``: its end of the line, which travels with this message. Answered by
    Attached. With ``actor`` 0, the line leads to a worker lent to a driver, for tasks of these
    functions, with only these objects as arguments. The worker knows all that the driver had said
    up to the submission of ``last``."""

    line: int
    actor: int = 0
    functions: tuple[int, ...] = ()
    last: int = 0
    objects: tuple[int, ...] = ()


class Lent(Event, tag=56):
    """To a worker, before Attach or a call of the line's caller: calls by that line may have these
    objects as arguments. They don't move until the worker has returned the line."""

    line: int
    objects: tuple[int, ...]
    values: tuple[Value, ...]


class TakeBack(Event, tag=55):
    """To the worker of a lease or an actor: accept nothing more by the line, and send Returned when
    no call that came by it runs any more."""

    line: int


class Grant(Event, tag=49):
    """All this client's calls of the actor up to ``last`` are over: if it made no later one, the
    next may go by the line, with only these objects as arguments."""

    line: int
    last: int
    objects: tuple[int, ...] = ()


class LineEnded(Event, tag=53):
    """The worker is gone, or has returned the line. Read the rest of what it sent, then answer with
    LineClosed. ``begun``: the number of the last call by this line that began, if the worker is
    gone and noted that."""

    line: int
    begun: int = -1


class Report(Event, tag=51):
    """To a worker: tell the server, too, the result of this call, which came by a line."""

    line: int
    task: int


class Detach(Event, tag=52):
    """To a worker: run what has come by the line, and close it. Its caller needs no answers."""

    line: int


Message = (
    Welcome | Ready | Found | Shared | Run | Recall | Forget | Release | Trim | Grown
    | Answer | Stop | Item | Explain | Moved | Unshare | Collected | Began | Changed
    | JobComplete | Ended | Reopen | CollectGarbage
    | Output | Took | Refresh | Register
    | Attach | Offer | Lent | TakeBack | Grant | LineEnded | Report | Detach | Relay
)  # fmt: skip
"""All messages that the server may send. The fourth row and Relay are forwarded unchanged."""


# -- for the server's own loop ---------------------------------------------------------------


class Send(msgspec.Struct, frozen=True, gc=False):
    """Queue ``message`` for client ``to``."""

    to: int
    message: Message


class Hangup(Event, tag=101):
    """Close this client's connection. ``is_fault``: tell it why, and the server's log too."""

    client: int
    reason: str
    is_fault: bool = True


class Fork(Event, tag=102):
    """Have the forkserver make the process of worker number ``worker``."""

    worker: int


class Kill(Event, tag=103):
    """SIGKILL the worker's process and those it started; with ``grace`` after a moment in which it
    can end in order."""

    worker: int
    grace: bool = False


class Punch(Event, tag=104):
    """Give the memory of these extents back to the machine: no process uses them."""

    segment: int
    extents: tuple[tuple[int, int], ...]


class Discard(Event, tag=105):
    """Close the descriptors of this segment: no object is in it."""

    segment: int


class Copy(Event, tag=108):
    """Copy the object's ``length`` bytes from one place (segment, offset) to another; answered by
    Copied. The target segment is the server's own; if it doesn't exist, make it: ``size`` bytes, on
    disk or in memory."""

    object: int
    source: tuple[int, int]
    target: tuple[int, int]
    length: int
    size: int
    disk: bool


class Connect(Event, tag=109):
    """Make the two ends of a line, and send Attach to the client ``worker``."""

    line: int
    worker: int


class Disconnect(Event, tag=110):
    """Close the ends of a line that the server still has."""

    line: int


class WatchDriver(Event, tag=112):
    """Answer the end of this client's process with DriverExited."""

    client: int


class Measure(Event, tag=107):
    """Measure how much memory is left, and what these ``clients`` have, and the processes that
    they have started; answered by Measured."""

    clients: tuple[int, ...] = ()


class LimitData(Event, tag=111):
    """Set the soft limits of processes for private memory, as triples of the pid and, in bytes,
    the limit and the one that was measured: a process that has set another one keeps that."""

    limits: tuple[tuple[int, int, int], ...]


class EndProcess(Event, tag=113):
    """SIGKILL this process: a driver, a worker, or one that such a process has started."""

    pid: int


class Exit(Event, tag=106):
    """End the server: the session is over."""


Anything = (
    Send | Hangup | Fork | Kill | Punch | Discard | Copy | Connect | Disconnect | WatchDriver
    | Measure | LimitData | EndProcess | Exit
)  # fmt: skip

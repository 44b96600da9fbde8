"""Everything a session asks to be done. Plain data; no behaviour.

The first part is what clients are sent; the last part is for the server's own loop.
"""

from __future__ import annotations

import msgspec

from workbench.core.descriptions import Account, ObjectDescription
from workbench.core.events import Event, Output, Refresh, Register, Relay, TaskSpec, Took, Value
from workbench.core.snapshot import Change, JobRecord, Snapshot


class Instruction(Event):
    """Base of all instructions. Tags are the wire format: never reuse a number."""


class Welcome(Instruction, tag=1):
    """The answer to Hello."""

    session: str
    workers: int
    capacity: int
    spill_dir: str = ""


class Ready(Instruction, tag=2):
    """What there is to know of the object: where it is, or (``value.failed``) why it isn't."""

    object: int
    value: Value


class Found(Instruction, tag=3):
    """The answer to Find; carries one hold on ``object``. 0: there is no such name."""

    request: int
    object: int


class Shared(Instruction, tag=4):
    """A segment the client has not seen yet; its read-only descriptor travels beside this."""

    segment: int
    size: int


class Run(Instruction, tag=5):
    """Run this task, or ``method`` of the actor this worker is (``__init__`` makes it).

    ``values`` holds one Value per dep, then the function's if it is new.

    A worker keeps a function's Value, even of a task it gives back, until it is to forget it.
    ``last``: it may not be run again, so its results are to be handed over before all else.
    Of a stream that is made again, ``made`` items were made before; its reader took ``taken``. An
    actor was made again ``made`` times. ``line``: by which it came; not from the server, then.
    ``root``: see `Submit`.
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


class Recall(Instruction, tag=6):
    """Give back up to ``count`` tasks you have not started."""

    count: int


class Forget(Instruction, tag=7):
    """These objects are gone: answer with Unview, once each.

    ``unused``: no task needs them either, so drop what was made of them as functions.
    """

    objects: tuple[int, ...]
    unused: bool = False


class Release(Instruction, tag=8):
    """These extents (offset, length) of your arena are yours again.

    ``cold``: their memory has been given back to the machine, and your grant is less by it.
    """

    extents: tuple[tuple[int, int], ...]
    cold: bool = False


class Trim(Instruction, tag=9):
    """Give up to ``nbytes`` of free warm memory back to the machine; answer with Trimmed."""

    nbytes: int


class Granted(Instruction, tag=10):
    """The answer to Grow. With a ``text`` it means no: why nothing can move to disk. ``snapshot``
    then has the largest objects.

    What the asker has got back meanwhile (Release) isn't granted, so it may be 0 and mean yes.
    """

    request: int
    granted: int
    text: str = ""
    snapshot: Snapshot | None = None


class Answer(Instruction, tag=11):
    """The answer to Ask."""

    request: int
    snapshot: Snapshot | None = None
    account: Account | None = None
    text: str = ""
    description: ObjectDescription | None = None
    names: tuple[str, ...] = ()
    jobs: tuple[JobRecord, ...] = ()
    outputs: tuple[Output, ...] | None = None


class Stop(Instruction, tag=14):
    """Stop this task if it runs, drop it if it doesn't yet."""

    task: int


class Explain(Instruction, tag=16):
    """Where in your process is this object held? Answered by Explained.

    ``deep``: look at all there is, however long that takes.
    """

    inquiry: int
    object: int
    deep: bool = False


class Moved(Instruction, tag=18):
    """The object's bytes are in another place now; answered by Noted.

    The old place stays as it is until you have answered and your last view of it is gone.
    """

    object: int
    value: Value


class Unshare(Instruction, tag=19):
    """Nothing lies in this segment any more: unmap it."""

    segment: int


class Item(Instruction, tag=15):
    """The next item of a stream that the client reads; carries one hold on ``object``."""

    task: int
    object: int
    value: Value


class Collected(Instruction, tag=20):
    """The answer to Collect, after what the job has shown so far: what it was until now.

    Carries one hold on each of the ``results``; 0 stands for one that is gone. None: there is no
    such job any more.
    """

    request: int
    job: JobRecord | None
    results: tuple[int, ...] = ()


class Began(Instruction, tag=21):
    """This job, of yours or collected by you, runs now: on this worker, perhaps once more."""

    job: int
    worker: int


class JobComplete(Instruction, tag=23):
    """All of this job is submitted: you collected it before, and had only some of its results.

    ``size``: how many tasks it is, fewer than were announced if its maker has stopped or left. The
    ``results`` are those after the ones you had, as in Collected.
    """

    job: int
    size: int
    results: tuple[int, ...]


class Changed(Instruction, tag=22):
    """What has changed since the last one, or the next part of all there is: see Subscribe."""

    request: int
    change: Change


class Ended(Instruction, tag=40):
    """Somebody has ended the session, for the ``reason`` that stands there; a hang-up follows."""

    reason: str


class Reopen(Instruction, tag=44):
    """The descriptors of your segment got lost on their way: send Opened once more."""

    segment: int


class CollectGarbage(Instruction, tag=46):
    """The store fills up: let go of objects that nothing has but references in a ring."""


class Attach(Instruction, tag=47):
    """To a worker: its end of a new line travels beside this. Answered by Attached."""

    line: int


class Offer(Instruction, tag=48):
    """To a caller of ``actor``: the other end. Answered by Attached. Or, if that is 0, to a driver:
    the other end of a line to a worker that is lent to it, for tasks of these functions, with these
    objects as arguments or none. Of what it has said, the worker knows all up to the submission of
    ``last``."""

    line: int
    actor: int = 0
    functions: tuple[int, ...] = ()
    last: int = 0
    objects: tuple[int, ...] = ()


class Lent(Instruction, tag=56):
    """To a worker, before Attach or a call of the line's caller: what comes by that line may have
    these objects as arguments, which stay where they are until it has returned the line."""

    line: int
    objects: tuple[int, ...]
    values: tuple[Value, ...]


class TakeBack(Instruction, tag=55):
    """To a worker that was lent, or an actor's: let nothing more come by the line, and say Returned
    when nothing that came runs any more."""

    line: int


class Grant(Instruction, tag=49):
    """All calls of the actor that came from this client are over, up to ``last``: if there was no
    later one, the next may go by the line, with these objects as arguments or none."""

    line: int
    last: int
    objects: tuple[int, ...] = ()


class LineEnded(Instruction, tag=53):
    """The worker is gone, or has returned the line. Read what it has said; then LineClosed answers.
    If it is gone, and left a note: ``begun`` is the number of the last call by this line that
    began."""

    line: int
    begun: int = -1


class Report(Instruction, tag=51):
    """The result of this call, which came by a line, is to be told to the server, too."""

    line: int
    task: int


class Detach(Instruction, tag=52):
    """The caller is gone, or knows all: run what has come by the line, and close it."""

    line: int


Message = (
    Welcome | Ready | Found | Shared | Run | Recall | Forget | Release | Trim | Granted
    | Answer | Stop | Item | Explain | Moved | Unshare | Collected | Began | Changed
    | JobComplete | Ended | Reopen | CollectGarbage
    | Output | Took | Refresh | Register
    | Attach | Offer | Lent | TakeBack | Grant | LineEnded | Report | Detach | Relay
)  # fmt: skip
"""What the server may send. The fourth row and Relay are forwarded as they came."""


# -- for the server's own loop ---------------------------------------------------------------


class Send(msgspec.Struct, frozen=True, gc=False):
    """Queue ``message`` for client ``to``."""

    to: int
    message: Message


class Hangup(Instruction, tag=101):
    """Close this client's connection. ``is_fault``: it is told why, and the server's log too."""

    client: int
    reason: str
    is_fault: bool = True


class Fork(Instruction, tag=102):
    """Have the pool make the process for worker number ``worker``."""

    worker: int


class Kill(Instruction, tag=103):
    """SIGKILL that worker's process, and what it started; with ``grace`` only after a moment in
    which it may end in order."""

    worker: int
    grace: bool = False


class Punch(Instruction, tag=104):
    """Give the memory of these extents back to the machine: nobody writes or shows them now."""

    segment: int
    extents: tuple[tuple[int, int], ...]


class Discard(Instruction, tag=105):
    """Close the descriptors of this segment: nothing lives in it."""

    segment: int


class Copy(Instruction, tag=108):
    """Copy the object's ``length`` bytes from one segment (segment, offset) to another; Copied
    answers. The target is one of the server's own, made now if there is none of that number:
    ``size`` bytes, on disk or in memory."""

    object: int
    source: tuple[int, int]
    target: tuple[int, int]
    length: int
    size: int
    disk: bool


class Connect(Instruction, tag=109):
    """Make the two ends of a line, and send Attach to the ``worker``."""

    line: int
    worker: int


class Disconnect(Instruction, tag=110):
    """Close what is left here of a line's ends."""

    line: int


class Measure(Instruction, tag=107):
    """Find out how much memory is left, and who has it; answered by Measured."""


class Exit(Instruction, tag=106):
    """The session is over."""


Anything = (
    Send | Hangup | Fork | Kill | Punch | Discard | Copy | Connect | Disconnect | Measure | Exit
)

"""What a person's tools (api, magics, views) may ask of a session, whatever runs it: its protocols.

`Engine` is all of them; `Observed` is what a session of another system answers too. Nothing
outside `engines` knows which engine it is: what one can't do, its `can` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from workbench.core.descriptions import Account, ObjectDescription
from workbench.core.events import About, Output
from workbench.core.snapshot import Change, JobRecord, Snapshot
from workbench.engine.following import Arrivals as Arrivals
from workbench.engine.following import Changes as Changes
from workbench.engine.lending_future import Lending
from workbench.engine.records import Abilities as Abilities
from workbench.engine.records import Call as Call
from workbench.engine.records import CollectedJob as CollectedJob
from workbench.engine.records import Comparing as Comparing
from workbench.engine.records import Copying as Copying
from workbench.engine.records import Exported as Exported
from workbench.engine.records import Lack as Lack
from workbench.engine.records import Running as Running
from workbench.engine.records import Shown as Shown
from workbench.engine.tally import CallTally
from workbench.errors import WorkbenchError
from workbench.options import ActorOptions, TaskOptions
from workbench.ref import ObjectRef
from workbench.ref_generator import ObjectRefGenerator

if TYPE_CHECKING:
    from workbench.serialization.comparison import ChangeCheck, Comparison
    from workbench.serialization.packing import PackedValues

Waitable = ObjectRef | ObjectRefGenerator


def first_ready(
    refs: Sequence[Waitable], ready: Iterable[bool], count: int
) -> tuple[list[Waitable], list[Waitable]]:
    """The first ``count`` that are ready, or as many as are; and all others. In order both."""
    chosen: list[Waitable] = []
    others: list[Waitable] = []
    for place, (ref, is_ready) in enumerate(zip(refs, ready, strict=False)):
        if not is_ready:
            others.append(ref)
            continue
        chosen.append(ref)
        if len(chosen) == count:
            others += refs[place + 1 :]
            break
    return chosen, others


"""What one can wait for; of a stream, the next item."""

Submitted = ObjectRef | list[ObjectRef] | ObjectRefGenerator | None
"""For ``num_returns`` of 1, of more, of ``"streaming"``, and of 0."""

OutputSink = Callable[[Output], None]
"""Called with what tasks show; in any thread, so it must be quick.

``kind`` is ``stdout`` or ``stderr`` (data: UTF-8 text), or ``display``, ``update`` or ``clear``
(data: JSON, the content of Jupyter's ``display_data``, ``update_display_data`` or
``clear_output`` message), or ``comm``: what a widget says (data: JSON, an object of ``msg_type``:
``comm_open``, ``comm_msg`` or ``comm_close``, with that message's ``content`` and ``metadata``,
and its ``buffers`` in base64). ``origin`` is the number that the task was submitted with,
``worker`` the one it runs on, 0 if that isn't known any more.
"""

ROOT_NOTE = "\0"
"""In the name of a root: what follows stands behind the path from there, for a person."""


class Observed(Protocol):
    """A session as far as views show it: Workbench's own, or one of another system. Any thread."""

    can: Abilities

    @property
    def session(self) -> str:
        """The session's unique name."""

    @property
    def ended(self) -> str | None:
        """Why the session is over for this process; None while it isn't."""

    def snapshot(self) -> Snapshot:
        """The whole session, frozen."""

    def changes(self) -> Changes:
        """The same, followed: see `Changes`."""

    def settle(self) -> None:
        """Return when what this process let go of or made before is in what `changes` brings, if
        that is soon."""

    def held(self) -> dict[int, tuple[tuple[str, str], ...]]:
        """By object, where this process holds it, as far as that is found soon.

        Each is (variable, ``ref`` or ``view``), as an `Account`'s places are.
        """

    def copy_speed(self) -> float | None:
        """Bytes a second that this process can copy at best, measured now; None if nobody knows."""


class Store(Protocol):
    """Objects: stored, read, kept, named, looked up."""

    def put(self, value: Any, name: str = "") -> tuple[ObjectRef, About]:
        """Store a value, under a name if given; returns its handle and what it cost."""

    def get(self, refs: Sequence[ObjectRef], timeout: float | None, copy: Copying) -> list[Any]:
        """The values, in order; raises what a failed one failed with."""

    def wait(
        self, refs: Sequence[Waitable], num_returns: int, timeout: float | None
    ) -> tuple[list[Waitable], list[Waitable]]:
        """(ready, not ready) once ``num_returns`` are ready or time is up."""

    def arrivals(self, refs: Iterable[ObjectRef]) -> Arrivals:
        """These as they become ready."""

    def future(self, ref: ObjectRef) -> Future[Any]:
        """A future of the value."""

    def state(self, ref: ObjectRef) -> str:
        """What this process knows of the object, in a word or two. Asks nobody, never raises."""

    def peek(self, ref: ObjectRef) -> Any:
        """The value of an object that is ready, to be shown; see `serialization.safe_load`.

        LookupError says why it isn't built.
        """

    def compare(self, ref: ObjectRef, value: Any, check: ChangeCheck, spent: float) -> Comparison:
        """Whether a value is still what is stored as this object: `ChangeCheck.run`. Asks nobody.

        LookupError says why that can't be told: the object is on disk.
        """

    def borrow(self, id: int) -> ObjectRef:
        """The handle of an object another process told us of."""

    def escaped(self, ref: ObjectRef) -> tuple[Any, ...]:
        """The ref is being pickled outside the store: its object stays until it is freed.

        Returns what makes the ref again, as ``__reduce__`` does.
        """

    def free(self, refs: Sequence[ObjectRef]) -> None:
        """Drop the objects, whatever pins them."""

    def pin(self, ref: ObjectRef, on: bool, site: str = "") -> None:
        """Keep the object, in memory, until somebody says otherwise.

        ``site`` says where that was said, if not in the code that calls.
        """

    def spill(self, ref: ObjectRef) -> str:
        """Move the object to disk; returns when it is there: '', or why that can't be."""

    def find(self, name: str) -> ObjectRef | None:
        """The object of that name."""

    def names(self, beginning: str = "") -> list[str]:
        """All names that begin so, sorted; of more than 10 000, so many."""

    def name(self, ref: ObjectRef, name: str) -> None:
        """Give the object a name, and take that from what had it."""

    def unname(self, name: str) -> None:
        """Take a name away from its object."""

    def why(self, what: int | str, deep: bool = False) -> Account | None:
        """All that keeps an object, from everybody who holds it. By id, or by a name or id as text.

        None if there is none. ``deep``: each looks at all it has, however long that takes.
        """

    def identify(self, text: str) -> ObjectRef | None:
        """The object whose id that is: as errors and lists show it, or its beginning or end.

        None if there is none. ObjectLostError if several have such ids.
        """

    def describe(self, ref: ObjectRef, patient: bool = False) -> ObjectDescription | None:
        """The object at a glance; None if it is unknown, or nobody answers soon. Never raises.

        ``patient``: however long the answer takes, for who acts on it.
        """

    def search(self, pattern: str, order: str, most: int) -> Change:
        """Of the objects that match, those that come first, in no order, and how many others."""

    def shown(self, array: Any) -> Shown | None:
        """The object whose bytes an array (or memoryview) shows; None if they are its own."""

    def held_in(self, value: Any, name: str) -> dict[int, tuple[tuple[str, str], ...]]:
        """By object, where a value that is called ``name`` refers to it or shows it; see `held`."""

    def stored_as(self, value: Any) -> ObjectRef | None:
        """The handle of the object that this value is a view of, of all of it. Asks nobody.

        Who sends the one instead of the other sends the same, without a copy. Only what can't
        change is recognised: arrays, not the tables and containers that hold them. None also if
        no handle lives in this process.
        """

    def put_from(self, value: Any) -> ObjectRef | None:
        """The object that `put` last made of this large value, which may have changed since."""

    def copying(self) -> tuple[int, int] | None:
        """Of a large put in this process, copying now: (bytes that are in the store, of how many).

        Asks nobody, never waits.
        """

    def register(
        self, cls: type, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
    ) -> None:
        """Serialize instances of exactly this class so, here and in all workers."""

    def deregister(self, cls: type) -> None:
        """Don't any more. Nothing happens if it wasn't registered."""

    def reducers(self) -> Mapping[type, Callable[[Any], Any]]:
        """The reducers this process uses before pickle's own, by exact type."""


class Tasks(Protocol):
    """Functions that run on the pool, and what they yield."""

    def submit(self, function: Exported, call: Call[TaskOptions]) -> Submitted:
        """Run a function; a handle for its result, or what there is instead."""

    def together(self) -> AbstractContextManager[None]:
        """Around several submits: they may wait for each other for a moment."""

    def cancel(self, ref: ObjectRef, force: bool, recursive: bool) -> None:
        """Stop the task that makes this object, and those it has submitted."""

    def withdraw(self, ref: ObjectRef) -> bool:
        """Drop the task that makes this object; whether it hadn't been sent to a worker."""

    def has_begun(self, ref: ObjectRef) -> bool:
        """Whether the task that makes this object was sent to a worker, or is over."""

    def actor_of(self, ref: ObjectRef) -> str:
        """The name of the actor whose call makes this object; '' if none does, or did by now."""

    def waiting(
        self, refs: Sequence[ObjectRef] = (), some: bool = False
    ) -> AbstractContextManager[None]:
        """Around code in a task that waits: for all of these (``some``: for one), or until it ends,
        if it waits for none. Meanwhile others run in its place."""

    @property
    def lending(self) -> Lending | None:
        """What futures lend by while a task waits for them; None if this process has no slot."""

    tally: Callable[[], CallTally | None]
    """Where the calls that the running cell submits are counted; None if nobody looks."""

    def wait_for_item(self, stream: ObjectRefGenerator) -> None:
        """Wait until the stream's next item is there, or there won't be one."""

    def next_item(self, stream: ObjectRefGenerator) -> Future[None] | None:
        """A future of that; None if it is so already."""

    def took(self, stream: ObjectRefGenerator, taken: int, at_once: bool) -> None:
        """So many were taken in all: `max_ahead` more may be made. If not ``at_once``, soon."""


class Actors(Protocol):
    """Instances that live in workers of their own."""

    def create(
        self, blueprint: Exported, description: Any, call: Call[ActorOptions]
    ) -> tuple[ObjectRef, ObjectRef | None]:
        """Make an actor; the handle it lives by, and that of another which has its name already:
        then there is no new one. ``description`` is what `get` of the handle gives."""

    def call(self, actor: ObjectRef, method: str, call: Call[TaskOptions]) -> Submitted:
        """Run a method of an actor: see `ActorMethod.remote` for when."""

    def find_actor(self, name: str) -> ObjectRef | None:
        """The actor of that name."""

    @property
    def namespace(self) -> str:
        """In which actors' names are given and looked up, if nothing else is said."""

    def actor_names(self) -> list[str]:
        """The names of all actors that have one and live, with their namespaces; sorted."""

    def running(self) -> Running:
        """Where the calling code runs."""

    def kill_actor(self, actor: ObjectRef, restart: bool) -> None:
        """End an actor now; with ``restart`` it is made again, if it may be."""


class Cells(Protocol):
    """What a notebook needs to run cells elsewhere, and to show what they show."""

    output: OutputSink | None
    logs: bool
    """Whether what tasks print is to be seen here; background cells' output always is."""
    began: Callable[[int, int], None] | None
    completed: Callable[[int, int, list[ObjectRef | None]], None] | None
    """(job, worker) of one that runs; (job, size, other results) of a collected one, once whole."""
    origin: Callable[[], int]
    """Asked at each submit: the number that the task carries to ``output``."""
    roots: Callable[[], Mapping[str, Any]]
    """Asked for what holds objects under a name that is no variable's: see `ROOT_NOTE`."""

    def is_shut_down(self) -> None:
        """A person has shut this process's kernel down, for good. Jupyter's server kills it if it
        hasn't ended in some seconds, so the session hears of it now. Any thread."""

    def jobs(self) -> tuple[JobRecord, ...]:
        """All background cells that are remembered; a summary has only the last ones."""

    def collect(self, job: int, name: str = "") -> CollectedJob | None:
        """Have what a background cell has shown, and will show, sent here, and hold its results.

        It goes to ``output`` with the number that ``origin`` gives now. None: there is no such job.
        With a ``name``: only hold what it assigned to that, one of each task.
        """

    def pack(
        self,
        value: Any,
        parts: Callable[[], Mapping[str, Any]],
        numbers: Mapping[int, int] | None = None,
    ) -> tuple[PackedValues, Any]:
        """A value as it travels inside an argument or a result, and the memo of its objects.

        See `serialization.packing.pack`. The refs in it are known to whoever stores it.
        """

    def shown_by(self, job: int) -> tuple[Output, ...] | None:
        """What a background cell has shown so far, or the last of it; None: no such job."""

    def interrupt(self, origin: int, jobs: Sequence[int], force: bool, timeout: float) -> bool:
        """Stop all that was submitted with this number, and these jobs; but no other jobs.

        Waits for their end; False if that took longer than ``timeout``. ``force`` as in `cancel`.
        """

    def refresh(self) -> None:
        """Source files may have changed: workers shall look before their next task."""


class Engine(Observed, Store, Tasks, Actors, Cells, Protocol):
    """A session, whatever runs it. All methods may be called from any thread.

    Every call but ``state`` raises SessionError once the session is over; ``get`` still gives
    what this process has, until ``close``.
    """

    joined: bool
    """Whether the session was there before this process came."""
    system: str
    """What runs it: ``local``, ``ray`` or ``dask``; words alone may depend on it."""
    inherits: bool
    """Whether its workers began with this process's directory, ``sys.path`` and environment."""
    leave: Callable[[], None]
    """What the end of ``with init():`` calls."""

    def __enter__(self) -> Self:
        """``with init() as session:``; the block's end is a `lifecycle.shutdown`."""

    def __exit__(self, *error: object) -> None: ...

    def __getitem__(self, key: str) -> str:
        """``session["address"]`` is what `init` takes as its ``address``: see `address_info`."""

    @property
    def address_info(self) -> dict[str, str]:
        """Ray's, as far as there is such a thing: ``address`` and ``node_id``."""

    @property
    def workers(self) -> int:
        """How many worker processes it has."""

    @property
    def capacity(self) -> int:
        """Bytes that its store may hold."""

    def summary(self) -> Snapshot:
        """`snapshot` with a few of the objects that have a name, however many there are."""

    def overview(self) -> Snapshot | None:
        """`summary`, for a card; None if nobody answers soon. Never raises."""

    def mimebundle(self, thing: object) -> dict[str, str]:
        """What Jupyter is given to show a ref, an actor's handle, or the session."""

    def huge_pages(self) -> str:
        """What became of the wish for huge pages, to a person; '' if nobody wished."""

    def keep(self, linger: float) -> None:
        """The session shall outlive its last driver by so many seconds."""

    def close(self, goodbye: bool = True) -> None:
        """Leave the session. Idempotent. Without goodbye it lingers, as if we had crashed."""

    def abandon(self) -> None:
        """In a forked child: let go of the session, the parent's. Arrays that show objects stay."""


def engine_of(ref: ObjectRef) -> Engine:
    """The engine a ref belongs to: all of it, of which a ref itself needs a part."""
    return ref._engine  # type: ignore[return-value]


def acting_on(observed: Observed, ability: str) -> Engine:
    """The engine of a session that is observed, to do one thing with it.

    Raises
    ------
    WorkbenchError
        If it can't do that; the sentence is the one in its `can`.
    """
    obstacle: str = getattr(observed.can, ability)
    if obstacle:
        raise WorkbenchError(obstacle)
    return cast(Engine, observed)

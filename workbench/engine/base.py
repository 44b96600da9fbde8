"""Protocols of what a person's tools (api, magics, views) can ask of a session, on any engine.

`Engine` has all of it; `Observed` is the part that sessions of other systems answer too. Nothing
outside `engines` knows which engine it is: `can` says what an engine can't do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, cast

from workbench.core.events import About
from workbench.core.snapshot import Snapshot
from workbench.engine.following import Arrivals as Arrivals
from workbench.engine.following import Changes as Changes
from workbench.engine.lending_future import Lending
from workbench.engine.presentation import SessionPresentation
from workbench.engine.queries import Query
from workbench.engine.records import Abilities as Abilities
from workbench.engine.records import Call as Call
from workbench.engine.records import CellListener as CellListener
from workbench.engine.records import CollectedJob as CollectedJob
from workbench.engine.records import Comparing as Comparing
from workbench.engine.records import Copying as Copying
from workbench.engine.records import Exported as Exported
from workbench.engine.records import Running as Running
from workbench.engine.records import SessionFacts as SessionFacts
from workbench.engine.records import Shown as Shown
from workbench.errors import GetTimeoutError, SerializationError, WorkbenchError
from workbench.options import ActorOptions, TaskOptions
from workbench.ref import ObjectRef
from workbench.ref_generator import ObjectRefGenerator

R = TypeVar("R")

Waitable = ObjectRef | ObjectRefGenerator
"""What `wait` accepts; a generator is ready when its next item is."""


def first_ready(
    refs: Sequence[Waitable], ready: Iterable[bool], count: int
) -> tuple[list[Waitable], list[Waitable]]:
    """Return the first ``count`` refs that are ready, or fewer; and all others. Both in order."""
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


def check_storable(value: Any) -> None:
    """Raise SerializationError if ``put`` got a ref."""
    if isinstance(value, ObjectRef):
        raise SerializationError(
            "This is an ObjectRef already: what it refers to is in the store. Pass the ref "
            "on as it is, or put a list of refs."
        )


def late(left: int, count: int, timeout: float | None) -> GetTimeoutError:
    """Return the error of a ``get`` of ``count`` objects of which so many are ``left``."""
    return GetTimeoutError(
        f"{left} of {count} object(s) were not ready after {timeout} s. Their tasks go on; get "
        "them again later, or wait longer."
    )


Submitted = ObjectRef | list[ObjectRef] | ObjectRefGenerator | None
"""Result by ``num_returns``: 1, more, ``"streaming"``, and 0."""

ROOT_NOTE = "\0"
"""Separator in the name of a root: the text behind it follows the path, for people."""


class Observed(Protocol):
    """A session as views show it: Workbench's own, or another system's. Any thread."""

    can: Abilities

    @property
    def session(self) -> str:
        """The session's unique name."""

    @property
    def end_reason(self) -> str | None:
        """Why the session is over for this process; None while it isn't."""

    def snapshot(self) -> Snapshot:
        """Return the whole session, frozen."""

    def changes(self) -> Changes:
        """Follow the session: see `Changes`."""

    def ask(self, query: Query[R]) -> R:
        """Answer a query; other systems answer only what views need: see `engine.queries`."""


class Engine(Observed, SessionPresentation, Protocol):
    """A session on any engine. All methods may be called from any thread.

    Every call except ``state`` raises SessionError once the session is over; ``get`` still returns
    what this process has, until ``close``.
    """

    facts: SessionFacts
    listener: CellListener
    """Set by the notebook, once."""

    # -- objects: stored, read, kept, named, looked up --------------------------------------------

    def put(self, value: Any, name: str = "") -> tuple[ObjectRef, About]:
        """Store a value, under a name if given; return its handle and its cost."""

    def get(self, refs: Sequence[ObjectRef], timeout: float | None, copy: Copying) -> list[Any]:
        """Return the values, in order; raise the error of one that failed."""

    def wait(
        self, refs: Sequence[Waitable], num_returns: int, timeout: float | None
    ) -> tuple[list[Waitable], list[Waitable]]:
        """Return (ready, not ready) once ``num_returns`` are ready or time is up."""

    def arrivals(self, refs: Iterable[ObjectRef]) -> Arrivals:
        """Return these refs as they become ready."""

    def future(self, ref: ObjectRef) -> Future[Any]:
        """Return a future of the value."""

    def state(self, ref: ObjectRef) -> str:
        """Return the object's state as this process knows it, in a word or two. Never raises."""

    def borrow(self, id: int) -> ObjectRef:
        """Return a handle of an object that another process told us about."""

    def escaped(self, ref: ObjectRef) -> tuple[Any, ...]:
        """Note that the ref is pickled outside the store: its object stays until it is freed.

        Returns a reduction that makes the ref again, as ``__reduce__`` does.
        """

    def free(self, refs: Sequence[ObjectRef]) -> None:
        """Drop the objects, whatever pins them."""

    def pin(self, ref: ObjectRef, on: bool, site: str = "") -> None:
        """Keep the object, in memory, until it is unpinned; or unpin it.

        ``site`` is the line of code that pins it, if not the caller's.
        """

    def spill(self, ref: ObjectRef) -> str:
        """Move the object to disk; return once it is there: '', or why that is impossible."""

    def name(self, ref: ObjectRef | None, name: str) -> None:
        """Give the object a name, and take it from the object that had it; with None, only that."""

    def register(
        self, cls: type, by: tuple[Callable[[Any], Any], Callable[[Any], Any]] | None
    ) -> None:
        """Serialize and deserialize instances of exactly this class with these functions, here and
        in all workers; None: stop that."""

    # -- functions that run on the pool, and what they yield --------------------------------------

    def submit(self, function: Exported, call: Call[TaskOptions]) -> Submitted:
        """Run a function; return a handle for its result, or as many as it has."""

    def together(self) -> AbstractContextManager[None]:
        """Return a context for several submits, which may be sent together after a short delay."""

    def cancel(
        self,
        refs: Sequence[ObjectRef],
        force: bool = False,
        recursive: bool = True,
        begun: bool = True,
    ) -> None:
        """Stop the tasks that make these objects, and those they have submitted: the last first, so
        that none begins. Not ``begun``: only those that weren't sent to a worker. Doesn't wait.
        """

    @property
    def lending(self) -> Lending | None:
        """Lends a task's slot while it waits for a future; None if this process has no slot."""

    # -- instances that live in workers of their own ----------------------------------------------

    def create(
        self, blueprint: Exported, description: Any, call: Call[ActorOptions]
    ) -> tuple[ObjectRef, ObjectRef | None]:
        """Create an actor; return its handle, and that of another one with the same name: then no
        new one is created. ``description`` is the value of the handle's object."""

    def call(self, actor: ObjectRef, method: str, call: Call[TaskOptions]) -> Submitted:
        """Run a method of an actor: see `ActorMethod.remote` for when."""

    def kill_actor(self, actor: ObjectRef, restart: bool) -> None:
        """Kill an actor now; with ``restart`` it is restarted, if it has restarts left."""

    # -- what a notebook needs to run cells elsewhere, and to show what they show -----------------

    def collect(self, job: int, name: str = "") -> CollectedJob | None:
        """Route a background cell's past and future output here, and hold its results.

        The output goes to the listener, with the number that its ``origin`` returns now. None: no
        such job. With a ``name``: only hold the results assigned to that name, one per task.
        """

    def interrupt(self, origin: int, jobs: Sequence[int], force: bool, timeout: float) -> bool:
        """Stop all that was submitted with this number, and these jobs; but no other jobs.

        Waits for their end; False if that took longer than ``timeout``. ``force`` as in `cancel`.
        """

    def refresh(self) -> None:
        """Tell workers that source files may have changed: they check before their next task."""

    # -- the session itself ----------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """Number of its worker processes."""

    def keep(self, linger: float | None, final: bool = False) -> None:
        """Keep the session this many seconds after its last driver leaves.

        None: this process's kernel was told to end; if ``final``, it won't start again. Jupyter's
        server kills it within seconds unless it ends, so the session must know now.
        """

    def close(self, goodbye: bool = True) -> None:
        """Leave the session. Idempotent. Without goodbye the session lingers, as after a crash."""

    def abandon(self) -> None:
        """Drop the parent's session in a forked child. Arrays that show objects stay valid."""


def engine_of(ref: ObjectRef) -> Engine:
    """Return the engine of a ref: all of it; a ref itself needs only a part."""
    return ref._engine  # type: ignore[return-value]


def acting_on(observed: Observed, ability: str) -> Engine:
    """Return the engine of an observed session, to act on it. WorkbenchError if the engine can't do
    that; the message is that of its `can`."""
    obstacle: str = getattr(observed.can, ability)
    if obstacle:
        raise WorkbenchError(obstacle)
    return cast(Engine, observed)

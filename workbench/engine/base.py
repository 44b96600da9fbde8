"""What a person's tools (api, magics, views) may ask of a session, whatever runs it: its protocols.

`Engine` is all of them; `Observed` is what a session of another system answers too. Nothing
outside `engines` knows which engine it is: what one can't do, its `can` says.
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
from workbench.engine.records import Lack as Lack
from workbench.engine.records import Running as Running
from workbench.engine.records import SessionFacts as SessionFacts
from workbench.engine.records import Shown as Shown
from workbench.errors import WorkbenchError
from workbench.options import ActorOptions, TaskOptions
from workbench.ref import ObjectRef
from workbench.ref_generator import ObjectRefGenerator

R = TypeVar("R")

Waitable = ObjectRef | ObjectRefGenerator
"""What one can wait for; of a stream, the next item."""


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


Submitted = ObjectRef | list[ObjectRef] | ObjectRefGenerator | None
"""For ``num_returns`` of 1, of more, of ``"streaming"``, and of 0."""

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

    def ask(self, query: Query[R]) -> R:
        """What is known of that; of other systems, only what views need: see `engine.queries`."""


class Engine(Observed, SessionPresentation, Protocol):
    """A session, whatever runs it. All methods may be called from any thread.

    Every call but ``state`` raises SessionError once the session is over; ``get`` still gives
    what this process has, until ``close``.
    """

    facts: SessionFacts
    listener: CellListener
    """Set by the notebook, once."""

    # -- objects: stored, read, kept, named, looked up --------------------------------------------

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

    def name(self, ref: ObjectRef | None, name: str) -> None:
        """Give the object a name, and take that from what had it; with None, only that."""

    def register(
        self, cls: type, by: tuple[Callable[[Any], Any], Callable[[Any], Any]] | None
    ) -> None:
        """Have instances of exactly this class serialized and deserialized by these, here and in
        all workers; None: no more."""

    # -- functions that run on the pool, and what they yield --------------------------------------

    def submit(self, function: Exported, call: Call[TaskOptions]) -> Submitted:
        """Run a function; a handle for its result, or what there is instead."""

    def together(self) -> AbstractContextManager[None]:
        """Around several submits: they may wait for each other for a moment."""

    def cancel(
        self, ref: ObjectRef, force: bool = False, recursive: bool = True, begun: bool = True
    ) -> bool:
        """Stop the task that makes this object, and those it has submitted.

        Unless ``begun``, only if it wasn't sent to a worker; returns whether it is stopped.
        """

    @property
    def lending(self) -> Lending | None:
        """What futures lend by while a task waits for them; None if this process has no slot."""

    # -- instances that live in workers of their own ----------------------------------------------

    def create(
        self, blueprint: Exported, description: Any, call: Call[ActorOptions]
    ) -> tuple[ObjectRef, ObjectRef | None]:
        """Make an actor; the handle it lives by, and that of another which has its name already:
        then there is no new one. ``description`` is what `get` of the handle gives."""

    def call(self, actor: ObjectRef, method: str, call: Call[TaskOptions]) -> Submitted:
        """Run a method of an actor: see `ActorMethod.remote` for when."""

    def kill_actor(self, actor: ObjectRef, restart: bool) -> None:
        """End an actor now; with ``restart`` it is made again, if it may be."""

    # -- what a notebook needs to run cells elsewhere, and to show what they show -----------------

    def collect(self, job: int, name: str = "") -> CollectedJob | None:
        """Have what a background cell has shown, and will show, sent here, and hold its results.

        It goes to the listener, with the number that its ``origin`` gives now. None: there is no
        such job. With a ``name``: only hold what it assigned to that, one of each task.
        """

    def interrupt(self, origin: int, jobs: Sequence[int], force: bool, timeout: float) -> bool:
        """Stop all that was submitted with this number, and these jobs; but no other jobs.

        Waits for their end; False if that took longer than ``timeout``. ``force`` as in `cancel`.
        """

    def refresh(self) -> None:
        """Source files may have changed: workers shall look before their next task."""

    # -- the session itself ----------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """How many worker processes it has."""

    def keep(self, linger: float | None) -> None:
        """The session shall outlive its last driver by so many seconds.

        None: a person has shut this process's kernel down, for good. Jupyter's server kills it if
        it hasn't ended in some seconds, so the session hears of it now.
        """

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

"""Queries to a session: a record for each question, typed by its answer.

Each engine has one table, its `answers`, from queries to functions. The methods of `engine.base`
are actions, and queries that are needed for each object or task. Three records here act, because an
answer comes back, or few ask: `Withdraw`, `WhenFull` and `NoteCell`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from workbench.core.descriptions import Account, ObjectDescription, ValueAccount
from workbench.core.events import Output
from workbench.core.snapshot import Change, JobRecord, Snapshot
from workbench.engine.records import Running, Shown
from workbench.ref import ObjectRef

if TYPE_CHECKING:
    from workbench.serialization.comparison import ChangeCheck, Comparison  # noqa: F401 - in quotes
    from workbench.serialization.packing import OtherSide, PackedValues

R = TypeVar("R", covariant=True)

Places = tuple[tuple[str, str], ...]
"""Where a process holds an object: (variable, ``ref`` or ``view``), as in an `Account`."""


class Query(Struct, Generic[R], frozen=True):
    """A question with an answer of type ``R``."""


class Answering:
    """Base of engines. ``answers``: by type of query, the function called with its fields."""

    answers: Mapping[type, Callable[..., Any]]

    def ask(self, query: Query[R]) -> R:
        """Answer a query. Any thread."""
        found: R = self.answers[type(query)](*astuple(query))
        return found


# -- the session -----------------------------------------------------------------------------------


class Summary(Query[Snapshot], frozen=True):
    """`snapshot` with only a few of the named objects, however many there are.

    ``soon``: for a card; SessionError if there is no answer within about half a second.
    """

    soon: bool = False


class Matching(Query[Change], frozen=True):
    """The first of the objects that match, in no order, and the number of the others."""

    pattern: str
    order: str
    most: int


class CaughtUp(Query[None], frozen=True):
    """Answered when `changes` includes what this process dropped or made before, if that is
    soon."""


class Jobs(Query[tuple[JobRecord, ...]], frozen=True):
    """All background cells that are remembered; a summary has only the latest."""


class Outputs(Query[tuple[Output, ...] | None], frozen=True):
    """Output of a background cell so far, or the last of it; None: no such job."""

    job: int


class Capacity(Query[int], frozen=True):
    """Bytes that its store may hold; 0 if unknown."""


class HugePages(Query[str], frozen=True):
    """Text on whether huge pages are in use, if they were asked for; else ''."""


class NoteCell(Query[None], frozen=True):
    """Note which cell this process runs, or has run, for the session, should the process die; with
    the line and the bytes of private memory, if known. Waits for nothing."""

    cell: int
    runs: bool
    line: int = 0
    memory: int = 0


# -- an object -------------------------------------------------------------------------------------


class Lookup(Query[ObjectRef | None], frozen=True):
    """The object with this name; the handle of an actor, whose name begins with `ACTOR_PREFIX`.

    ``or_id``: else the object with this id, as errors and lists show it, or with this beginning
    or end of it. ObjectLostError if several ids match.
    """

    name: str
    or_id: bool = False


class Names(Query[list[str]], frozen=True):
    """All names with this beginning, sorted; at most 10 000.

    Includes actors' names, as `Lookup` takes them, only if ``beginning`` is `ACTOR_PREFIX`.
    """

    beginning: str = ""


class Reasons(Query[Account | None], frozen=True):
    """All that keeps an object, from all its holders. By id, or by a name or id as text.

    None if there is no such object. ``deep``: each searches all it has, however long that takes.
    """

    what: int | str
    deep: bool = False


class Describe(Query[ObjectDescription | None], frozen=True):
    """Short description of the object; None if unknown, or no answer comes soon. Never raises.

    ``patient``: wait however long the answer takes, for callers that act on it.
    """

    id: int
    patient: bool = False


class Withdraw(Query[bool], frozen=True):
    """Stop the task that makes the object if it wasn't sent to a worker; True if it is stopped."""

    id: int


class Peek(Query[Any], frozen=True):
    """The value of an object that is ready, to be shown; see `serialization.safe_load`.

    LookupError says why it isn't built.
    """

    ref: ObjectRef


# -- what this process has: no other is asked ------------------------------------------------------


class Here(Query[Running], frozen=True):
    """Where the calling code runs."""


class Held(Query[dict[int, Places]], frozen=True):
    """By object, where this process holds it, as far as a short search finds it.

    With a ``name``: where the value of that name refers to it or shows it.
    """

    name: str = ""
    value: Any = None


class Keepers(Query[ValueAccount], frozen=True):
    """What keeps a value in this process's own memory, and what each holder would free.

    ``box`` has the value, alone, and is emptied: references are counted, so nothing else of the
    caller's may refer to it. ``deep``: search all there is.
    """

    box: list[Any]
    deep: bool = False


class ShownBy(Query[Shown | None], frozen=True):
    """The object whose bytes an array (or memoryview) shows; None if they are its own."""

    array: Any


class WhenFull(Query[None], frozen=True):
    """Have ``let_go`` called before a put fails because the store is full. If it returns True, it
    has let go of something, and the put is tried again."""

    let_go: Callable[[], bool]


class StoredAs(Query[ObjectRef | None], frozen=True):
    """The handle of the object that this value is a view of, of all of it.

    Sending the handle instead of the value sends the same, without a copy. Recognises only what
    can't change: arrays, not the tables and containers that hold them. None also if this process
    has no handle.

    ``changed``: instead, the object that `put` last made of this large value, which may have
    changed since.
    """

    value: Any
    changed: bool = False


class Compare(Query["Comparison"], frozen=True):
    """Result of comparing a value with its stored object: see `ChangeCheck.run`.

    LookupError says why it is impossible: the object is on disk.
    """

    ref: ObjectRef
    value: Any
    check: ChangeCheck
    spent: float


class Pack(Query[tuple["PackedValues", Any]], frozen=True):
    """A value in the form for an argument or a result, and the memo of its objects.

    See `serialization.packing.pack`. Its refs are registered with the object that stores it.
    """

    value: Any
    parts: Callable[[], Mapping[str, Any]]
    there: OtherSide


class OwnReducers(Query[Mapping[type, Callable[[Any], Any]]], frozen=True):
    """The reducers this process uses before pickle's own, by exact type."""


class PutProgress(Query[tuple[int, int] | None], frozen=True):
    """Progress of a large put in this process that is copying: (bytes copied, bytes in all)."""


class CopySpeed(Query[float | None], frozen=True):
    """Bytes a second that this process can copy at best, measured now; None if unknown."""

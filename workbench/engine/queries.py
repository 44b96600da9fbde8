"""What may be asked of a session: a record for each question, typed by what it is answered with.

An engine has one table, its `answers`, of which function answers which. Methods of `engine.base`
are what acts, and what is asked for each object or task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from workbench.core.descriptions import Account, ObjectDescription
from workbench.core.events import Output
from workbench.core.snapshot import Change, JobRecord, Snapshot
from workbench.engine.records import Running, Shown
from workbench.ref import ObjectRef

if TYPE_CHECKING:
    from workbench.serialization.comparison import ChangeCheck, Comparison  # noqa: F401 - in quotes
    from workbench.serialization.packing import PackedValues

R = TypeVar("R", covariant=True)

Places = tuple[tuple[str, str], ...]
"""Where a process holds an object: (variable, ``ref`` or ``view``), as an `Account` has them."""


class Query(Struct, Generic[R], frozen=True):
    """A question that is answered with an ``R``."""


class Answering:
    """Base of engines. ``answers``: by kind of query, what is called with its fields."""

    answers: Mapping[type, Callable[..., Any]]

    def ask(self, query: Query[R]) -> R:
        """Answer a question. Any thread."""
        found: R = self.answers[type(query)](*astuple(query))
        return found


# -- the session -----------------------------------------------------------------------------------


class Summary(Query[Snapshot], frozen=True):
    """`snapshot` with a few of the objects that have a name, however many there are.

    ``soon``: for a card; SessionError if nobody answers within half a second or so.
    """

    soon: bool = False


class Matching(Query[Change], frozen=True):
    """Of the objects that match, those that come first, in no order, and how many others."""

    pattern: str
    order: str
    most: int


class CaughtUp(Query[None], frozen=True):
    """Answered when what this process let go of or made before is in what `changes` brings, if
    that is soon."""


class Jobs(Query[tuple[JobRecord, ...]], frozen=True):
    """All background cells that are remembered; a summary has only the last ones."""


class Outputs(Query[tuple[Output, ...] | None], frozen=True):
    """What a background cell has shown so far, or the last of it; None: no such job."""

    job: int


class Capacity(Query[int], frozen=True):
    """Bytes that its store may hold; 0 if nobody knows."""


class HugePages(Query[str], frozen=True):
    """What became of the wish for huge pages, to a person; '' if nobody wished."""


# -- an object -------------------------------------------------------------------------------------


class Lookup(Query[ObjectRef | None], frozen=True):
    """The object of that name; of an actor's, which begins with `ACTOR_PREFIX`, its handle.

    ``or_id``: if there is none, the one whose id that is: as errors and lists show it, or its
    beginning or end. ObjectLostError if several have such ids.
    """

    name: str
    or_id: bool = False


class Names(Query[list[str]], frozen=True):
    """All names that begin so, sorted; of more than 10 000, so many.

    Actors' are among them, as `Lookup` takes them, only if ``beginning`` is `ACTOR_PREFIX`.
    """

    beginning: str = ""


class Reasons(Query[Account | None], frozen=True):
    """All that keeps an object, from everybody who holds it. By id, or by a name or id as text.

    None if there is none. ``deep``: each looks at all it has, however long that takes.
    """

    what: int | str
    deep: bool = False


class Describe(Query[ObjectDescription | None], frozen=True):
    """The object at a glance; None if it is unknown, or nobody answers soon. Never raises.

    ``patient``: however long the answer takes, for who acts on it.
    """

    id: int
    patient: bool = False


class Peek(Query[Any], frozen=True):
    """The value of an object that is ready, to be shown; see `serialization.safe_load`.

    LookupError says why it isn't built.
    """

    ref: ObjectRef


# -- what this process has: nobody else is asked ---------------------------------------------------


class Here(Query[Running], frozen=True):
    """Where the calling code runs."""


class Held(Query[dict[int, Places]], frozen=True):
    """By object, where this process holds it, as far as that is found soon.

    With a ``name``: where the value that is called so refers to it or shows it.
    """

    name: str = ""
    value: Any = None


class ShownBy(Query[Shown | None], frozen=True):
    """The object whose bytes an array (or memoryview) shows; None if they are its own."""

    array: Any


class StoredAs(Query[ObjectRef | None], frozen=True):
    """The handle of the object that this value is a view of, of all of it.

    Who sends the one instead of the other sends the same, without a copy. Only what can't change
    is recognised: arrays, not the tables and containers that hold them. None also if no handle
    lives in this process.

    ``changed``: instead, the object that `put` last made of this large value, which may have
    changed since.
    """

    value: Any
    changed: bool = False


class Compare(Query["Comparison"], frozen=True):
    """Whether a value is still what is stored as this object: `ChangeCheck.run`.

    LookupError says why that can't be told: the object is on disk.
    """

    ref: ObjectRef
    value: Any
    check: ChangeCheck
    spent: float


class Pack(Query[tuple["PackedValues", Any]], frozen=True):
    """A value as it travels inside an argument or a result, and the memo of its objects.

    See `serialization.packing.pack`. The refs in it are known to whoever stores it.
    """

    value: Any
    parts: Callable[[], Mapping[str, Any]]
    numbers: Mapping[int, int] | None = None


class OwnReducers(Query[Mapping[type, Callable[[Any], Any]]], frozen=True):
    """The reducers this process uses before pickle's own, by exact type."""


class PutProgress(Query[tuple[int, int] | None], frozen=True):
    """Of a large put in this process, copying now: (bytes that are in the store, of how many)."""


class CopySpeed(Query[float | None], frozen=True):
    """Bytes a second that this process can copy at best, measured now; None if nobody knows."""

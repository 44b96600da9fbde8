"""What is passed to an engine and comes back from it: records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from workbench.core.events import Output
from workbench.core.snapshot import JobRecord
from workbench.engine.tally import CallTally
from workbench.options import ActorOptions, TaskOptions
from workbench.ref import ObjectRef

Options = TypeVar("Options", TaskOptions, ActorOptions, covariant=True)


Copying = bool | Literal["on write"]
"""Whether what is read is private and writable: all of it (True), or each page once it is written
to; else it is a read-only view."""


class Comparing(Enum):
    OFTEN = "at each submit, as far as there is time"
    ONCE = "at the next submit, whatever it takes: a map begins"
    NOT = "not at all: this map has begun"


class Exported:
    """A function as tasks name it. Engines keep what they know of it in ``handle``.

    ``comparing``: when an engine looks whether the data that it reads has changed. ``told``: in
    which cell a person has heard that it didn't (the ``origin`` of its submits).
    """

    __slots__ = ("comparing", "function", "handle", "name", "told")
    is_a_functions = True  # see `client.references.is_ours`

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.name = name
        self.handle: tuple[object, Any] | None = None
        self.comparing = Comparing.OFTEN
        self.told: int | None = None


class Call(NamedTuple, Generic[Options]):
    """What a function, a method or a class is called with, and how that is to be run.

    ``parameters`` are the names of a method's or class's positional ones, as far as known.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    options: Options
    parameters: tuple[str, ...] = ()


class Lack(str):
    """What an engine can't do, as a person is told: what, why, and what to do instead.

    It is the text of all three; each is a sentence of its own, with its full stop.
    """

    what: str
    why: str
    instead: str

    def __new__(cls, what: str, why: str, instead: str) -> Lack:
        made = super().__new__(cls, f"{what} {why} {instead}")
        made.what, made.why, made.instead = what, why, instead
        return made

    def __reduce__(self) -> tuple[type[Lack], tuple[str, str, str]]:
        return Lack, (self.what, self.why, self.instead)


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an engine can do beyond being observed: '', or what says why it can't: see `Lack`.

    ``get``: bring an object here (and say what it cost). ``free``: drop it though somebody has it;
    ``pin``: keep it whoever lets go of it, ``resident``: and in memory; ``spill``: move it to disk.
    ``why``: say who keeps it, ``holders``: in other processes too.
    ``interrupt``: stop what runs.

    Of what an engine might lack though it runs code: ``copy_on_write`` reads; ``streams``;
    ``restarts`` of actors, ``concurrency`` of their calls (several at once, or async methods);
    ``timeout`` of tasks; ``edited``: workers take up edited modules; ``keep``: a session is kept
    after its last driver, for as long as one says; ``huge_pages``; ``serializers`` of one process
    are all processes'; ``max_calls``: a worker ends after so many; ``recursive``: a task is stopped
    without what it has submitted; ``once``: what isn't to be retried runs once, whatever dies;
    ``needs``: what a task says it takes (processors, memory) counts; ``elsewhere``: an actor is
    made again on another node, if its own has died.
    """

    get: str = ""
    free: str = ""
    pin: str = ""
    resident: str = ""
    spill: str = ""
    why: str = ""
    holders: str = ""
    interrupt: str = ""
    copy_on_write: str = ""
    streams: str = ""
    restarts: str = ""
    concurrency: str = ""
    timeout: str = ""
    edited: str = ""
    keep: str = ""
    recursive: str = ""
    serializers: str = ""
    huge_pages: str = ""
    max_calls: str = ""
    needs: str = ""
    elsewhere: str = ""
    once: str = ""

    @classmethod
    def none(cls, sentence: str) -> Abilities:
        """Nothing of it, for one reason."""
        return cls(*(sentence for _ in fields(cls)))

    def lacking(self) -> dict[str, str]:
        """What it can't, by ability."""
        found: dict[str, str] = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: lack for name, lack in found.items() if lack}


class SessionFacts(NamedTuple):
    """What never changes about a session, seen from one process.

    ``system`` runs it: ``local``, ``ray`` or ``dask``; words alone may depend on it. ``joined``: it
    was there before this process came. ``inherits``: its workers began with this process's
    directory, ``sys.path`` and environment. ``logs``: what tasks print is to be seen here;
    background cells' output always is.
    """

    system: str = "local"
    joined: bool = True
    inherits: bool = False
    logs: bool = False


def _nothing(*_: object) -> None:
    """Who doesn't listen."""


@dataclass(frozen=True, slots=True)
class CellListener:
    """What the code of a process's cells is told and asked: in any thread, so it must be quick.

    ``output`` gets what tasks show. Its ``kind`` is ``stdout`` or ``stderr`` (data: UTF-8 text), or
    ``display``, ``update`` or ``clear`` (data: JSON, the content of Jupyter's ``display_data``,
    ``update_display_data`` or ``clear_output`` message), or ``comm``: what a widget says (data:
    JSON, an object of ``msg_type``: ``comm_open``, ``comm_msg`` or ``comm_close``, with that
    message's ``content`` and ``metadata``, and its ``buffers`` in base64). ``origin`` is the number
    that the task was submitted with, ``worker`` the one it runs on, 0 if that isn't known any more.

    ``began`` hears (job, worker) of one that runs; ``completed`` (job, size, other results) of a
    collected one, once whole. ``origin`` is asked at each submit: the number that the task carries
    to ``output``. ``roots`` is asked for what holds objects under a name that is no variable's: see
    `ROOT_NOTE`. ``tally``: where the calls that the running cell submits are counted; None if
    nobody looks. ``flush`` shows what tasks are known to have printed, before a person goes on
    because of a result.
    """

    output: Callable[[Output], object] = _nothing
    began: Callable[[int, int], object] = _nothing
    completed: Callable[[int, int, list[ObjectRef | None]], object] = _nothing
    origin: Callable[[], int] = int
    roots: Callable[[], Mapping[str, Any]] = dict
    tally: Callable[[], CallTally | None] = _nothing
    flush: Callable[[], object] = _nothing


CREATION = "__init__"
"""The method that makes an actor."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What an actor's worker needs to know to make it."""

    cls: type
    concurrency: int
    is_async: bool
    groups: tuple[tuple[str, int], ...] = ()


class CollectedJob(NamedTuple):
    """A background cell that somebody asked for: what it was, and its results.

    None is one that is gone. Of a cell that is several tasks the results follow each other.
    """

    job: JobRecord
    results: list[ObjectRef | None]


class Shown(NamedTuple):
    """The object whose bytes an array shows.

    ``id`` is 0 for an argument that came by value; ``about`` says in a few words what it is.
    """

    id: int
    names: tuple[str, ...]
    about: str


class Running(NamedTuple):
    """Where code runs: in which ``worker`` (0: a driver), task and actor (0: none).

    ``name`` is what people call the task, ``cpus`` are the processors that it was given.
    ``restarted``: the actor was made again. ``namespace``: in which actors' names are given and
    looked up, if nothing else is said.
    """

    worker: int = 0
    task: int = 0
    name: str = ""
    actor: int = 0
    cpus: float = 0.0
    restarted: bool = False
    namespace: str = ""

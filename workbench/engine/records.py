"""Records that engines take and return."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from workbench.core.events import Output
from workbench.core.snapshot import JobRecord
from workbench.engine.tally import CallTally
from workbench.options import ActorOptions, TaskOptions
from workbench.ref import ObjectRef

Options = TypeVar("Options", TaskOptions, ActorOptions, covariant=True)


CALLED = "workbench.call"
"""Audit event of Python's for each call that is submitted."""

Copying = bool | Literal["on write"]
"""How a value is read: as a private, writable copy (True); copied page by page on the first write;
or (False) as a read-only view."""


class Comparing(Enum):
    OFTEN = "at each submit, as far as there is time"
    ONCE = "at the next submit, whatever it takes: a map begins"
    NOT = "not at all: this map has begun"


@dataclass(slots=True, eq=False)
class Exported:
    """A function as tasks name it. Engines keep their own data about it in ``handle``.

    ``comparing``: when an engine checks whether the data that it reads has changed. ``told``: the
    ``origin`` of the cell in which a note said that it wasn't checked.
    """

    function: Callable[..., Any]
    name: str
    handle: tuple[object, Any] | None = None
    comparing: Comparing = Comparing.OFTEN
    told: int | None = None
    is_a_functions: ClassVar[bool] = True  # see `heap.sizes.is_ours`


class Call(NamedTuple, Generic[Options]):
    """Arguments of a function, a method or a class, and options for running it.

    ``parameters`` are the names of a method's or class's positional ones, as far as known.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    options: Options
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Abilities:
    """Abilities of an engine beyond being observed: '', or a text of three sentences at least: what
    it can't, why, and what to do instead.

    ``get``: fetch an object (and report its cost). ``free``: drop it though somebody has it;
    ``pin``: keep it whoever drops it, ``resident``: also in memory; ``spill``: move it to disk.
    ``why``: say who keeps it, ``holders``: also in other processes.
    ``interrupt``: stop what runs.

    Abilities that an engine may lack though it runs code: ``copy_on_write`` reads; ``streams``;
    ``restarts`` of actors, ``concurrency`` of their calls (several at once, or async methods);
    ``timeout`` of tasks; ``edited``: workers load edited modules; ``keep``: a session is kept
    after its last driver, for a given time; ``huge_pages``; ``serializers`` of one process apply in
    all; ``max_calls``: a worker ends after that many; ``recursive``: stop a task without those that
    it submitted; ``once``: a task without retries runs at most once, whatever dies; ``needs``: the
    resources of a task (processors, memory) are respected; ``elsewhere``: an actor restarts on
    another node, if its own has died; ``cache``: find results of background cells on disk.
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
    cache: str = ""

    @classmethod
    def none(cls, sentence: str) -> Abilities:
        """Return a record without any ability, for one reason."""
        return cls(*(sentence for _ in fields(cls)))

    def lacking(self) -> dict[str, str]:
        """Return the texts of missing abilities, by name."""
        found: dict[str, str] = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: lack for name, lack in found.items() if lack}


class SessionFacts(NamedTuple):
    """Constant facts about a session, seen from one process.

    ``system`` runs it: ``local``, ``ray`` or ``dask``; only words may depend on it. ``joined``: it
    existed before this process joined. ``inherits``: its workers began with this process's
    directory, ``sys.path`` and environment. ``logs``: what tasks print is shown here;
    background cells' output always is.
    """

    system: str = "local"
    joined: bool = True
    inherits: bool = False
    logs: bool = False


def _nothing(*_: object) -> None:
    """Default callback, which does nothing."""


@dataclass(frozen=True, slots=True)
class CellListener:
    """Callbacks for the cells of a process: in any thread, so they must be quick.

    ``output`` gets what tasks show. Its ``kind`` is ``stdout`` or ``stderr`` (data: UTF-8 text), or
    ``display``, ``update`` or ``clear`` (data: JSON, the content of Jupyter's ``display_data``,
    ``update_display_data`` or ``clear_output`` message), or ``comm``: a widget's message (data:
    JSON, an object of ``msg_type``: ``comm_open``, ``comm_msg`` or ``comm_close``, with that
    message's ``content`` and ``metadata``, and its ``buffers`` in base64). ``origin`` is the number
    that the task was submitted with, ``worker`` the one it runs on, 0 if no longer known.

    ``began`` gets (job, worker) of a job that runs; ``completed`` (job, size, other results) of a
    collected one, once all is submitted. ``origin`` is called at each submit: it returns the number
    for ``output``. ``roots`` returns what holds objects under names that aren't variables: see
    `ROOT_NOTE`. ``tally`` returns where calls of the running cell are counted; None if nobody
    looks. ``flush`` shows what tasks are known to have printed, before a person goes on
    because of a result.
    """

    output: Callable[[Output], object] = _nothing
    began: Callable[[int, int], object] = _nothing
    completed: Callable[[int, int, list[ObjectRef | None]], object] = _nothing
    origin: Callable[[], int] = int
    roots: Callable[[], Mapping[str, Any]] = dict
    tally: Callable[[], CallTally | None] = _nothing
    flush: Callable[[], object] = _nothing

    def show(self, output: Output) -> None:
        """Pass on what a task shows; an error in that must not be able to end the connection."""
        try:
            self.output(output)
        except Exception:
            traceback.print_exc(file=sys.__stderr__)


CREATION = "__init__"
"""Name of the method that makes an actor."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Data with which an actor's worker creates it."""

    cls: type
    concurrency: int
    is_async: bool
    groups: tuple[tuple[str, int], ...] = ()


class CollectedJob(NamedTuple):
    """A background cell that was collected: its record, and its results.

    A None is a result that is gone. The results of several tasks follow each other.
    """

    job: JobRecord
    results: list[ObjectRef | None]


class Shown(NamedTuple):
    """The object whose bytes an array shows; ``about`` describes it in a few words."""

    id: int
    names: tuple[str, ...]
    about: str


class Running(NamedTuple):
    """Where code runs: in which ``worker`` (0: a driver), task and actor (0: none).

    ``name`` is the task's name for people, ``cpus`` are the processors that it was given.
    ``restarted``: True if the actor was restarted. ``namespace``: the default one in which actors'
    names are given and looked up. ``cancelled``: True if the task is being stopped.
    """

    worker: int = 0
    task: int = 0
    name: str = ""
    actor: int = 0
    cpus: float = 0.0
    restarted: bool = False
    namespace: str = ""
    cancelled: bool = False

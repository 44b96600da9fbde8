"""Why objects are still here: the one table of reasons, which the page is sent too.

What says which reason holds for an object is its record (`counts`), or an account of it, which
knows more: names of tasks, variables of every process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from workbench.core.descriptions import PinRecord
from workbench.core.snapshot import ObjectRecord
from workbench.format import human_count


class Reason(NamedTuple):
    """A kind of pin.

    Attributes
    ----------
    chip, chips : str
        The shortest name of one, and of several.
    phrase : str
        Of one pin, with a place for what it is: a name, a process, a place in somebody's code.
    keeps_in_memory : bool
        Whether the object can't move to disk meanwhile. So does a task, but only while it runs.
    let_go : str
        What ends it: ``{detail}`` is what the phrase says, ``{name}`` how magics call the object,
        ``{call}`` how functions do, ``{object}`` the id of the other object.
    """

    chip: str
    chips: str
    phrase: str
    keeps_in_memory: bool
    let_go: str


FREE = "`%free {name}` or `free({call})` deletes it for everybody"

REASONS: Mapping[str, Reason] = MappingProxyType(
    {
        "name": Reason("named", "named", "named `{}`", False, "`%free {detail}`"),
        "user": Reason(
            "pinned", "pinned", "pinned at {}", True, "`%unpin {name}`, `unpin({call})`"
        ),
        "job": Reason(
            "result not fetched",
            "results not fetched",
            "result of {}, not fetched",
            False,
            f"`%workbench jobs {{detail}}` fetches it; or {FREE}",
        ),
        "ref": Reason("ref", "refs", "ref in {}", False, FREE),
        "task": Reason("task", "tasks", "needed by {}", False, "wait for it, or `cancel` it"),
        "contained": Reason(
            "inside another",
            "inside others",
            "inside {}",
            False,
            "let go of that one first: `%why {object}` says what keeps it",
        ),
        "escaped": Reason(
            "pickled ref",
            "pickled refs",
            "ref pickled at {}",
            False,
            f"{FREE}, when nobody will load what was pickled",
        ),
        "view": Reason("arrays", "arrays", "arrays in {}", True, ""),
    }
)
"""By the code that a `PinRecord` has, the plainest first."""


def counts(record: ObjectRecord) -> Iterator[tuple[str, int]]:
    """The reasons why an object is here: (code, how many of them), in the order of `REASONS`."""
    found = (
        len(record.names),
        bool(record.pinned),
        bool(record.job),
        len(record.holders),
        record.tasks,
        record.parents,
        len(record.escapes),
        len(record.viewers or ()),
    )
    return ((code, int(n)) for code, n in zip(REASONS, found, strict=True) if n)


def chips(record: ObjectRecord) -> list[str]:
    """The same in a few words each: ``named``, ``2 refs``."""
    return [chip(code, n) for code, n in counts(record)]


def chip(code: str, n: int = 1) -> str:
    """So many pins of one kind. Without a number where the plural has no other word."""
    reason = REASONS[code]
    if n == 1:
        return reason.chip
    return reason.chips if reason.chips == reason.chip else f"{human_count(n)} {reason.chips}"


def phrase(code: str, what: str) -> str:
    """One pin in words: ``phrase("ref", "worker 3")`` is ``ref in worker 3``."""
    return REASONS[code].phrase.format(what)


def let_go(pin: PinRecord, name: str, ref: str = "ref") -> str:
    """``name`` is by what a person calls the object; empty if by a ``ref``, which is called so."""
    return REASONS[pin.reason].let_go.format(
        detail=pin.detail,
        name=name or ref,
        call=repr(name) if name else ref,
        object=f"{pin.object:016x}",
    )

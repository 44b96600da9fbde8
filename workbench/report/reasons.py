"""Reasons why objects are still here: the one table, which the page gets too.

An object's record tells which reasons apply (`counts`), and so does an account of it, which
knows more: names of tasks, variables of every process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from workbench.core.descriptions import PinRecord
from workbench.core.snapshot import ObjectRecord
from workbench.format import human_count


class Reason(NamedTuple):
    """A kind of pin.

    ``chip`` and ``chips`` are the shortest names of one and of several. ``phrase`` tells of one,
    with a place for its detail: a name, a process, a line of code. ``keeps_in_memory``: the object
    can't move to disk meanwhile. (A running task does that too.) ``let_go`` says how to end it:
    ``{detail}`` is the detail in the phrase, ``{name}`` the object for magics, ``{call}`` for
    functions, ``{object}`` the id of the other object.
    """

    chip: str
    chips: str
    phrase: str
    keeps_in_memory: bool
    let_go: str


FREE = "`%free {name}` or `free({call})` deletes it for everybody"

REASONS: Mapping[str, Reason] = {
    "name": Reason("named", "named", "named `{}`", False, "`%free {detail}`"),
    "user": Reason("pinned", "pinned", "pinned at {}", True, "`%unpin {name}`, `unpin({call})`"),
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
"""By `PinRecord.reason`, the simplest first."""


def counts(record: ObjectRecord) -> Iterator[tuple[str, int]]:
    """Return the reasons why an object is here: (code, number), in the order of `REASONS`."""
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
    """Return the same in a few words each: ``named``, ``2 refs``."""
    return [chip(code, n) for code, n in counts(record)]


def chip(code: str, n: int = 1) -> str:
    """Word ``n`` pins of one kind. Without the number if singular and plural are the same."""
    reason = REASONS[code]
    if n == 1:
        return reason.chip
    return reason.chips if reason.chips == reason.chip else f"{human_count(n)} {reason.chips}"


def phrase(code: str, what: str) -> str:
    """Word one pin: ``phrase("ref", "worker 3")`` is ``ref in worker 3``."""
    return REASONS[code].phrase.format(what)


def let_go(pin: PinRecord, name: str, ref: str = "ref") -> str:
    """Word how to end a pin. ``name`` is the object's name for people; '' if it is a ``ref``."""
    return REASONS[pin.reason].let_go.format(
        detail=pin.detail,
        name=name or ref,
        call=repr(name) if name else ref,
        object=f"{pin.object:016x}",
    )


def magic(pin: PinRecord, name: str) -> str:
    """Return the magic that ends a pin, '' if none does. ``name``: the object's name or id."""
    found = re.search("`(%(?:free|unpin) [^`]+)`", let_go(pin, name))
    return found[1] if found else ""

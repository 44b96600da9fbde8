"""What a remote cell changed in place, in a sentence: where that is now, and how to come by it."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.report.format import joined, listed

MOST_NAMES = 6


def waiting_text(names: Sequence[str]) -> str:
    """It is kept until somebody asks: ``rf changed on the worker: `%get rf` brings it``."""
    what, command = _named(names), f"`%get {' '.join(names[:MOST_NAMES])}`"
    return f"{what} changed on the worker: {command} brings {_it(names)}"


def not_compared_text(names: Sequence[str]) -> str:
    verb = "wasn't" if len(names) == 1 else "weren't"
    return (
        f"{_named(names)} {verb} compared with what was sent, which takes long: "
        f"`--out {' '.join(names[:MOST_NAMES])}` brings {_it(names)} back"
    )


def unsteady_text(names: Sequence[str]) -> str:
    return (
        f"{_named(names)} can't be compared with what was sent, no two pickles of {_it(names)} are "
        f"the same: `--out {' '.join(names[:MOST_NAMES])}` brings {_it(names)} back"
    )


def coarse_text(names: Sequence[str]) -> str:
    """It has more objects in it than are looked at one by one."""
    return (
        f"{_named(names)}: so many objects came back as new ones; other variables that have some "
        "of them have them as they were"
    )


def apart_text(stored: str, other: str) -> str:
    """They have an object in common; the cell changed one of them."""
    return (
        f"{stored} and {other} have an object in common, and had one each on the worker, because "
        f"{stored} is stored; after `%free {stored}` they travel together"
    )


def perhaps_apart_text(stored: str, others: Sequence[str]) -> str:
    """Nobody has looked: there is too much in it."""
    return (
        f"whether {stored}, which is stored, has objects in common with {_named(others)} was not "
        "looked at: on the worker each had its own"
    )


def lost_text(names: Sequence[str], why: str) -> str:
    """It changed, and can't travel."""
    return f"{_named(names)} changed on the worker and can't be brought back: {why}"


def copies_text(names: Sequence[str]) -> str:
    """Of a cell that runs once per item."""
    return (
        f"{_named(names)} changed in the runs, each of which has a copy of its own: nothing of "
        "that came back. What a run assigns does."
    )


def namespace_text(names: Sequence[str], actor: str) -> str:
    return (
        f"{_named(names)} changed in {actor} and {'stays' if len(names) == 1 else 'stay'} there: "
        f"`--in {' '.join(names[:MOST_NAMES])}` takes the notebook's own along again"
    )


def not_updated_text(names: Sequence[str], why: str) -> str:
    return (
        f"{_named(names)} changed on the worker and can't be changed here: {why}. The notebook's "
        f"own {'is as it was' if len(names) == 1 else 'are as they were'}; "
        f"`--out {' '.join(names[:MOST_NAMES])}` brings {_it(names)} as a new object"
    )


def gone_text(names: Sequence[str]) -> str:
    """What it was belonged to a kernel that is gone."""
    return (
        f"{_named(names)} changed on the worker; the kernel that had {_it(names)} is gone, and "
        "nothing is left to be changed. Next time `--out` keeps it"
    )


def brought_text(names: Sequence[str], job: str, unknown: Sequence[str]) -> str:
    """``unknown``: those that the notebook may have changed meanwhile."""
    text = f"{job}: {', '.join(names)}"
    if not unknown:
        return text
    return f"{text}; not looked at is whether the notebook changed {_named(unknown)} meanwhile"


def both_text(names: Sequence[str], job: str) -> str:
    """The notebook has changed it too, since the cell took it along."""
    return (
        f"{_named(names)} changed in the notebook too, since {job} took {_it(names)} along, and "
        f"would be overwritten. `%get {names[0]} --as NAME` brings the worker's as another variable"
    )


def _named(names: Sequence[str]) -> str:
    return joined(names) if len(names) <= MOST_NAMES else listed(names, MOST_NAMES)


def _it(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"

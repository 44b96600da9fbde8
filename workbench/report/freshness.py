"""Words about variables that are stored objects: whether they have changed since."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from workbench.format import human_age, human_seconds
from workbench.report.write_back import filled_in


def changed_text(name: str, came: str, seconds: float, stored: str) -> str:
    """Word that a variable was stored again: ``df changed since %put: stored again, 8 ms``.

    ``came``: how it came to be a stored object; ``stored``: the name that still means the earlier
    object.
    """
    text = f"{name} changed since {came}: stored again, {human_seconds(seconds)}"
    return f"{text}; {stored!r} in the store stays as it was" if stored else text


def restless_text(name: str, seconds: float) -> str:
    took = human_seconds(seconds)
    return f"{name} stored again, {took}: it can't be compared, no two pickles of it are the same"


def would_change_text(name: str, came: str) -> str:
    return f"{name} changed since {came}: it would be stored again"


class Unknown(NamedTuple):
    """A variable that wasn't compared: ``why``, or what it would take, in seconds of work.

    ``age`` in seconds, since it was stored. ``others``: seconds that the cell's other variables had
    taken by then.
    """

    name: str
    age: float
    seconds: float
    why: str = ""
    others: float = 0.0


def unknown_text(name: str, age: float, seconds: float, why: str = "", others: float = 0.0) -> str:
    """Word it of one variable."""
    reason = why or human_seconds(seconds)
    if others and not why:
        reason += f", after {human_seconds(others)} for others"
    return f"{name} as stored {ago(age)}, not compared ({reason}); `%put {name}` renews it"


def unknown_texts(unknown: Sequence[Unknown]) -> list[str]:
    """Word that variables weren't compared: of several, in one line."""
    if len(unknown) < 2:
        return [unknown_text(*each) for each in unknown]
    reasons = dict.fromkeys(each.why for each in unknown if each.why)
    seconds = sum(each.seconds for each in unknown if not each.why)
    why = "; ".join([*([human_seconds(seconds)] if seconds else []), *reasons])
    return [filled_in(NOT_COMPARED, [each.name for each in unknown], why=why)]


NOT_COMPARED = "{what} as stored earlier, not compared ({why}); `%put {names}` renews {it}"


def function_text(name: str) -> str:
    return (
        f"`{name}` reads much data that isn't among its arguments. Comparing it at each call takes "
        "too long, so some calls aren't compared: if the data was changed just before them, they "
        "use what it was earlier. Give it as an argument: `ref = put(data)` once, and `ref` in "
        "each call."
    )


def edited_text(module: str) -> str:
    """Word that a process, the notebook's or a worker's, has an older version of a module."""
    return (
        f"`{module}` was edited after it had been imported, and is used as it was; a process that "
        f"imports it from now on has the edited one. `importlib.reload({module})` in the notebook "
        "loads it again in all of them."
    )


def set_text(what: str) -> str:
    return (
        f"`{what}` was set in this notebook. `%%remote` cells have it; tasks of functions don't: "
        "workers import the module themselves. Give tasks the value as an argument."
    )


def held_text(came: str, since: float, verdict: str) -> str:
    """Return the note behind a variable that is a stored object, in the answer of `%why`.

    It has no age, because live views show it unchanged while nothing happens.
    ``since``: when it was stored, in seconds since 1970; ``verdict``: "same", "changed", "not
    compared"; empty if nobody tried.
    """
    if verdict == "same":
        return ", the stored object itself"
    if verdict == "changed":
        return f", changed since {came}: the store has what it was at {clock(since)}"
    return f", as it was at {clock(since)}{', not compared' if verdict else ''}"


def clock(since: float) -> str:
    """Format a time in the zone of this process; with the date if it isn't today."""
    then = time.localtime(since)
    is_today = time.localtime()[:3] == then[:3]
    return time.strftime("%H:%M:%S" if is_today else "%H:%M:%S, %-d %b", then)


def ago(age: float) -> str:
    return "just now" if age < 1 else f"{human_age(age)} ago"

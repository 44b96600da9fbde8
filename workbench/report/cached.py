"""Words about cached results."""

from __future__ import annotations

import time
from collections.abc import Sequence

from workbench.format import count, human_bytes, human_seconds, listed
from workbench.result_cache.code import RANDOM
from workbench.result_cache.records import FromCache

WIDGETS = "it makes widgets"
FLOOD = "it shows more than 4 MB"
CALLS = "it submits calls, whose prints and files aren't seen"
REFS = "its result has refs in it"
STAYED = "some of what it made stays on the worker"
THREADS = "{} goes on in a thread"
SETTINGS = "{} was set on the worker only"
EDITED = "{}: edited after the worker's import"
CHANGED = "{} changed while it ran"
LARGE = "its {} are more than `cache_limit` ({})"
SHARED = "others can write to {}"
UNPICKLED = "its result can't be pickled ({})"
"""Why a result isn't stored; some name what."""

GONE = "The cached result of this cell was removed or damaged just now: run the cell again."

MOST_NAMES = 3
"""Names of what has changed that a line has."""


def cache_notes(requests: Sequence[FromCache]) -> list[str]:
    """Return what became of a cell's cached results: one for each time that it ran."""
    notes = []
    found = [each.found for each in requests if each.found is not None]
    if found:
        seconds = human_seconds(sum(each.seconds for each in found))
        when = _time(max(each.when for each in found))
        if len(requests) == 1:
            text = f"found, not run: it ran at {when} and took {seconds}."
        else:
            text = f"{len(found)} of {len(requests)} found, not run: they took {seconds} in all."
        notes.append(f"{text} {_unchecked(requests)}".rstrip())
    if changed := list(dict.fromkeys(name for each in requests for name in each.changed)):
        verb = "has" if len(changed) == 1 else "have"
        notes.append(f"run again: {listed(changed, MOST_NAMES)} {verb} changed since.")
    for why in dict.fromkeys(each.why for each in requests if each.why):
        notes.append(f"not in the cache: {why}.")
    return notes


def call_note(request: FromCache) -> str:
    """Return what the result of a call may depend on besides, or why it isn't stored; or ''."""
    if request.found is None:
        return request.why and f"not in the cache: {request.why}."
    unchecked = _unchecked([request])
    return unchecked and f"found in the cache. {unchecked}"


def _unchecked(requests: Sequence[FromCache]) -> str:
    found = {word for each in requests if each.found for word in each.found.unchecked}
    found |= set() if all(each.same_draws for each in requests) else {RANDOM}
    return f"Not checked: {', '.join(sorted(found))}." if found else ""


def _time(when: float) -> str:
    """Return the time of day; with the date, if it isn't today's."""
    then, today = time.localtime(when), time.localtime()
    return time.strftime("%H:%M" if then[:3] == today[:3] else "%Y-%m-%d %H:%M", then)


def usage_text(results: int, nbytes: int, limit: int, directory: str) -> str:
    used = f"{count(results, 'result')}, {human_bytes(nbytes)} of {human_bytes(limit)}"
    return f"{used}, in {directory}"


def cleared_text(results: int, nbytes: int, directory: str) -> str:
    return f"{count(results, 'result')} removed ({human_bytes(nbytes)}), from {directory}"

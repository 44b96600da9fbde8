"""Exercises of notebook 06: what keeps an object in the store, found and let go of."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.snapshot import ObjectRecord
from workbench.course.exercises import (
    Live,
    Outcome,
    RefusedError,
    almost,
    refused,
    right,
    wrong,
)
from workbench.course.location import where
from workbench.engine.queries import Reasons
from workbench.format import human_bytes
from workbench.ref import ObjectRef


def _still_here(live: Live, record: ObjectRecord) -> RefusedError:
    return refused(
        "{size} are still in the store. What keeps them: {reasons}.",
        size=human_bytes(record.size),
        reasons=live.reasons(record),
    )


def _memory_behind(array: Any) -> int:
    """Bytes that an array keeps: those of what it is a view of."""
    while isinstance(getattr(array, "base", None), np.ndarray):
        array = array.base
    return getattr(array, "nbytes", 0)


def _memory_of_cover(album: Any) -> int:
    """The same of an album's cover; called in the actor's process."""
    return _memory_behind(getattr(album, "cover", None))


def _gone(live: Live, variable: str) -> None:
    """The object whose id a variable has must be gone: refused if it isn't."""
    record = live.let_go(variable)
    if record is not None:
        raise _still_here(live, record)


def output_let_go(live: Live) -> Outcome:
    _gone(live, "moth")
    return right("The film is gone, and its memory is free: no output keeps it.")


def slice_let_go(live: Live) -> Outcome:
    _gone(live, "moth_in_slice")
    thumbnail, last = live["thumbnail"], live["photo"]
    small = thumbnail() if callable(thumbnail) else None
    if not isinstance(small, np.ndarray) or not np.array_equal(small, last[::8, ::8]):
        return almost("The film is gone, but `thumbnail()` doesn't give its last picture any more.")
    size = _memory_behind(small)
    if size > last.nbytes:
        return almost(
            "The film is gone from the store. But `thumbnail` keeps {size} in this notebook: a "
            "copy of more than the one picture.",
            size=human_bytes(size),
        )
    return right(
        "The film is gone, and `thumbnail()` still works: it keeps {size}, one picture.",
        size=human_bytes(size),
    )


def loaded_back(live: Live) -> Outcome:
    record, found = live.let_go("moth_in_file"), live["found"]
    if record is None:
        return wrong("The film is gone: run the cell again that writes its ref into the file.")
    if isinstance(found, ObjectRef):
        return almost("`found` is the ref, and not the film that it refers to.")
    if not isinstance(found, np.ndarray):
        return wrong("`found` is of type {type}, and no film.", type=type(found).__name__)
    stored = live.fetched(live.engine.borrow(record.id))
    if not where(found).shares(where(stored)):
        return almost(
            "`found` is a film, but not the stored one: it has {size} of its own.",
            size=human_bytes(_memory_behind(found)),
        )
    return right(
        "The ref came out of the file, and the film out of the store: no byte of it was copied, "
        "and `found` shows {size}.",
        size=human_bytes(found.nbytes),
    )


def pickled_let_go(live: Live) -> Outcome:
    _gone(live, "moth_in_file")
    return right("The film is gone: you have said that nobody will load the ref again.")


def traceback_let_go(live: Live) -> Outcome:
    record = live.let_go("moth_in_error")
    if record is None:
        return right("The film is gone: the traceback doesn't keep it any more.")
    # Deep, as a busy machine looks at little in a second.
    account = live.engine.ask(Reasons(record.id, deep=True))
    keepers = {place.keeper for pin in account.pins for place in pin.places} if account else set()
    if keepers == {"cycle"}:
        return almost(
            "A newer error has taken the place of this one. What is left refers only to itself:"
            " `import gc; gc.collect()` frees it now, Python itself does so later."
        )
    raise _still_here(live, record)


def actor_let_go(live: Live) -> Outcome:
    _gone(live, "moth_in_album")
    album = live.actor(live["album"])
    if album is None or album.state == "dead":
        return almost(
            "The film is gone, but so is the album: an actor that has ended keeps nothing."
            " Can the album live, and the film go?"
        )
    handle, picture = live["album"], live["photo"].nbytes
    size, error = live.answer(handle.size.remote())
    if size != picture:
        return almost(
            "The film is gone, but so is the cover: `size` should give {picture} bytes, and gives "
            "{size}.",
            picture=picture,
            size=error or size,
        )
    cover, _ = live.answer(handle.__ray_call__.remote(_memory_of_cover))
    if cover > picture:
        return almost(
            "The film is gone from the store. But the album keeps {size} in its own process: a "
            "copy of more than the cover.",
            size=human_bytes(cover),
        )
    return right(
        "The film is gone, and the album lives: it keeps {size}, the cover alone.",
        size=human_bytes(cover),
    )


def moved(live: Live) -> Outcome:
    names = ("plain", "shown", "pinned")
    records = zip(names, map(live.of_id, live["three"]), strict=True)
    found = {name: each for name, each in records if each is not None and each.state != "freed"}
    if len(found) < len(names):
        gone = ", ".join(name for name in names if name not in found)
        return wrong(
            "The store has the film {gone} no more: it was deleted, not moved. Run the cell above"
            " that makes the three again.",
            gone=gone,
        )
    left = [name for name in names if found[name].where != "disk"]
    if not left:
        return right("All three films are on disk. They can be read as before.")
    state = almost if len(left) == 1 else wrong
    return state(
        "On disk: {count} of 3 films. Still in memory: {left}.",
        count=len(names) - len(left),
        left=", ".join(left),
    )


def morning(live: Live) -> Outcome:
    ids = set(live["films"])
    if len(ids) < 5 or not all(map(live.had, ids)):
        return wrong("`films` hasn't the ids of five films: run the cell above that makes them.")
    left = [record for id in ids if (record := live.of_id(id)) is not None]
    total = human_bytes(sum(each.size for each in left))
    if not left:
        return right("All five films are gone, and the kernel was not restarted.")
    if len(left) == 1:
        return almost("One is left, {size}: {reasons}.", size=total, reasons=live.reasons(left[0]))
    return wrong("{count} of 5 films are still here, {size}.", count=len(left), size=total)

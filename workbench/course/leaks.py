"""Exercises of notebook 06: what keeps an object in the store, found and let go of."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.snapshot import ObjectRecord
from workbench.course.exercises import (
    Lesson,
    Live,
    Outcome,
    Page,
    RefusedError,
    almost,
    exercise,
    refused,
    right,
    wrong,
)
from workbench.course.location import where
from workbench.engine.queries import Reasons
from workbench.format import human_bytes
from workbench.ref import ObjectRef

PAGE = Page("howto/find-what-keeps-memory.md", "Find what keeps memory")


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


@exercise(
    hints=(
        "The film has no variable any more, but it has an id, and `moth` is that id.",
        "`%why $moth` names what keeps it. Beside each reason stands code that lets go of it.",
        "In the cell above this check, paste the code that `%why $moth` shows under `to let"
        " go`: it begins with `get_ipython()` or `%reset`. Run the cell.",
    ),
    page=PAGE,
    needs=("moth",),
)
def output_let_go(live: Live) -> Outcome:
    _gone(live, "moth")
    return right("The film is gone, and its memory is free: no output keeps it.")


@exercise(
    hints=(
        "`thumbnail` remembers one picture. Where do the bytes of that picture lie?",
        "One picture is a view: it keeps all bytes of the film. A copy has bytes of its own.",
        "In the cell above this check, make the third line `thumbnail ="
        " thumbnail_of(wb.get(film)[-1].copy())`, and run the cell.",
    ),
    page=PAGE,
    needs=("moth_in_slice", "thumbnail"),
)
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


@exercise(
    hints=(
        "What the file has is a ref. How does one get the value of a ref?",
        "`pickle.load(logbook)` makes the ref again, and `wb.get(...)` gives what it refers to.",
        "In the cell above this check, write `found = wb.get(pickle.load(logbook))`, and run it.",
    ),
    page=Page("memory.md#when-an-object-goes", "Memory: when an object goes"),
    needs=("moth_in_file", "found"),
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


@exercise(
    hints=(
        "No variable has the ref. Ask for the object by its id.",
        "`%why $moth_in_file` says where the ref was pickled. Workbench can't know whether"
        " somebody has a copy of that file, so you have to decide.",
        "In the cell above this check, write `%free $moth_in_file`, and run it.",
    ),
    page=Page("memory.md#when-an-object-goes", "Memory: when an object goes"),
    needs=("moth_in_file",),
)
def pickled_let_go(live: Live) -> Outcome:
    _gone(live, "moth_in_file")
    return right("The film is gone: you have said that nobody will load the ref again.")


@exercise(
    hints=(
        "The error is shown, and then it is kept: its traceback has the function's variables.",
        "`%why $moth_in_error` names the variable, the function, and code that empties its frame.",
        "Run `%why $moth_in_error` once more: its code depends on what keeps the film just now."
        " Paste the code under `to let go` into the cell above this check, and run it.",
    ),
    page=PAGE,
    needs=("moth_in_error",),
)
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


@exercise(
    hints=(
        "`%why $moth_in_album` says in which process the film is kept, and by which attribute.",
        "The album needs one picture. It can keep a copy of that, as `thumbnail` did.",
        "In the cell above this check, make the line in `add` `self.cover = film[0].copy()`, and"
        " run the cell.",
    ),
    page=PAGE,
    needs=("moth_in_album", "album"),
)
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


@exercise(
    hints=(
        "`%spill` says why an object can't move: read what stands behind the refused ones.",
        "`shown` has an array in this notebook, and `pinned` was pinned: let go of both reasons.",
        "In the cell above this check, write `del picture`, `%unpin pinned` and `%spill plain"
        " shown pinned`, a line each.",
    ),
    page=Page("memory.md#when-the-store-is-full", "Memory: when the store is full"),
    needs=("three",),
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


@exercise(
    hints=(
        "`%objects` lists what is left, and in its fifth column why. What has no name has an id.",
        "Ask `%why` for each. A named one and a pickled one go with `%free`; the others go with"
        " the variable that keeps them.",
        "In the cell above this check, write `%free title`, `del notes, poster, drawer`, and"
        " `%free` with the id that `%objects` shows for the pickled one; a line each.",
    ),
    page=PAGE,
    needs=("films",),
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


LESSON = Lesson(
    "06-why-is-it-still-here",
    "Why is it still here?",
    (
        output_let_go,
        slice_let_go,
        loaded_back,
        pickled_let_go,
        traceback_let_go,
        actor_let_go,
        moved,
        morning,
    ),
)

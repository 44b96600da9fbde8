"""The exercises of notebook 2: one memory for all, a copy of one's own, a later change."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from workbench.course import measure
from workbench.course.exercises import Live, Outcome, almost, right, wrong
from workbench.course.location import Location
from workbench.format import human_bytes
from workbench.ref import ObjectRef


def one_copy(live: Live) -> Outcome:
    futures, stored = live["futures"], live.value("futures")
    if futures is ...:
        return wrong("Your kernel has no variable `futures` any more.")
    if isinstance(futures, ObjectRef):
        return almost("`futures` is a ref: it takes no memory, but it isn't the numbers either.")
    mine = measure.where(futures)
    size = human_bytes(mine.nbytes)
    if not mine.shares(measure.where(stored)):
        return wrong("`futures` has {size} of its own, and the store has as much.", size=size)
    if np.shape(futures) != np.shape(stored):
        return almost("`futures` shows the store's, but only {size} of it.", size=size)
    for name, array in live.own_arrays(stored.nbytes).items():
        if np.array_equal(array, stored):
            return almost(
                "`futures` shows the store's {size}. But `{name}` has the same numbers, in memory "
                "of your kernel's own.",
                size=size,
                name=name,
            )
    return right(
        "`futures` shows the store's {size}: inode {inode}, offset {offset}.",
        size=size,
        inode=mine.inode,
        offset=mine.offset,
    )


def own_copy(live: Live) -> Outcome:
    live.made_by("mean_worth")
    found, stored = live.fetched(live["mean_worth"]), live.value("futures")
    if stored[0].mean() < 0.75:
        return wrong(
            "The first row of the store's `futures` is halved. Run the notebook's second "
            "cell and `%put futures` to have it back."
        )
    whole = 10_000 * float(stored.prod(axis=0).mean())
    if math.isclose(found, whole, rel_tol=1e-9):
        return almost("`mean_worth` is {found:.0f}, as if the first month wasn't bad.", found=found)
    halvings = math.log2(whole / found) if found > 0 else 0.0
    if round(halvings) > 1 and math.isclose(halvings, round(halvings), abs_tol=1e-9):
        if np.array_equal(live.fetched(live["futures"]), stored):
            return almost(
                "`mean_worth` is {found:.0f}: the first month was halved {times} times. "
                "The `futures` of your notebook are those of the store: run the cell "
                "above once more, and halve the first month once.",
                found=found,
                times=round(halvings),
            )
        return almost(
            "`mean_worth` is {found:.0f}: the first month was halved {times} times. The "
            "`futures` of your notebook aren't those of the store. (A cell on a worker "
            "that assigns a name assigns it in your notebook, too.) `%get futures` "
            "brings the stored ones back; then run the cell above once more.",
            found=found,
            times=round(halvings),
        )
    if not math.isclose(found, whole / 2, rel_tol=1e-9):
        return almost(
            "`mean_worth` is {found:.0f}; half of {whole:.0f} was to come out.",
            found=found,
            whole=whole,
        )
    changed = live.fetched(live["changed"])
    if not isinstance(changed, Location):
        return almost(
            "`mean_worth` is {found:.0f}, as with a first month halved once. But `changed` isn't "
            "what `measure.where` gives: which array did the worker change?",
            found=found,
        )
    is_stores = changed.shares(measure.where(stored)) and not changed.own_pages
    if is_stores or changed.pid == os.getpid():
        return almost(
            "`mean_worth` is {found:.0f}, as with a first month halved once. But `changed` is no "
            "array of the worker's own: the worker has halved the result, and changed no row.",
            found=found,
        )
    return right(
        "`mean_worth` is {found:.0f}: a worker has halved the first month in {size} of its own, "
        "and the store's first row is as it was.",
        found=found,
        size=human_bytes(changed.nbytes),
    )


def put_again(live: Live) -> Outcome:
    plan, stored = live["plan"], live.value("plan")
    if plan is ...:
        return wrong("Your kernel has no variable `plan` now: run the cell that makes it, above.")
    if plan == {"share": "MSFT", "months": 12}:
        return wrong("Your own `plan` is the old one again.")
    if stored != plan:
        return wrong(
            "The store's `plan` has {stored} months, and yours has {months}.",
            stored=stored["months"],
            months=plan["months"],
        )
    return right("The store's `plan` has {months} months, as yours.", months=stored["months"])


def _column(value: Any) -> Any:
    return value.iloc[:, 0] if hasattr(value, "columns") else value


def shareable(live: Live) -> Outcome:
    one, two = _column(live.value("months")), _column(live.value("months"))
    if isinstance(one, list):
        return wrong(
            "The store's `months` is a list: each reading builds {count} new objects.",
            count=len(one),
        )
    if measure.sharing(one, two).answer != "shared":
        return wrong("Two readings of `months` have no byte in common.")
    expected = live.value("futures")[0]
    if not np.array_equal(one, expected):
        return almost("Two readings of `months` share memory, but the numbers are others.")
    place = measure.where(one)
    return right(
        "Two readings of `months` show the same {size}: inode {inode}, offset {offset}.",
        size=human_bytes(place.nbytes),
        inode=place.inode,
        offset=place.offset,
    )

"""Exercises of notebook 03: what the views show, moved by hand."""

from __future__ import annotations

import numpy as np

from workbench.course.exercises import Live, Outcome, almost, right, wrong
from workbench.format import human_bytes
from workbench.ref import ObjectRef


def row_gone(live: Live) -> Outcome:
    record = live.let_go("popped")
    if record is None:
        return right("The row is gone, and its memory is free.")
    left = [name for name in ("first", "one_row") if live[name] is not ...]
    state = almost if len(left) == 1 else wrong
    return state(
        "The row is still there. What keeps the object: {reasons}.", reasons=live.reasons(record)
    )


def _is(value: object, weights: object) -> bool:
    return type(value) is type(weights) and np.array_equal(value, weights)  # type: ignore[arg-type]


def put_once(live: Live) -> Outcome:
    refs = [each for each in live["stored"] if isinstance(each, ObjectRef)]
    if len(refs) != 3:
        return wrong("`stored` should have 3 refs, and has {count}.", count=len(refs))
    ids = {each.id for each in refs}
    found = [each for each in live.objects if each.id in ids]
    if len(ids) > 1:
        return wrong(
            "The refs are to {count} objects, which take {size}.",
            count=len(ids),
            size=human_bytes(sum(each.size for each in found)),
        )
    if not found or not _is(live.fetched(refs[0]), live["weights"]):
        return almost("The three refs are to one object, but that is not `weights`.")
    return right("Three refs, one object: {size}.", size=human_bytes(found[0].size))


def running(live: Live) -> Outcome:
    job = live.job("mine")
    if job is None:
        return wrong("The view has no row `mine`.")
    live.done(job, "mine")
    if "answer" not in job.binds:
        return almost("`mine` is in the view, but it assigns no `answer`.")
    return right("`mine` is in the view: it is done, and has assigned `answer`.")

"""Exercises of notebook 09: kept variables, what two notebooks share, and a lack of memory."""

from __future__ import annotations

import os

import numpy as np

from workbench.course.exercises import Live, Outcome, almost, right, wrong
from workbench.report.processes import Processes, is_this_process


def back(live: Live) -> Outcome:
    born = live["born"]
    if born is ...:
        return wrong("The variables aren't back: `%workbench keep` has to run before.")
    if born == os.getpid():
        return wrong(
            "This is still the kernel that ran the cells above: process {pid}.", pid=os.getpid()
        )
    return right(
        "A new kernel, process {new} after {old}, with the variables of the old one.",
        new=os.getpid(),
        old=born,
    )


def undone(live: Live) -> Outcome:
    land, now = live["land"], int(live["land"].sum(dtype=np.int64))
    if now != live["total"]:
        return wrong(
            "The heights of `land` add up to {now} m. It was {total} m.",
            now=now,
            total=live["total"],
        )
    if not np.shares_memory(land, live["ridge"]):
        return almost("`land` is right, but made anew: `ridge` is no part of it any more.")
    if live["high"] is not ...:
        return almost("`land` is right, but `high` is still there, made of the wrong heights.")
    return right("`land` is as it was, `ridge` is a part of it, and `high` is gone.")


def branched(live: Live) -> Outcome:
    known = live.branches()
    if not {"high", "half"} <= known.keys():
        return wrong("The branches are {names}: one is missing.", names=", ".join(known))
    half, high = known["half"].plain, known["high"].plain
    level, part = half["level"], half["part"]
    exact = float((live["land"] < level).mean())
    if part != exact:
        return almost(
            "On branch half `part` is {part:.0%}, but {exact:.0%} of the land is below {level} m.",
            part=part,
            exact=exact,
            level=level,
        )
    if not 0.45 < part < 0.55:
        return wrong(
            "On branch half, {part:.0%} are under water, at {level} m.", part=part, level=level
        )
    return right(
        "{part:.0%} at {level} m on branch half, {other:.0%} at {above} m on branch high.",
        part=part,
        level=level,
        other=high["part"],
        above=high["level"],
    )


def greeting(live: Live) -> Outcome:
    record = live.stored("greeting")
    if record is None:
        return wrong("The store has nothing of the name `greeting`.")
    maker = Processes(live.snapshot).made_by(record.id)
    if maker is not None and is_this_process(maker):
        return almost("There is a `greeting`, but this notebook itself has put it there.")
    if maker is not None and maker.role == "worker":
        return almost("There is a `greeting`, but a worker of this notebook has put it there.")
    return right("The other one says: {greeting!r}.", greeting=live.value("greeting"))


def differs(live: Live) -> Outcome:
    land, share = live["land"], live["differs"]
    if not isinstance(share, float):
        return wrong("`differs` is no number yet: the cell has asked for too much again.")
    heights = np.sort(np.asarray(land, np.int64), axis=None)
    higher = heights.size - np.searchsorted(heights, heights + 300, side="right")
    exact = 2 * float(higher.mean()) / heights.size
    if abs(share - exact) > 0.01:
        return almost(
            "`differs` is {share:.1%}, but of all pairs {exact:.1%} differ so much.",
            share=share,
            exact=exact,
        )
    return right(
        "{share:.1%} of your pairs differ so much; of all pairs, {exact:.1%}.",
        share=share,
        exact=exact,
    )

"""The exercises of the first notebook: a cell in the background, its results, its errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.course.exercises import Live, Outcome, almost, right, wrong
from workbench.ref import ObjectRef

HOURS = range(7, 18)


QUARTERS = 4
"""Of an hour: what `day` is a sum of, and so is divided by."""


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "max")


def _too_long(live: Live, day: Any) -> bool:
    """True if some point of ``day`` gets more hours of sun than there are."""
    return float(day.max()) > len(live["quarters"]) / QUARTERS


def _long(live: Live, day: Any) -> Outcome:
    return almost(
        "The sunniest point of `day` gets {most:g} hours, and this day has {all:g}: is `/ 4` still"
        " in its cell? (A quarter of an hour counts as 1 without it.)",
        most=float(day.max()),
        all=len(live["quarters"]) / QUARTERS,
    )


def in_background(live: Live) -> Outcome:
    job, land = live.made_by("day"), live.fetched(live["land"])
    day = live.fetched(live["day"])
    if getattr(day, "shape", None) != land.shape:
        return almost(
            "A worker made `day`, but it is of type {type}, and no array like `land`, with the "
            "hours of each point.",
            type=type(day).__name__,
        )
    if _too_long(live, day):
        return _long(live, day)
    expected = sum(live["sunlit"](land, hour) for hour in live["quarters"]) / QUARTERS
    if not np.allclose(day, expected):
        return almost(
            "A worker made `day`, but its points get {found:.3g} hours of sun on average. On this "
            "day they get {expected:.3g}: is it the sum of all `quarters`, divided by 4?",
            found=float(day.mean()),
            expected=float(expected.mean()),
        )
    return right("A worker made `day`, in the background: {cell}.", cell=job.name)


def bring_back(live: Live) -> Outcome:
    day, most = live["day"], live["most_sun"]
    if isinstance(day, ObjectRef):
        return wrong("`day` is still a ref, a handle to the value in the store.")
    if not _is_array(day):
        return wrong("`day` is no array: run the cell of the exercise before this one again.")
    if _too_long(live, day):
        return _long(live, day)
    if isinstance(most, ObjectRef):
        return almost("`most_sun` is a ref to the answer, and not the answer itself.")
    if getattr(most, "size", 1) != 1:
        return wrong("`most_sun` is an array. The answer is one number, the largest in `day`.")
    if float(most) != float(day.max()):
        return wrong("`most_sun` is {most}; some point of `day` differs from that.", most=most)
    return right("The sunniest point of `day` gets {most} hours.", most=most)


def each_hour(live: Live) -> Outcome:
    job = live.made_by("share")
    if job.size == 1:
        return wrong("The cell that makes `share` ran for one hour only.")
    if job.size != len(HOURS):
        return almost(
            "The cell that makes `share` ran {size} times; from 7 to 17 there are {hours} hours.",
            size=job.size,
            hours=len(HOURS),
        )
    land, sunlit = live.fetched(live["land"]), live["sunlit"]
    shares = [float(live.fetched(each)) for each in live.fetched(live["share"])]
    if not all(
        math.isclose(share, sunlit(land, hour).mean(), rel_tol=1e-6)
        for share, hour in zip(shares, HOURS, strict=True)
    ):
        return almost(
            "The cell that makes `share` ran {size} times, but `share` isn't what the "
            "hours from 7 to 17 give.",
            size=job.size,
        )
    return right(
        "The workers ran {cell} {size} times, once for each hour.", cell=job.name, size=job.size
    )


def repair(live: Live) -> Outcome:
    live.made_by("steepest")
    land, steepest = live.fetched(live["land"]), live.fetched(live["steepest"])
    expected = float((land[:, 1:] - land[:, :-1]).max())
    if float(steepest) != expected:
        return almost("{found} m isn't the largest rise in one step to the right.", found=steepest)
    return right("A worker found it: {found} m higher within one step.", found=steepest)

"""Exercises of notebook 10: a cell that needs no file, and the line that names a cluster."""

from __future__ import annotations

import shlex

import numpy as np

from workbench.course.exercises import Live, Outcome, almost, right, wrong
from workbench.course.words import say
from workbench.engines.choice import NAMES, read
from workbench.errors import WorkbenchError

ADDRESS = "tcp://10.0.0.7:8786"
"""Of the cluster in the exercise, and in its hint; nobody connects to it."""

PARTS = 4


def no_file(live: Live) -> Outcome:
    land = live.value("land")
    found = live["highest"]
    if not isinstance(found, list) or len(found) != PARTS:
        return wrong(
            "`highest` is of type {kind}. It should be a list of {parts} heights, one for each "
            "quarter.",
            kind=type(found).__name__,
            parts=PARTS,
        )
    live.made_by("highest")
    heights = [live.fetched(each) for each in found]
    expected = [int(part.max()) for part in np.array_split(land, PARTS)]
    if heights != expected:
        return almost(
            "`highest` is {found}, and the land has {land}.", found=heights, land=expected
        )
    return right(
        "{found} metres, found on workers: none of them needed the laptop's file.", found=heights
    )


def line(live: Live) -> Outcome:
    words = [
        word
        for given in shlex.split(str(live["line"]))
        for word in (given.split("=", 1) if given.startswith("--") else [given])
    ]
    if words[:2] != ["%workbench", "start"]:
        return wrong("`line` doesn't begin with `%workbench start`.")
    options = dict(zip(words[2::2], words[3::2], strict=False))
    for word in words[2::2]:
        if not word.startswith("--"):
            return wrong("`{word}` stands alone: which option does it belong to?", word=word)
        if word not in ("--engine", "--address"):
            return wrong("`{option}` isn't needed here: two other options are.", option=word)
    try:
        meant = read(None, options.get("--engine"), options.get("--address"))
    except WorkbenchError as error:
        return wrong("Workbench would say: {error}", error=error)
    if meant.engine != "dask":
        return wrong(
            "That starts a session on {engine}.", engine=say(NAMES[meant.engine or "local"])
        )
    if not meant.address:
        return almost("That is Dask, but without an address.")
    if meant.address != ADDRESS:
        return almost("That is Dask, but at {place}.", place=meant.address)
    return right("That session would run on Dask at {address}.", address=ADDRESS)

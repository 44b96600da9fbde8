"""Exercises of notebook 10: a cell that needs no file, and the line that names a cluster."""

from __future__ import annotations

import shlex

import numpy as np

from workbench.course.exercises import Lesson, Live, Outcome, Page, almost, exercise, right, wrong
from workbench.engines.choice import NAMES, read
from workbench.errors import WorkbenchError
from workbench.format import count

PAGE = "howto/past-one-machine.md"

ADDRESS = "tcp://10.0.0.7:8786"
"""Of the cluster in the exercise; nobody connects to it."""

PARTS = 4


@exercise(
    hints=(
        "The file is on one disk. What do all workers have, wherever they are?",
        "`%put land` was done above: a cell that reads `land` gets it from the store.",
        "In the cell right above this check, delete the line with `np.fromfile`, and write `land`"
        " in place of `heights` in the line below it.",
    ),
    page=Page(f"{PAGE}#what-stays-on-the-laptop", "Past one machine: what stays on the laptop"),
    needs=("highest",),
)
def no_file(live: Live) -> Outcome:
    land = live.value("land")
    found = live["highest"]
    if not isinstance(found, list) or len(found) != PARTS:
        return wrong(
            "`highest` is of type {kind}. It should be a list of {parts}, one for each quarter.",
            kind=f"{type(found).__name__}",
            parts=count(PARTS, "height"),
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


@exercise(
    hints=(
        "Two things have to be said: what runs the session, and where that is.",
        "`%workbench start --help` lists the options: `--engine` and `--address`.",
        "In the cell right above this check, write"
        f" `line = '%workbench start --engine dask --address {ADDRESS}'`.",
    ),
    page=Page(PAGE, "Past one machine"),
    needs=("line",),
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
        return wrong("That starts a session on {engine}.", engine=NAMES[meant.engine or "local"])
    if meant.address != ADDRESS:
        return almost("That is Dask, but at {place}.", place=meant.address or "no address")
    return right("That session would run on Dask at {address}.", address=ADDRESS)


LESSON = Lesson("10-past-one-machine", "Past one machine", (line, no_file))

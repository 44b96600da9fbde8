"""Exercises of notebook 09: what outlives a kernel, and what two notebooks share."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from workbench.course.exercises import Lesson, Live, Outcome, Page, almost, exercise, right, wrong
from workbench.report.processes import Processes, is_this_process
from workbench.system.machine import age

PAGE = Page("sessions.md#after-a-restart-of-the-kernel", "Sessions: after a restart of the kernel")


@exercise(
    hints=(
        "The store has the process number of the kernel that ran the cell before.",
        "JupyterLab's menu has Kernel, and there Restart Kernel. Don't choose one that runs cells.",
        "Restart the kernel, and then run the cell right above this check, as it is.",
    ),
    page=PAGE,
)
def restarted(live: Live) -> Outcome:
    notes = live.value("notes")
    if notes["kernel"] == os.getpid():
        return wrong(
            "This is still the kernel that ran the cells above: process {pid}.", pid=os.getpid()
        )
    return right(
        "A new kernel, process {new} after {old}, and the same session.",
        new=os.getpid(),
        old=notes["kernel"],
    )


@exercise(
    hints=(
        "The cell has to begin in one kernel and end in the next one.",
        "Start the cell, restart the kernel within ten seconds, and run the notebook's first cell"
        " again. `%get flood` brings what the cell has found.",
        "Run the cell above this check; choose Kernel, Restart Kernel; run the first cell, and"
        " then `%get flood` in a new cell.",
    ),
    page=PAGE,
    subject="flood",
)
def went_on(live: Live) -> Outcome:
    flood: Any = live["flood"]
    if flood is ...:
        return wrong("This kernel has no variable `flood`.")
    if not isinstance(flood, list):
        return wrong("`flood` is no list yet: `%get flood` brings the values.")
    first, last, began = flood[0][0], flood[-1][0], time.time() - age(os.getpid())
    if first > began:
        return almost("You have `flood`, but the cell began in this kernel: restart it meanwhile.")
    if last < began:
        return almost(
            "You have `flood`, but the cell had ended before this kernel began: restart earlier."
        )
    return right(
        "The cell began {before:.1f} s before this kernel, and went on until {after:.1f} s after"
        " its start.",
        before=began - first,
        after=last - began,
    )


@exercise(
    hints=(
        "The other notebook needs a kernel of its own, and the name of this session.",
        "In a new notebook: `%load_ext workbench`, then `%workbench start --session"
        " nothing-is-lost`. What it puts under a name is here too.",
        "In a new notebook, after those two lines: `greeting = 'hello'` and `%put greeting`."
        " Come back here, and run this check again.",
    ),
    page=Page("howto/share-between-notebooks.md", "Share data between notebooks"),
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


@exercise(
    hints=(
        "The matrix has as many rows and columns as `heights` has numbers.",
        "`land[::10, ::10]` has every tenth row and column; `.ravel()` makes one row of them.",
        "The first line of the cell above this check: `heights = land[::10, ::10].ravel()`.",
    ),
    page=Page("howto/my-kernel-died.md", "My kernel died"),
)
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


LESSON = Lesson("09-nothing-is-lost", "Nothing is lost", (restarted, went_on, greeting, differs))

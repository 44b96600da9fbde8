"""Exercises of notebook 08: code of other libraries on Workbench's workers."""

from __future__ import annotations

import os

from workbench.course.exercises import Live, Outcome, almost, right, wrong
from workbench.format import human_bytes
from workbench.report.reasons import chips

LARGE = 10_000_000
"""Bytes: `X` has more, and nothing else in this notebook."""


def on_the_pool(live: Live) -> Outcome:
    pids = [pid for pid, _ in live["inks"]]
    workers = {worker.pid for worker in live.snapshot.workers}
    if len(pids) != 10:
        return wrong("`inks` has {count} results: ten digits were asked for.", count=len(pids))
    here = pids.count(os.getpid())
    if here == len(pids):
        return wrong("All calls ran in the notebook's own process, {pid}.", pid=os.getpid())
    if here:
        return almost("{here} of 10 calls ran in the notebook's own process.", here=here)
    if not workers.issuperset(pids):
        return almost("The calls ran in processes, but not all of them are this session's workers.")
    return right("All calls ran on workers: {pids}.", pids=", ".join(map(str, sorted(set(pids)))))


def given_back(live: Live) -> Outcome:
    large = [each for each in live.objects if each.size > LARGE]
    if not large and (own := live.own_arrays(LARGE)):
        return almost(
            "The store has no more of it, but `{name}` is an array of {size} of your kernel's own.",
            name=min(own),
            size=human_bytes(own[min(own)].nbytes),
        )
    if not large:
        most = max((each.size for each in live.objects), default=0)
        return right("The largest object that is left has {size}.", size=human_bytes(most))
    reasons = ", ".join(dict.fromkeys(chip for each in large for chip in chips(each)))
    size = human_bytes(sum(each.size for each in large))
    state = wrong if any(each.names for each in large) else almost
    return state("{size} are still there. What keeps them: {reasons}.", size=size, reasons=reasons)

"""Exercises of notebook 07: tasks and actors, what stops them and what brings them back."""

from __future__ import annotations

from typing import Any

from workbench.course.exercises import Live, Outcome, almost, right, wrong
from workbench.ref import ObjectRef

FIRST = list(range(1, 11))
"""What ten calls of a counter give."""


TO_COUNT = 10
"""Seconds that the last cell counts: who looks for the button first has time for that."""

CALLS = 20
"""Of `taste`."""

TRIES = 3
"""So often the shop is asked before it answers."""


def at_once(live: Live) -> Outcome:
    times, cups = [], {getattr(cup, "_ref", cup): cup for cup in live["cups"]}
    for cup in cups.values():
        found, error = live.answer(cup.last_stir.remote())
        if error:
            return wrong("A cup doesn't answer: {error}", error=error)
        if found is None:
            return wrong("Not all cups were stirred.")
        times.append(found)
    if len(times) < 2:
        return wrong("Different cups in `cups`: {count}. Stir two.", count=len(times))
    (_, first), (second, _) = sorted(times)[:2]
    if second >= first:
        return wrong("One cup was stirred after the other: the spoons never moved together.")
    return right("Both spoons were moving at the same time, for {gap:.1f} s.", gap=first - second)


def counter(live: Live) -> Outcome:
    bar = live.actor(live["bar"])
    if bar is None or bar.state == "dead":
        return wrong("`bar` is no actor that lives.")
    bill = live["bill"]
    if bill and all(isinstance(each, ObjectRef) for each in bill):
        return almost("`bill` has refs: `wb.get` makes numbers of them.")
    if list(bill) != FIRST:
        return wrong("`bill` is {bill}. It should be 1 to 10.", bill=bill)
    number, error = live.answer(live["bar"].serve.remote())
    if error or not isinstance(number, int) or number <= len(FIRST):
        return almost(
            "`bill` is right, but `bar` doesn't remember: its next call gave {answer}.",
            answer=error or number,
        )
    return right("`bar` remembers: its next call gave {number}.", number=number)


def _count(tries: Any) -> int:
    """What `Tries` has counted; called in its process."""
    return int(tries.count)


def asked_again(live: Live) -> Outcome:
    value = live.task_result("sugar")
    if value != "sugar":
        return almost("The task has ended, and brought {value!r}.", value=value)
    tries, error = live.answer(live["asked"].__ray_call__.remote(_count))
    if error or tries < TRIES:
        return almost(
            "There is sugar, but `asked` has counted {tries}: the shop answers the third time.",
            tries=error or tries,
        )
    return right("There is sugar: the shop was asked {tries} times.", tries=tries)


def comes_back(live: Live) -> Outcome:
    handle = live["cup"]
    if live.actor(handle) is None:
        return wrong("`cup` is no actor.")
    needs, error = live.answer(handle.how_many.remote())
    if error:
        return wrong("The cup doesn't answer: {error}", error=error)
    pids, error = live.answer(handle.pid.remote())
    if error or pids == live["first_pid"]:
        return almost("The cup answers, but it never fell: it is still the first process.")
    if live["fallen"].id < handle._ref.id:  # ids count what this notebook has made
        return almost("The cup answers, but another one fell: run the whole cell above again.")
    return right(
        "The cup is back, in a new process, and needs {needs} stirs: what it knew is gone.",
        needs=needs,
    )


def defined_once(live: Live) -> Outcome:
    refs = {each for each in live["tasted"] if isinstance(each, ObjectRef)}
    if len(refs) != CALLS:
        return wrong("Different refs in `tasted`: {count}. It should have 20.", count=len(refs))
    if anew := live.stored_between([*refs]):
        return wrong(
            "Between the 20 calls {count} more objects were stored: `taste`, if it was defined "
            "anew, or `menu`, if it was an argument itself.",
            count=anew,
        )
    if error := next((error for _, error in (live.answer(ref) for ref in refs) if error), ""):
        return almost("`taste` was stored once, but a call has failed: {error}", error=error)
    return right("`taste` was stored once: between the 20 calls nothing else was stored.")


def stop_pressed(live: Live) -> Outcome:
    job = live.job("counting")
    if job is None:
        return wrong("No background cell of the name `counting` has been run.")
    if not job.is_over:
        return wrong("It is still counting: {lines}.", lines=job.lines)
    if job.state != "stopped":
        return wrong("It has counted to {lines}, and nobody stopped it.", lines=job.lines)
    if job.lines >= TO_COUNT:
        return almost("It was stopped, but not before {lines}.", lines=job.lines)
    return right("You stopped it at {lines}. The session goes on.", lines=job.lines)

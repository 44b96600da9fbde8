"""Exercises of notebook 07: tasks and actors, what stops them and what brings them back."""

from __future__ import annotations

from typing import Any

from workbench.course.exercises import Lesson, Live, Outcome, Page, almost, exercise, right, wrong
from workbench.format import count
from workbench.ref import ObjectRef

CALLED = Page(
    "coming-from-ray.md#options-of-actors-and-what-is-called", "Coming from Ray: what is called"
)

FIRST = list(range(1, 11))
"""What ten calls of a counter give."""


TO_COUNT = 10
"""Seconds that the last cell counts: who looks for the button first has time for that."""

CALLS = 20
"""Of `taste`."""

TRIES = 3
"""So often the shop is asked before it answers."""


@exercise(
    hints=(
        "When does `.remote(...)` return, and when does `wb.get(...)`?",
        "`wb.get` inside the loop waits for the first cup before the second one is asked.",
        "In the cell above this check, collect the refs in a list inside the loop, and call"
        " `wb.get(...)` of the list behind the loop.",
    ),
    page=CALLED,
    needs=("cups",),
)
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
        return wrong("`cups` has {cups}: stir two.", cups=count(len(times), "different cup"))
    (_, first), (second, _) = sorted(times)[:2]
    if second >= first:
        return wrong("One cup was stirred after the other: the spoons never moved together.")
    return right("Both spoons were moving at the same time, for {gap:.1f} s.", gap=first - second)


@exercise(
    hints=(
        "A task forgets. What is to be remembered needs an actor: an object in one process.",
        "Write a class with `__init__` and `serve`, as `Cup` is one, and `@wb.remote` above it.",
        "In the cell above this check, write the class `Bar`; `self.served = 0` in `__init__`;"
        " `serve` adds 1 and returns it. Then `bar = Bar.remote()`, and ten calls of"
        " `bar.serve.remote()`.",
    ),
    page=CALLED,
    needs=("bar", "bill"),
)
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


@exercise(
    hints=(
        "The task failed with an error of its own. Workbench tries again after crashes only.",
        "`.options(...)` changes how one call is made; `retry_exceptions=True` tries errors again.",
        "In the cell above this check, write `ask_shop.options(max_retries=5,"
        " retry_exceptions=True).remote(asked)`.",
    ),
    page=Page("coming-from-ray.md#options-of-tasks", "Coming from Ray: options of tasks"),
    needs=("asked", "sugar"),
)
def asked_again(live: Live) -> Outcome:
    value = live.task_result("sugar")
    if value != "sugar":
        return almost("The task has ended, and brought {value!r}.", value=value)
    tries, error = live.answer(live["asked"].__ray_call__.remote(_count))
    if error or tries < TRIES:
        return almost(
            "There is sugar, but `asked` has counted {tries}: the shop answers the third time.",
            tries=error or count(tries, "try", "tries"),
        )
    return right("There is sugar: the shop was asked {tries} times.", tries=tries)


@exercise(
    hints=(
        "The cup's process has ended. What could start it again?",
        "An actor's options stand above the class: `@wb.remote(max_restarts=1)`.",
        "In the cell above this check, write `(max_restarts=1)` behind `@wb.remote`, and run it.",
    ),
    page=CALLED,
    needs=("cup", "first_pid", "fallen"),
    subject="cup",
)
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


@exercise(
    hints=(
        "How often does Python run the `def` in the loop, and what does it make each time?",
        "A function is sent when it is first called. Make one function, and call it 20 times.",
        "In the cell above this check, move `@wb.remote` and the `def` above the `for`.",
    ),
    page=Page("reference/remote.md#what-goes-along", "Cells in the background: what goes along"),
    needs=("tasted",),
)
def defined_once(live: Live) -> Outcome:
    refs = {each for each in live["tasted"] if isinstance(each, ObjectRef)}
    if len(refs) != CALLS:
        refs_given = count(len(refs), "different ref")
        return wrong("`tasted` has {refs}. It should have 20.", refs=refs_given)
    if anew := live.stored_between([*refs]):
        return wrong(
            "Between the 20 calls {count} more objects were stored: `taste`, if it was defined "
            "anew, or `menu`, if it was an argument itself.",
            count=anew,
        )
    if error := next((error for _, error in (live.answer(ref) for ref in refs) if error), ""):
        return almost("`taste` was stored once, but a call has failed: {error}", error=error)
    return right("`taste` was stored once: between the 20 calls nothing else was stored.")


@exercise(
    hints=(
        "While a background cell runs, there is a button in the line under it.",
        "The button is called Stop. Run the cell again, and look at the line under it.",
        "Run the cell above this check, and press Stop under it within ten seconds.",
    ),
    page=Page(
        "reference/remote.md#the-line-under-it", "Cells in the background: the line under it"
    ),
)
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


LESSON = Lesson(
    "07-tasks-and-actors",
    "Tasks and actors",
    (at_once, counter, asked_again, comes_back, defined_once, stop_pressed),
)

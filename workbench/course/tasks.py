"""Exercises of notebook 07: tasks and actors, what stops them and what brings them back."""

from __future__ import annotations

from typing import Any

from workbench.course.exercises import Lesson, Live, Outcome, Page, almost, exercise, right, wrong
from workbench.engine.queries import Describe
from workbench.errors import GetTimeoutError
from workbench.format import count
from workbench.ref import ObjectRef

SECONDS = 20.0
"""How long a check waits at most for what it calls."""

CALLED = Page(
    "coming-from-ray.md#options-of-actors-and-what-is-called", "Coming from Ray: what is called"
)

FIRST = list(range(1, 11))
"""What ten calls of a counter give."""


def _answer(live: Live, ref: ObjectRef) -> tuple[Any, str]:
    """What a task gave, and the error if it failed."""
    try:
        return live.engine.get([ref], SECONDS, False)[0], ""
    except GetTimeoutError:
        return None, f"no answer within {SECONDS:.0f} s"
    except Exception as error:  # whatever the task raised
        return None, str(error).partition("\n")[0] or type(error).__name__


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
    times = []
    for cup in live["cups"]:
        found, error = _answer(live, cup.last_stir.remote())
        if error:
            return wrong("A cup doesn't answer: {error}", error=error)
        if found is None:
            return wrong("Not all cups were stirred.")
        times.append(found)
    if len(times) < 2:
        return wrong("`cups` has {cups}: stir two.", cups=count(len(times), "cup"))
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
    number, error = _answer(live, live["bar"].serve.remote())
    if error or not isinstance(number, int) or number <= len(FIRST):
        return almost(
            "`bill` is right, but `bar` doesn't remember: its next call gave {answer}.",
            answer=error or number,
        )
    return right("`bar` remembers: its next call gave {number}.", number=number)


@exercise(
    hints=(
        "The task failed with an error of its own. Workbench tries again after crashes only.",
        "`.options(...)` changes how one call is made; `retry_exceptions=True` tries errors again.",
        "In the cell above this check, write `ask_shop.options(max_retries=5,"
        " retry_exceptions=True).remote(Tries.remote())`.",
    ),
    page=Page("coming-from-ray.md#options-of-tasks", "Coming from Ray: options of tasks"),
    needs=("sugar",),
)
def asked_again(live: Live) -> Outcome:
    if not isinstance(live["sugar"], ObjectRef):
        return wrong("`sugar` is no ref: it should be what `.remote(...)` returns.")
    found = live.engine.ask(Describe(live["sugar"].id))
    if found is not None and found.object.about is not None:  # which tells what a put has cost
        return wrong("`sugar` is a ref to something that was put: no task has made it.")
    value, error = _answer(live, live["sugar"])
    if error:
        return wrong("The task has failed: {error}", error=error)
    if value != "sugar":
        return almost("The task has ended, and brought {value!r}.", value=value)
    return right("There is sugar: the shop was asked until it answered.")


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
    needs, error = _answer(live, handle.how_many.remote())
    if error:
        return wrong("The cup doesn't answer: {error}", error=error)
    pids, error = _answer(live, handle.pid.remote())
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
    refs = [each for each in live["tasted"] if isinstance(each, ObjectRef)]
    if len(refs) < 20:
        return wrong("`tasted` has {refs}. It should have 20.", refs=count(len(refs), "ref"))
    stored = [
        each.id for each in live.objects if each.about and each.about.type == "function taste"
    ]
    if not stored:
        return wrong("The store has no function `taste`: was it called?")
    if max(stored) > refs[0].id:  # ids count what this notebook has made
        return wrong("`taste` was stored again after the first call: it was defined anew.")
    if error := next((error for _, error in (_answer(live, ref) for ref in refs) if error), ""):
        return almost("`taste` was stored once, but a call has failed: {error}", error=error)
    return right("`taste` was stored once, before the first of 20 calls.")


@exercise(
    hints=(
        "While a background cell runs, there is a button in the line under it.",
        "The button is called Stop. Run the cell again, and look at the line under it.",
        "Run the cell above this check, and press Stop under it within four seconds.",
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
    if job.lines >= 5:
        return almost("It was stopped, but not before {lines}.", lines=job.lines)
    return right("You stopped it at {lines}. The session goes on.", lines=job.lines)


LESSON = Lesson(
    "07-tasks-and-actors",
    "Tasks and actors",
    (at_once, counter, asked_again, comes_back, defined_once, stop_pressed),
)

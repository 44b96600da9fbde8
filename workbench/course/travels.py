"""The exercises of what travels: which bytes of an object, how often, and what goes along."""

from __future__ import annotations

import pickle
import unicodedata
from typing import Any

from workbench.core.snapshot import ObjectRecord
from workbench.course.exercises import Lesson, Live, Outcome, Page, almost, exercise, right, wrong
from workbench.course.location import where
from workbench.engine.queries import Describe
from workbench.format import count, human_bytes, joined
from workbench.ref import ObjectRef
from workbench.report.facts import site_of, type_of

VALUES = Page("reference/values.md", "What is read where it lies")
FUNCTIONS = Page(
    "reference/remote.md#functions-and-what-they-refer-to", "Functions, and what they refer to"
)

LEAN = 1000
"""Bytes of pickle that an array with a few words around it stays below."""

SMALL = 16_384
"""Bytes up to which an object needs no shared memory: a function without data is far smaller."""

CHEAP = 100_000
"""Bytes of pickle that a table of categories stays below."""

LENGTH, STEP, WINDOWS = 100_000, 1000, 20
"""Of the windows: how long each is, how far from the one before, and how many there are."""


def _pickled(record: ObjectRecord) -> int:
    return record.about.inband if record.about is not None else 0


def _without_buffers(value: Any) -> bytes:
    return pickle.dumps(value, protocol=5, buffer_callback=lambda buffer: None)


def _functions(live: Live, name: str) -> list[ObjectRecord]:
    """The function as it was sent, each time anew; those that nobody can call any more left out."""
    called = f"function {name}"
    found = [each for each in live.objects if type_of(each) == called and each.state != "freed"]
    return sorted(found, key=lambda record: record.id)


@exercise(
    hints=(
        "`%cost parcel` says which part of it is pickled number by number.",
        "Pickle writes a list number by number, and an array as one block beside the pickle.",
        "In the cell right above this check, write `codes` in place of `codes.tolist()`, and run "
        "the cell again.",
    ),
    page=VALUES,
    needs=("parcel",),
)
def lean_parcel(live: Live) -> Outcome:
    import numpy as np

    record, stored = live.record("parcel"), live.value("parcel")
    if not isinstance(stored, dict):
        return wrong("The store has no dict called `parcel`.")
    pickled = human_bytes(_pickled(record))
    if _pickled(record) >= LEAN:
        here = live["parcel"]
        if isinstance(here, dict) and isinstance(here.get("codes"), np.ndarray):
            return almost(
                "The notebook's `parcel` has an array. The stored one is still the old "
                "one: `%put parcel` again."
            )
        return wrong("Of the stored `parcel`, {pickled} are pickled.", pickled=pickled)
    if not np.array_equal(stored.get("codes", ()), live["codes"]):
        return almost(
            "Only {pickled} are pickled, but not all numbers of `codes` are in it.", pickled=pickled
        )
    return right(
        "Of the stored `parcel`, {pickled} are pickled; {size} were copied as one block.",
        pickled=pickled,
        size=human_bytes(record.size),
    )


@exercise(
    hints=(
        "How many numbers are in `codes`, and how many in all windows together?",
        "Twenty views are twenty objects, so their numbers are stored twenty times. One array, and "
        "where each window begins, say as much.",
        "In the cell right above this check, write `windows = codes`, and in `window` "
        "`return windows[1000 * number : 1000 * number + 100_000]`.",
    ),
    page=VALUES,
    needs=("windows", "window"),
)
def windows_once(live: Live) -> Outcome:
    import numpy as np

    record, stored, window, codes = (
        live.record("windows"),
        live.value("windows"),
        live["window"],
        live["codes"],
    )
    size = human_bytes(record.size)
    if record.size > 2 * codes.nbytes:
        return wrong(
            "The stored `windows` have {size}; `codes` alone has {once}.",
            size=size,
            once=human_bytes(codes.nbytes),
        )
    function, _ = live.engine.put(window)
    taken = live.engine.ask(Describe(function.id, patient=True))
    if taken is not None and taken.object.size > SMALL:
        return almost(
            "The stored `windows` have only {size}, but `window` reads {taken} of your notebook "
            "besides: a worker would need that too. Let it read `windows` alone.",
            size=size,
            taken=human_bytes(taken.object.size),
        )
    for number in (0, 7, WINDOWS - 1):
        begin = STEP * number
        if not np.array_equal(window(stored, number), codes[begin : begin + LENGTH]):
            return almost(
                "The stored `windows` have only {size}, but `window(windows, {number})` "
                "gives other numbers than before.",
                size=size,
                number=number,
            )
    return right(
        "The stored `windows` have {size}, and every window can be cut out of them.", size=size
    )


@exercise(
    hints=(
        "`%cost search` says which variable goes along with the function.",
        "Arguments don't go along with the function. `stored = wb.put(letters)` stores the array "
        "once, and `stored` can be given to every call.",
        "In the cell right above this check, write `stored = wb.put(letters)`, then "
        "`def search(query, letters):`, and call `search.remote('CAT FACE', stored)`.",
    ),
    page=FUNCTIONS,
    needs=("call", "found", "place"),
    subject="place",
)
def light_function(live: Live) -> Outcome:
    sent, letters = _functions(live, "search"), live["letters"]
    if not sent:
        return wrong("No function `search` was sent to a worker.")
    size = human_bytes(sent[-1].size)
    kept = [
        each
        for each in live.objects
        if each.state != "freed" and each.size >= letters.nbytes and "ndarray" in type_of(each)
    ]
    if sent[-1].size > SMALL and kept:
        return wrong(
            "{size} were sent with the function `search`, though `letters` is in the store: the "
            "function reads your notebook's own array. Let it be an argument, and give the ref.",
            size=size,
        )
    if sent[-1].size > SMALL:
        return wrong("{size} were sent with the function `search`.", size=size)
    if live["found"] != live["names"].index("CAT FACE"):
        return almost(
            "Only {size} were sent with `search`, but `found` is not the row of CAT FACE.",
            size=size,
        )
    before = [each.id for each in kept if each.id < live["call"].id]  # ids count what is made
    stored = (live.fetched(live.engine.borrow(id)) for id in before)
    if not any(live["place"].shares(where(each)) for each in stored):
        return almost(
            "Only {size} were sent with `search`. But the call read a copy of `letters` that "
            "nobody has kept: was `letters` itself the argument? Then each call stores it again. "
            "Put it once, and give the call the ref.",
            size=size,
        )
    return right(
        "{size} were sent with `search`, and the call read the {data} of `letters` where they lie "
        "in the store: offset {offset}.",
        size=size,
        data=human_bytes(letters.nbytes),
        offset=live["place"].offset,
    )


@exercise(
    hints=(
        "How often does the loop run the line `@wb.remote`? Each time makes a new function.",
        "Define the function once, without a loop. What it needs comes as arguments: the query, "
        "and the names, as a ref that `wb.put(names)` returns.",
        "In the cell right above this check, write `stored_names = wb.put(names)` first. Take the "
        "function out of the loop, and make its first line `def look_up(query, names):`. The last "
        "two lines are `calls = [look_up.remote(query, stored_names) for query in queries]` and "
        "`found_rows = wb.get(calls)`. The loop and the list `look_ups` aren't needed any more.",
    ),
    page=FUNCTIONS,
    needs=("calls", "found_rows", "queries"),
    subject="found_rows",
)
def one_function(live: Live) -> Outcome:
    sent = _functions(live, "look_up")
    sent = [each for each in sent if site_of(each) == site_of(sent[-1])]  # of the cell's last run
    total = human_bytes(sum(record.size for record in sent))
    if not sent:
        return wrong(
            "The store has no function `look_up`: none of that name was called, or it was deleted."
        )
    if len(sent) > 1:
        return wrong(
            "{count} functions `look_up` were sent, {total} together.", count=len(sent), total=total
        )
    if list(live["found_rows"]) != [live["names"].index(query) for query in live["queries"]]:
        return almost(
            "One function was sent, but `found_rows` aren't the rows of all three queries."
        )
    if sent[0].size > SMALL:
        return almost("One function was sent, but {total} went along with it.", total=total)
    calls = [each for each in live["calls"] if isinstance(each, ObjectRef)]
    if len(calls) != len(live["queries"]):
        return almost(
            "`calls` has {refs}: it should have what `look_up.remote(...)` returned for each "
            "query.",
            refs=count(len(calls), "ref"),
        )
    if anew := live.stored_between(calls):
        return almost(
            "One function was sent, but more was stored between the calls ({objects}): `names` "
            "again, if it was an argument itself. Put it once, and give each call the ref.",
            objects=count(anew, "object"),
        )
    return right(
        "One function of {total} has answered all three queries, and nothing else was stored "
        "between the calls.",
        total=total,
    )


@exercise(
    hints=(
        "`%cost signs` lists its columns. Which of them are pickled text by text?",
        "Few texts come again and again. A column of the type `category` has each of them once, "
        "and for each row a number.",
        "In the cell right above this check, write `signs = signs.astype({'word': 'category', "
        "'way': 'category', 'kind': 'category'})` before `%put signs`.",
    ),
    page=VALUES,
    subject="signs",
)
def cheap_table(live: Live) -> Outcome:
    record, stored = live.record("signs"), live.value("signs")
    pickled = human_bytes(_pickled(record))
    missing = {"word", "way", "kind", "code"} - set(stored)
    if missing:
        return wrong("The stored `signs` lost the column `{name}`.", name=min(missing))
    texts = {
        "word": [name.split()[0] for name in live["names"][: len(live["some"])]],
        "way": [unicodedata.bidirectional(chr(n)) for n in live["some"]],
        "kind": [unicodedata.category(chr(n)) for n in live["some"]],
    }
    for name, expected in texts.items():
        if list(stored[name]) != expected:
            return wrong("The stored `signs` haven't all texts of the column `{name}`.", name=name)
    if _pickled(record) >= CHEAP:
        costly = [name for name in texts if len(_without_buffers(stored[name])) >= CHEAP / 3]
        state = wrong if len(costly) == len(texts) else almost
        return state(
            "{pickled} are still pickled: the texts of {names}, one by one.",
            pickled=pickled,
            names=joined([f"`{name}`" for name in costly]),
        )
    return right(
        "Of the stored `signs`, {pickled} are pickled, and no text is missing.", pickled=pickled
    )


LESSON = Lesson(
    "04-what-travels",
    "What travels",
    (lean_parcel, windows_once, light_function, one_function, cheap_table),
)

"""The exercises of what travels: which bytes of an object, how often, and what goes along."""

from __future__ import annotations

import pickle
import unicodedata
from typing import Any

from workbench.core.snapshot import ObjectRecord
from workbench.course.exercises import Live, Outcome, almost, right, wrong
from workbench.course.location import where
from workbench.engine.queries import Describe
from workbench.format import human_bytes
from workbench.ref import ObjectRef
from workbench.report.facts import site_of, type_of

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
            "Refs in `calls`: {count}. It should have what `look_up.remote(...)` returned for each "
            "query.",
            count=len(calls),
        )
    if anew := live.stored_between(calls):
        return almost(
            "One function was sent, but more was stored between the calls ({count} more): `names` "
            "again, if it was an argument itself. Put it once, and give each call the ref.",
            count=anew,
        )
    return right(
        "One function of {total} has answered all three queries, and nothing else was stored "
        "between the calls.",
        total=total,
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
            "{pickled} are still pickled, text by text, in these columns: {names}.",
            pickled=pickled,
            names=", ".join(f"`{name}`" for name in costly),
        )
    return right(
        "Of the stored `signs`, {pickled} are pickled, and no text is missing.", pickled=pickled
    )

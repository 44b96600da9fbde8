"""What would be cheaper to serialize: another form of `alternatives`, made and measured.

It is said only if it helps.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from workbench.report.format import human_bytes, human_count, human_seconds
from workbench.serialization.alternatives import ADVISERS, Idea
from workbench.serialization.arrays import Reducer
from workbench.serialization.measure import Figures, Measure

WORTH = 2
"""How many times cheaper it must be, in seconds or in bytes."""

CONSIDERED = 0.05
"""The share of all from which a part is worth a thought."""

NOTICED_SECONDS, NOTICED_BYTES = 1e-3, 10_000
"""Nobody notices what is saved below these."""

SAMPLE = 1_000_000
"""Rows that are tried; of more than these, every n-th."""


def advise(
    value: Any, path: str, total: Figures, reducers: Mapping[type, Reducer], measure: Measure
) -> tuple[str, ...]:
    """What would make this part of a whole cheaper, which costs ``total``. Changes nothing."""
    expression = path.rpartition(" → ")[2]
    try:
        ast.parse(expression, mode="eval")
    except SyntaxError:  # an inner part of something else: nobody can write it otherwise there
        return ()
    if "__" in expression:
        return ()
    texts = []
    for adviser in ADVISERS:
        try:
            texts += [_tried(i, total, reducers, measure) for i in adviser(value, expression)]
        except Exception:  # the other form can't be made of it
            continue
    return tuple(filter(None, texts))


def _tried(
    idea: Idea, total: Figures, reducers: Mapping[type, Reducer], measure: Measure
) -> str | None:
    """The advice, if the form is worth it."""
    rows = len(idea.before) if hasattr(idea.before, "__len__") else 0
    step = -(-rows // SAMPLE) or 1
    sample = idea.before if step == 1 else idea.before[::step]
    before = measure(sample, reducers, {})
    if not (
        before.seconds * step >= CONSIDERED * total.seconds
        or before.bytes * step >= CONSIDERED * total.bytes
    ):
        return None
    after = measure(idea.make(sample), reducers, {})
    was, now = [], []
    if before.seconds - after.seconds >= max(NOTICED_SECONDS, after.seconds * (WORTH - 1)):
        was.append(_part_of(before.seconds, total.seconds, human_seconds, step))
        now.append(human_seconds(after.seconds))
    if before.bytes - after.bytes >= max(NOTICED_BYTES, after.bytes * (WORTH - 1)):
        was.append(_part_of(before.bytes, total.bytes, human_bytes, step))
        now.append(human_bytes(after.bytes))
    if not was:
        return None
    of = f" on {human_count(len(sample))} of {human_count(rows)} rows" if step > 1 else ""
    return f"{idea.what}: {' and '.join(was)}{of}; {idea.form} {', '.join(now)}: {idea.how}"


def _part_of(part: float, whole: float, human: Callable[[float], str], step: int) -> str:
    """``93 % of 2.1 s``; of a sample just what it takes."""
    if step > 1 or not whole:
        return human(part)
    return f"{min(1.0, part / whole):.0%}".replace("%", " %") + f" of {human(whole)}"

"""Advice on what would be cheaper to serialize: tries the alternatives, and says those that help.

Changes nothing. What there is to try is in `alternatives`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from workbench.format import human_bytes, human_count, human_seconds
from workbench.serialization.alternatives import ADVISERS, Idea
from workbench.serialization.arrays import Reducers
from workbench.serialization.measure import Allowance, Figures, Measure
from workbench.serialization.sampling import spread

MOST_TRYING = 0.1
"""Seconds of pickling either form."""

WORTH = 2
"""How many times cheaper it must be, in seconds or in bytes."""

CONSIDERED = 0.05
"""The share of all from which a part is worth a thought."""

LARGE_PICKLE = 1_000_000
"""Bytes from which it is worth something that they are copied directly: each reader copies the
others, too."""

NOTICED_SECONDS, NOTICED_BYTES = 1e-3, 10_000
"""Nobody notices what is saved below these."""

SAMPLE = 20_000
"""Rows that are tried, if there are twice as many."""


def advise(
    value: Any,
    expression: str,
    total: Figures,
    reducers: Reducers,
    measure: Measure,
    seconds: float = math.inf,
) -> tuple[str, ...]:
    """What would make this part of a whole cheaper, which costs ``total``. Changes nothing.

    The ``expression`` is how it is written. After so many ``seconds`` nothing more is tried.
    """
    allowance = Allowance(seconds)
    if not _can_be_changed(expression):
        return ()
    texts = []
    for adviser in ADVISERS:
        try:
            for idea in adviser(value, expression):
                if (left := allowance.left) > 0:
                    texts.append(_tried(idea, total, reducers, measure, min(left, MOST_TRYING)))
        except Exception:  # the other form can't be made of it
            continue
    return tuple(filter(None, texts))


def _can_be_changed(expression: str) -> bool:
    """Whether people can write it otherwise there: it is no inner part of something else."""
    try:
        nodes = [*ast.walk(ast.parse(expression, mode="eval"))]
    except SyntaxError:
        return False
    return not any(isinstance(n, ast.Attribute) and n.attr.startswith("__") for n in nodes)


def _tried(
    idea: Idea, total: Figures, reducers: Reducers, measure: Measure, seconds: float
) -> str | None:
    """The advice, if the form is worth it."""
    rows = len(idea.before) if idea.take else 0
    sample, times = idea.before, 1.0
    if idea.take and rows > 2 * SAMPLE:
        sample, times = idea.take(idea.before, spread(rows, SAMPLE)), rows / SAMPLE
    before = measure(sample, reducers, {}, seconds)
    if not (
        before.seconds * times >= CONSIDERED * total.seconds
        or before.bytes * times >= CONSIDERED * total.bytes
    ):
        return None
    after = measure(idea.make(sample), reducers, {}, seconds)
    was: list[str] = []
    now: list[str] = []
    for figure, noticed, human, pickled in _FIGURES:
        one, other = getattr(before, figure), getattr(after, figure)
        saves = (one - other) * times  # of all rows, whatever their share takes on this machine
        if saves >= max(noticed, other * times * (WORTH - 1)) and not (pickled and was):
            was.append(_part_of(one, getattr(total, figure), human, times) + pickled)
            now.append(human(other) + pickled)
    if not was:
        return None
    of = f" on {human_count(SAMPLE)} of {human_count(rows)} rows" if times > 1 else ""
    return f"{idea.what}: {' and '.join(was)}{of}; {idea.form} {', '.join(now)}: {idea.how}"


_FIGURES: tuple[tuple[str, float, Callable[[float], str], str], ...] = (
    ("seconds", NOTICED_SECONDS, human_seconds, ""),
    ("bytes", NOTICED_BYTES, human_bytes, ""),
    ("inband", LARGE_PICKLE, human_bytes, " pickled"),
)
"""What may be less, from which difference on it counts, and how it is said. That less is pickled is
worth a word only if nothing else is less."""


def _part_of(part: float, whole: float, human: Callable[[float], str], times: float) -> str:
    """``93 % of 2.1 s``; of a sample just what it takes."""
    if times > 1 or not whole:
        return human(part)
    return f"{min(1.0, part / whole):.0%}".replace("%", " %") + f" of {human(whole)}"

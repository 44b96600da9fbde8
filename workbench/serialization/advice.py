"""Advice on what would be cheaper to serialize: tries alternatives, reports those that help.

Changes nothing. The alternatives come from `alternatives`.
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
"""Seconds of pickling, for each of the two forms."""

WORTH = 2
"""The alternative must be this many times cheaper, in seconds or in bytes."""

CONSIDERED = 0.05
"""Share of the whole cost from which a part is considered."""

LARGE_PICKLE = 1_000_000
"""Bytes in the pickle that are worth moving to buffers: each reader copies the pickled ones."""

NOTICED_SECONDS, NOTICED_BYTES = 1e-3, 10_000
"""Savings below these are not reported."""

SAMPLE = 20_000
"""Rows tried, if the value has more than twice as many."""


def advise(
    value: Any,
    expression: str,
    total: Figures,
    reducers: Reducers,
    measure: Measure,
    seconds: float = math.inf,
) -> tuple[str, ...]:
    """Return advice that would make this part of a whole cheaper. Changes nothing.

    ``total`` is the cost of the whole, ``expression`` the part as people write it. After this many
    ``seconds`` nothing more is tried.
    """
    allowance = Allowance(seconds)
    if not _can_be_changed(expression):
        return ()
    texts = []
    for adviser in ADVISERS:
        try:
            for idea in adviser(value, expression):
                if (left := allowance.seconds_left) > 0:
                    texts.append(_tried(idea, total, reducers, measure, min(left, MOST_TRYING)))
        except Exception:  # this form can't be made from the value
            continue
    return tuple(filter(None, texts))


def _can_be_changed(expression: str) -> bool:
    """True if people can write it differently: it isn't an internal attribute of something."""
    try:
        nodes = [*ast.walk(ast.parse(expression, mode="eval"))]
    except SyntaxError:
        return False
    return not any(isinstance(n, ast.Attribute) and n.attr.startswith("__") for n in nodes)


def _tried(
    idea: Idea, total: Figures, reducers: Reducers, measure: Measure, seconds: float
) -> str | None:
    """Measure both forms; return the advice if the other one is worth it."""
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
        saves = (one - other) * times  # of all rows, not of the sample
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
"""Figure, smallest difference that counts, its formatter, and a suffix. Fewer pickled bytes are
mentioned only if nothing else improves."""


def _part_of(part: float, whole: float, human: Callable[[float], str], times: float) -> str:
    """Format ``93 % of 2.1 s``; of a sample only its own cost."""
    if times > 1 or not whole:
        return human(part)
    return f"{min(1.0, part / whole):.0%}".replace("%", " %") + f" of {human(whole)}"

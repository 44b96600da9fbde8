"""Formats figures: bytes, seconds, ages, counts; and makes any text safe for a terminal.

Imports nothing of ours, so that every room may import it. `format.js` has the same functions for
figures; `tests/unit/report/format_cases.json` checks both of them.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

UNKNOWN = "not known here"
"""Text where an engine can't tell. Never a zero."""

NO_FIGURE = "–"
"""Text for an unknown figure in a column."""

NOW = "now"
"""Text for an age below a second."""

OWN = "Workbench's "
"""Prefix of the types of Workbench's own objects, which run cells. They aren't counted."""

_AGES = ((86400, "days"), (3600, "h"), (60, "min"))


CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, except newlines and tabs; those that change the direction of text; and
surrogates, which aren't Unicode text."""


def printable(text: str) -> str:
    """Escape whatever must not reach a terminal: ``'a\x1b[2J'`` → ``a\\x1b[2J``.

    Names, labels, types, paths and previews come from people and programs. Code that prints one
    uses this function; the tables and cards of `markup`, and our errors, do so by themselves.
    """
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


LONG_WORD, LONG_LINE = 1_000, 10_000
"""Characters. A path may have that many, but no paragraph of ours."""

_WORD = re.compile(rf"\S{{{LONG_WORD + 1},}}")
_LINE = re.compile(rf"[^\n]{{{LONG_LINE + 1},}}")


def shortened(text: str) -> str:
    """Leave out the middle of overlong words and lines in an error's text: a name of a megabyte."""
    if len(text) <= LONG_WORD:
        return text
    return _LINE.sub(_without_middle, _WORD.sub(_without_middle, text))


def _without_middle(found: re.Match[str]) -> str:
    text = found[0]
    most = LONG_WORD if len(text.split(None, 1)) == 1 else LONG_LINE
    left_out = human_count(len(text) - most)
    return f"{text[: most // 2]}… ({left_out} characters) …{text[-most // 2 :]}"


def human_bytes(n: float | None) -> str:
    """Format bytes: 1234567 → '1.23 MB' (powers of 1000, as disks and GB/s are counted)."""
    if n is None:
        return UNKNOWN
    for unit in ("B", "kB", "MB", "GB"):
        if abs(n) < 999.5:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB" if abs(n) < 999.5 else f"{n:.0f} TB"


def human_rate(n: float | None) -> str:
    """Format bytes a second: 4.2e9 → '4.2 GB/s'."""
    return UNKNOWN if n is None else f"{human_bytes(n)}/s"


def human_seconds(s: float | None) -> str:
    """Format a duration: 0.00123 → '1.23 ms', 75 → '75 s', 1330 → '22 min'."""
    if s is None:
        return UNKNOWN
    if not s:
        return "0 s"
    if s < 999.5e-6:
        return f"{s * 1e6:.3g} µs"
    if s < 0.9995:
        return f"{s * 1e3:.3g} ms"
    return f"{s:.3g} s" if s < 999.5 else human_age(s)


def human_age(s: float | None) -> str:
    """Format an age in whole units: 0.4 → 'now', 75 → '75 s', 1330 → '22 min'.

    A unit is used from two of it on, so that the figure is never below half of the truth.
    """
    if s is None:
        return UNKNOWN
    for length, unit in _AGES:
        if s >= 2 * length:
            return f"{int(s // length)} {unit}"
    return f"{int(s)} s" if s >= 1 else NOW


def human_elapsed(s: float | None) -> str:
    """Format the time since a start: 4.9 → '4 s', 124 → '2 min 04 s', 4020 → '1 h 07 min'."""
    if s is None:
        return UNKNOWN
    whole = max(int(s), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole // 60 % 60:02} min"


def human_time(s: float) -> str:
    """Format a time that a person sets, exactly: 28800 → '8 h', 120 → '2 min', 90 → '90 s'."""
    for unit, seconds in (("h", 3600), ("min", 60)):
        if s >= seconds and s % seconds == 0:
            return f"{s / seconds:g} {unit}"
    return f"{s:g} s"


def human_ending(status: int) -> str:
    """Format how a process ended: 3 → 'exited with status 3', -9 → 'was killed by SIGKILL'."""
    if status >= 0:
        return f"exited with status {status}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-status, f'signal {-status}')}"


def human_count(n: int | None) -> str:
    return UNKNOWN if n is None else f"{n:,}".replace(",", " ")


def count(n: int | None, noun: str, many: str = "") -> str:
    """Format a number of things: 1 → '1 line', 1200 → '1 200 lines'; ``many``: irregular plural."""
    nouns = noun if n == 1 else many or f"{noun}s"
    return f"{nouns} {UNKNOWN}" if n is None else f"{human_count(n)} {nouns}"


def human_share(share: float | None) -> str:
    """Format a share: 0.724 → '72 %'; a positive one is never 0 %."""
    if share is None:
        return UNKNOWN
    return "< 1 %" if 0 < share < 0.01 else f"{share:.0%}".replace("%", " %")


def listed(words: Sequence[str], most: int, total: int = 0) -> str:
    """Format 'a, b and 3 more': the first words of ``total``, the rest counted."""
    more = max(total, len(words)) - len(words[:most])
    return ", ".join(words[:most]) + (f" and {human_count(more)} more" if more > 0 else "")


def joined(words: Sequence[str]) -> str:
    *most, last = words or ("",)
    return f"{', '.join(most)} and {last}" if most else last

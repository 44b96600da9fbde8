"""Where text may be cut, and which parts are overwritten. Bytes in, bytes and places out."""

from __future__ import annotations

import codecs
import re


def line_start(text: bytes, at: int) -> int:
    """Return where the next line from ``at`` on begins; if that is far, the next character."""
    far = at + (len(text) - at) // 2
    start = text.find(b"\n", at - 1, far) + 1
    if start:
        return start
    while at < len(text) and text[at] & 0xC0 == 0x80:
        at += 1
    return at


def line_end(text: bytes, at: int) -> int:
    """Return where the last line before ``at`` ends; if that is far, the last character."""
    end = text.rfind(b"\n", at // 2, at) + 1
    return end or whole(text[:at])


def whole(text: bytes) -> int:
    """Return the length without an incomplete character at the end."""
    end = text[-3:]
    return len(text) - len(end) + codecs.utf_8_decode(end, "replace")[1]


_SIMPLE = re.compile("[ -~\u00a1-\u00ac\u00ae-\u02ff\u2500-\u25ff]*")
"""Characters that take one column each: no control sequences, nothing wide or combining."""


def overwritten(text: bytes) -> bytes:
    r"""Return the text without states of a line that later ones, after a ``\r``, hide entirely.

    A state is hidden by one that is at least as long. The first stays, because it begins at a
    column that isn't known here.
    """
    if b"\r" not in text:
        return text
    return b"\n".join(_line(line) if b"\r" in line else line for line in text.split(b"\n"))


def _line(line: bytes) -> bytes:
    try:
        states = line.decode().split("\r")
    except UnicodeDecodeError:
        return line
    first, *others = states
    if not all(map(_SIMPLE.fullmatch, others)):
        return line
    seen: list[str] = []
    longest = -1
    for state in reversed(others):
        if len(state) > longest:
            seen.append(state)
            longest = len(state)
    return "\r".join([first, *reversed(seen)]).encode()

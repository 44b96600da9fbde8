"""Separates one cell's output by writer, when several workers write at once. Pure, no IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from workbench.core.logs import TEXT

MOST_OPEN = 100_000
"""Length of an unfinished line, which is shown anew each time; text beyond it begins a new one."""


class Text(NamedTuple):
    stream: str
    text: str


class OpenLine(NamedTuple):
    """An unfinished line, mostly a progress bar. It has a place of its own, ``number``, in which
    ``text`` replaces what was there."""

    number: int
    text: str
    is_new: bool
    is_last: bool


class Screen:
    """Output of one cell; see the module.

    As long as there is one writer, its text is shown as it is. From the second writer on, or always
    if ``labelled``, each line begins with its writer's label and has one writer only: a line that
    is unfinished, or is overwritten (``\\r``), has a place of its own.
    """

    def __init__(self, labelled: bool = False) -> None:
        self.labelled = labelled
        self._writers: set[str] = set()
        self._is_open = False  # the text before the labels doesn't end with a newline
        self._bars: dict[tuple[str, str], tuple[int, str]] = {}  # by writer and stream
        self._count = 0

    def write(self, label: str, stream: str, text: str) -> Iterator[Text | OpenLine]:
        if stream not in TEXT or not text:
            return
        if not self._is_labelled(label):
            yield Text(stream, text)
            self._is_open = not text.endswith("\n")
            return
        *lines, last = text.split("\n")
        for line in lines:
            yield self._line(label, stream, line, ended=True)
        if last:
            yield self._line(label, stream, last, ended=False)

    def heading(self, label: str) -> Iterator[Text | OpenLine]:
        """Yield what to show before output that isn't text."""
        if self._is_labelled(label):
            yield self._whole(label, "stdout", "")

    def clear(self) -> None:
        self._is_open = False
        self._bars.clear()

    def _is_labelled(self, label: str) -> bool:
        self._writers.add(label)
        return self.labelled or len(self._writers) > 1

    def _line(self, label: str, stream: str, line: str, ended: bool) -> Text | OpenLine:
        """Return a line, or the next part of one."""
        here = label, stream
        is_new = here not in self._bars
        if is_new and ended:
            return self._whole(label, stream, _visible(line))
        if is_new:
            self._count += 1
        number, before = self._bars.pop(here, (self._count, ""))
        line = before + line
        if not ended:
            kept = line[line.rstrip("\r").rfind("\r") + 1 :]
            ended = len(kept) > MOST_OPEN
            if not ended:
                self._bars[here] = number, kept
        return OpenLine(number, f"{label} {_visible(line)}", is_new, ended)

    def _whole(self, label: str, stream: str, line: str) -> Text:
        begin, self._is_open = "\n" * self._is_open, False
        return Text(stream, f"{begin}{label} {line}\n")


def _visible(line: str) -> str:
    """Return what a line shows after carriage returns: bars overwrite all of it."""
    return line.rstrip("\r").rpartition("\r")[2]

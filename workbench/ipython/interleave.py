"""One cell's output, as several workers write it at a time: whose each line is. Pure, no IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from workbench.core.logs import TEXT

MOST_OPEN = 100_000
"""Letters of a line that isn't over: each time all of it is shown again. What is more begins a new
one."""


class Text(NamedTuple):
    stream: str
    text: str


class OpenLine(NamedTuple):
    """A line that isn't over: a progress bar, mostly. It has a place of its own, by ``number``,
    in which ``text`` replaces what was there."""

    number: int
    text: str
    is_new: bool
    is_last: bool


class Screen:
    """See the module.

    As long as there is one writer, what it writes is shown as it is. From the second one on, or if
    it is ``labelled`` at once, each line begins with its writer's label, and is one writer's alone:
    one that isn't over, or is overwritten (``\\r``), has a place of its own.
    """

    def __init__(self, labelled: bool = False) -> None:
        self.labelled = labelled
        self._writers: set[str] = set()
        self._is_open = False  # the text before the labels doesn't end a line
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
        """What to show before something that isn't text."""
        if self._is_labelled(label):
            yield self._whole(label, "stdout", "")

    def clear(self) -> None:
        self._is_open = False
        self._bars.clear()

    def _is_labelled(self, label: str) -> bool:
        self._writers.add(label)
        return self.labelled or len(self._writers) > 1

    def _line(self, label: str, stream: str, line: str, ended: bool) -> Text | OpenLine:
        """A line, or what comes next of one."""
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
    """What is left of a line when it was overwritten, as bars are: whole."""
    return line.rstrip("\r").rpartition("\r")[2]

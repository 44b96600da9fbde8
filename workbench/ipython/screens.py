"""One cell's output, as several workers write it at a time: whose each line is. Pure, no IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from workbench.core.logs import TEXT


class Text(NamedTuple):
    """Text to be appended to a stream."""

    stream: str
    text: str


class Bar(NamedTuple):
    """A line that its writer goes on overwriting. It has a place of its own, by ``number``."""

    number: int
    text: str
    is_new: bool
    is_last: bool


class Screen:
    """See the module.

    As long as there is one writer, what it writes is shown as it is. From the second one on, or if
    it is ``labelled`` at once, each line begins with its writer's label, a line is never continued
    by another writer, and a line that is overwritten (``\\r``, as progress bars do) is shown in a
    place of its own.
    """

    def __init__(self, labelled: bool = False) -> None:
        self._labelled = labelled
        self._writers: set[str] = set()
        self._open = ("", "")  # writer and stream of a line without an end
        self._bars: dict[tuple[str, str], int] = {}  # by writer and stream
        self._count = 0

    def write(self, label: str, stream: str, text: str) -> Iterator[Text | Bar]:
        """What to show when this writer writes this text."""
        if stream not in TEXT or not text:
            return
        if not self._is_labelled(label):
            yield Text(stream, text)
            self._open = ("", "") if text.endswith("\n") else (label, stream)
            return
        *lines, last = text.split("\n")
        for line in lines:
            yield from self._line(label, stream, line, ended=True)
        if last:
            yield from self._line(label, stream, last, ended=False)

    def heading(self, label: str) -> Iterator[Text | Bar]:
        """What to show before something that isn't text."""
        if self._is_labelled(label):
            yield from self._line(label, "stdout", "", ended=True)

    def _is_labelled(self, label: str) -> bool:
        self._writers.add(label)
        return self._labelled or len(self._writers) > 1

    def clear(self) -> None:
        """All of it is off the screen."""
        self._open = ("", "")
        self._bars.clear()

    def _line(self, label: str, stream: str, line: str, ended: bool) -> Iterator[Text | Bar]:
        here = label, stream
        if here in self._bars or "\r" in line:
            state = line.rstrip("\r").rpartition("\r")[2]
            is_new = here not in self._bars
            if is_new:
                self._count += 1
            number = self._bars.setdefault(here, self._count)
            if state or is_new:
                yield Bar(number, f"{label} {state}", is_new, ended)
            if ended:
                del self._bars[here]
            return
        if self._open != here:
            line = "\n" * any(self._open) + f"{label} {line}"
        yield Text(stream, line + "\n" * ended)
        self._open = ("", "") if ended else here

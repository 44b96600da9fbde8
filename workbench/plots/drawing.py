"""Drawing with matplotlib: rows of text, each with bars and a legend below it. Knows no session.

Callers that pass an Axes have imported matplotlib. Text is drawn literally (no mathematics,
no TeX), in a grey that is readable on white and on near-black.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.report.colors import INK, TRACK
from workbench.report.markup import clip

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

POINTS = 72
"""Points per inch."""

WIDTH = 8.0
"""Width in inches of a new figure."""

SIZE = 8.5
"""Size of text, in points."""

LINE = 13.0
"""Distance of two lines of text, in points."""

_EM = 0.6
"""Mean width of a character, as a share of the font size; rather too large than too small."""

_SLACK = 1.05

_COLUMN = 0.25
"""Start of a line's second column, as a share of the width."""

_SEAM = 1.0
"""Points between neighbours that are wide enough for a gap."""


class Rect(NamedTuple):
    """A box: ``start`` and ``length`` in units of the x axis; ``alpha`` from 0 to 1."""

    start: float
    length: float
    color: str
    alpha: float | None = None
    label: str = ""


class DrawnRow(NamedTuple):
    """A line of text: name, detail, and a figure on the right. Below it bars, ``high`` points, on
    a quiet background as long as ``track``; a legend, a (colour, label) each; and a space.

    ``whole``: what the x axis stands for in this row, if not for the same as in others. ``font``:
    bold or italic.
    """

    name: str = ""
    detail: str = ""
    figure: str = ""
    bars: Sequence[Rect] = ()
    high: float = 0.0
    track: float = 0.0
    whole: float = 0.0
    key: Sequence[tuple[str, str]] = ()
    space: float = 0.0
    font: str = ""
    color: str = INK

    @property
    def height(self) -> float:
        """Points that it takes in a new figure."""
        letters = sum(len(label) * SIZE * _EM + 22 for _, label in self.key)
        lines = bool(self.name) + -(-letters // (WIDTH * POINTS))
        return lines * LINE + self.high + self.space


class Sheet(NamedTuple):
    """Rows below each other; the x axis ends at ``most``."""

    most: float
    rows: Sequence[DrawnRow]

    @property
    def height(self) -> float:
        return sum(row.height for row in self.rows)

    def draw(self, ax: Axes) -> None:
        """Fill an Axes from the top: the y axis counts points."""
        pen = _Pen(ax, self.most or 1.0)
        for row in self.rows:
            if row.name:
                pen.line(row)
            pen.bars(row)
            pen.legend(row.key)
            pen.y += row.space


def note(text: str) -> DrawnRow:
    return DrawnRow(text, font="italic")


def height_of(ax: Axes) -> float:
    """Return the height of an Axes, in points."""
    return float(ax.get_window_extent().height * POINTS / ax.figure.dpi)


class _Pen:
    """Draws in one Axes, without ticks and frame, from ``y`` points below its top on."""

    def __init__(self, ax: Axes, most: float) -> None:
        self.ax, self.most, self.y = ax, most, 0.0
        self.width = ax.get_window_extent().width * POINTS / ax.figure.dpi
        self.letters = max(int(self.width / (SIZE * _EM)), 4)
        ax.set_axis_off()
        ax.set_xlim(0, most)
        ax.set_ylim(height_of(ax), 0)

    def line(self, row: DrawnRow) -> None:
        """Draw the texts, cut to fit."""
        room, font = self.letters, {"bold": {"weight": "bold"}, "italic": {"style": "italic"}}
        column = max(int(room * _COLUMN), 12) if row.detail else room + 2
        self._text(0.0, self._fitting(row.name, column - 2), **font.get(row.font, {}))
        left = room - column - len(row.figure) - 2
        if row.detail and left > 6:
            self._text(column / room, self._fitting(row.detail, left))
        if row.figure:
            self._text(1.0, row.figure, ha="right", color=row.color)
        self.y += LINE

    def bars(self, row: DrawnRow) -> None:
        """Draw the boxes beside each other, with their labels, as far as these fit."""
        seam, least = _SEAM * self.most / self.width, 0.6 * self.most / self.width
        unit = self.most / row.whole if row.whole else 1.0
        drawn = [Rect(0.0, row.track, TRACK)] if row.track else []
        for bar in row.bars:
            bar = bar._replace(start=bar.start * unit, length=bar.length * unit)
            length = bar.length - seam if bar.length > 4 * seam else max(bar.length, least)
            drawn.append(bar._replace(length=length))
            room = int(bar.length / self.most * self.width / ((SIZE - 1.5) * _EM)) - 1
            if bar.label and room >= min(len(bar.label), 6):
                self.ax.text(
                    bar.start + bar.length / 2,
                    self.y + row.high / 2,
                    drawable(clip(bar.label, room)),
                    ha="center",
                    va="center_baseline",
                    clip_on=True,
                    **_style(color="white", fontsize=SIZE - 1.5, weight="bold"),
                )
        if drawn:
            self.ax.broken_barh(
                [(bar.start, bar.length) for bar in drawn],
                (self.y, row.high),
                linewidth=0,
                facecolors=[(bar.color, bar.alpha) for bar in drawn],
                edgecolors="none",
            )
        self.y += row.high

    def legend(self, entries: Iterable[tuple[str, str]]) -> None:
        """Draw the entries in as many lines as needed."""
        x = 0.0
        for color, label in entries:
            text = self._text((x + 10) / self.width, clip(label, min(36, self.letters - 4)))
            width = text.get_window_extent().width * POINTS / self.ax.figure.dpi + 22
            if x and x + width > self.width + 12:
                x, self.y = 0.0, self.y + LINE
                text.set_position((10 / self.width, self.y + LINE / 2))
            self.ax.plot(
                [(x + 3.5) / self.width],
                [self.y + LINE / 2],
                marker="s",
                markersize=5.5,
                color=color,
                markeredgewidth=0,
                linestyle="none",
                transform=self.ax.get_yaxis_transform(),
                clip_on=False,
            )
            x += width
        self.y += LINE * (x > 0)

    def _fitting(self, text: str, letters: int) -> str:
        """Cut text to a little more than ``letters``: most are narrower than the mean width."""
        return clip(text, round(letters * _SLACK))

    def _text(self, x: float, text: str, **more: Any) -> Text:
        return self.ax.text(
            x,
            self.y + LINE / 2,
            drawable(text),
            va="center_baseline",
            transform=self.ax.get_yaxis_transform(),
            **_style(**more),
        )


def beside(ax: Axes, y: float, text: str, **style: Any) -> None:
    """Draw text to the right of the Axes, whose x axis ends at 0."""
    ax.annotate(
        text,
        (0, y),
        xytext=(6, 0),
        textcoords="offset points",
        va="center_baseline",
        annotation_clip=False,
        **style,
    )


def drawable(text: str) -> str:
    """Replace each character that the font lacks by a box, to avoid a warning for each."""
    if text.isascii():
        return text
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties()))
    return "".join(c if ord(c) < 0x80 or font.get_char_index(ord(c)) else "□" for c in text)


def _style(**more: Any) -> dict[str, Any]:
    return {"color": INK, "fontsize": SIZE, "parse_math": False, "usetex": False, **more}

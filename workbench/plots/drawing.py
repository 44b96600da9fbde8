"""Drawing with matplotlib: lines of text with bars below them. Knows no session.

Callers that pass an Axes have imported matplotlib. Text is drawn literally (no mathematics,
no TeX), in a grey that is readable on white and on near-black.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.report.colors import INK, TRACK
from workbench.report.markup import clip

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

POINTS = 72
"""Points per inch."""

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


class Sheet:
    """An Axes as a sheet that is filled from the top: the y axis counts points.

    It has no ticks and no frame; the x axis ends at ``most``.
    """

    def __init__(self, ax: Axes, most: float) -> None:
        box = ax.get_window_extent()
        scale = POINTS / ax.figure.dpi
        self.ax = ax
        self.width, self.height = box.width * scale, box.height * scale
        self.most = most or 1.0
        self.y = 0.0
        ax.set_axis_off()
        ax.set_xlim(0, self.most)
        ax.set_ylim(self.height, 0)

    @property
    def points_left(self) -> float:
        return self.height - self.y

    def letters(self) -> int:
        return max(int(self.width / (SIZE * _EM)), 4)

    def skip(self, points: float) -> None:
        self.y += points

    def line(
        self,
        name: str,
        detail: str = "",
        right: str = "",
        *,
        strong: bool = False,
        right_color: str = INK,
    ) -> None:
        """Draw a line of text: name, detail, and a figure on the right. Cuts them to fit."""
        room = self.letters()
        column = room if not detail else max(int(room * _COLUMN), 12)
        self._text(0.0, self._fitting(name, column - 2), weight="bold" if strong else "normal")
        left = room - column - len(right) - 2
        if detail and left > 6:
            self._text(column / room, self._fitting(detail, left))
        if right:
            self._text(1.0, right, ha="right", color=right_color)
        self.y += LINE

    def note(self, text: str) -> None:
        self._text(0.0, clip(text, self.letters()), style="italic")
        self.y += LINE

    def bars(self, bars: Iterable[Rect], height: float, track: float = 0.0) -> None:
        """Draw boxes beside each other, to scale, on a quiet background as long as ``track``; with
        their labels, as far as these fit."""
        seam = _SEAM * self.most / self.width
        least = 0.6 * self.most / self.width
        drawn = [Rect(0.0, track, TRACK)] if track else []
        for bar in bars:
            length = bar.length - seam if bar.length > 4 * seam else max(bar.length, least)
            drawn.append(bar._replace(length=length))
            room = int(bar.length / self.most * self.width / ((SIZE - 1.5) * _EM)) - 1
            if bar.label and room >= min(len(bar.label), 6):
                self.ax.text(
                    bar.start + bar.length / 2,
                    self.y + height / 2,
                    drawable(clip(bar.label, room)),
                    ha="center",
                    va="center_baseline",
                    clip_on=True,
                    **_style(color="white", fontsize=SIZE - 1.5, weight="bold"),
                )
        if drawn:
            self.ax.broken_barh(
                [(bar.start, bar.length) for bar in drawn],
                (self.y, height),
                linewidth=0,
                facecolors=[(bar.color, bar.alpha) for bar in drawn],
                edgecolors="none",
            )
        self.y += height

    def legend(self, entries: Iterable[tuple[str, str]]) -> None:
        """Draw a (colour, label) each, in as many lines as needed."""
        x = 0.0
        for color, label in entries:
            label = clip(label, min(36, self.letters() - 4))
            text = self._text((x + 10) / self.width, label)
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
        self.y += LINE

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


def quiet(ax: Axes) -> None:
    ax.set_facecolor("none")
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(
        left=False,
        bottom=False,
        top=False,
        right=False,
        labelleft=False,
        labelbottom=False,
        labelsize=SIZE - 1,
        labelcolor=INK,
        color=TRACK,
        length=3,
        width=0.8,
    )
    ax.grid(False)


def say(ax: Axes, text: str) -> None:
    ax.text(
        0.5,
        0.5,
        drawable(text),
        ha="center",
        va="center",
        transform=ax.transAxes,
        **_style(style="italic"),
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

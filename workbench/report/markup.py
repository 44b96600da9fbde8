"""Rendering for people: tables and cards, as text and as HTML. Asks nobody.

The only place that makes HTML, with `graph`. All text is escaped here, for a page and for a
terminal. No scripts and no style sheets: elements have their own styles, with Jupyter's theme
variables, each with a fallback.
"""

from __future__ import annotations

import html
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Any, NamedTuple
from unicodedata import east_asian_width

from workbench.format import printable


class Html(str):
    """Finished markup: its maker has escaped the content."""

    __slots__ = ()


class Rich:
    """Mixin for objects with a text and an HTML form: Jupyter gets both at once."""

    __slots__ = ()

    def __str__(self) -> str:
        return printable(self._text())

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    @abstractmethod
    def _text(self) -> str:
        """Return its text for a terminal."""

    @abstractmethod
    def _repr_html_(self) -> str:
        """Return its HTML for a page."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


MUTED = "color:var(--jp-ui-font-color2,#808080)"
"""Style of secondary text. The grey is readable on white and on black."""

_TRACK = "rgba(128,128,128,.2)"
"""Colour behind a strip's pieces."""

_LINE = "var(--jp-border-color2,rgba(128,128,128,.35))"
_NARROWEST = 6
"""Least width of a flexible column, in characters."""

_MONO = "font-family:var(--jp-code-font-family,ui-monospace,monospace)"
_BODY = (
    "font-family:var(--jp-ui-font-family,system-ui,sans-serif);"
    "font-size:var(--jp-ui-font-size1,13px);line-height:1.5;"
    "color:var(--jp-ui-font-color1,inherit)"
)
_TABLE = (
    "border-collapse:collapse;border:none;table-layout:auto;"
    "font-variant-numeric:tabular-nums;font-size:inherit;color:inherit"
)
_FACT = (
    "text-align:left;vertical-align:baseline;line-height:1.6;border:none;padding:0;max-width:none"
)
_QUIET = f'code style="{_MONO};background:none;padding:0;color:inherit"'
_COLORS = {
    "good": "var(--jp-success-color1,#2e9e4f)",
    "busy": "var(--jp-brand-color1,#2196f3)",
    "bad": "var(--jp-error-color1,#e53935)",
    "idle": "var(--jp-ui-font-color3,#8a8a8a)",
}


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def as_html(text: str, tag: str = "code") -> Html:
    """Escape text for a page; text between backticks becomes code."""
    if isinstance(text, Html):
        return text
    return Html(re.sub(r"`([^`]+)`", rf"<{tag}>\1</code>", _escaped(text)))


def unmarked(text: str) -> str:
    """Return the text without backticks, for places that show no code."""
    return text.replace("`", "")


def code(text: str, indent: float = 0.0) -> Html:
    """Format a piece of code, indented by ``indent`` em."""
    room = f' style="padding-left:{indent}em"' if indent else ""
    return Html(f"<span{room}><code>{_escaped(text)}</code></span>")


def muted(text: str) -> Html:
    if not text:
        return Html()
    return Html(f'<span style="{MUTED}">{as_html(text)}</span>')


def remark(text: str) -> Html:
    """Return a line or more that nobody needs to read at once."""
    lines = "<br>".join(map(as_html, text.splitlines()))
    return Html(f'<div style="{_BODY};{MUTED}">{lines}</div>')


def title(name: str, detail: str, state: str, mood: str) -> Html:
    """Return a heading: what a thing is, and its state. ``mood``: good, busy, bad or idle."""
    dot = f'<span style="color:{_COLORS[mood]};margin-left:.8em">●</span>'
    which = f'<span style="{_MONO};{MUTED}">{_escaped(detail)}</span>' if detail else ""
    return Html(f"<b>{_escaped(name)}</b> {which} {dot} {_escaped(state)}")


def heading(text: str) -> Html:
    return Html(f'<div style="margin:.8em 0 .2em"><b>{as_html(text)}</b></div>')


def scroll(inside: Html) -> Html:
    return Html(f'<div style="overflow-x:auto">{inside}</div>')


def unstyled(text: str) -> Html:
    """Return text that shows only where styles are removed, and with them the styled form."""
    return Html(f'<code style="display:none">{_escaped(text)}</code>')


def clip(text: str, most: int) -> str:
    """Shorten text to one line of ``most`` characters by leaving out the middle."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    tail = max(most - 1, 0) // 3
    return f"{text[: max(most - 1 - tail, 0)]}…{text[len(text) - tail :]}"


def pre(text: str) -> Html:
    return Html(
        f'<pre style="{_MONO};font-size:var(--jp-code-font-size,12px);line-height:1.4;margin:0;'
        f'overflow-x:auto;background:none;color:inherit;padding:0">{_escaped(text)}</pre>'
    )


def bar(share: float) -> Html:
    width = f"{min(max(share, 0.0), 1.0):.1%}"
    return Html(
        f'<span style="display:inline-block;width:8em;height:.6em;border-radius:.3em;'
        f'overflow:hidden;margin-right:.5em;background:{_LINE}"><span style="display:block;'
        f'height:100%;width:{width};background:{_COLORS["busy"]}"></span></span>'
    )


def status(
    sign: str, mood: str, text: str, done: float | None = None, notes: Sequence[str] = ()
) -> Html:
    """Return one quiet line: a coloured sign, words, and a strip if there is progress to show.

    ``mood``: good, busy, bad or idle; ``done``: share that is done. ``notes``: one per line below.
    """
    below = "".join(f'<div style="margin-left:1.5em">{as_html(note)}</div>' for note in notes)
    strip = "" if done is None else f'<span style="margin-left:1em">{bar(done)}</span>'
    return Html(
        f'<div style="{_BODY};{MUTED};margin:0;line-height:24px"><span style="color:'
        f'{_COLORS[mood]};margin-right:.5em">{sign}</span>{_escaped(text)}{strip}{below}</div>'
    )


class Piece(NamedTuple):
    """Part of a `Strip`. ``start`` and ``share`` are fractions of the whole; ``color`` is visible
    on any background, ``glyph`` replaces it in a terminal; ``full`` less than 1 makes it paler."""

    start: float
    share: float
    color: str
    title: str = ""
    glyph: str = "█"
    full: float = 1.0


class Strip(NamedTuple):
    """Pieces beside each other, to scale, in order. ``label`` describes in words what it shows."""

    pieces: tuple[Piece, ...]
    label: str

    def text(self, width: int = 40) -> str:
        """Return ``width`` characters. Each piece has at least one, so that it is visible."""
        row = ["·"] * width
        for piece in self.pieces:
            first = min(int(piece.start * width), width - 1)
            last = max(round((piece.start + piece.share) * width), first + 1)
            row[first:last] = piece.glyph * (last - first)
        return "".join(row[:width])

    def html(self) -> Html:
        """Return HTML; where styles are removed it shows the characters."""
        boxes, end = [], 0.0
        following = [*(piece.start for piece in self.pieces[1:]), 2.0]
        for piece, after in zip(self.pieces, following, strict=False):
            # Rounded down, so that the last piece never wraps into a second row.
            start, share = (int(n * 1e5) / 1e3 for n in (piece.start, piece.share))
            gap = max(start - end, 0.0)
            touches = after - piece.start - piece.share < 1e-4 and share > 0.5
            seam = "box-shadow:inset -1px 0 rgba(255,255,255,.6);" if touches else ""
            pale = f"opacity:{0.3 + 0.7 * piece.full:.2f};" if piece.full < 1 else ""
            left = f"margin-left:{gap:.3f}%;" if gap else ""
            told = f' title="{_escaped(piece.title)}"' if piece.title else ""
            boxes.append(
                f'<div{told} style="float:left;height:100%;{left}{seam}{pale}width:{share:.3f}%;'
                f'background:{piece.color}"></div>'
            )
            end = max(start, end) + share
        return Html(
            f'<div role="img" aria-label="{_escaped(self.label)}" style="height:14px;'
            f'min-width:10em;margin:.2em 0;overflow:hidden;border-radius:2px;background:{_TRACK}">'
            f"{''.join(boxes)}{unstyled(self.text())}</div>"
        )


class Key(NamedTuple):
    """Legend: a (colour, label) each."""

    entries: tuple[tuple[str, str], ...]

    def text(self) -> str:
        return " · ".join(label for _, label in self.entries)

    def html(self) -> Html:
        entries = (
            f'<span style="display:inline-block;margin-right:1em">{_mark(color)}{as_html(label)}'
            f"</span> "
            for color, label in self.entries
        )
        return Html(f"<div>{''.join(entries)}</div>")


Paint = Callable[[str, str], str]


def _one_line(text: str) -> str:
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def width_of(text: str) -> int:
    """Return the width of a text in a terminal's columns: ideographs take two each."""
    return len(text) + (not text.isascii() and sum(east_asian_width(c) in "WF" for c in text))


def _longest_word(text: str) -> int:
    return max(map(width_of, text.split()), default=0)


class Table(NamedTuple):
    """Texts in rows, for a terminal or a page.

    `Html` in ``rows`` is not escaped; a `Strip` takes the remaining width. ``right`` are heads of
    right-aligned columns: figures; ``marks`` are colours of a mark before each row, on
    a page; ``flexible`` are heads of columns whose cells may wrap where room is short.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str | Strip, ...], ...]
    right: tuple[str, ...] = ()
    note: str = ""
    marks: tuple[str, ...] = ()
    flexible: tuple[str, ...] = ()

    def text(
        self, room: int | None = None, most: int | None = 3, paint: Paint | None = None
    ) -> str:
        """Return columns of fixed width, in ``room`` characters if the flexible columns allow it.

        ``most``: lines of a wrapped cell, None for no limit; ``paint`` adds
        colour: called with a column's head and a cell as wide as the column.
        """
        lines = [self.head, *self.rows]
        cells = [
            [c.text() if isinstance(c, Strip) else _one_line(c) for c in line] for line in lines
        ]
        widths = [max(map(width_of, column)) for column in zip(*cells, strict=True)]
        if room is not None:
            words = [max(map(_longest_word, column)) for column in zip(*cells, strict=True)]
            widths = self._within(self._within(widths, room, words), room)
        rows = [line for row in cells for line in self._lines(row, widths, most, paint)]
        return "\n".join([*rows, *([printable(self.note)] if self.note else [])])

    def _lines(
        self, cells: Sequence[str], widths: Sequence[int], most: int | None, paint: Paint | None
    ) -> Iterator[str]:
        """Yield the lines of one row: several if a cell had to be wrapped."""
        wrapped = [
            [cell]
            if width_of(cell) <= width
            else wrap(
                cell,
                width,
                max_lines=most,
                placeholder=" …",
                break_on_hyphens=_longest_word(cell) > width,
            )
            for cell, width in zip(cells, widths, strict=True)
        ]
        for line in zip_longest(*wrapped, fillvalue=""):
            shown = []
            for cell, width, title in zip(line, widths, self.head, strict=True):
                space = " " * (width - width_of(cell))
                padded = space + cell if title in self.right else cell + space
                shown.append(paint(title, padded) if paint else padded)
            yield "  ".join(shown).rstrip()

    def _within(
        self, widths: list[int], room: int, words: Sequence[int] | None = None
    ) -> list[int]:
        """Shrink the widest flexible columns first; none below its longest of ``words``."""
        widths = list(widths)
        least = [max(_NARROWEST, word) for word in words] if words else [_NARROWEST] * len(widths)
        gives = [i for i, title in enumerate(self.head) if title in self.flexible]
        while sum(widths) + 2 * (len(widths) - 1) > room:
            gives = [i for i in gives if widths[i] > least[i]]
            if not gives:
                break
            widths[max(gives, key=widths.__getitem__)] -= 1
        return widths

    def html(self) -> Html:
        sides = ["right" if title in self.right else "left" for title in self.head]

        def line(tag: str, cells: Sequence[str | Strip], style: str, mark: str = "") -> str:
            inside = "".join(
                f'<{tag} style="text-align:{side};vertical-align:top;padding:.2em 1em .2em 0;'
                f'max-width:none;{style}{_width(cell, side, cells)}">{first}{_cell(cell)}</{tag}>'
                for cell, side, first in zip(cells, sides, [mark, *[""] * len(cells)], strict=False)
            )
            return f'<tr style="background:none">{inside}</tr>'

        top = f"font-weight:500;white-space:nowrap;border-bottom:1px solid {_LINE};{MUTED}"
        marks = [_mark(color) for color in self.marks]
        body = "".join(
            line("td", row, "border:none", mark)
            for row, mark in zip_longest(self.rows, marks[: len(self.rows)], fillvalue="")
        )
        note = f"<div>{muted(self.note)}</div>" if self.note else ""
        strips = any(isinstance(cell, Strip) for row in self.rows for cell in row)
        wide = ";width:100%" if strips else ""
        return Html(
            f'<table style="{_TABLE};margin:.2em 0{wide}">'
            f"<thead>{line('th', self.head, top)}</thead><tbody>{body}</tbody></table>{note}"
        )


def _cell(cell: str | Strip) -> Html:
    return cell.html() if isinstance(cell, Strip) else as_html(cell)


def _width(cell: str | Strip, side: str, row: Sequence[str | Strip]) -> str:
    """Return a cell's width style: strips take the remaining room; figures don't wrap."""
    if isinstance(cell, Strip):
        return ";width:100%;vertical-align:middle"
    whole = side == "right" or any(isinstance(each, Strip) for each in row)
    return ";white-space:nowrap" if whole and not isinstance(cell, Html) else ""


def _mark(color: str) -> str:
    return f'<span style="color:{color}">■</span>&nbsp;'


def page(*parts: str) -> Html:
    """Return several parts below each other, in the notebook's font."""
    inside = "".join(f"<div>{as_html(part)}</div>" for part in parts if part)
    return Html(f'<div style="{_BODY}">{inside}</div>')


def bullets(texts: Sequence[str]) -> Html:
    items = "".join(f"<li>{as_html(text)}</li>" for text in texts)
    return Html(f'<ul style="margin:.4em 0;padding-left:1.4em">{items}</ul>' if items else "")


def card(title: Html, facts: Sequence[tuple[str, str]], shown: str = "") -> Html:
    """Return a card of one thing: what it is, facts (label, text), and a further display."""
    # A table, not a grid: it is readable where styles are removed.
    rows = "".join(
        f'<tr style="background:none"><td style="{_FACT};{MUTED};padding-right:1em;'
        f'white-space:nowrap">{as_html(label)}</td>'
        f'<td style="{_FACT}">{as_html(text, _QUIET)}</td></tr>'
        for label, text in facts
    )
    body = f'<table style="{_TABLE};margin:.2em 0 0">{rows}</table>' if rows else ""
    if shown:
        body += f'<div style="margin-top:.5em;overflow-x:auto">{as_html(shown)}</div>'
    return Html(
        f'<div style="{_BODY};border-left:3px solid {_LINE};padding:.1em 0 .1em .8em;'
        f'margin:.2em 0"><div>{title}</div>{body}</div>'
    )


def place(kind: str, data: Mapping[str, str], still: Html) -> Html:
    """Wrap a static form in an element that a page's script finds by ``kind``, identifies by
    ``data``, and replaces by a live form or keeps up to date."""
    given = "".join(f' data-{key}="{_escaped(value)}"' for key, value in data.items())
    return Html(f'<div class="workbench-{kind}"{given}>{still}</div>')


def mood_color(mood: str) -> str:
    return _COLORS[mood]


def link(text: str, address: str) -> Html:
    """Return a link to another page; ``address`` is ours, or relative to the notebook."""
    return Html(f'<a href="{_escaped(address)}">{_escaped(text)}</a>')


def dots(done: Sequence[bool], label: str) -> Html:
    """Return a quiet row that shows which of several things are done, and ``label`` in words."""
    row = "".join(DOTS[each] for each in done)
    return Html(
        f'<div style="{MUTED};margin-top:.3em"><span aria-hidden="true" '
        f'style="letter-spacing:.15em;margin-right:.6em">{row}</span>{_escaped(label)}</div>'
    )


DOTS = "○●"
"""Signs for not done and done."""

"""How things show themselves to people: tables and cards, as text and as HTML. Asks nobody.

The only place that makes HTML. All text is escaped here. No scripts and no style sheets: styles
stand in the elements, in Jupyter's theme variables, each with what to do where there are none.
"""

from __future__ import annotations

import html
import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple


class Html(str):
    """Markup that is ready: whoever makes one has escaped what is in it."""

    __slots__ = ()


class Rich:
    """Mixin of what has ``__str__`` and ``_repr_html_``: Jupyter gets both at once."""

    __slots__ = ()

    @abstractmethod
    def _repr_html_(self) -> str:
        """The same for a page."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


MUTED = "color:var(--jp-ui-font-color2,#808080)"
"""For what is second to read. The grey can be read on white and on black."""

_LINE = "var(--jp-border-color2,rgba(128,128,128,.35))"
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


def as_html(text: str, tag: str = "code") -> Html:
    """Text for a page: escaped, and what stands between backticks as code."""
    if isinstance(text, Html):
        return text
    return Html(re.sub(r"`([^`]+)`", rf"<{tag}>\1</code>", html.escape(text)))


def code(text: str, indent: float = 0.0) -> Html:
    """A piece of code, so many letters from the left."""
    room = f' style="padding-left:{indent}em"' if indent else ""
    return Html(f"<span{room}><code>{html.escape(text)}</code></span>")


def muted(text: str) -> Html:
    """Something second to read."""
    if not text:
        return Html()
    return Html(f'<span style="{MUTED}">{as_html(text)}</span>')


def title(name: str, detail: str, state: str, mood: str) -> Html:
    """What a thing is, and how it does. ``mood``: good, busy, bad or idle."""
    dot = f'<span style="color:{_COLORS[mood]};margin-left:.8em">●</span>'
    which = f'<span style="{_MONO};{MUTED}">{html.escape(detail)}</span>' if detail else ""
    return Html(f"<b>{html.escape(name)}</b> {which} {dot} {html.escape(state)}")


def pre(text: str) -> Html:
    """Lines of a fixed pitch."""
    return Html(
        f'<pre style="{_MONO};font-size:var(--jp-code-font-size,12px);line-height:1.4;margin:0;'
        f'overflow-x:auto;background:none;color:inherit;padding:0">{html.escape(text)}</pre>'
    )


def bar(share: float) -> Html:
    """A strip that is filled so far."""
    width = f"{min(max(share, 0.0), 1.0):.1%}"
    return Html(
        f'<span style="display:inline-block;width:8em;height:.6em;border-radius:.3em;'
        f'overflow:hidden;margin-right:.5em;background:{_LINE}"><span style="display:block;'
        f'height:100%;width:{width};background:{_COLORS["busy"]}"></span></span>'
    )


def status(sign: str, mood: str, text: str, done: float | None = None) -> Html:
    """One quiet line: a coloured sign, words, and a strip if there is progress to show.

    ``mood``: good, busy, bad or idle; ``done``: which share.
    """
    strip = "" if done is None else f'<span style="margin-left:1em">{bar(done)}</span>'
    return Html(
        f'<div style="{_BODY};{MUTED};margin:0;line-height:24px"><span style="color:'
        f'{_COLORS[mood]};margin-right:.5em">{sign}</span>{html.escape(text)}{strip}</div>'
    )


class Table(NamedTuple):
    """Texts in rows, for a terminal or a page.

    Attributes
    ----------
    head : tuple of str
        What stands above the columns.
    rows : tuple of rows of str
        `Html` in it is taken as it is.
    right : tuple of str
        The heads of columns that are flush right: figures.
    note : str
        A line below.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[str, ...] = ()
    note: str = ""

    def text(self) -> str:
        """Columns of a fixed pitch."""
        lines = [self.head, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        rows = [
            "  ".join(
                cell.rjust(width) if title in self.right else cell.ljust(width)
                for cell, width, title in zip(line, widths, self.head, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*rows, *([self.note] if self.note else [])])

    def html(self) -> Html:
        """A table that is read on any ground."""
        sides = ["right" if title in self.right else "left" for title in self.head]

        def line(tag: str, cells: Sequence[str], style: str) -> str:
            inside = "".join(
                f'<{tag} style="text-align:{side};vertical-align:top;padding:.2em 1em .2em 0;'
                f'max-width:none;{style}">{as_html(cell)}</{tag}>'
                for cell, side in zip(cells, sides, strict=True)
            )
            return f'<tr style="background:none">{inside}</tr>'

        top = f"font-weight:500;white-space:nowrap;border-bottom:1px solid {_LINE};{MUTED}"
        body = "".join(line("td", row, "border:none") for row in self.rows)
        note = f"<div>{muted(self.note)}</div>" if self.note else ""
        return Html(
            f'<table style="{_TABLE};margin:.2em 0">'
            f"<thead>{line('th', self.head, top)}</thead><tbody>{body}</tbody></table>{note}"
        )


def page(*parts: str) -> Html:
    """Several things below each other, in the notebook's font."""
    inside = "".join(f"<div>{as_html(part)}</div>" for part in parts if part)
    return Html(f'<div style="{_BODY}">{inside}</div>')


def bullets(texts: Sequence[str]) -> Html:
    """A list of sentences; nothing if there are none."""
    items = "".join(f"<li>{as_html(text)}</li>" for text in texts)
    return Html(f'<ul style="margin:.4em 0;padding-left:1.4em">{items}</ul>' if items else "")


def card(title: Html, facts: Sequence[tuple[str, str]], shown: str = "") -> Html:
    """One thing: what it is, facts about it (label, text), and whatever shows it further."""
    # A table, and not a grid: where styles are taken away it can still be read.
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

"""The views of a session as they stay in a notebook: text, HTML without scripts, and a picture.

One frozen snapshot in; nothing here asks anybody. What each view says stands in `tables`; `markup`
makes text and HTML of it, `pictures` the PNG.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap

from workbench.core.snapshot import Snapshot
from workbench.markup import Html, Key, Rich, Table, clip, heading, muted, page, scroll
from workbench.widgets import words
from workbench.widgets.tables import VIEWS, Block
from workbench.widgets.words import Held

PARTS = tuple(VIEWS)
"""The views there are, as the dashboard has them."""

COLUMNS = 100
"""Of a terminal."""


@dataclass(frozen=True)
class Still(Rich):
    """One view, or several below each other, of one moment.

    Attributes
    ----------
    parts : tuple of str
        Some of `PARTS`.
    snapshot : Snapshot
    held : mapping of int to tuple of str, optional
        By object, the variables that hold it: names for those that have none.
    """

    parts: tuple[str, ...]
    snapshot: Snapshot
    held: Held | None = None

    def __post_init__(self) -> None:
        wrong = [part for part in self.parts if part not in PARTS]
        if wrong or not self.parts:
            raise ValueError(f"The views are {', '.join(PARTS)}; not {', '.join(wrong) or 'none'}.")

    def text(self) -> str:
        """For a terminal of 100 columns."""
        sections = []
        for part in self.parts:
            blocks = [_as_text(block) for block in self._blocks(part)]
            sections.append("\n".join([part.capitalize(), *filter(None, blocks)]))
        return "\n\n".join([*sections, clip(self.caption(), COLUMNS)])

    __str__ = __repr__ = text

    def html(self) -> Html:
        """For a page: no scripts, no style sheet; where styles are taken away it can be read."""
        inside = []
        for part in self.parts:
            inside += [heading(part.capitalize()), *map(_as_html, self._blocks(part))]
        return page(*inside, muted(self.caption()))

    def _repr_html_(self) -> str:
        return self.html()

    def png(self) -> bytes:
        """A picture, some 1000 pixels wide, on no ground of its own."""
        from workbench.widgets.pictures import picture

        return picture(self.parts, self.snapshot, self.caption(), self.held)

    def caption(self) -> str:
        """Of which session, and of when."""
        name = clip(words.session_name(self.snapshot), 60)
        what = f"session {name}" if self.snapshot.engine == "local" else name
        scope = f", {self.snapshot.scope}" if self.snapshot.scope else ""
        return f"{what}{scope}, {words.taken(self.snapshot)}"

    def _blocks(self, part: str) -> list[Block]:
        return VIEWS[part](self.snapshot, self.held or {})


def _as_text(block: Block) -> str:
    if isinstance(block, str):
        return "\n".join(wrap(block, COLUMNS))
    if isinstance(block, Key):
        return "\n".join(wrap(block.text(), COLUMNS))
    return block.text(COLUMNS) if isinstance(block, Table) else block.text()


def _as_html(block: Block) -> Html:
    if isinstance(block, str):
        return muted(block)
    return scroll(block.html()) if isinstance(block, Table) else block.html()

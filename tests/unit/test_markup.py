"""Tables and cards, as text and as HTML."""

from __future__ import annotations

import re

from workbench.report.markup import (
    Html,
    Table,
    as_html,
    bar,
    bullets,
    card,
    code,
    muted,
    page,
    pre,
    title,
)

NASTY = "<b>&\"'</b>"
ESCAPED = "&lt;b&gt;&amp;&quot;&#x27;&lt;/b&gt;"

TABLE = Table(("name", "size"), (("a", "9 B"), ("long", "10 kB")), ("size",), "and 3 more")


def test_text_on_a_page() -> None:
    assert as_html("a <b> `x['y']` & c") == "a &lt;b&gt; <code>x[&#x27;y&#x27;]</code> &amp; c"
    assert as_html(Html("<b>ready</b>")) == "<b>ready</b>"


def test_everything_is_escaped_wherever_it_stands() -> None:
    for made in (
        page(NASTY),
        pre(NASTY),
        code(NASTY),
        muted(NASTY),
        bullets([NASTY]),
        Table((NASTY,), ((NASTY,),), note=NASTY).html(),
        card(title(NASTY, NASTY, NASTY, "good"), [(NASTY, NASTY)], NASTY),
    ):
        assert NASTY not in made
        assert made.count(ESCAPED) == made.count("&quot;")
        assert ESCAPED in made


def test_no_style_leaks_and_every_theme_variable_has_its_fallback() -> None:
    parts = (TABLE.html(), pre("x"), code("x", 2), muted("x"), bar(0.5), bullets(["x"]))
    made = card(title("a", "b", "c", "bad"), [("x", "`y`")], page(*parts))
    assert not re.search(r"<(style|script)|\bon\w+=|class=|url\(|https?:", made)
    variables = re.findall(r"var\(--[\w-]+(.)", made)
    assert variables
    assert set(variables) == {","}
    for tag in ("div", "span", "table", "td", "th", "tr", "pre", "code", "ul", "li"):
        assert len(re.findall(rf"<{tag}\b", made)) == made.count(f"</{tag}>"), tag


def test_a_table_is_aligned_and_figures_are_flush_right() -> None:
    assert TABLE.text() == "name   size\na       9 B\nlong  10 kB\nand 3 more"
    sides = re.findall(r"<td style=\"text-align:(\w+)", TABLE.html())
    assert sides == ["left", "right"] * 2


def test_what_there_is_not_takes_no_room_and_a_strip_is_never_fuller_than_full() -> None:
    assert muted("") == bullets([]) == ""
    assert page("", "a").count("<div>") == 1
    assert "<table" not in card(title("a", "", "b", "idle"), [])
    assert ["0.0%" in bar(-1), "25.0%" in bar(0.25), "100.0%" in bar(7)] == [True] * 3

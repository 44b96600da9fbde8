"""What a page that was opened later is sent of a cell's output."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from workbench.core.events import Output
from workbench.ipython.missed import MOST_DISPLAYED, Display, shown_by


def printed(text: str) -> Output:
    return Output(1, "stdout", text.encode())


def displayed(kind: str = "display", name: str = "", **bundle: str) -> Output:
    data = {mime.replace("_", "/"): text for mime, text in bundle.items()}
    content = {"data": data, "transient": {"display_id": name} if name else {}}
    return Output(1, kind, json.dumps(content).encode())


def parts(*outputs: Output) -> list[str | Display]:
    job: Any = SimpleNamespace(
        size=1, name="cell 2", read_outputs=lambda: outputs, label_of=lambda output: ""
    )
    return shown_by(job)


def test_displays_stand_between_prints_as_they_are_now() -> None:
    assert parts(
        printed("gone"), Output(1, "clear", b"{}"), printed("a\n"), printed("b\n"),
        displayed(name="bar", image_png="old"), printed("c\n"),
        displayed("update", "bar", image_png="new", text_plain="<Figure>"),
        displayed(text_plain="42"),
    ) == ["a\nb\n", Display("image/png", "new"), "c\n", Display("text/plain", "42")]  # fmt: skip


def test_what_a_page_cannot_show_is_named_with_the_magic_that_can() -> None:
    html, widget = "<script>draw()</script>", displayed(text_plain="HBox()", text_markdown="# hi")
    named = "[a display: %workbench jobs cell 2 shows it]\n"
    assert parts(widget, displayed(text_html=html, text_plain="Figure()")) == [2 * named]
    first, *rest = parts(*[displayed(image_png="x" * (MOST_DISPLAYED // 2)) for _ in range(3)])
    assert first == "[a display of 300 kB: %workbench jobs cell 2 shows it]\n"
    assert [type(each) for each in rest] == [Display, Display]

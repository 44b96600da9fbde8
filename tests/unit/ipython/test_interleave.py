"""What stands under a cell: whose line is whose, when several workers write there; what a page that
was opened later is sent of it; how far a long put or get is, which never outlives its block."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.patience import TIMEOUT
from workbench.core.events import Output
from workbench.ipython.interleave import MOST_OPEN, OpenLine, Screen, Text
from workbench.ipython.missed import MOST_DISPLAYED, Display, shown_by
from workbench.ipython.output import ERASE, Router
from workbench.ipython.progress import progress

PIECES = st.text(alphabet="ab \n\r", min_size=1, max_size=8)


def lines_of(shown: list[Text | OpenLine]) -> list[str]:
    """All lines that are on the page in the end, in the order in which they began."""
    streams = {"stdout": "", "stderr": ""}
    bars: dict[int, str] = {}
    for part in shown:
        if isinstance(part, Text):
            streams[part.stream] += part.text
        else:
            assert part.is_new == (part.number not in bars), "shown anew before it was shown"
            bars[part.number] = part.text
    return [*"".join(streams.values()).splitlines(), *bars.values()]


def visible(text: str) -> list[str]:
    """A terminal's lines, if whatever overwrites a line is as long as that."""
    return [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]


@given(st.lists(st.tuples(st.sampled_from("xy"), PIECES), max_size=12))
def test_each_line_is_one_writers_alone(written: list[tuple[str, str]]) -> None:
    screen = Screen(labelled=True)
    shown = [part for who, text in written for part in screen.write(f"[{who}]", "stdout", text)]
    lines = lines_of(shown)
    for who in "xy":
        text = "".join(piece for writer, piece in written if writer == who)
        expected = visible(text)
        if not text or text.endswith("\n"):
            del expected[-1]
        mine = [line for line in lines if line.startswith(f"[{who}]")]
        assert sorted(mine) == sorted(f"[{who}] {line}" for line in expected)
    assert all(line[:3] in ("[x]", "[y]") for line in lines)


@given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), PIECES), max_size=8))
def test_one_writer_is_left_alone(written: list[tuple[str, str]]) -> None:
    screen = Screen()
    shown = [part for stream, text in written for part in screen.write("me", stream, text)]
    assert shown == [Text(stream, text) for stream, text in written]
    assert not list(screen.heading("me"))


def test_labels_begin_with_the_second_writer_on_a_line_of_their_own() -> None:
    screen = Screen()
    first = list(screen.write("(worker 1)", "stdout", "alone, and not at the end"))
    second = list(screen.write("(worker 2)", "stdout", "too\n"))
    third = list(screen.write("(worker 1)", "stdout", " of the line\n"))
    assert first == [Text("stdout", "alone, and not at the end")]
    assert second == [Text("stdout", "\n(worker 2) too\n")]
    assert third == [Text("stdout", "(worker 1)  of the line\n")]
    assert list(screen.heading("(worker 2)")) == [Text("stdout", "(worker 2) \n")]


def test_a_line_without_end_goes_on_in_another() -> None:
    """Each time it is shown again as a whole."""
    screen, piece = Screen(labelled=True), "." * 1000
    shown = [part for _ in range(350) for part in screen.write("[0]", "stdout", piece)]
    assert max(len(part.text) for part in shown) < MOST_OPEN + 2000
    assert "".join(lines_of(shown)).count(".") == 350_000


def test_a_bar_stays_in_its_place_while_others_write() -> None:
    screen = Screen(labelled=True)

    def write(label: str, text: str) -> list[Text | OpenLine]:
        return list(screen.write(label, "stderr", text))

    assert write("[0]", "\r 10%") == [OpenLine(1, "[0]  10%", True, False)]
    assert write("[1]", "\r 50%") == [OpenLine(2, "[1]  50%", True, False)]
    assert write("[0]", "\r 20%\r 30%") == [OpenLine(1, "[0]  30%", False, False)]
    assert write("[1]", "\r100%\n") == [OpenLine(2, "[1] 100%", False, True)]
    assert write("[1]", "done\n") == [Text("stderr", "[1] done\n")]
    assert write("[0]", "\r100%\nnext") == [
        OpenLine(1, "[0] 100%", False, True),
        OpenLine(3, "[0] next", True, False),
    ]
    screen.clear()
    assert write("[0]", " line\n") == [Text("stderr", "[0]  line\n")]


def test_in_a_terminal_a_line_that_passes_makes_room(capsys: pytest.CaptureFixture[str]) -> None:
    router = Router(SimpleNamespace())
    router.passing_line = True
    router.note(router.latest, "cell 6 · done", "stdout")
    assert capsys.readouterr().out == f"{ERASE}cell 6 · done\n"


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


class Page:
    """As much of a router as the line needs."""

    is_terminal = False

    def __init__(self) -> None:
        self.texts: list[str] = []

    def origin(self) -> int:
        return 1

    def display_id(self, what: str) -> str:
        return what

    def display(self, origin: int, name: str, bundle: dict[str, str], is_new: bool) -> None:
        self.texts.append(bundle["text/plain"])


def test_a_look_that_is_late_shows_nothing() -> None:
    """It is asking the session when the block ends."""
    asks, may_answer = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def text_at(seconds: float) -> str:
        threads.append(threading.current_thread())
        asks.set()
        may_answer.wait(TIMEOUT)
        return "busy"

    page = Page()
    with progress(cast(Router, page), text_at, after=0.0):
        assert asks.wait(TIMEOUT)
    may_answer.set()
    threads[0].join(TIMEOUT)
    assert page.texts == []

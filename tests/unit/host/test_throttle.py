"""What of a task's output leaves its worker: nothing is lost below the limits, the end is there."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from workbench.host.text_cuts import overwritten, whole
from workbench.host.throttle import TEXT, Limits, Shown, Throttle, process_room

SMALL = Limits(burst=200, rate=128, displays=75)
"""So small that the numbers in notes are exact."""

LARGE = Limits(burst=10**9, rate=10**9, displays=10**9)

NOTE = re.compile(rb"\[(\d+) B not shown\]\n")
"""On a line of its own: a line that wasn't over is ended before it."""

WAIT, AT_ONCE = b'{"wait": true}', b'{"wait": false}'

lines = st.text("abcä\n", max_size=40).map(str.encode)
moments = st.floats(0, 3)
texts = st.tuples(st.sampled_from(TEXT), lines, moments)
floods = st.lists(
    st.tuples(
        st.sampled_from(TEXT),
        st.text("aä\n" + "€" * 3, min_size=10, max_size=40).map(str.encode),
        st.sampled_from([0, 0.01, 0.2, 1.5]),
    ),
    min_size=15,
    max_size=80,
)
displays = st.tuples(st.just("display"), st.binary(min_size=1, max_size=8), moments)
comms = st.tuples(st.just("comm"), st.binary(min_size=1, max_size=8), moments)


class Task:
    """A flow of its own, and all that came out of it. Time passes before each call."""

    def __init__(self, limits: Limits) -> None:
        self.now = 100.0
        self.flow = Throttle(process_room(self.now), self.now, limits)
        self.shown: list[Shown] = []

    def show(self, kind: str, data: bytes, after: float = 0, key: str = "") -> None:
        self.flow.add(kind, data, key)
        self.now += after
        if after or self.flow.is_full:
            self.shown += self.flow.take(self.now)

    def end(self) -> list[Shown]:
        self.shown += self.flow.end(self.now)
        assert not self.flow
        return self.shown

    def text(self, kind: str = "stdout") -> bytes:
        return b"".join(data for k, data in self.shown if k == kind)


def joined(shown: list[Shown]) -> list[Shown]:
    """Neighbouring text of one stream as one."""
    result: list[Shown] = []
    for kind, data in shown:
        if data and result and kind in TEXT and result[-1][0] == kind:
            result[-1] = (kind, result[-1][1] + data)
        elif data:
            result.append((kind, data))
    return result


@given(st.lists(texts | displays | comms, max_size=60))
def test_below_the_limits_all_is_shown_in_order(what: list[tuple[str, bytes, float]]) -> None:
    task = Task(LARGE)
    for kind, data, after in what:
        task.show(kind, data, after)
    assert joined(task.end()) == joined([(kind, data) for kind, data, _ in what])


@given(floods | st.lists(texts, max_size=50))
def test_a_flood_has_its_end_and_notes(what: list[tuple[str, bytes, float]]) -> None:
    task = Task(SMALL)
    written = dict.fromkeys(TEXT, b"")
    for kind, data, after in what:
        task.show(kind, data, after)
        written[kind] += data
        assert task.flow.pending_bytes < SMALL.full + 120
    shown = sum(len(NOTE.sub(b"", data)) for _, data in task.shown)
    notes = sum(len(NOTE.findall(data)) for _, data in task.shown)
    assert shown <= SMALL.burst + SMALL.rate * (task.now - 100) + notes + 1
    for _, data in task.end():
        data.decode()  # no character was cut
    for kind in TEXT:
        pieces, sizes = [*NOTE.split(task.text(kind))[::2]], NOTE.findall(task.text(kind))
        ends, lost = {0}, sum(map(int, sizes))
        for piece, gap in zip(pieces, [0, *map(int, sizes)], strict=True):
            begins = {end + gap for end in ends}
            ended = piece.removesuffix(b"\n")  # by a note: the text goes on
            ends = {
                at + len(text)
                for at in begins for text in (piece, ended) if written[kind].startswith(text, at)
            }  # fmt: skip
        assert len(written[kind]) in ends, "all that was written, in order, but for the gaps"
        if lost and len(written[kind]) > SMALL.kept:
            assert len(pieces[-1]) >= SMALL.kept // 8


def test_the_longer_it_goes_on_the_less_is_shown() -> None:
    task = Task(SMALL)
    shown = []
    for _ in range(2000):
        before = len(task.text())
        task.show("stdout", b"line\n" * 40, 1)
        shown.append(len(NOTE.sub(b"", task.text()[before:])))
    assert sum(shown[:3]) > SMALL.burst / 2
    assert SMALL.rate / 3 <= max(shown[8:15]) <= SMALL.rate / 1.9
    floor = SMALL.rate_after(10**9)
    assert max(shown[1500:]) <= floor + 1
    assert sum(shown[1500:]) > floor * 250
    task.end()
    assert task.text().endswith(b"not shown]\nline\n")


def test_a_stream_that_shows_little_is_not_cut_for_one_that_shows_much() -> None:
    task = Task(SMALL)
    for number in range(100):
        task.show("stdout", b"a line of a flood\n", 0.01)
        if number == 50:
            task.show("stderr", b"a warning\n")
    task.end()
    assert task.text("stderr") == b"a warning\n"
    assert NOTE.search(task.text())


def test_a_note_has_a_line_of_its_own() -> None:
    task = Task(SMALL)
    for _ in range(20):
        task.show("stdout", b"x" * 11, 0.01)
    task.show("stdout", b"z\n" * 200, 0.01)
    task.end()
    assert re.search(rb"x\n\[\d+ B not shown\]\n(z\n)+\Z", task.text())
    task = Task(SMALL)
    task.flow.skip("stdout", 500)  # what was left out elsewhere
    task.show("stdout", b"the end\n")
    assert task.end() == [("stdout", b"[500 B not shown]\nthe end\n")]


def test_many_tasks_of_a_worker_share_its_room() -> None:
    room, shown = process_room(0), 0
    for _ in range(500):
        flow, all_of_it = Throttle(room, 0), list[Shown]()
        for end in [b""] * 10 + [b"the end\n"]:
            flow.add("stdout", b"line\n" * 20_000 + end)
            all_of_it += flow.end(0) if end else flow.take(0)
        assert all_of_it[-1][1].endswith(b"line\n" * 400 + b"the end\n")
        shown += sum(len(data) for _, data in all_of_it)
    assert shown < 16 * Limits().burst + 500 * Limits().kept


def test_a_line_that_is_not_over_waits_once() -> None:
    task = Task(LARGE)
    for kind, data, shown in (
        ("stdout", b"one\ntw", [b"one\n"]),
        ("stdout", b"o\nloading", [b"two\n"]),
        ("stdout", b"...", [b"loading..."]),
        ("stdout", b"...", []),
        ("stderr", b"warning\n", [b"...", b"warning\n"]),
    ):
        before = len(task.shown)
        task.show(kind, data, 0.1)
        assert [text for _, text in task.shown[before:]] == shown


@given(st.text("aä€😀", max_size=8), st.integers(0, 4), st.binary(max_size=12))
def test_a_character_that_is_cut_is_left_for_later(text: str, cut: int, junk: bytes) -> None:
    data = text.encode()
    part = data[: max(len(data) - cut, 0)]
    assert whole(data) == len(data)
    assert part[: whole(part)].decode() == part.decode(errors="ignore")
    assert 0 <= len(junk) - whole(junk) <= 3  # what is no text


def test_a_line_that_is_too_long_is_cut_between_characters() -> None:
    task = Task(SMALL)
    for _ in range(20):
        task.show("stdout", "ä€".encode() * 9, 0.01)
    task.end()
    assert NOTE.search(task.text())
    assert set(NOTE.sub(b"", task.text()).decode()) <= set("ä€\n")


def screen(text: str) -> list[list[str]]:
    """What a terminal shows after it."""
    rows: list[list[str]] = [[]]
    column = 0
    for character in text:
        if character == "\n":
            rows.append([])
            column = 0
        elif character == "\r":
            column = 0
        else:
            rows[-1][column : column + 1] = [character]
            column += 1
    return rows


bars = st.text("ab█\r\r\r\n", max_size=60)


@given(bars, bars, bars)
def test_what_is_left_out_of_a_line_could_not_be_seen(before: str, text: str, after: str) -> None:
    told = overwritten(text.encode()).decode()
    assert screen(before + told + after) == screen(before + text + after)


def test_of_a_progress_bar_only_the_last_state_is_sent() -> None:
    states = [f"\r{n:3}%|{'█' * (n // 10):10}| {n}/100" for n in range(101)]
    assert overwritten("".join(states).encode()) == states[-1].encode()
    assert overwritten(b"".join(b"\r%d" % n for n in range(100))) == b"\r99"
    for text in ("\r\x1b[1mlong\x1b[0m\rshort text", "\r漢字\r1234", "a\rb\rc\xff"):
        data = text.encode("latin-1") if "\xff" in text else text.encode()
        assert overwritten(data) == data  # how much of the line it hides isn't known


def test_of_many_displays_the_latest_are_shown_with_a_note() -> None:
    task = Task(SMALL)
    for number in range(150):
        task.show("display", b"%d" % number, 0.001 if number < 75 else 0)
    shown = task.end()
    numbers = [int(data) for kind, data in shown if kind == "display"]
    assert numbers == [*range(75), 147, 148, 149]
    assert [data for kind, data in shown if kind == "stderr"] == [b"[72 displays not shown]\n"]


pieces = st.one_of(
    st.tuples(st.sampled_from(TEXT), st.sampled_from([b"a\n", b"b\n"])),
    st.tuples(st.just("display"), st.sampled_from([b"1", b"2", b"3"])),
    st.tuples(st.just("clear"), st.sampled_from([WAIT, AT_ONCE])),
)


def visible(shown: list[Shown]) -> tuple[list[Shown], bool]:
    """A cell's outputs, and whether the next one takes their place."""
    cell: list[Shown] = []
    waiting = False
    for kind, data in shown:
        if kind == "clear":
            waiting = json.loads(data)["wait"]
            cell = cell if waiting else []
        else:
            cell = [] if waiting else cell
            waiting = False
            cell.append((kind, data))
    return joined(cell), waiting


@given(st.lists(st.tuples(pieces, st.sampled_from([0, 0, 0, 0.1])), max_size=40))
def test_what_a_clear_hides_need_not_be_sent(what: list[tuple[Shown, float]]) -> None:
    task = Task(LARGE)
    for (kind, data), after in what:
        task.show(kind, data, after)
    assert visible(task.end()) == visible([shown for shown, _ in what])


def test_of_what_replaces_each_other_the_latest_is_sent() -> None:
    task = Task(SMALL)
    for number in range(1000):
        task.show("clear", WAIT)
        task.show("display", b"%d" % number)
    assert task.end() == [("clear", WAIT), ("display", b"999")]
    task = Task(SMALL)
    for number in range(100):
        task.show("update", b"%d" % number, key=f"{number % 2}")
    task.show("stdout", b"hidden\n")
    task.show("clear", AT_ONCE)  # of this cell: the updates may be of another's displays
    assert task.end() == [("update", b"98"), ("update", b"99"), ("clear", AT_ONCE)]

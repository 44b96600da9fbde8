"""What is kept of what a background cell shows."""

from __future__ import annotations

from itertools import groupby

from hypothesis import example, given
from hypothesis import strategies as st

from workbench.core import events as ev
from workbench.core import logs
from workbench.core.logs import Log

PRINTS = st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=40))
SHOWS = st.tuples(st.sampled_from(["display", "update"]), st.binary(max_size=20))
CLEAR = st.just(("clear", b"{}"))


@given(st.lists(st.one_of(PRINTS, PRINTS, SHOWS, CLEAR), max_size=60))
@example([("display", b"1"), ("clear", b""), ("stdout", b"2")])
def test_a_log_is_the_end_of_what_was_shown(everything: list[tuple[str, bytes]]) -> None:
    """Against all of it, joined, cut at the last clear, with bounds a test can reach."""
    log = Log(text=200, displayed=50, piece=30)
    for kind, data in everything:
        log.add(ev.Output(1, kind, data))
    clears = [i for i, (kind, _) in enumerate(everything[:-1]) if kind == "clear"]
    rest = everything[clears[-1] + 1 :] if clears else everything
    kept = [(o.kind, o.data) for o in log]
    notes = [data for kind, data in kept[:1] if kind == "stderr" and data.endswith(b"not kept]\n")]
    kept = kept[len(notes) :]

    def text(pieces: list[tuple[str, bytes]]) -> bytes:
        return b"".join(data for kind, data in pieces if kind in ("stdout", "stderr"))

    def others(pieces: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        return [piece for piece in pieces if piece[0] not in ("stdout", "stderr")]

    assert text(rest).endswith(text(kept))
    assert len(text(kept)) <= 200
    assert len(text(kept)) > 200 - 70 or text(kept) == text(rest)
    assert others(rest)[len(others(rest)) - len(others(kept)) :] == others(kept)
    assert sum(len(data) for _, data in others(kept)) <= 50
    assert bool(notes) == (len(text(kept)) < len(text(rest)) or others(kept) != others(rest))
    assert log.lines == text(rest).count(b"\n")
    assert log.displays == sum(kind == "display" for kind, _ in rest)
    if not notes:  # then it is all of it, in order
        assert joined(kept) == joined(rest)
    log.close()
    assert not [piece for piece in log if not piece.data.endswith(b"not kept]\n")]
    assert log.lines == text(rest).count(b"\n")


def joined(pieces: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Prints one after the other to the same stream as one; without those of nothing."""
    found = []
    for kind, group in groupby([p for p in pieces if p[1]], lambda piece: piece[0]):
        data = [data for _, data in group]
        found += [(kind, b"".join(data))] if kind.startswith("std") else [(kind, d) for d in data]
    return found


def test_the_note_says_what_was_cut() -> None:
    log = Log()
    for _ in range(200):
        log.add(ev.Output(1, "stdout", b"x" * 9_999 + b"\n"))
        log.add(ev.Output(1, "display", b"y" * 100_000))
    (_, note), *kept = [(o.kind, o.data) for o in log]
    assert note == b"[1 MB and 120 display(s) before this, not kept]\n"
    assert sum(len(data) for kind, data in kept if kind == "stdout") == logs.MOST_TEXT
    assert [kind for kind, _ in kept][-4:] == ["stdout", "display"] * 2
    assert log.lines == 200


def test_what_a_task_left_out_is_no_part_of_the_count() -> None:
    log = Log()
    log.add(ev.Output(1, "stdout", b"1\n2\n"))
    assert not log.is_part
    log.add(ev.Output(1, "stdout", b"[3 MB" + logs.NOT_SHOWN + b"9\n"))
    assert log.is_part
    log.add(ev.Output(1, "clear", b"{}"))
    log.add(ev.Output(1, "stdout", b"1\n"))
    assert not log.is_part


def test_of_very_many_small_pieces_the_last_are_kept() -> None:
    log = Log(pieces=4)
    log.add(ev.Output(1, "display", b"first"))
    for number in range(5):
        log.add(ev.Output(1, ("stdout", "stderr")[number % 2], b"%d\n" % number))
    note, *kept = log
    assert [o.data for o in kept] == [b"1\n", b"2\n", b"3\n", b"4\n"]
    assert note.data == b"[2 B and 1 display(s) before this, not kept]\n"


def test_prints_are_cut_at_the_end_of_a_line() -> None:
    log = Log(text=1_000)
    for n in range(2_000):
        log.add(ev.Output(1, "stdout", b"%06d\n" % n))
    text = b"".join(piece.data for piece in list(log)[1:])
    assert text == b"".join(b"%06d\n" % n for n in range(2_000 - 1_000 // 7, 2_000))

"""Lines of several workers, joined from pieces: whole, in order, and each says whose it is."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from workbench.client.task_prints import MOST_OPEN, Lines
from workbench.core.events import Output


def output(text: str, worker: int = 1, task: int = 0, kind: str = "stdout") -> Output:
    return Output(task or worker, kind, text.encode(), worker=worker)


def written(lines: Lines, *outputs: Output, is_live: bool = False) -> str:
    return "".join(piece.text for each in outputs for piece in lines.add(each, is_live))


PIECES = st.lists(
    st.tuples(
        st.integers(1, 3), st.sampled_from(["stdout", "stderr"]), st.text("ab\n\r", max_size=8)
    ),
    max_size=40,
)


@given(PIECES, st.booleans())
def test_no_line_is_torn_and_none_is_lost(pieces: list[tuple[int, str, str]], live: bool) -> None:
    lines = Lines()
    outputs = [output(f"{worker}\n", worker) for worker in (1, 2, 3)]  # the others have labels
    outputs += [output(text, worker, kind=kind) for worker, kind, text in pieces]
    found = {"stdout": "", "stderr": ""}
    for each in outputs:
        for piece in lines.add(each, live):
            found[piece.stream] += piece.text
    for piece in lines.end_lines(lambda task: True):
        found[piece.stream] += piece.text
    for worker, kind in itertools.product((1, 2, 3), found):
        mine = [each for each in outputs if (each.worker, each.kind) == (worker, kind)]
        *wrote, rest = "".join(each.data.decode() for each in mine).split("\n")
        if rest:
            wrote.append(rest)
        label = f"(worker {worker}) "
        shown = [seen(line) for line in found[kind].split("\n")[:-1]]
        got = [line.removeprefix(label) for line in shown if line.startswith(label)]
        if (worker, kind) == (1, "stdout"):
            got.insert(0, "1")
        if live:  # a bar is there once more for each line that came between
            each = iter(got)
            assert all(seen(line) in each for line in wrote)
        else:
            assert got == [seen(line) for line in wrote]


def seen(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]


def test_a_line_ends_with_its_task() -> None:
    lines = Lines()
    assert written(lines, output("no end")) == ""
    assert [piece.text for piece in lines.end_lines(lambda task: False)] == []
    assert [piece.text for piece in lines.end_lines(lambda task: task == 1)] == ["no end\n"]
    assert written(lines, output("no end", task=1), output("next\n", task=2)) == "no end\nnext\n"
    assert written(lines, output("d\n", worker=2)) == "(worker 2) d\n"  # one needs no label
    assert written(lines, output("e\n")) == "(worker 1) e\n"


def test_a_line_without_end_is_not_kept_for_ever() -> None:
    piece = output("." * (MOST_OPEN // 2))
    lines = Lines()
    shown = written(lines, *[piece] * 7)
    assert shown.count("\n") == 2
    assert len(shown) > 2 * MOST_OPEN
    assert "".join(each.text for each in lines.end_lines(lambda task: True)).endswith(".\n")


def test_a_bar_moves_in_a_terminal_and_is_its_last_state_elsewhere() -> None:
    steps = [output(f"\r{n} of 3", kind="stderr") for n in (1, 2, 3)]
    assert written(Lines(), *steps, output("\n", kind="stderr")) == "3 of 3\n"
    live = written(Lines(), *steps, output("\n", kind="stderr"), is_live=True)
    assert live == "\r1 of 3\r2 of 3\r3 of 3\r3 of 3\n"
    lines = Lines()
    shown = written(lines, steps[0], output("hello\n", worker=2), steps[1], is_live=True)
    assert shown == "\r1 of 3\n(worker 2) hello\n\r(worker 1) 2 of 3"

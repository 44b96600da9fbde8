"""What is measured: where bytes lie, what is the same memory, what a process and those below it
take; and `reveal`: what agrees with it, what isn't a guess, and how that is said."""

from __future__ import annotations

import gc
import json
import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from IPython.core.formatters import HTMLFormatter

from workbench.course import measure, reveal
from workbench.course.measure import Location, Measurement
from workbench.course.reveals import Reveal, compare
from workbench.course.words import ENGLISH, say

SHARED = Measurement("shared", ("shared", "copy"), [("inode", "5", "5")], ("", "one", "two"))
NOTHING = Measurement(None, unit="s")
ORDER = Measurement(("list", "array"), ("list", "array"))  # as a lesson has ranked them


def shown(guess: object, measured: Measurement, why: str = "") -> Reveal:
    return compare("one", {"guess_one": guess, "measured_one": measured}, why, ENGLISH)


@pytest.mark.parametrize(
    ("guess", "measured", "says"),
    [
        ("shared", SHARED, "You guessed: shared. Measured: shared. Right."),
        ("copy", SHARED, "You guessed: copy. Measured: shared.\n"),
        (..., SHARED, "after `guess_one =`, run that cell, and then this one again."),
        (..., NOTHING, "the three dots after `guess_one =`, and run the cells from there again."),
        (5, NOTHING, "Nothing was measured yet.\nRun the cells between your guess and this one"),
        ("coppy", SHARED, 'one of these: `"shared"`, `"copy"`. Did you mean `"copy"`?'),
        (["list", "array"], ORDER, "You guessed: list, array. Measured: list, array. Right."),
        (("array", "list"), ORDER, "Measured: list, array."),
        (["list"], ORDER, 'Put these in an order: `"array"`, `"list"`.'),
        (5, Measurement(6.02, unit="s"), "You guessed: 5 s. Measured: 6.02 s. Right."),
        (1, Measurement(0.02, unit="s"), "You guessed: 1 s. Measured: 20 ms."),
        (11, Measurement(12), "You guessed: 11. Measured: 12."),
        (12.0, Measurement(12), "Measured: 12. Right."),
        (np.arange(3), Measurement(1), "The guess is a number"),
        (np.arange(3), SHARED, 'one of these: `"shared"`, `"copy"`.'),
        ([{"list"}, ["array"]], ORDER, "Put these in an order"),
        (-6, Measurement(6), "You guessed: -6. Measured: 6."),
        ("six", Measurement(6.02, unit="s"), "The guess is a number, as 3 is."),
        ("11 MB", Measurement(11.1, unit="MB"), "write it without quotes, and without a unit."),
        ("6", Measurement(6), "The guess is a number: write it without quotes."),
        (True, Measurement(True), "You guessed: True. Measured: True. Right."),
        ("yes", Measurement(True), "The guess is True or False."),
    ],
)
def test_what_is_said(guess: object, measured: Measurement, says: str) -> None:
    text = str(shown(guess, measured, why="Because."))
    assert says in f"{text}\n"
    assert ("Right." in text) == says.endswith("Right.")
    assert ("Because." in text) == ("Measured:" in text)  # before a guess nothing is given away
    assert ("inode" in text) == ("Measured:" in text and measured is SHARED)


def test_what_was_measured_for_another_question_is_not_its_answer() -> None:
    """Nor is a guess."""
    other = {"guess_one": "shared", "measured_one": SHARED}
    unguessed = str(compare("two", other, "Because.", ENGLISH))
    assert unguessed.startswith("Make a guess first.\nThere is no variable `guess_two` now: run")
    unmeasured = str(compare("two", {**other, "guess_two": "shared"}, "Because.", ENGLISH))
    assert unmeasured.startswith("Nothing was measured yet.\nRun the cells between")
    assert "Because" not in unguessed + unmeasured


def test_it_looks_at_the_variables_of_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(sys.modules["__main__"]), "guess_here", "copy")
    monkeypatch.setitem(vars(sys.modules["__main__"]), "measured_here", SHARED)
    assert str(reveal("here", why="Because.")).startswith("You guessed: copy. Measured: shared.")


def test_a_block_that_ends_in_an_error_has_measured_nothing() -> None:
    for block in (measure.seconds(), measure.memory(), measure.bars()):
        with pytest.raises(ZeroDivisionError), block as measured:
            1 / 0  # noqa: B018
        assert str(shown("live", measured)).startswith("Nothing was measured yet.")


def test_a_page_has_the_same_words() -> None:
    html = HTMLFormatter()(shown("copy", SHARED, why="One `file`."))
    for part in ("You guessed: copy.", "Measured: shared.", "inode", "One <code", "file</code>"):
        assert part in html
    assert "shared" not in HTMLFormatter()(shown(..., SHARED))


def test_facts_of_a_cells_own_stand_below_and_braces_without_values_are_text() -> None:
    measured = measure.answer(3, {"pages": 3, "a {brace}": "{x}"})
    assert "pages: 3\na {brace}: {x}" in str(shown(3, measured))
    assert str(say('Write `{"a": 1}`.')) == 'Write `{"a": 1}`.'
    assert str(say("{n} of {all}", n=1, all=say("{x}", x="{y}"))) == "1 of {y}"


def test_what_is_otherwise_on_a_cluster_is_said_after_the_reason() -> None:
    measured = Measurement("copy", ("shared", "copy"), note=say("But this is a cluster."))
    text = repr(shown("shared", measured, why="They are the same bytes."))
    assert text.endswith("They are the same bytes. But this is a cluster.")
    assert "cluster" not in repr(shown(..., measured))


@pytest.fixture
def mapped(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A file of three pages, and an array that shows it."""
    path = tmp_path / "bytes"
    path.write_bytes(bytes(3 * mmap.PAGESIZE))
    return path, np.memmap(path, np.uint8, "r")


X = np.arange(100_000.0)


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        (X, X, "shared"),
        (X, X[::-1], "shared"),
        (X[:10], X[10:], "copy"),
        (X[10:], X[:10], "copy"),
        (X, memoryview(X), "shared"),
        (X, pd.Series(X, copy=False), "shared"),
        (X, pa.array(X), "shared"),
        (X, pa.chunked_array([pa.array(X)]), "shared"),
        (X[:0], X[5:5], "copy"),
        ([1, 2], [1, 2], "copy"),
        (X[0], X[0], "copy"),
        (np.array([None, "a"]), np.array([None, "a"]), "copy"),
    ],
)
def test_what_is_the_same_memory_in_one_process(first: object, second: object, answer: str) -> None:
    assert measure.sharing(first, second).answer == answer


def test_a_column_of_text_is_where_arrow_has_it_and_a_table_is_asked_for_one() -> None:
    text = pa.chunked_array([pa.array(["one", "two"] * 1000)])
    column = pd.Series(text, dtype=pd.ArrowDtype(pa.string()))
    assert measure.sharing(column, text).answer == "shared"
    assert measure.sharing(column, pd.Series(["one"] * 2000)).answer == "copy"
    with pytest.raises(TypeError, match="give one of them"):
        measure.where(pd.DataFrame({"a": [1]}))


def test_two_processes_that_map_a_file_share_it(mapped: tuple[Path, np.ndarray]) -> None:
    path, here = mapped
    code = (
        "import sys, numpy as np; from workbench.course import measure\n"
        f"x = np.memmap({str(path)!r}, np.uint8, 'r')\n"
        "print(repr(measure.where(x)), repr(measure.where(x.copy())), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    there, copied = (eval(line, {"Location": Location}) for line in done.stdout.splitlines())
    assert there.pid != os.getpid()
    measured = measure.sharing(here, there)
    assert measured.answer == "shared"
    assert [str(row[0]) for row in measured.rows][1:] == [
        "address", "shared file (inode)", "offset in that file"
    ]  # fmt: skip
    assert measure.sharing(here[:10], there).answer == "shared"
    assert measure.sharing(here, copied).answer == "copy"


def test_a_page_that_was_written_to_is_a_copy(mapped: tuple[Path, np.ndarray]) -> None:
    path, here = mapped
    private = np.memmap(path, np.uint8, "c")
    assert measure.sharing(private, here).answer == "shared"
    private[mmap.PAGESIZE] = 1
    place = measure.where(private)
    assert (place.own_pages, place.pages) == (1, 3)
    assert measure.sharing(private, here).answer == "shared"  # the other two
    page = slice(mmap.PAGESIZE, 2 * mmap.PAGESIZE)
    assert measure.sharing(private[page], here[page]).answer == "copy"


def test_whose_memory_grew() -> None:
    gc.collect()  # what others have left isn't given back meanwhile
    with measure.memory() as measured:
        pages = mmap.mmap(-1, 160_000_000, mmap.MAP_PRIVATE)  # malloc may reuse what others left
        kept = np.frombuffer(pages)
        kept.fill(1)
    assert measured.answer == "kernel"
    with measure.memory() as measured:
        pass
    assert measured.answer == "neither"


def test_how_long_it_took_and_which_object_it_is() -> None:
    with measure.seconds() as measured:
        pass
    assert measured.answer > 0
    assert measured.unit == "s"
    assert measure.identity(X, X).answer == "same object"
    assert measure.identity(X, X[:]).answer == "another object"


@pytest.mark.parametrize(
    ("seconds", "says"), [(0.01, "0 s"), (0.99, "0 s"), (2.7, "2 s"), (6.04, "6 s"), (60.0, "6 s")]
)
def test_a_time_is_said_as_the_nearest_choice(seconds: float, says: str) -> None:
    assert measure.nearest(seconds, ("0 s", "2 s", "6 s")) == says


MEGABYTES = 60

SCRIPT = f"""
import json, os, subprocess, sys
from workbench.course.watching import below, watching

def started(code, **more):
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-c", code + "; input()"], **pipes, **more)

large = b"1" * {MEGABYTES * 1_000_000}
with watching() as own:
    held = bytearray(large)
    own.look()
    del held
with watching() as others:
    with started("x = b'1' * {MEGABYTES * 1_000_000}; print(1, flush=True)") as process:
        process.stdout.readline()
        is_below = below(os.getpid()) == [process.pid]
        others.look()
        process.communicate(b"\\n")
with watching() as file:
    fd = os.memfd_create("data")
    os.write(fd, large)
    file.look()
    written = file.megabytes[-1]
    code = f"import mmap; print(sum(mmap.mmap({{fd}}, 0)[::4096]), flush=True)"
    with started(code, pass_fds=[fd]) as process:
        process.stdout.readline()
        file.look()
        mapped = file.megabytes[-1]
        process.communicate(b"\\n")
looks = own.seconds == sorted(own.seconds) and len(own.seconds) == len(own.megabytes)
found = [own.most, own.megabytes[0], looks, others.most, is_below, written, mapped]
print(json.dumps(found))
"""
"""In a process of its own: no other test's processes end while it looks."""


def test_what_a_block_takes_and_starts_is_seen_less_what_was_there_before() -> None:
    """What is written to shared memory counts once, whoever has mapped it."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True)
    own, at_first, looks, others, is_below, written, mapped = json.loads(done.stdout)
    assert 0.9 * MEGABYTES < own < 2 * MEGABYTES
    assert at_first < 0.5 * MEGABYTES
    assert 0.9 * MEGABYTES < others < 3 * MEGABYTES
    assert looks
    assert is_below
    assert 0.9 * MEGABYTES < written < 1.5 * MEGABYTES
    assert mapped < 1.9 * MEGABYTES

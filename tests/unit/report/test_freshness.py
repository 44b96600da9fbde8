"""What is said of a stored variable that a cell reads, and of a slip of the fingers."""

from __future__ import annotations

import time
from argparse import ArgumentParser

import pytest

from workbench.report.freshness import Unknown, changed_text, held_text, unknown_texts
from workbench.report.mistyped import did_you_mean, of_arguments


def test_what_a_cells_line_says() -> None:
    assert changed_text("df", "%put", 0.008, "") == "df changed since %put: stored again, 8 ms"
    assert changed_text("mine", "%get", 2.0, "config") == (
        "mine changed since %get: stored again, 2 s; 'config' in the store stays as it was"
    )
    late = Unknown("x", 0.5, 0.06, others=0.2)
    assert unknown_texts([Unknown("df", 200.0, 1.23)]) == [
        "df as stored 3 min ago, not compared (1.23 s); `%put df` renews it"
    ]
    assert unknown_texts([late]) == [
        "x as stored just now, not compared (60 ms, after 200 ms for others); `%put x` renews it"
    ]
    assert unknown_texts([late, Unknown("y", 9.0, 0.0, "it is on disk")]) == [
        "x and y as stored earlier, not compared (60 ms; it is on disk); `%put x y` renews them"
    ]


def test_what_stands_behind_a_variable_that_keeps_an_object() -> None:
    now = time.time()
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    assert held_text("%put", now, "same") == ", the stored object itself"
    changed = held_text("%put", now, "changed")
    assert changed.startswith(f", changed since %put: the store has what it was at {clock}")
    assert held_text("%put", now, "").startswith(f", as it was at {clock}")
    assert held_text("%put", now, "not compared").endswith(", not compared")
    assert held_text("%put", now - 1e6, "").count(", ") == 2  # with the day


@pytest.mark.parametrize(
    ("word", "known", "is_meant"),
    [
        ("stauts", "status", True),
        ("wieghts", "weights", True),
        ("32176-02075", "32176-020758", True),  # a session's name can be digits alone
        ("32176-a2075", "32176-a20758", True),
        ("cell 9", "cell 4", False),
        ("x_1 2", "x_1 11", False),
    ],
)
def test_a_slip_is_found_and_another_number_is_none(word: str, known: str, is_meant: bool) -> None:
    assert did_you_mean(word, [known, 7]) == f" Did you mean {known!r}?" * is_meant


@pytest.mark.parametrize(("word", "meant"), [("-wait", "--wait"), ("--wiat", "--wait"), ("-w", "")])
def test_an_option_that_was_meant(word: str, meant: str) -> None:
    parser = ArgumentParser()
    parser.add_argument("-w", "--wait")
    said = of_arguments(parser, [word], f"unrecognized arguments: {word}")
    assert said == (f" Did you mean {meant!r}?" if meant else "")

"""What was perhaps meant: a slip of the fingers is found, another number is not taken for one."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest

from workbench.report.mistyped import did_you_mean, of_arguments


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("stauts", "status"),
        ("wieghts", "weights"),
        ("32176-02075", "32176-020758"),  # a session's name can be digits alone
        ("32176-a2075", "32176-a20758"),
    ],
)
def test_a_slip_is_found(word: str, known: str) -> None:
    assert did_you_mean(word, [known, 7]) == f" Did you mean {known!r}?"


@pytest.mark.parametrize(("word", "known"), [("cell 9", "cell 4"), ("x_1 2", "x_1 11")])
def test_another_number_is_no_slip(word: str, known: str) -> None:
    assert did_you_mean(word, [known]) == ""


@pytest.mark.parametrize(("word", "meant"), [("-wait", "--wait"), ("--wiat", "--wait"), ("-w", "")])
def test_an_option_that_was_meant(word: str, meant: str) -> None:
    parser = ArgumentParser()
    parser.add_argument("-w", "--wait")
    said = of_arguments(parser, [word], f"unrecognized arguments: {word}")
    assert said == (f" Did you mean {meant!r}?" if meant else "")

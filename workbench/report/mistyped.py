"""Suggestions for an unknown word: a name, an option, a command. Asks nobody."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser


def did_you_mean(word: str, known: Iterable[object], likeness: float = 0.6) -> str:
    """Return a question to end a message with, if a known word is similar to this one.

    ``'stauts'`` → ``" Did you mean 'status'?"``. Ignores known values that are no text, and
    words that differ only in small numbers: ``cell 9`` is no slip of ``cell 4``. Numbers of four
    digits or more are compared like text: they are parts of an id, which can be mistyped.
    """
    meant = likest(word, known, likeness)
    return f" Did you mean {meant!r}?" if meant else ""


def likest(word: str, known: Iterable[object], likeness: float = 0.6) -> str:
    """Return the most similar known word; empty if none is similar enough."""
    from difflib import get_close_matches  # late: needed only after a typing error

    texts = [each for each in known if isinstance(each, str) and not _same_but_numbers(each, word)]
    return next(iter(get_close_matches(word, texts, 1, likeness)), "")


def _same_but_numbers(a: str, b: str) -> bool:
    counted = r"\b\d{1,3}\b"
    return a != b and re.sub(counted, "0", a) == re.sub(counted, "0", b)


def of_arguments(parser: ArgumentParser, words: Sequence[str], error: str) -> str:
    """Return the question for the first of a command's words that its parser rejects.

    ``error`` is the parser's message; it names the word.
    """
    options = list(parser._option_string_actions)
    named = re.match("argument ([^:]+):", error)
    named_here = named[1].split("/") if named else []
    actions = [
        a
        for a in parser._actions
        if not (named and a.option_strings) or {*named_here} & {*a.option_strings}
    ]
    choices = [action.choices for action in actions if action.choices]
    for commands in choices:
        if isinstance(commands, Mapping):  # subcommands: each is a parser of its own
            options += [
                o for c in words if c in commands for o in commands[c]._option_string_actions
            ]
    known = [*options, *(choice for several in choices for choice in several)]
    for word in words:
        name = word.partition("=")[0]
        if f"-{name}" in options:  # ``-wait``
            return f" Did you mean '-{name}'?"
        is_option = name.startswith("--") and not any(o.startswith(name) for o in options)
        if name in known or (name not in error and not is_option):
            continue
        if hint := did_you_mean(name, known) or did_you_mean(f"--{name}", options, 0.8):
            return hint
    return ""

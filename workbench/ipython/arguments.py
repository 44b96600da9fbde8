"""Parses the line of a magic: with IPython's own parser, plus `--help` and our errors."""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from IPython.core import magic_arguments as ipython
from IPython.core.error import UsageError

from workbench.errors import MagicError
from workbench.report.mistyped import of_arguments

Magic = Callable[..., Any]


def magic_arguments(sign: str = "%") -> Callable[[Magic], Magic]:
    """Extend IPython's `magic_arguments`: `--help` on the line prints the magic's help.

    ``sign``: ``%%`` for a cell magic.
    """

    def decorate(method: Magic) -> Magic:
        # IPython puts one sign before the name, wherever it shows a magic's usage.
        inner = ipython.magic_arguments(f"{sign}{method.__name__}"[1:])(method)

        @functools.wraps(inner)
        def magic(self: Any, line: str, *cell: str) -> Any:
            if asks_for_help(line):
                print(_help(inner))
                return None
            return inner(self, line, *cell)

        return magic

    return decorate


as_json = ipython.argument("--json", action="store_true", help="the answer as data, for programs")


def asks_for_help(line: str) -> bool:
    """True if the line has ``--help``, or is ``-h`` alone."""
    words = line.split()
    return "--help" in words or words == ["-h"]


def help_alone(lines: list[str]) -> list[str]:
    """Turn a cell that only asks for help into a line: cell magics need a body."""
    text = "".join(lines).strip()
    return ["%remote --help\n"] if text in ("%%remote --help", "%%remote -h") else lines


def _help(magic: Any) -> str:
    """Return usage, description and arguments, as a shell command prints them."""
    said: str = magic.parser.format_help()
    return "Usage: " + re.sub(r"^::\s+|\n+\Z", "", said)


def parse(magic: Any, line: str) -> argparse.Namespace:
    """Parse the line of one call of a magic: ``magic`` is the method.

    Raises
    ------
    MagicError
        If the line has other options; the message ends with the magic's usage.
    """
    try:
        words = in_one_word(without_comment(line), "--map")
        parsed: argparse.Namespace = ipython.parse_argstring(magic, words)
    except (UsageError, ValueError) as error:  # ValueError: an unclosed quote
        usage = " ".join(magic.parser.format_usage().replace("::", "").split())
        hint = of_arguments(magic.parser, line.split(), str(error))
        raise MagicError(f"{error}.{hint} Usage: {usage} (`--help` says more).") from None
    return parsed


def without_comment(line: str) -> str:
    """Return the line up to a ``#`` that stands alone, outside of quotes. (``#3`` is a job.)"""
    words = re.match(r"""(?:'[^']*'|"[^"]*"|\S#|#(?=\S)|[^#])*""", line)
    return line if words is None else words[0]


def in_one_word(line: str, option: str) -> str:
    """Quote the option's value in a line, if it has spaces within brackets.

    ``--map x=range(0, 9)`` is one expression, though it looks like two words.
    """
    given = re.search(rf"(?:^|\s){re.escape(option)}[\s=]+(?=[^\s'\"])", line)
    if given is None:
        return line
    depth, end = 0, len(line)
    for piece in re.finditer(r"""'[^']*'|"[^"]*"|.""", line[given.end() :]):
        depth += (piece[0] in "([{") - (piece[0] in ")]}")
        if piece[0].isspace() and depth <= 0:
            end = given.end() + piece.start()
            break
    value = line[given.end() : end]
    quote = next((each for each in "'\"" if each not in value), "")
    if not quote or not re.search(r"\s", value):
        return line
    return f"{line[: given.end()]}{quote}{value}{quote}{line[end:]}"


def unquoted(word: str) -> str:
    """Return a word without its quotes, which IPython leaves on."""
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word


def as_written(line: str, words: Sequence[str]) -> str:
    """Return the part of the line that was split into these words, with its own spaces."""
    match = re.search(r"\s+".join(map(re.escape, words)), line)
    return match[0] if match is not None else " ".join(words)

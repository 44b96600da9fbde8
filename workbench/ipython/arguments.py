"""Parses magic lines with IPython's own argument parser; errors become `MagicError`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import parse_argstring

from workbench.errors import MagicError


def parse(magic: Any, line: str) -> argparse.Namespace:
    """The options of one call of a magic: the method, and what stands behind its name.

    Raises
    ------
    MagicError
        If the line has other options; the message ends with the magic's usage.
    """
    try:
        parsed: argparse.Namespace = parse_argstring(magic, line)
    except (UsageError, ValueError) as error:  # ValueError: an unclosed quote
        usage = " ".join(magic.parser.format_usage().replace("::", "").split())
        raise MagicError(f"{error}. Usage: {usage} (`?` behind the magic shows more).") from None
    return parsed


def unquoted(word: str) -> str:
    """What a person means by a value in quotes; IPython leaves them on."""
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word


def as_written(line: str, words: Sequence[str]) -> str:
    """The part of the line that was split into these words, with its own spaces."""
    match = re.search(r"\s+".join(map(re.escape, words)), line)
    return match[0] if match is not None else " ".join(words)

"""Formats a traceback from a worker: plain, or as IPython shows its own.

Imports nothing of ours, and IPython only if that is running already: `errors` depends on it.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import os
import re
import sys
from collections.abc import Iterable, Sequence
from textwrap import dedent
from typing import Any

Frame = tuple[str, int, str, str]
"""File name, line number, function, source line (empty where the worker didn't know it)."""

TITLE = "Traceback on the worker (most recent call last):"

BESIDE = 2
"""Lines shown before and after the failing one, as in IPython."""

MARGIN = 7
"""Width of the arrow and the line number."""


def plain(frames: Sequence[Frame]) -> list[str]:
    """Return all frames, two lines each, as Python prints them."""
    return [TITLE, *(line for frame in frames for line in _two_lines(frame))] if frames else []


def formatted(frames: Sequence[Frame], mode: str) -> tuple[list[str], bool]:
    """Format frames as IPython does, in a mode of `%xmode`; and tell whether frames were left out.

    Unless the mode is Verbose, successive calls within libraries share one line; the frame that
    raised is always shown.
    """
    lines, left_out = [TITLE] if frames else [], False
    is_plain = not mode or mode == "Plain"
    each = _two_lines if is_plain else _snippet
    outer, innermost = frames[:-1], frames[-1:]
    for library, group in itertools.groupby(outer, lambda frame: bool(_library(frame[0]))):
        several = list(group)
        if library and len(several) > 1 and mode != "Verbose":
            names = dict.fromkeys(_library(frame[0]) for frame in several)
            lines += [*[""] * (not is_plain), f"  … {len(several)} frames in {', '.join(names)}"]
            left_out = True
        else:
            lines += [line for frame in several for line in each(frame)]
    return [*lines, *(line for frame in innermost for line in each(frame))], left_out


def _two_lines(frame: Frame) -> Iterable[str]:
    filename, lineno, function, source = frame
    source = source or linecache.getline(filename, lineno).strip()
    place = cell_label(filename) or f'File "{filename}"'
    head = f"  {place}, line {lineno}, in {function}"
    return [head, f"    {source}"] if source else [head]


# -- as IPython does -------------------------------------------------------------------------------


def _snippet(frame: Frame) -> Iterable[str]:
    """Yield an empty line, the place, and the lines around it with an arrow."""
    yield ""
    filename, lineno, function, source = frame
    inside = "" if function == "<module>" else function
    yield _place(filename, lineno) + _styled(("Token", ", in "), ("VName", inside)) * bool(inside)
    lines = dict(enumerate(linecache.getlines(filename), 1))
    if lineno not in lines:
        lines = {lineno: source} if source else {}
    first, last = _scope(lines, lineno) if inside else (1 + _is_magic(lines), len(lines))
    around = [n for n in range(lineno - BESIDE, lineno + BESIDE + 1) if n in lines]
    around = [n for n in around if n == lineno or first <= n <= last]
    while around and around[-1] != lineno and not lines[around[-1]].strip():
        around.pop()
    text = dedent("".join(lines[n].rstrip("\n") + "\n" for n in around))
    for number, line in zip(around, _code(text), strict=False):
        yield _numbered(number, number == lineno) + line


def _scope(lines: dict[int, str], lineno: int) -> tuple[int, int]:
    """Return the first and last line of the innermost function with this line."""
    first, last = 1, len(lines)
    texts = list(lines.values())
    try:
        tree = ast.parse("".join(["\n", *texts[1:]] if _is_magic(lines) else texts))
    except (SyntaxError, ValueError):
        return first, last
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            end = node.end_lineno or node.lineno
            if node.lineno <= lineno <= end:
                first, last = max(first, node.lineno), min(last, end)
    return first, last


def _is_magic(lines: dict[int, str]) -> bool:
    """True if the first line is not Python, but the magic of the whole cell."""
    return lines.get(1, "").startswith("%%")


def _theme() -> Any:
    """Return the running shell's colours; None before IPython 9, which has other ones."""
    running = shell()
    if running is None:
        return None
    try:
        from IPython.utils.PyColorize import theme_table

        return theme_table[running.colors]
    except (ImportError, LookupError):
        return None


def _styled(*parts: tuple[str, str]) -> str:
    """Format (token name, text) pairs in the shell's colours."""
    theme = _theme()
    if theme is None:
        return "".join(text for _, text in parts)
    from pygments.token import string_to_tokentype

    return str(theme.format([(string_to_tokentype(token), text) for token, text in parts]))


def _place(filename: str, lineno: int) -> str:
    label = cell_label(filename)
    if label is None:
        home = os.path.expanduser("~") + os.sep
        name = f"~{os.sep}{filename[len(home) :]}" if filename.startswith(home) else filename
        return _styled(("NormalEm", "File "), ("FilenameEm", f"{name}:{lineno}"))
    cell, _, number = label.partition(" ")
    return _styled(("NormalEm", f"{cell} "), ("FilenameEm", f"{number}, line {lineno}"))


def _numbered(number: int, is_here: bool) -> str:
    arrow = "-" * (MARGIN - len(str(number)) - 2) + "> " if is_here else ""
    return _styled(("LinenoEm", f"{arrow}{number}".rjust(MARGIN))) + " "


def _code(text: str) -> list[str]:
    theme = _theme()
    if theme is None:
        return text.splitlines()
    from pygments.lexers import PythonLexer

    return str(theme.format(PythonLexer(stripnl=False).get_tokens(text))).splitlines()


def painted(text: str) -> str:
    """Format an error's type, or type and message, with the type in the shell's colours."""
    name, colon, said = text.partition(":")
    return _styled(("ExcName", name)) + colon + said


# -- names of places -------------------------------------------------------------------------------

_LIBRARIES = re.compile(r".*/(?:site|dist)-packages/([^/]+?)(?:\.\w+)?(?:/|$)")

_GENERATED = ("<frozen ", "<decorator-gen", "<__array_function__")
"""Prefixes of the names of generated files."""


def _library(filename: str) -> str:
    """Return the package of an installed file; '' for a person's own."""
    found = _LIBRARIES.match(filename)
    if found is not None:
        return found[1]
    standard = os.path.dirname(os.__file__) + os.sep
    if filename.startswith(standard):
        return filename.removeprefix(standard).partition(os.sep)[0].removesuffix(".py")
    return "Python" if filename.startswith(_GENERATED) else ""


_PLACE = re.compile(r'  (?:File "([^"\n]+)"|([^"\n]+)), (?=line \d+, in )')


def placed(note: str) -> str:
    """Return a line of a chained cause; a place in a cell becomes the cell's label."""
    found = _PLACE.match(note)
    label = cell_label(found[1] or found[2]) if found is not None else None
    return note if found is None or label is None else f"  {label}, {note[found.end() :]}"


def shell() -> Any:
    """Return the running shell; None if there is none. Doesn't import IPython."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def mode() -> str:
    """Return IPython's mode, set by `%xmode`, or by `%tb` for one error; '' without IPython."""
    return str(getattr(getattr(shell(), "InteractiveTB", None), "mode", ""))


def cell_label(filename: str) -> str | None:
    """Return ``Cell In[7]`` if ``filename`` is IPython's name for a cell's file, else None.

    IPython keeps the numbers in the running shell's compiler; outside one there are none.
    """
    running = shell()
    if running is None:
        return None
    found = running.compile.format_code_name(filename)
    return None if found is None else f"{found[0]} {found[1]}"

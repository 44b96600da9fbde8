"""Translates IPython's syntax in a cell to Python, line for line; refuses some magics.

Runs nothing. `cells` finds the names that the Python reads.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from IPython.core.inputtransformer2 import TransformerManager

from workbench.errors import CellSyntaxError

_NOTEBOOK = "belongs to the notebook: run it in a cell of its own"
_FOLLOWS = "would change the worker for later tasks"
_PERSON = "needs a person, and a worker has none"
_OURS = "talks to the session from the notebook"

_REASONS = {
    "cd pushd popd": f"{_FOLLOWS}: run it in the notebook, its remote cells follow there",
    "autoreload aimport": f"{_FOLLOWS}: run it in the notebook, the workers load edited modules "
    "again then",
    "load_ext unload_ext reload_ext": f"{_FOLLOWS}: a remote cell has IPython's own magics; import "
    "the package instead",
    "reset reset_selective xdel": "has nothing to do here: a remote cell starts with the names it "
    "reads and nothing else",
    "debug pdb": f"{_PERSON}: run the cell in the notebook to debug it",
    "edit load loadpy recall rep rerun macro": _PERSON,
    "history hist save store notebook tb xmode colors config": _NOTEBOOK,
    "logstart logon logoff logstate logstop alias unalias rehashx": _NOTEBOOK,
    "automagic autocall autoawait gui bookmark": _NOTEBOOK,
    "remote": "is a remote cell already: its tasks can call `workbench.remote` functions",
    "put": f"{_OURS}: here, assign the name, or call `workbench.put`",
    "get": f"{_OURS}: here, read the name, and the object comes along",
    "workbench objects why free pin unpin spill inspect cost": f"{_OURS}: take it out of the cell",
}
REFUSED = {name: reason for names, reason in _REASONS.items() for name in names.split()}
"""Magics that a remote cell can't have, and why: ours, and those of IPython that would change
the worker for everybody, or need a person or the notebook."""


@dataclass(frozen=True, slots=True)
class Python:
    """A cell, translated to Python."""

    text: str  # has as many lines as the cell, so that line numbers agree
    timed: bool = False  # it began with ``%%time``, left out here: time the rest
    tree: ast.Module | None = None  # syntax tree of the text, if the cell was plain Python


@dataclass(frozen=True, slots=True)
class MagicCall:
    """A magic, or a system command, as IPython translates it: a call of a method of the shell."""

    method: str  # one of `_METHODS`
    arguments: tuple[str, ...]  # texts, as in the cell
    line: int  # line number, from 1


_METHODS = {"run_line_magic": 2, "run_cell_magic": 3, "system": 1, "getoutput": 1}
"""Number of arguments of each."""


class _LineForLine(TransformerManager):
    """IPython's transformer; but a command of several lines leaves blank lines for the others."""

    def do_one_token_transform(self, lines: list[str]) -> tuple[bool, list[str]]:
        changed, new = super().do_one_token_transform(lines)
        gone = len(lines) - len(new)
        if gone > 0:
            pairs = zip(lines, new, strict=False)
            at = next((i for i, (a, b) in enumerate(pairs) if a != b), len(new) - 1)
            new = [*new[: at + 1], *["\n"] * gone, *new[at + 1 :]]
        return changed, new


def python(source: str) -> Python:
    """Translate IPython's syntax in a cell's body to Python; leave it as it is if neither."""
    try:
        return Python(source, tree=ast.parse(source))
    except (SyntaxError, ValueError):
        pass
    body = re.sub(r"\A(?:[ \t]*\n)*", "", source)  # IPython would remove the blank lines
    above = source.count("\n") - body.count("\n")
    timed = re.match(r"%%time[ \t]*(?:\n|$)", body)
    if timed:
        inner = python("\n" * (above + 1) + body[timed.end() :])
        return Python(inner.text, timed=True)
    try:
        return Python("\n" * above + _LineForLine().transform_cell(body))
    except SyntaxError:
        return Python(source)


def calls(node: ast.AST) -> Iterator[MagicCall]:
    return filter(None, map(as_call, ast.walk(node)))


def as_call(node: ast.AST) -> MagicCall | None:
    """Return the node as a call, if it is ``get_ipython().method("text", ...)``."""
    match node:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(func=ast.Name(id="get_ipython"), args=[]), attr=method
            ),
            args=args,
        ) if _METHODS.get(method) == len(args):
            texts = [each.value for each in args if isinstance(each, ast.Constant)]
            words = [text for text in texts if isinstance(text, str)]
            return MagicCall(method, tuple(words), node.lineno) if len(words) == len(args) else None
    return None


def check(tree: ast.AST, source: str, first_line: int) -> None:
    """Refuse the magics that a remote cell can't have.

    ``tree`` is what `python` made of the body, which begins on the cell's ``first_line``.

    Raises
    ------
    CellSyntaxError
        The message says what, where, and what to do instead.
    """
    lines = source.splitlines()
    for call in calls(tree):
        why = why_refused(call)
        if why:
            place = f"line {call.line + first_line - 1} of the cell"
            shown = lines[call.line - 1].strip()
            raise CellSyntaxError(f"{why}. It is in {place}. Nothing was sent.\n    {shown}")
        if call.method.startswith("run_"):  # the code in it begins on its line
            below = "\n".join(lines[call.line - 1 :])
            check(parsed(meaning(call).code), below, first_line + call.line - 1)


def parsed(code: str) -> ast.Module:
    """Return the syntax tree; empty if it isn't Python, which the magic that runs it reports."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def why_refused(call: MagicCall) -> str:
    """Return why a remote cell can't have this magic, in a sentence; '' if it can."""
    if not call.method.startswith("run_"):
        return ""
    name = call.arguments[0]
    sign = "%%" if call.method == "run_cell_magic" else "%"
    if name in REFUSED:
        return f"`{sign}{name}` {REFUSED[name]}"
    if name.startswith("%"):
        return f"`%{name}` stands above the whole body, in the first line below `%%remote`"
    if call.method == "run_cell_magic" and name == "time":
        return "`%%time` stands alone on its line, above the body"
    if name == "matplotlib" and call.arguments[1].split()[:1] not in _STILL:
        return "`%matplotlib` can be `inline` alone here: a worker has no screen"
    return ""


_STILL: list[list[str]] = [[], ["inline"], ["agg"], ["--list"], ["-l"]]

# -- the code and the names in a magic's text -----------------------------------------------------

_OPTIONS = re.compile(r"\s*(?:-(?:[nrp]\s*\d+|[lsTD]\s*\S+|[a-zA-Z]+|-[a-z-]+)(?:\s+|$))*")
"""Options of `%timeit`, `%time` and `%prun`, before the code."""

_INLINE = ("time", "prun", "capture")
_SCOPED = ("timeit",)
_HELP = ("pinfo", "pinfo2", "pdoc", "pdef", "psource", "pfile")


@dataclass(frozen=True, slots=True)
class Meaning:
    """Names that a call reads and sets."""

    code: str = ""  # Python that it runs at once
    keeps: bool = True  # True: names that the code assigns become the cell's variables
    mentions: tuple[str, ...] = ()  # expressions that it may read
    sets: tuple[str, ...] = ()  # names it assigns
    sets_any: bool = False  # it may set any name


def meaning(call: MagicCall) -> Meaning:
    """Return the names that a call reads and sets, as far as its text shows."""
    if not call.method.startswith("run_"):
        return Meaning(mentions=_expanded(call.arguments[0]))
    name, line, *body = call.arguments
    if name in _HELP:
        return Meaning(mentions=(line.strip("?% "),))
    if name in _SCOPED or name in _INLINE:
        code = _OPTIONS.sub("", line, count=1)
        sets: tuple[str, ...] = ()
        if name == "capture":
            sets, code = tuple(w for w in line.split() if w.isidentifier()), ""
        text = "\n".join([code, *body]) if body else code
        return Meaning(python(text).text, name not in _SCOPED, sets=sets)
    named = re.findall(r"--(?:out|err)[ =]+([^\W\d]\w*)", line) if body else []
    return Meaning(mentions=_expanded(line), sets=tuple(named), sets_any=name == "run")


def _expanded(text: str) -> tuple[str, ...]:
    """Return expressions whose values IPython inserts into a command: ``{x + 1}`` and ``$x``."""
    braces = re.findall(r"(?<!\{)\{([^{}]+)\}(?!\})", text)
    dollars = re.findall(r"(?<!\$)\$([^\W\d]\w*)", text)
    return (*(each.split("!")[0].split(":")[0] for each in braces), *dollars)

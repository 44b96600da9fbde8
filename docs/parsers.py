"""Directives for Sphinx: what magics and shell commands take, read from their own parsers."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from workbench.cli import command_parser
from workbench.ipython.extension import MAGICS


def table(parser: argparse.ArgumentParser) -> Iterator[str]:
    """What a parser takes, as a table in Markdown."""
    taken = [action for action in parser._actions if action.dest != "help"]
    if not taken:
        return
    yield from ("| option or argument | |", "| --- | --- |")
    for action in taken:
        shown = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
        names = ", ".join(action.option_strings)
        help = (action.help or "") % {"default": action.default}
        if action.choices:
            help += f"; one of {', '.join(f'`{choice}`' for choice in action.choices)}"
        yield f"| `{f'{names} {shown}'.strip()}` | {help.strip('; ')} |".replace("\n", " ")


def magics() -> Iterator[str]:
    """Each magic: what it does, and what its parser takes."""
    found: dict[str, tuple[str, Any]] = {}
    for kind in MAGICS:
        for sign, names in (("%%", kind.magics["cell"]), ("%", kind.magics["line"])):
            for name, method in names.items():
                found.setdefault(name, (sign, getattr(kind, method).parser))
    for name, (sign, parser) in sorted(found.items()):
        yield from ("", f"## {sign}{name}", "", inspect.cleandoc(parser.description or ""), "")
        yield from table(parser)


def commands() -> Iterator[str]:
    """Each command of the shell, and what it takes."""
    for action in command_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, parser in action.choices.items():
                yield from ("", f"## workbench {name}", "", parser.description or "", "")
                yield from table(parser)


class Generated(SphinxDirective):
    """Puts Markdown that is made now in its place."""

    lines: ClassVar[Callable[[], Iterator[str]]]

    def run(self) -> list[nodes.Node]:
        lines = StringList(list(type(self).lines()), source="parsers.py")
        node = nodes.Element()
        self.state.nested_parse(lines, 0, node, match_titles=True)
        return node.children


class Magics(Generated):
    lines = staticmethod(magics)


class Commands(Generated):
    lines = staticmethod(commands)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("magics", Magics)
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}

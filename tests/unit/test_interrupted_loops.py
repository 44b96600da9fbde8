"""Loops that Ctrl-C could leave without their ``finally``. What it can reach has none of them.

CPython 3.13 hears signals at a jump back to a loop's beginning, and where that jump has a condition
it has forgotten the handlers around it: no ``except``, no ``finally``, no end of a ``with`` runs.
Such jumps end a ``while`` with a condition, a comprehension with an ``if``, and a loop whose last
statement is an ``if``. The way out: ``while True:`` with the condition first, or the loop in a
function of its own.
"""

from __future__ import annotations

import ast
import re
import textwrap
from typing import Any

from tests.tables import tables
from tests.unit.sources import FILES, PACKAGE, tree

UNREACHED = tuple(place for rows in tables(__file__).values() for place, _ in rows)


def loops(code: ast.Module) -> set[str]:
    """The functions that have such a loop where Ctrl-C comes, and may leave something undone."""
    finder = _Finder()
    finder.visit(code)
    return finder.found


class _Finder(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: set[str] = set()
        self._names: list[str] = []
        self._guarded = self._held = False

    def _inside(self, nodes: list[Any], guarded: bool) -> None:
        before, self._guarded = self._guarded, guarded
        for node in nodes:
            self.visit(node)
        self._guarded = before

    def _scope(self, node: Any) -> None:
        self._names.append(getattr(node, "name", "<lambda>"))
        before, self._held = self._held, False
        self._inside([*ast.iter_child_nodes(node)], False)
        self._held = before
        self._names.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = _scope

    def visit_Try(self, node: ast.Try) -> None:
        self._inside([*node.body, *node.handlers, *node.finalbody], True)
        self._inside(node.orelse, self._guarded or bool(node.finalbody))

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        self._inside([item.context_expr for item in node.items], self._guarded)
        calls = [ast.unparse(each.context_expr) for each in node.items]
        before = self._held
        self._held |= any(each in ("ki_protection()", "self._alone()") for each in calls)
        suppresses = all(re.match(r"(contextlib\.)?suppress\(", each) for each in calls)
        self._inside(node.body, self._guarded or not suppresses)
        self._held = before

    visit_AsyncWith = visit_With

    def _loop(self, node: Any) -> None:
        asks = isinstance(node, ast.While) and not isinstance(node.test, ast.Constant)
        if asks or _ends_in_condition(node.body):
            self._note()
        self.generic_visit(node)

    visit_While = visit_For = visit_AsyncFor = _loop

    def _note(self) -> None:
        if self._guarded and not self._held:
            self.found.add(".".join(self._names))

    def _comprehension(self, node: Any) -> None:
        if node.generators[-1].ifs:
            self._note()
        self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_DictComp = _comprehension


def _ends_in_condition(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if not isinstance(last, ast.If):
        return False
    both = isinstance(last.test, ast.BoolOp) and isinstance(last.test.op, ast.And)
    leaves = isinstance(last.body[-1], ast.Return | ast.Raise | ast.Break) and not both
    if not (last.orelse or leaves):
        return True
    return _ends_in_condition(last.body) or bool(last.orelse and _ends_in_condition(last.orelse))


def test_what_ctrl_c_can_reach_has_none() -> None:
    names = {path: path.relative_to(PACKAGE).as_posix() for path in FILES}
    found = [f"{names[path]}: {each}" for path in FILES for each in sorted(loops(tree(path)))]
    assert [each for each in found if not each.startswith(UNREACHED)] == []


FORGOTTEN = (
    "while asked: pass",
    "for each in (1, 2):\n    if not asked: each.real",
    "[each for each in (1, 2) if not asked]",
)
KEPT = (
    "while True:\n    if not asked: return\n    asked.__class__",
    "for each in (1, 2):\n    if not asked: each.real\n    each.imag",
    "while True:\n    each = 1\n    if not asked: return",
    "(lambda: [each for each in (1, 2) if not asked])()",
)


def test_such_loops_are_found_and_no_others() -> None:
    for loop in (*FORGOTTEN, *KEPT):
        body = textwrap.indent(loop, 8 * " ")
        text = f"def run():\n    try:\n{body}\n    finally:\n        end()"
        assert loops(ast.parse(text)) == ({"run"} if loop in FORGOTTEN else set())

"""Finds which names a cell reads and which it assigns, from its syntax tree. Runs nothing."""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.errors import CellSyntaxError
from workbench.ipython.syntax import MagicCall, as_call, calls, check, meaning, parsed, python

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


IMPORT, DEFINITION, VARIABLE = "import", "definition", "variable"
"""Kinds of statements that give a name its value."""


@dataclass(frozen=True, slots=True)
class CellNames:
    """Names that a cell reads and assigns, each in order of first appearance.

    ``assigned`` are the names that have results of their own: no imports, functions, classes,
    loop variables, ``as`` names or ``_private`` ones, which come with what the cell changed.
    """

    required: tuple[str, ...]  # read for certain, before the cell assigns them; builtins included
    optional: tuple[str, ...]  # perhaps read: in a branch, or a function that may be called later
    assigned: tuple[str, ...]
    # All names to which the cell gives a value: by an `IMPORT`, a `DEFINITION`, as a `VARIABLE`.
    bound: Mapping[str, str] = field(default_factory=dict)
    code: str = ""  # the cell as Python, if it has IPython's syntax; else ''
    timed: bool = False  # it begins with ``%%time``, which `code` leaves out


def analyse(source: str, filename: str = "<cell>", first_line: int = 1) -> CellNames:
    """Find the names in a cell with the body ``source``.

    Raises
    ------
    CellSyntaxError
        If it is neither Python nor IPython's syntax, or has a magic that a remote cell can't
        have; the message shows the place: the body is in ``filename`` from ``first_line`` on.
    """
    read = python(source)
    try:
        tree = read.tree or ast.parse(read.text, filename)
        # The parser accepts some errors: `return` outside a function.
        compile(tree, filename, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # ValueError: null bytes
        raise CellSyntaxError(_explain(error, first_line, source)) from None
    is_plain = read.tree is not None
    if not is_plain:
        check(tree, source, first_line)
    scan = _Scan()
    scan.visit(tree)
    return CellNames(
        tuple(scan.required),
        tuple(name for name in scan.optional if name not in scan.required),
        tuple(name for name in scan.assigned if not name.startswith("_")),
        scan.bound,
        "" if is_plain else read.text,
        read.timed,
    )


class _Scan(ast.NodeVisitor):
    """Visits the statements at module level in the order in which they run.

    A name is *bound* once it surely has a value, *perhaps* bound if a branch may have given it
    one. Names in functions are read when these are called, so they count as perhaps read.
    """

    def __init__(self) -> None:
        self.required: dict[str, None] = {}  # dicts as ordered sets
        self.optional: dict[str, None] = {}
        self.assigned: dict[str, None] = {}
        self.bound: dict[str, str] = {}
        self._bound: set[str] = set()
        self._perhaps: set[str] = set()
        self._depth = 0  # number of branches around the present node
        self._hidden: list[set[str]] = []  # the targets of the comprehensions around it
        self._anything = False  # after `from m import *` any name may be bound

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    # -- reading and binding ------------------------------------------------------------------

    def _read(self, name: str, certain: bool = True) -> None:
        if name in self._bound or any(name in names for names in self._hidden):
            return
        certain &= not (self._depth or self._anything or name in self._perhaps)
        (self.required if certain else self.optional)[name] = None

    def _bind(self, target: ast.AST, returned: bool) -> None:
        """Bind the target of an assignment; objects and indices in it are read first."""
        names = []
        for node in _in_order(target):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.append(node.id)
            elif isinstance(node, ast.Name):
                self._read(node.id)
        for name in names:
            self._set(name, returned)

    def _set(self, name: str, returned: bool = False, kind: str = VARIABLE) -> None:
        self._bound.add(name)
        self.bound[name] = kind
        if returned:
            self.assigned[name] = None

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node.id)
        elif isinstance(node.ctx, ast.Del):
            self._read(node.id)
            if node.id not in self.required:  # it goes along, so that its end is seen there
                self.optional[node.id] = None
            self._bound.discard(node.id)
            if not self._depth:
                self.assigned.pop(node.id, None)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Read the variables of a query: ``df.query("a > @limit")``."""
        for name in re.findall(r"@(\w+)", node.value) if isinstance(node.value, str) else ():
            self._read(name, certain=False)

    def visit_Call(self, node: ast.Call) -> None:
        call = as_call(node)
        if call is None:
            self.generic_visit(node)
        else:
            self._run(call)

    def _run(self, call: MagicCall) -> None:
        """Handle IPython's syntax: its code and the names in its text."""
        means = meaning(call)
        for text in means.mentions:
            for name in _global_names(parsed(text)):
                self._read(name, certain=False)
        bound, assigned = self._bound.copy(), self.assigned.copy()
        self._visit_all(parsed(means.code).body)
        if not means.keeps:
            self._bound, self.assigned = bound, assigned
        for name in means.sets:
            self._set(name, returned=True)
        self._anything |= means.sets_any

    # -- assignments --------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._bind(target, returned=True)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
        self.visit(node.value)
        self._bind(node.target, returned=True)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self._bind(node.target, returned=True)
        self._perhaps_read(node.annotation)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._bind(node.target, returned=True)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self._anything = True
            else:
                self._set(alias.asname or alias.name.partition(".")[0], kind=IMPORT)

    visit_ImportFrom = visit_Import

    # -- branches -----------------------------------------------------------------------------

    def _branch(self, *bodies: Iterable[ast.AST]) -> None:
        """Visit bodies that may run or not: names bound there are only perhaps bound after."""
        for body in bodies:
            before = self._bound.copy()
            self._depth += 1
            self._visit_all(body)
            self._depth -= 1
            self._perhaps |= self._bound - before
            self._bound &= before

    def visit_If(self, node: ast.If | ast.While) -> None:
        self.visit(node.test)
        self._branch(node.body, node.orelse)

    visit_While = visit_If

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._perhaps |= _stored(node.target) - self._bound
        before = self._bound.copy()
        self._bind(node.target, returned=False)
        self._branch(node.body)
        self._bound &= before
        self._branch(node.orelse)

    visit_AsyncFor = visit_For

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, returned=False)
        self._visit_all(node.body)

    visit_AsyncWith = visit_With

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        self._branch(node.body, node.handlers, node.orelse)
        self._visit_all(node.finalbody)

    visit_TryStar = visit_Try

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name is not None:
            self._set(node.name)
        self._visit_all(node.body)

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            self._branch([case])

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        self.generic_visit(node)
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name is not None:
            self._set(name)

    visit_MatchStar = visit_MatchMapping = visit_MatchAs

    # -- other scopes -------------------------------------------------------------------------

    def visit_FunctionDef(self, node: Function) -> None:
        self._visit_all(node.decorator_list)
        self._defaults(node.args)
        self._set(node.name, kind=DEFINITION)
        self._perhaps_read(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._defaults(node.args)
        self._perhaps_read(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self._set(node.name, kind=DEFINITION)
        self._perhaps_read(node)

    def _defaults(self, args: ast.arguments) -> None:
        for default in [*args.defaults, *args.kw_defaults]:
            if default is not None:
                self.visit(default)

    def _perhaps_read(self, node: ast.AST) -> None:
        for name in _global_names(node):
            self._read(name, certain=False)
        for call in calls(node):
            means = meaning(call)
            for text in (means.code, *means.mentions):
                self._perhaps_read(parsed(text))

    def visit_ListComp(self, node: Comprehension) -> None:
        first, *others = node.generators
        self.visit(first.iter)  # evaluated outside, where the targets hide nothing
        self._hidden.append(set().union(*(_stored(g.target) for g in node.generators)))
        self._visit_all(first.ifs)
        for generator in others:
            self._visit_all((generator.iter, *generator.ifs))
        if isinstance(node, ast.DictComp):
            self.visit(node.key)
            self.visit(node.value)
        else:
            self.visit(node.elt)
        self._hidden.pop()

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)


def _stored(target: ast.AST) -> set[str]:
    return {
        node.id
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _global_names(node: ast.AST) -> list[str]:
    """Return the names that the node's scopes look up in the module: the compiler's answer."""
    names: list[str] = []
    tables = [symtable.symtable(ast.unparse(node), "<cell>", "exec")]
    while tables:
        table = tables.pop()
        names += [s.get_name() for s in table.get_symbols() if _is_module_read(table, s)]
        tables += table.get_children()
    return names


def _is_module_read(table: symtable.SymbolTable, symbol: symtable.Symbol) -> bool:
    if not symbol.is_referenced() or symbol.get_name() == "get_ipython":
        return False
    return symbol.is_global() or table.get_type() == "module"


def _explain(error: SyntaxError | ValueError, first_line: int, source: str) -> str:
    if not isinstance(error, SyntaxError):
        return f"The cell is not valid Python: {error}."
    number = error.lineno or 1
    lines: Sequence[str] = source.splitlines()[number - 1 : number]
    place = f"line {number + first_line - 1}"
    shown = "".join(f"\n    {line}" for line in lines)
    if lines and error.offset and lines[0] == (error.text or "").rstrip("\n"):
        shown += "\n    " + " " * (error.offset - 1) + "^"
    said = re.sub(  # "after 'if' statement on line 1" counts from the body
        r"\bon line (\d+)", lambda m: f"on line {int(m[1]) + first_line - 1}", error.msg
    )
    return f"{said}, in {place} of the cell.{shown}"

"""%put, %get, %inspect, %cost: values into the store and out of it, and what that costs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from workbench import api
from workbench.engines.base import Engine
from workbench.errors import MagicError
from workbench.ipython.arguments import as_written, parse
from workbench.ipython.notebook import Notebook, missing
from workbench.ipython.status import put_line
from workbench.ref import ObjectRef

if TYPE_CHECKING:
    from workbench.serialization.costs import Cost
    from workbench.serialization.inspection import Inspection


@magics_class
class StoringMagics(Magics):
    """Magics that store a value, bring one, or look into one."""

    shell: Any  # an InteractiveShell, never None

    def __init__(self, notebook: Notebook) -> None:
        super().__init__(notebook.shell)
        self._notebook = notebook

    @magic_arguments()
    @argument("--name", "-n", help="name in the store; needed if it isn't a plain variable")
    @argument("what", nargs="*", help="a variable, or an expression")
    @line_magic
    def put(self, line: str) -> ObjectRef:
        """Store a variable under its name, or an expression under a given one.

        Arrays go into shared memory once; `%get` and `%%remote` read them there without a copy.
        What is stored doesn't change any more: put a variable again after changing it.
        """
        args = parse(self.put, line)
        expression = as_written(line, args.what)
        name = args.name or expression
        if not expression:
            raise MagicError("%put needs something to store: `%put x` or `%put --name a x + 1`.")
        if not name.isidentifier():
            raise MagicError(
                f"{name!r} can't be a name in the store. Give it one: `%put --name a {expression}`."
            )
        engine = api.engine()
        value = self._variable(name) if name == expression else self.shell.ev(expression)
        ref, about = engine.put(value, name)
        if self._notebook.variables.get(name) is value:
            self._notebook.bindings.note(name, value, ref)
        print(put_line(name, about))
        return ref

    @magic_arguments()
    @argument("--as", dest="target", metavar="NAME", help="variable to bind it to")
    @argument("--copy", action="store_true", help="private, writable arrays")
    @argument("names", nargs="*", help="names in the store, or variables that hold an ObjectRef")
    @line_magic
    def get(self, line: str) -> None:
        """Bind variables to what the store has under these names.

        Arrays are views of shared memory: no copy is made, and they are read-only.
        """
        args = parse(self.get, line)
        if not args.names:
            raise MagicError("%get needs a name: `%get x`, or `%get x --as y`.")
        if args.target is not None and (len(args.names) > 1 or not args.target.isidentifier()):
            raise MagicError("--as takes one variable name, for one object.")
        engine = api.engine()
        refs = [self._named(engine, name) for name in args.names]
        values = engine.get(refs, None, args.copy)
        for name, ref, value in zip(args.names, refs, values, strict=True):
            target = args.target or name
            self._notebook.variables[target] = value
            if not args.copy:
                self._notebook.bindings.note(target, value, ref)

    # -- %inspect and %cost -------------------------------------------------------------------

    @magic_arguments()
    @argument("what", nargs="+", help="a variable, or an expression")
    @line_magic
    def inspect(self, line: str) -> Inspection:
        """Find all that keeps a value from being stored or sent: where, why, what to do."""
        return api.inspect_serializability(*self._examined(self.inspect, line))

    @magic_arguments()
    @argument("what", nargs="+", help="a variable, an expression, or a name in the store")
    @line_magic
    def cost(self, line: str) -> Cost:
        """Show where storing a value spends its bytes and its time, and what would be cheaper."""
        return api.explain_cost(*self._examined(self.cost, line))

    def _examined(self, magic: Any, line: str) -> tuple[Any, str]:
        """The value a line names, and what to call it."""
        expression = as_written(line, parse(magic, line).what)
        if not expression.isidentifier():
            return self.shell.ev(expression), expression
        value = self._notebook.variables.get(expression, self)
        if value is self:
            ref = api.engine().find(expression) if api.is_initialized() else None
            if ref is None:
                raise missing([expression], "the notebook or the store", self._notebook.variables)
            value = api.get(ref)
        return value, expression

    # -- what names mean ----------------------------------------------------------------------

    def _variable(self, name: str) -> Any:
        try:
            return self._notebook.variables[name]
        except KeyError:
            raise missing([name], "the notebook", self._notebook.variables) from None

    def _named(self, engine: Engine, name: str) -> ObjectRef:
        """The object a name means in `%get`: a variable's own ref, or the store's."""
        value = self._notebook.variables.get(name)
        if isinstance(value, ObjectRef):
            return value
        ref = engine.find(name)
        if ref is None:
            raise missing([name], "the store", engine.names())
        return ref


class BarePut(ast.NodeTransformer):
    """`%put x` as a statement of its own has no value; `ref = %put x` has.

    Otherwise ``Out[n]`` would hold a ref to the object, and keep its memory for no reason that
    anybody could see.
    """

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        match node.value:
            case ast.Call(
                func=ast.Attribute(attr="run_line_magic"), args=[ast.Constant(value="put"), *_]
            ):
                nothing = ast.BoolOp(ast.And(), [node.value, ast.Constant(None)])
                return ast.fix_missing_locations(ast.copy_location(ast.Expr(nothing), node))
        return node

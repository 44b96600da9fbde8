"""%objects, %why, %free, %pin, %unpin, %spill: what the store keeps, why, and letting go of it."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import line_magic, magics_class
from IPython.core.magic_arguments import argument

from workbench import api
from workbench.errors import MagicError
from workbench.ipython.arguments import magic_arguments, parse
from workbench.ipython.freshness import compared
from workbench.ipython.notebook import NotebookMagics
from workbench.ref import ObjectRef
from workbench.report.text import MOST_ROWS, ORDERS, ObjectTable, Why


@magics_class
class KeepingMagics(NotebookMagics):
    @magic_arguments()
    @argument("pattern", nargs="?", default="", help="of names or types, like train* or ndarray*")
    @argument("--sort", choices=ORDERS, default="size", help="what comes first")
    @line_magic
    def objects(self, line: str) -> ObjectTable:
        """List what the store has: name, type, size, where it is, what keeps it, its age."""
        args = parse(self.objects, line)
        return api.objects(args.pattern, sort=args.sort, limit=MOST_ROWS)

    @magic_arguments()
    @argument("name", help="a variable that holds an ObjectRef, or a name in the store")
    @line_magic
    def why(self, line: str) -> Why:
        """Say why an object is still here, and what would let go of each reason."""
        (what,) = self._meant(self.why, line, "name")
        engine = api.engine()
        ref = what if isinstance(what, ObjectRef) else engine.find(what)
        if ref is None:
            return api.why(what)
        with compared(self._notebook.bindings, engine, ref):
            return api.why(what)

    @magic_arguments()
    @argument("names", nargs="+", help="variables that hold an ObjectRef, or names in the store")
    @line_magic
    def free(self, line: str) -> None:
        """Delete objects now, even if something refers to them. Arrays that show one stay valid."""
        for what in self._meant(self.free, line, "names"):
            api.free(what)

    @magic_arguments()
    @argument("names", nargs="+", help="variables that hold an ObjectRef, or names in the store")
    @line_magic
    def pin(self, line: str) -> None:
        """Keep objects in memory until `%unpin`."""
        for what in self._meant(self.pin, line, "names"):
            api.pin(what)

    @magic_arguments()
    @argument("names", nargs="+", help="variables that hold an ObjectRef, or names in the store")
    @line_magic
    def unpin(self, line: str) -> None:
        """Undo `%pin`."""
        for what in self._meant(self.unpin, line, "names"):
            api.unpin(what)

    @magic_arguments()
    @argument("names", nargs="+", help="variables that hold an ObjectRef, or names in the store")
    @line_magic
    def spill(self, line: str) -> None:
        """Move objects to disk now; they come back when they are used and there is room."""
        for what in self._meant(self.spill, line, "names"):
            api.spill(what)

    def _meant(self, magic: Any, line: str, argument: str) -> list[ObjectRef | str]:
        """What the names on the line mean: a variable's own ref, else a name in the store."""
        given = getattr(parse(magic, line), argument)
        if not api.is_initialized():
            raise MagicError("No session is running, so nothing is stored.")
        variables = self._notebook.variables
        return [
            variables[name] if isinstance(variables.get(name), ObjectRef) else name
            for name in ([given] if isinstance(given, str) else given)
        ]

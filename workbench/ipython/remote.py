"""%%remote: a cell that runs on the pool. Reads the line, captures names, submits, binds."""

from __future__ import annotations

import builtins
from typing import Any

from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from workbench import api
from workbench.engines.base import CellOptions, Engine, Exported
from workbench.ipython.arguments import parse
from workbench.ipython.cells import analyse
from workbench.ipython.notebook import Notebook, missing
from workbench.ref import ObjectRef

BODY = 2
"""The line of a cell on which the body of a cell magic begins."""


@magics_class
class RemoteMagics(Magics):
    """See the module."""

    shell: Any  # an InteractiveShell, never None

    def __init__(self, notebook: Notebook) -> None:
        super().__init__(notebook.shell)
        self._notebook = notebook
        self._run_cell: Exported | None = None

    @magic_arguments()
    @argument("-w", "--wait", action="store_true", help="wait, and bind values instead of refs")
    @cell_magic
    def remote(self, line: str, cell: str) -> None:
        """Run the cell on a worker, in the background.

        The names it reads travel along: what is in the store by reference, the rest by value.
        The names it assigns come back as ObjectRefs. What it shows appears under this cell.
        """
        args = parse(self.remote, line)
        whole = f"%%remote {line}".rstrip() + "\n" + cell
        number = self._notebook.cell_number()
        # The compiler's own bookkeeping, so that tracebacks know the cell's number and lines.
        filename = self.shell.compile.cache(whole, number, whole)
        names = analyse(cell, filename, BODY)
        engine = api.engine()
        captured = self._capture(engine, (*names.required, *names.optional), names.required)
        from workbench.worker.cells import Cell, run_cell

        if self._run_cell is None:
            self._run_cell = Exported(run_cell, "cell")
        outputs = names.assigned
        options = CellOptions(
            num_returns=1 + len(outputs), name=f"cell [{number}]", job=f"cell {number}",
            binds=outputs,
        )  # fmt: skip
        call = (Cell(cell, filename, BODY, outputs),)
        submitted = engine.submit(self._run_cell, call, captured, options)
        done, *refs = [submitted] if isinstance(submitted, ObjectRef) else submitted  # type: ignore[misc]
        variables = self._notebook.variables
        variables.update(zip(outputs, refs, strict=True))
        if args.wait:
            engine.get([done], None, False)
            variables.update(zip(outputs, engine.get(refs, None, False), strict=True))
            for name, ref in zip(outputs, refs, strict=True):
                self._notebook.bindings.note(name, variables[name], ref)
        else:
            self._notebook.follow(engine, done)

    def _capture(
        self, engine: Engine, names: tuple[str, ...], required: tuple[str, ...]
    ) -> dict[str, Any]:
        """Values, or refs in their place, for the names a cell reads."""
        hidden = self.shell.user_ns_hidden  # IPython's own: In, Out, exit, get_ipython, ...
        variables = {
            name: value
            for name, value in self._notebook.variables.items()
            if name not in hidden or hidden[name] is not value
        }
        captured: dict[str, Any] = {}
        absent = []
        for name in names:
            if name in variables:
                value = variables[name]
                captured[name] = self._notebook.bindings.stored(name, value) or value
            elif not hasattr(builtins, name) and name not in hidden:
                ref = engine.find(name)
                if ref is not None:
                    captured[name] = ref
                elif name in required:
                    absent.append(name)
        if absent:
            known = [*variables, *engine.names(), *dir(builtins)]
            raise missing(absent, "the notebook or the store", known)
        return captured

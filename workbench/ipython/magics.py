"""%put, %get, %%remote, %workbench: parse the line, hand it to the engine, bind what comes back."""

from __future__ import annotations

import ast
import builtins
import difflib
import re
import sys
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from workbench import api, config
from workbench.engines.base import CellOptions, Engine, Exported
from workbench.errors import MagicError, NotDefinedError, SessionError
from workbench.ipython.arguments import as_written, parse
from workbench.ipython.bindings import Bindings
from workbench.ipython.cells import analyse
from workbench.ipython.jobs import choose, table
from workbench.ipython.output import Router
from workbench.ipython.status import put_line, session_line, started_line, status_text
from workbench.ref import ObjectRef

if TYPE_CHECKING:
    from workbench.serialization.costs import Cost
    from workbench.serialization.inspection import Inspection

BODY = 2
"""The line of a cell on which the body of a cell magic begins."""


@magics_class
class WorkbenchMagics(Magics):
    """The magics of one notebook."""

    shell: Any  # an InteractiveShell, never None

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.router = Router(shell)
        self.bindings = Bindings()
        self.running: set[Future[Any]] = set()  # background cells
        self._run_cell: Exported | None = None

    # -- %put and %get ------------------------------------------------------------------------

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
        engine = self._engine()
        value = self._variable(name) if name == expression else self.shell.ev(expression)
        ref, about = engine.put(value, name)
        if self.shell.user_ns.get(name) is value:
            self.bindings.note(name, value, ref)
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
        engine = self._engine()
        refs = [self._named(engine, name) for name in args.names]
        values = engine.get(refs, None, args.copy)
        for name, ref, value in zip(args.names, refs, values, strict=True):
            target = args.target or name
            self.shell.user_ns[target] = value
            if not args.copy:
                self.bindings.note(target, value, ref)

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
        value = self.shell.user_ns.get(expression, self)
        if value is self:
            ref = api.engine().find(expression) if api.is_initialized() else None
            if ref is None:
                raise self._missing([expression], "the notebook or the store", self.shell.user_ns)
            value = api.get(ref)
        return value, expression

    # -- helpers of %put and %get -----------------------------------------------------------------

    def _variable(self, name: str) -> Any:
        try:
            return self.shell.user_ns[name]
        except KeyError:
            raise self._missing([name], "the notebook", self.shell.user_ns) from None

    def _named(self, engine: Engine, name: str) -> ObjectRef:
        """The object a name means in `%get`: a variable's own ref, or the store's."""
        value = self.shell.user_ns.get(name)
        if isinstance(value, ObjectRef):
            return value
        ref = engine.find(name)
        if ref is None:
            raise self._missing([name], "the store", engine.names())
        return ref

    # -- %%remote -----------------------------------------------------------------------------

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
        number = self._cell_number()
        # The compiler's own bookkeeping, so that tracebacks know the cell's number and lines.
        filename = self.shell.compile.cache(whole, number, whole)
        names = analyse(cell, filename, BODY)
        engine = self._engine()
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
        variables = self.shell.user_ns
        variables.update(zip(outputs, refs, strict=True))
        if args.wait:
            engine.get([done], None, False)
            variables.update(zip(outputs, engine.get(refs, None, False), strict=True))
            for name, ref in zip(outputs, refs, strict=True):
                self.bindings.note(name, variables[name], ref)
        else:
            self._follow(engine, done)

    def _capture(
        self, engine: Engine, names: tuple[str, ...], required: tuple[str, ...]
    ) -> dict[str, Any]:
        """Values, or refs in their place, for the names a cell reads."""
        hidden = self.shell.user_ns_hidden  # IPython's own: In, Out, exit, get_ipython, ...
        variables = {
            name: value
            for name, value in self.shell.user_ns.items()
            if name not in hidden or hidden[name] is not value
        }
        captured: dict[str, Any] = {}
        missing = []
        for name in names:
            if name in variables:
                value = variables[name]
                captured[name] = self.bindings.stored(name, value) or value
            elif not hasattr(builtins, name) and name not in hidden:
                ref = engine.find(name)
                if ref is not None:
                    captured[name] = ref
                elif name in required:
                    missing.append(name)
        if missing:
            known = [*variables, *engine.names(), *dir(builtins)]
            raise self._missing(missing, "the notebook or the store", known)
        return captured

    def _follow(self, engine: Engine, done: ObjectRef) -> None:
        """If the background cell with this first result fails, show it under the running cell."""
        origin = self.router.origin()
        future = engine.future(done)
        self.running.add(future)
        future.add_done_callback(lambda future: self._ended(origin, future))

    def _ended(self, origin: int, future: Future[Any]) -> None:
        """A background cell is over. In the thread that reads the socket."""
        self.running.discard(future)
        error = future.exception()
        if error is not None and not isinstance(error, SessionError):
            self.router.failed(origin, error)

    def _cell_number(self) -> int:
        """The number that the front end shows beside the running cell.

        Read off the file name of its code: ``execution_count`` is that number in some versions
        of IPython, and the next one in others.
        """
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            label = self.shell.compile.format_code_name(frame.f_code.co_filename)
            if label is not None:
                return int(re.sub(r"\D", "", label[1]))
        return int(self.shell.execution_count)

    # -- %workbench ---------------------------------------------------------------------------

    @magic_arguments()
    @argument("action", nargs="?", default="status", help="status, start, stop or jobs")
    @argument("what", nargs="*", help="a background cell: its output is shown, its names are bound")
    @argument("--workers", help="worker processes")
    @argument("--memory", help="size of the store, like 2GB")
    @argument("--spill-dir", help="where objects go that have no room in memory; 'none': nowhere")
    @argument(
        "--huge-pages", action="store_true", default=None, help="ask the kernel for pages of 2 MB"
    )
    @argument("--session", help="name; notebooks that give the same one share a session")
    @argument(
        "--keep", "--linger", dest="linger", help="how long it outlives its last notebook, like 8h"
    )
    @line_magic
    def workbench(self, line: str) -> None:
        """Show, start or stop the session; list its background cells, or collect one.

        `%workbench start --keep 8h` also changes how long a session that runs is kept.
        """
        args = vars(parse(self.workbench, line))
        action, what = args.pop("action"), args.pop("what")
        settings = {k: v for k, v in args.items() if v is not None}
        if what and action != "jobs":
            raise MagicError(f"`%workbench {action}` takes nothing more, not {' '.join(what)!r}.")
        if settings and action != "start":
            raise MagicError(f"These options go with `%workbench start`: {', '.join(settings)}.")
        match action:
            case "start" if settings.keys() == {"linger"} and api.is_initialized():
                self._engine().keep(config.load(settings).linger)
                print(session_line(api.snapshot()))
            case "start":
                print(started_line(api.init(**settings)))
            case "stop":
                running = api.is_initialized()
                api.shutdown()
                self.bindings.clear()
                print("The session is over for this notebook." if running else "None is running.")
            case "jobs":
                self._jobs(" ".join(what))
            case "status":
                print(
                    status_text(api.snapshot(), self._engine().huge_pages())
                    if api.is_initialized()
                    else "No session is running. `%workbench start` starts one."
                )
            case other:
                raise MagicError(f"%workbench knows status, start, stop and jobs, not {other!r}.")

    def _jobs(self, wanted: str) -> None:
        """List the background cells; or show here what one shows, and bind what it assigned."""
        jobs = api.snapshot().jobs if api.is_initialized() else ()
        if not wanted:
            print(table(jobs) if jobs else "There are no background cells.")
            return
        job = choose(jobs, wanted)
        engine = self._engine()
        found = engine.collect(job.id)
        if found is None or not found.results:
            print(f"{job.name} is over, and what it showed and made was somebody's already.")
            return
        done, *results = found.results
        for name, ref in zip(found.job.binds, results, strict=True):
            if ref is not None:  # else it was freed
                self.shell.user_ns[name] = ref
        if done is not None:
            self._follow(engine, done)

    # -- helpers ------------------------------------------------------------------------------

    def _engine(self) -> Engine:
        return api.engine()

    @staticmethod
    def _missing(names: list[str], where: str, known: Any) -> NotDefinedError:
        close = difflib.get_close_matches(names[0], [n for n in known if isinstance(n, str)], 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        listed = " and ".join(repr(n) for n in names)
        verb = "is" if len(names) == 1 else "are"
        return NotDefinedError(f"{listed} {verb} not defined in {where}.{hint} Nothing was sent.")


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

"""%put, %get, %inspect, %cost: values into the store and out of it, and their costs."""

from __future__ import annotations

import argparse
import ast
import keyword
from dataclasses import replace as replaced
from itertools import islice
from typing import TYPE_CHECKING, Any

from IPython.core.magic import line_magic, magics_class
from IPython.core.magic_arguments import argument
from IPython.display import display

from workbench import api
from workbench.core.events import About
from workbench.engine.base import Copying, Engine, acting_on
from workbench.engine.queries import Jobs, Lookup, Names, Summary
from workbench.errors import MagicError
from workbench.format import human_seconds, printable
from workbench.ipython import write_back
from workbench.ipython.arguments import as_json, as_written, magic_arguments, parse, unquoted
from workbench.ipython.job_outputs import is_made
from workbench.ipython.missing_names import missing
from workbench.ipython.notebook import NotebookMagics
from workbench.ipython.progress import Waiting, progress, watch_put
from workbench.ipython.put_replace import replace, unchanged
from workbench.ref import ObjectRef
from workbench.report import json
from workbench.report.json import JsonAnswer
from workbench.report.text import put_text
from workbench.serialization.known_memory import KnownMemory, noting

if TYPE_CHECKING:
    from workbench.serialization.costs import Cost
    from workbench.serialization.inspection import Inspection


@magics_class
class StoringMagics(NotebookMagics):
    # -- %put ---------------------------------------------------------------------------------

    @magic_arguments()
    @argument(
        "--name", "-n", type=unquoted, help="name in the store; needed if it isn't a plain variable"
    )
    @argument("--pin", action="store_true", help="keep it in memory until you unpin it")
    @argument(
        "--replace",
        action="store_true",
        help="have the variable show what is stored, read-only, and free its own memory",
    )
    @argument("what", nargs="*", help="variables, or an expression")
    @line_magic
    def put(self, line: str) -> ObjectRef | list[ObjectRef]:
        """Store variables under their names, or an expression under a given one.

        Arrays go into shared memory once; `%get` and `%%remote` read them there without a copy.
        What is stored doesn't change. A variable that you change afterwards is stored again, under
        the same name, when a remote cell reads it.
        """
        args = parse(self.put, line)
        expression = as_written(line, args.what)
        if not expression:
            raise MagicError("%put needs something to store: `%put x` or `%put --name a x + 1`.")
        if len(args.what) > 1 and all(map(_is_variable, args.what)):  # never an expression
            if args.name:
                raise MagicError("--name names one object. Several have their variables' names.")
            return self._put(self._variables(args.what), {n: n for n in args.what}, args)
        name = args.name or expression
        if not name.isidentifier():
            raise MagicError(
                f"{name!r} can't be a name in the store. Give it one: `%put --name a {expression}`."
            )
        if _is_variable(expression):
            (value,) = self._variables([expression]).values()
            there: dict[str, str] = {name: expression}
        elif args.replace:
            raise MagicError(f"--replace takes a variable, and {expression!r} is an expression.")
        else:
            value, there = self.shell.ev(expression), {}
        values = {name: value}
        del value  # else `--replace` would free nothing
        return self._put(values, there, args)[0]

    def _put(
        self, values: dict[str, Any], variables: dict[str, str], args: argparse.Namespace
    ) -> list[ObjectRef]:
        """Store values, each under its name: all, or none.

        ``values``, by their names in the store, are emptied; ``variables`` has the variable of each
        value that is one.
        """
        engine = acting_on(api.engine(), "pin") if args.pin else api.engine()
        stored: list[tuple[ObjectRef, About]] = []
        new: list[ObjectRef] = []
        memory: dict[str, KnownMemory] = {}
        kept: set[str] = set()  # names of unchanged values, which weren't stored again
        names = list(values)
        with watch_put(self._notebook.router, engine, values, stored) as end:
            try:
                for name, value in values.items():
                    variable = variables[name] if args.replace else ""
                    same = unchanged(self._notebook, engine, name, variable, value)
                    with noting(value) as memory[name]:
                        put = same or engine.put(value, name if len(values) == 1 else "")
                    kept |= {name} if same else set()
                    new += [] if same else [put[0]]
                    stored.append(put)
            except BaseException:
                # Unnamed objects die with their refs, but the error's traceback may keep those.
                engine.free(new)
                raise
            if len(values) > 1:
                for name, (ref, _) in zip(names, stored, strict=True):
                    engine.name(ref, name)
            del value
            lines, shown = [], []
            for name, (ref, about) in zip(names, stored, strict=True):
                remarks = [f"{name}: as stored"] if name in kept else []
                if args.pin:
                    engine.pin(ref, True)
                    remarks.append("pinned")
                value = values.pop(name)
                if name in variables:
                    variable, found = variables[name], memory[name]
                    self._notebook.bindings.note(variable, value, ref, "%put", name, about, found)
                    del value
                    if args.replace:
                        remarks.append(self._replaced(engine, variable, ref, about))
                if name in kept:
                    lines.append("; ".join(remarks))
                else:
                    shown.append((name, about, "; ".join(remarks)))
            end("\n".join([*lines, *filter(None, [put_text(shown)])]))
        return [ref for ref, _ in stored]

    def _replaced(self, engine: Engine, variable: str, ref: ObjectRef, about: About) -> str:
        if not about.outband:
            return f"`{variable}` stays as it is: nothing in it can be shown without a copy"
        return replace(self._notebook, engine, variable, ref)

    # -- %get ---------------------------------------------------------------------------------

    @magic_arguments()
    @argument("--as", dest="target", metavar="NAME", help="variable to bind it to")
    @argument("--copy", action="store_true", help="private, writable arrays")
    @argument(
        "--cow",
        action="store_true",
        help="copy on write: the same, but a page is copied when it is written to",
    )
    @argument("--timeout", type=float, metavar="S", help="seconds to wait at most; 0 asks once")
    @argument(
        "--jobs", action="store_true", help="what background cells that are done made and changed"
    )
    @argument(
        "names",
        nargs="*",
        help="names in the store, or variables (that hold ObjectRefs, or that a cell changed)",
    )
    @line_magic
    def get(self, line: str) -> None:
        """Bind variables to what the store has under these names.

        Arrays are views of shared memory: no copy is made, and they are read-only. With --cow they
        can be written to, and only the pages that are written take memory of their own.
        """
        args = parse(self.get, line)
        if args.copy and args.cow:
            raise MagicError("--copy copies all at once, --cow what is written. Give one of them.")
        copy: Copying = "on write" if args.cow else args.copy
        if args.cow and api.is_initialized():
            acting_on(api.engine(), "copy_on_write")
        if args.jobs:
            if args.names or args.target:
                raise MagicError("%get --jobs takes no names: it gets what the cells assigned.")
            self._get_jobs(copy)
            return
        if not args.names:
            raise MagicError("%get needs a name: `%get x`, or `%get x --as y`.")
        if args.target is not None and (len(args.names) > 1 or not args.target.isidentifier()):
            raise MagicError("--as takes one variable name, for one object.")
        engine = api.engine()
        brought: set[str] = set()  # by earlier name: a cell's changes arrive all at once
        names = [n for n in args.names if not self._get_changed(n, args.target, brought)]
        if not (names := [name for name in names if name not in brought]):
            return
        found = {name: self._named(engine, name) for name in names}
        refs = {}  # by their names in messages
        for name, ref in found.items():
            several = {f"{name}[{n}]": each for n, each in enumerate(ref)} if _is_list(ref) else {}
            refs.update(several or {name: ref})
        waiting = Waiting(engine, refs, " ".join(found))
        with progress(self._notebook.router, waiting.waiting_line) as end:
            if args.timeout is not None:
                waiting.wait(args.timeout)
            values = iter(engine.get(list(refs.values()), None, copy))
            end(waiting.arrived_line(), only_instead=True)
        for name, ref in found.items():
            target = args.target or name
            if _is_list(ref):
                self._notebook.variables[target] = list(islice(values, len(ref)))
            else:
                self._bind(target, ref, next(values), copy)

    def _get_changed(self, name: str, target: str | None, brought: set[str]) -> bool:
        """Bind what a background cell changed in place in a variable, if one did, or still may.

        ``brought`` gets the names of all that were bound.
        """
        is_elsewhere = isinstance(self._notebook.variables.get(name), ObjectRef) or (
            api.engine().ask(Lookup(name)) is not None
        )
        variables = self._notebook.variables
        jobs = write_back.find(self._notebook.jobs.values(), name, variables, is_elsewhere)
        for job in jobs if target is None else jobs[-1:]:
            if said := write_back.get(job, name, target, variables):
                print(printable(said))
            brought.update(job.mutated)
        return bool(jobs)

    def _bind(self, name: str, ref: ObjectRef, value: Any, copy: Copying) -> None:
        self._notebook.variables[name] = value
        if not copy:
            self._notebook.bindings.note(name, value, ref)

    def _get_jobs(self, copy: Copying) -> None:
        """Bring what finished background cells assigned, changed and set.

        What the notebook has assigned since stays. The cells of this notebook, and those that
        nobody has collected.
        """
        engine = api.engine()
        jobs = self._notebook.jobs
        variables = self._notebook.variables
        fetched: dict[str, tuple[Any, Any]] = {}
        for record in engine.ask(Summary()).jobs:
            if record.id not in jobs and record.kept:
                self._notebook.collect(engine, record.id)
            job = jobs.get(record.id)
            if job is None or (job.is_over and job.state != "done"):
                continue
            if not job.is_over:
                print(printable(f"{job.name} is {job.state}."))
                continue
            bindings = self._notebook.bindings
            own, changed, said = write_back.bring_all(job, variables, bindings, fetched)
            bound = []
            for name, ref in job.outputs.items():
                if name in (*job.unset, *job.lost) or not is_made(variables.get(name, ref), ref):
                    continue  # it has no value, as the line says, or the variable another
                if name in own:
                    variables[name] = own[name]
                elif isinstance(ref, list):
                    variables[name] = engine.get(ref, None, copy)
                else:
                    self._bind(name, ref, engine.get([ref], None, copy)[0], copy)
                bound.append(name)
                fetched[name] = ref, variables[name]
            for each in filter(None, [", ".join([*bound, *changed]), *said]):
                print(printable(f"{job.name}: {each}"))

    # -- %inspect and %cost -------------------------------------------------------------------

    @magic_arguments()
    @argument("what", nargs="+", help="a variable, or an expression")
    @as_json
    @line_magic
    def inspect(self, line: str) -> Inspection | JsonAnswer:
        """Find all that keeps a value from being stored or sent: where, why, what to do."""
        found = api.inspect_serializability(*self._examined(self.inspect, line))
        return JsonAnswer(json.of_inspection(found)) if parse(self.inspect, line).json else found

    @magic_arguments()
    @argument("what", nargs="+", help="a variable, an expression, or a name in the store")
    @as_json
    @line_magic
    def cost(self, line: str) -> Cost | JsonAnswer:
        """Show where storing a value spends its bytes and its time, and what would be cheaper.

        What takes long to pickle is estimated first, and then measured (not with --json). If you
        stop it, the estimates stay.
        """
        value, name = self._examined(self.cost, line)
        cost = api.explain_cost(value, name)
        if parse(self.cost, line).json:
            return JsonAnswer(json.of_cost(cost))
        if not cost.is_estimate:
            return cost
        shown = display(cost, display_id=True)
        about = human_seconds(cost.seconds or 0.0)

        def text_at(seconds: float) -> str:
            return f"%cost {name}: measuring all of it, {seconds:.0f} s of about {about}"

        try:
            with progress(self._notebook.router, text_at):
                cost = api.explain_cost(value, name, whole=True)
        except KeyboardInterrupt:
            cost = replaced(cost, estimated=f"{cost.estimated} Stopped before all was measured.")
        if shown is not None and not self._notebook.router.is_terminal:
            shown.update({"text/plain": ""}, raw=True)  # the cell's result replaces it
        return cost

    def _examined(self, magic: Any, line: str) -> tuple[Any, str]:
        """Return the value that a line names, or that the ref which it names stands for, and its
        name."""
        expression = name = as_written(line, parse(magic, line).what)
        if not expression.isidentifier():
            value, name = self.shell.ev(expression), _in_brackets(expression)
        elif expression in self._notebook.variables:
            value = self._notebook.variables[expression]
        else:
            value = api.engine().ask(Lookup(expression)) if api.is_initialized() else None
            if value is None:
                names = self._notebook.own_names()
                raise missing([expression], "the notebook or the store", names)
        return (api.get(value) if isinstance(value, ObjectRef) else value), name

    # -- what names mean ----------------------------------------------------------------------

    def _variables(self, names: list[str]) -> dict[str, Any]:
        variables = self._notebook.variables
        absent = [name for name in dict.fromkeys(names) if name not in variables]
        if absent:
            outcome = "Nothing was stored." if len(names) > 1 else ""
            raise missing(absent, "the notebook", self._notebook.own_names(), outcome=outcome)
        return {name: variables[name] for name in names}

    def _named(self, engine: Engine, name: str) -> Any:
        """Return what a name means in `%get`: a variable's ref or refs, or a stored object."""
        value = self._notebook.variables.get(name)
        if isinstance(value, ObjectRef) or _is_list(value):
            return value
        ref = engine.ask(Lookup(name))
        if ref is None:
            ref = self._assigned(engine, name)
        if ref is None and (got := self._notebook.bindings.find(name, value)) and got[0] == name:
            ref = got[1].ref  # a cell that gets it ran before
        if ref is None:
            raise missing([name], "the store", engine.ask(Names()))
        return ref

    def _assigned(self, engine: Engine, name: str) -> Any:
        """Return what a gone kernel's last such cell assigned to the name, if uncollected."""
        dropped = ""
        for record in reversed(engine.ask(Jobs())):
            if name not in record.binds:
                continue
            if record.is_over and name in record.there:
                print(printable(f"{name}: what {record.name} assigned."))
                found = engine.collect(record.id, name)
                assert found is not None
                refs = [ref for ref in found.results if ref is not None]
                return refs if record.size > 1 else refs[0]
            if record.kept and not record.is_over:
                self._notebook.collect(engine, record.id)
                return self._notebook.variables.get(name)
            dropped = dropped or (record.name if record.dropped else "")
        if dropped:
            raise MagicError(
                f"{name!r} is gone: {dropped} had assigned it, and nobody had it when memory was "
                "needed. Run that cell again."
            )
        return None


def _is_list(value: Any) -> bool:
    """True if it is a list of refs, the result of a cell that runs once per item."""
    return isinstance(value, list) and bool(value) and all(isinstance(v, ObjectRef) for v in value)


def _in_brackets(expression: str) -> str:
    """Return the expression in a form to which ``.name`` can be added."""
    whole, added = ast.parse(expression, mode="eval"), ast.parse(f"{expression}.x", mode="eval")
    value = added.body.value if isinstance(added.body, ast.Attribute) else None
    is_one = value is not None and ast.dump(value) == ast.dump(whole.body)
    return expression if is_one else f"({expression})"


def _is_variable(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


class BarePut(ast.NodeTransformer):
    """Drops the value of a bare `%put x`; `ref = %put x` keeps it.

    Otherwise ``Out[n]`` would hold a ref to the object, and invisibly keep its memory.
    """

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        match node.value:
            case ast.Call(
                func=ast.Attribute(attr="run_line_magic"), args=[ast.Constant(value="put"), *_]
            ):
                both = ast.Tuple([node.value, ast.Constant(None)], ast.Load())
                nothing = ast.Subscript(both, ast.Constant(1), ast.Load())
                return ast.fix_missing_locations(ast.copy_location(ast.Expr(nothing), node))
        return node

    def ends(self, cell: str) -> bool:
        """True if the cell, as transformed by IPython, ends with one."""
        try:
            last = ast.parse(cell).body[-1:]
        except SyntaxError:  # an earlier cell: this one isn't in the history
            return False
        return any(
            isinstance(node, ast.Expr) and self.visit_Expr(node) is not node for node in last
        )

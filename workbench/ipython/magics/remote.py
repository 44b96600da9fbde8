"""%%remote and %remote: code that runs on the pool. Captures, submits, binds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from IPython.core.magic import line_cell_magic, magics_class
from IPython.core.magic_arguments import argument

from workbench import api
from workbench.api.actors import ActorClass, ActorHandle, handle_of
from workbench.core.snapshot import ACTOR_PREFIX
from workbench.engine.base import Call, Engine, Exported, acting_on
from workbench.engine.queries import Lookup, StoredAs
from workbench.errors import MagicError
from workbench.format import printable
from workbench.host.cells import Namespace, evaluate, run_cell
from workbench.ipython import write_back
from workbench.ipython.arguments import magic_arguments, parse, unquoted
from workbench.ipython.cached_cells import CachedCells
from workbench.ipython.capture import CellInputs
from workbench.ipython.cells import analyse
from workbench.ipython.job import Job
from workbench.ipython.job_outputs import Outputs, outputs_of
from workbench.ipython.missing_names import StayedName
from workbench.ipython.notebook import Notebook, NotebookMagics
from workbench.ipython.originals import Originals
from workbench.ipython.request import Request, cell_of, read_request
from workbench.options import DETACHED, ActorOptions, TaskOptions
from workbench.ref import ObjectRef

PATIENCE = 1.0  # seconds before a cell that is waited for gets a line

RUN_CELL = Exported(run_cell, "cell")
EVALUATE = Exported(evaluate, "cell")


@magics_class
class RemoteMagics(NotebookMagics):
    def __init__(self, notebook: Notebook) -> None:
        super().__init__(notebook)
        # By actor: names that our cells assigned there; cells that may still assign theirs.
        self._kept: dict[int, set[str]] = {}
        self._sent: dict[int, list[tuple[Job, tuple[str, ...]]]] = {}
        self._cached_cells = CachedCells()

    @magic_arguments("%%")
    @argument("-w", "--wait", action="store_true", help="wait, and bind values instead of refs")
    @argument(
        "-o",
        "--out",
        nargs="+",
        metavar="NAME",
        help="what comes back; default: what the cell assigns, without imports, functions, classes "
        "and _private names. With --actor: nothing",
    )
    @argument(
        "-i",
        "--in",
        dest="given",
        nargs="+",
        metavar="NAME",
        help="variables to send with the cell, besides those that its code reads",
    )
    @argument("--name", type=unquoted, help="what the job is called; default: cell N")
    @argument(
        "--actor",
        type=unquoted,
        metavar="NAME",
        help="run it in a namespace of that name, in a process of its own, where what its cells "
        "assign stays. Made by the first cell; `workbench.kill` ends it",
    )
    @argument("-n", "--each", type=int, metavar="N", help="run it N times, with `index` 0, 1, ...")
    @argument(
        "--map",
        dest="items",
        type=unquoted,
        metavar="VAR",
        help="run it once per item of VAR, with `item` and `index`; NAME=VAR calls the item NAME",
    )
    @argument("--timeout", type=float, metavar="S", help="seconds it may run")
    @argument(
        "--retries",
        type=int,
        default=0,
        metavar="N",
        help="how often it runs again if its worker dies; default: not again",
    )
    @argument(
        "--seed",
        type=int,
        metavar="N",
        help="seed `random`, numpy's and torch's global generators, so that each run draws the "
        "same numbers; each item has its own. Default: the notebook's next random numbers",
    )
    @argument(
        "--cache",
        nargs="?",
        const="on",
        choices=("on", "trust"),
        help="the same code with the same inputs isn't run again: what it made and showed is found "
        "on disk, also after a restart. `--cache=trust`: even if files or packages have changed",
    )
    @argument(
        "--reads",
        nargs="+",
        metavar="FILE",
        help="with --cache: files that the cell depends on. Those that Python's own `open` opens "
        "are seen anyway",
    )
    @argument("-q", "--quiet", action="store_true", help="show no line that says how far it is")
    @argument("--dry-run", action="store_true", help="show what would travel; send nothing")
    @line_cell_magic
    def remote(self, line: str, cell: str | None = None) -> Any:
        """Run the cell on a worker, in the background. `%remote expr` gives a ref to a value.

        The names it reads travel along: what is in the store by reference, the rest by value.
        The names it assigns come back as ObjectRefs. What it shows appears under this cell.
        """
        if cell is None:
            return self._evaluate(line)
        args = parse(self.remote, line)
        request = read_request(self._notebook, args, line, cell)
        engine = api.engine()
        if request.cell.cached is not None:
            acting_on(engine, "cache")
        handle = self._namespace(engine, request.actor, not args.dry_run)
        known, each = self._known(request, handle), (request.item, request.items or ())
        inputs = CellInputs(self._notebook, engine, request.names, request.cell.given, known, each)
        if args.dry_run:
            return inputs.preview()
        try:
            self._run(engine, request, handle, inputs, args.wait, args.quiet)
        except BaseException as error:
            # The job remembers this error, and IPython the last one: don't keep our frames.
            del inputs, request, each
            raise error.with_traceback(None) from error.__cause__
        return None

    def _run(
        self,
        engine: Engine,
        request: Request,
        handle: ActorHandle | None,
        inputs: CellInputs,
        wait: bool,
        quiet: bool,
    ) -> None:
        """Submit the cell, bind its future results, and wait for it if ``wait``."""
        size = 1 if request.items is None else len(request.items)
        origin = self._notebook.router.origin()
        captured = inputs.take()
        job = Job(engine, request.options.job, size, origin, request.actor)
        job.apart = inputs.apart
        self._notebook.remote_cell = origin
        settings = self._notebook.settings
        cell, notes = settings.on(request.cell, wait and handle is None and request.items is None)
        request = replace(request, cell=cell)
        for note in [*inputs.notes, *notes]:
            job.note(note)
        if wait:
            self._notebook.awaited.append(job)
        each = request.item, request.items or ()
        own = settings.of_modules()
        caches = request.cell.cached is not None
        originals = Originals(
            engine, captured, self._notebook.variables, each, inputs.slow, own, caches
        )
        if not request.asked:
            brings = handle is None and request.items is None
            tracked = replace(originals.tracked, brings=brings)
            request = replace(request, cell=replace(request.cell, tracked=tracked))
            if brings:
                job.originals = originals
                if not wait:
                    job.note_before(request.names.bound, request.outputs, self._notebook.variables)
                    originals.watch()
        items = None if request.items is None else request.item
        sent = self._cached_cells.looked_up(engine, request.cell, originals, items, settings)
        request = replace(request, cell=sent)
        # A task may print before it is known to be the job's, and before there is a line.
        with self._notebook.router.hold_output(origin):
            try:
                submitted = self._submit(engine, request, handle, originals, job)
                results = [ref for refs in submitted for ref in refs]
            except BaseException:
                job.cancel()  # of several tasks, those submitted
                self._notebook.router.cell(origin).jobs.pop(job, None)  # it has what it captured
                raise
            outputs = outputs_of(request.outputs, results, request.items is not None)
            job.set_outputs(outputs)
            self._notebook.begin(job, waited=wait, quiet=quiet)
        variables = self._notebook.variables
        if not wait or request.items is not None:
            there = {name: variables[name] for name in outputs if name in variables}
            job.replaced = {name: it for name, it in there.items() if not _has_failed(engine, it)}
            variables.update(outputs)
        self._note_stayed(request, job)
        job.follow()
        if handle is not None:
            self._sent.setdefault(handle._ref.id, []).append((job, tuple(request.names.bound)))
        if wait:
            self._finish(engine, request, job, results, outputs, quiet)

    def _finish(
        self,
        engine: Engine,
        request: Request,
        job: Job,
        results: Sequence[ObjectRef],
        outputs: Outputs,
        quiet: bool,
    ) -> None:
        """Wait for the job, and bind the values that it assigned."""
        try:
            done = results[:: 1 + len(request.outputs)]
            if not quiet and engine.wait(done, len(done), PATIENCE)[1]:
                self._notebook.lines.begin(job)
            engine.get(done, None, False)
        except KeyboardInterrupt as error:
            # A hook after the cell stops the job. Our frames would tell nobody anything.
            said = f"KeyboardInterrupt: {job.name} was stopped."
            vars(error)["_render_traceback_"] = lambda: [said]
            raise
        job.wait()
        variables = self._notebook.variables
        values = job.values(outputs.keys() - job.unset - job.lost.keys())
        own, failed = write_back.bring(job, variables, outputs)
        for name in request.names.bound:
            if name in variables:
                self._notebook.stayed.pop(name, None)
        if failed:
            self._notebook.router.note(job.origin, failed, "stderr")
        for note in write_back.add_settings(job)[1]:
            self._notebook.router.note(job.origin, note)
        for name, ref in outputs.items():
            if name in own:
                variables[name] = own[name]
            elif name in values:
                variables[name] = values[name]
                if isinstance(ref, ObjectRef):
                    self._notebook.bindings.note(name, values[name], ref, "%%remote")
        for name, ref in outputs.items():
            if (name in job.lost or request.asked) and isinstance(ref, ObjectRef):
                engine.get([ref], None, False)  # raises an error if it has no value

    def _submit(
        self,
        engine: Engine,
        request: Request,
        handle: ActorHandle | None,
        originals: Originals,
        job: Job,
    ) -> Iterator[list[ObjectRef]]:
        """Submit the cell's tasks, one after the other; yield the results of each."""
        options, group = request.options, 0
        self._notebook.expect(job)
        args: tuple[Any, ...] = (request.cell,)
        captured = originals.names
        common: Any = originals.packed
        if request.cell.cached is not None and request.cell.cached.key:  # it needs no inputs
            captured, common, options = {}, None, replace(options, num_cpus=0)
        if request.items is not None:
            by_value = {n: v for n, v in captured.items() if not isinstance(v, ObjectRef)}
            captured = {n: v for n, v in captured.items() if n not in by_value}
            common = common or by_value or None
            if common is not None:  # stored once, not sent with each task
                common = engine.put(common)[0]
        if common is not None:
            args = request.cell, common
        for index, item in enumerate([None] if request.items is None else request.items):
            if request.items is not None:
                if not isinstance(item, ObjectRef):  # perhaps a view of a stored object
                    stored = engine.ask(StoredAs(item))
                    item = item if stored is None else stored
                captured = {**captured, "index": index, request.item: item}
                name = f"{request.options.name}[{index}]"
                options = replace(options, name=name, size=len(request.items), group=group)
            call = Call(args, captured, options)
            if handle is not None:
                submitted = engine.call(handle._ref, "run", call)
            else:
                submitted = engine.submit(RUN_CELL, call)
            refs: Any = [submitted] if isinstance(submitted, ObjectRef) else submitted
            job.add_task(refs[0])
            group = group or refs[0].id
            yield refs

    def _note_stayed(self, request: Request, job: Job) -> None:
        """Remember which names the cell won't bring back."""
        for name, kind in request.names.bound.items():
            if name in request.outputs:
                self._notebook.stayed.pop(name, None)
            else:
                self._notebook.stayed[name] = StayedName(
                    job.name, kind, request.actor, request.asked
                )

    # -- namespaces -------------------------------------------------------------------------------

    def _namespace(self, engine: Engine, name: str, make: bool) -> ActorHandle | None:
        """Return the actor in whose namespace the cell runs; if none has that name, a new one
        or None."""
        if not name:
            return None
        ref = engine.ask(Lookup(ACTOR_PREFIX + name))
        if ref is None:
            options = ActorOptions(name=name, lifetime=DETACHED)
            made = ActorClass(Namespace, options, api.engine)
            return made.remote() if make else None
        handle = handle_of(engine, ref)
        if handle._description.cls != Namespace.__name__:
            raise MagicError(
                f"{name!r} is an actor of class {handle._description.cls}, and no namespace for "
                "cells. Choose another name."
            )
        return handle

    # -- what travels along -----------------------------------------------------------------------

    def _known(self, request: Request, handle: ActorHandle | None) -> frozenset[str]:
        """Return names that exist where the cell runs without being sent."""
        if handle is None:
            return frozenset(("index", request.item) if request.items is not None else ())
        kept, sent = self._kept.setdefault(handle._ref.id, set()), self._sent
        cells = sent.pop(handle._ref.id, [])
        for job, names in cells:
            kept.update([*names, *job.mutated] if job.state == "done" else ())
        sent[handle._ref.id] = [(job, names) for job, names in cells if not job.is_over]
        return frozenset(kept - set(request.cell.given))

    # -- %remote ----------------------------------------------------------------------------------

    def _evaluate(self, expression: str) -> ObjectRef:
        if not expression.strip():
            raise MagicError("%remote needs an expression: `ref = %remote f(x)`.")
        number = self._notebook.running.number
        filename = self.shell.compile.cache(expression, number, expression)
        names = analyse(expression, filename)
        if names.bound:
            raise MagicError(f"%remote takes an expression, not {expression!r}: use %%remote.")
        engine = api.engine()
        cell = cell_of(self._notebook, expression, filename, 1, names)
        options = TaskOptions(max_retries=0, name=expression.strip())
        inputs = CellInputs(self._notebook, engine, names)
        originals = Originals(engine, inputs.take(), self._notebook.variables, slow=inputs.slow)
        cell, notes = self._notebook.settings.on(replace(cell, tracked=originals.tracked))
        call = Call(
            (cell, originals.packed) if originals.packed else (cell,), originals.names, options
        )
        for note in [*notes, *inputs.notes, *write_back.are_apart(inputs.apart)]:
            print(printable(note))
        ref: Any = engine.submit(EVALUATE, call)
        return ref  # type: ignore[no-any-return]


def _has_failed(engine: Engine, value: Any) -> bool:
    return isinstance(value, ObjectRef) and engine.state(value) == "failed"

"""How a `%%remote` cell runs: alone, or in a namespace that is kept."""

from __future__ import annotations

import ast
import asyncio
import builtins
import functools
import linecache
import os
import platform
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from types import CodeType
from typing import Any

from workbench import context, error_notes
from workbench.engine.queries import Lookup
from workbench.errors import NotDefinedError
from workbench.format import human_seconds, joined
from workbench.host.cached_runs import FreshRun, found_or_made
from workbench.host.captured import Captured
from workbench.host.cell import Cell, Ran, parsed
from workbench.host.execution import Names, Show, compiled, execute
from workbench.host.link import Failed
from workbench.report import cached as texts
from workbench.result_cache.records import CacheRequest
from workbench.serialization.mutations import Mutations
from workbench.serialization.packing import PackedValues
from workbench.surroundings.interpreter import DIRECTORY, working_directory
from workbench.surroundings.modules import MODULES, Unkept
from workbench.surroundings.parts import parts
from workbench.surroundings.pickled import opened
from workbench.surroundings.seeding import GENERATORS, seed
from workbench.surroundings.settings import differing
from workbench.surroundings.surroundings import Made, Surroundings, taken_on, without
from workbench.system.machine import peak_memory, reset_peak_memory


def run_cell(cell: Cell, more: PackedValues | Names | None = None, /, **names: Any) -> Any:
    """Run the cell with ``names`` defined; return `Ran`, then each of its outputs.

    ``more``: names shared with other runs of the same cell; or, packed, the names captured by
    value, if any of them can change in place.
    """
    if cell.cached is None:
        return _run_once(cell, more, names, {"__name__": "__main__"}, [])
    return _found_or_run(cell, cell.cached, more, names)


def _found_or_run(
    cell: Cell, asked: CacheRequest, more: PackedValues | Names | None, names: Names
) -> Any:
    """Return the results that the same run had before; or run, and store them."""

    def run() -> FreshRun:
        namespace, draws = Names(__name__="__main__"), list[bool]()
        results = _run_once(cell, more, names, namespace, draws)
        ran: Ran = results[0] if cell.outputs else results
        why = ""
        if ran.threads:
            why = texts.THREADS.format(joined(sorted(ran.threads)))
        elif ran.mutations is not None and (ran.mutations.lost or ran.mutations.stayed):
            why = texts.STAYED
        elif ran.settings is not None and ran.settings.kept:
            why = texts.SETTINGS.format(joined(ran.settings.kept))
        return FreshRun(results, any(draws), why)

    packed = more if isinstance(more, PackedValues) else None
    code = [_body(cell), *(packed.code if packed is not None else ())]
    pending = {name: names[name] for name in asked.pending}
    results, what, new_ids = found_or_made(asked, pending, code, run)
    ran: Ran = results[0] if cell.outputs else results
    mutations = ran.mutations
    if what.found and mutations is not None and mutations.packed is not None:
        mutations = replace(mutations, packed=mutations.packed.with_class_ids(new_ids))
    settings = ran.settings
    if settings is not None and not what.same_draws:
        settings = without(settings, GENERATORS)
    peak = 0 if what.found else ran.peak
    ran = replace(ran, from_cache=what, mutations=mutations, settings=settings, peak=peak)
    return (ran, *results[1:]) if cell.outputs else ran


def _body(cell: Cell) -> CodeType:
    return compiled(parsed(cell), "exec", cell.filename)


def _run_once(
    cell: Cell,
    more: PackedValues | Names | None,
    names: Names,
    namespace: Names,
    draws: list[bool],
) -> Any:
    """Run the cell in the namespace; ``draws`` gets True if it draws random numbers."""
    made: list[Made] = []
    captured: Captured | None = None
    before = _threads()
    try:
        with _surroundings(cell, made):  # first: values may be of modules in its `sys.path`
            shared, packed = (more, None) if isinstance(more, dict) else ({}, more)
            is_kept = cell.cached is not None
            captured = Captured(cell.tracked, packed, {**shared, **names}, namespace, is_kept)
            if cell.seed is not None:
                seed(cell.seed, namespace["index"] if cell.per_item else None)
            undrawn = parts()[GENERATORS].read_values() if is_kept else {}
            ran = _run_alone(cell, namespace)
            drawn = parts()[GENERATORS].read_values() if is_kept else {}
            draws.append(bool(differing(undrawn or {}, drawn or {})))
    except Exception as error:
        if captured is not None:
            _note_lost(error, captured.mutations(failed=True), made)
        raise
    settings = made[0] if made else None
    apart = () if settings is None else settings.kept
    mutations = captured.mutations(ran.seconds, cell.outputs, apart=apart)
    ran = replace(
        ran, mutations=mutations, settings=settings, threads=frozenset(_threads(before).values())
    )
    return _results(cell, ran, namespace)


def _threads(but: Collection[threading.Thread] = ()) -> dict[threading.Thread, str]:
    """Return the threads that run functions of cells, with the functions' names."""
    found = {}
    for thread in threading.enumerate():
        runs: Any = getattr(thread, "_target", None) or getattr(thread, "function", None)
        if getattr(runs, "__module__", "") == "__main__" and thread not in but:
            found[thread] = str(getattr(runs, "__name__", "a function"))
    return found


@contextmanager
def _surroundings(cell: Cell, made: list[Made]) -> Iterator[None]:
    """Context of the notebook's settings; prints what can't be set here. See `taken_on`."""
    from workbench.host.shell import worker_shell

    worker_shell()  # making it sets something
    sent = opened(cell.settings)
    with taken_on(sent, made) as failed:
        say_what_failed(failed, sent, cell.filename)
        yield


def say_what_failed(failed: Mapping[str, Exception], sent: dict[str, Any], cell: str) -> None:
    """Print what of the notebook's settings can't be set here; see `Surroundings.take_on`."""
    for name, error in failed.items():
        if name == DIRECTORY:
            wanted, there = sent[name][name], working_directory()
            _say_where(wanted, there, getattr(error, "strerror", "") or "", cell)
        else:
            print(f"{name} isn't as in the notebook: {error}", file=sys.stderr)


@functools.lru_cache(100)
def _say_where(wanted: str, directory: str, why: str, cell: str) -> None:
    """Print that a cell runs elsewhere than its notebook; once per worker if it has items."""
    print(
        f"The notebook is in {wanted}, and this worker, on {platform.node()}, can't go there "
        f"({why}): the cell runs in {directory}. Files and modules beside the notebook aren't "
        "here. Put what cells need into the store, or have all machines share that directory.",
        file=sys.stderr,
    )


def _note_lost(error: Exception, mutations: Mutations | None, made: list[Made]) -> None:
    """Note on a cell's error what it did before, which the notebook doesn't get."""
    bound = (*mutations.bound, *mutations.gone) if mutations is not None else ()
    names = mutations.names if mutations is not None else ()
    settings = [name for each in made for name in (*each.names, *each.kept)]
    lost = joined([*dict.fromkeys((*names, *bound, *settings))])
    if not lost:
        return
    what = "changed, assigned or deleted" if bound else "changed"
    error_notes.add(
        error,
        f"Before that the cell {what} {lost} on the worker. A cell that fails changes nothing in "
        "the notebook.",
    )


def evaluate(cell: Cell, packed: PackedValues | None = None, /, **names: Any) -> Any:
    """Return the value of a cell that is one expression."""
    values: list[Any] = []
    namespace: Names = {"__name__": "__main__"}
    made: list[Made] = []
    with _surroundings(cell, made):
        captured = Captured(cell.tracked, packed, names, namespace)
        if cell.seed is not None:
            seed(cell.seed)
        _run_alone(cell, namespace, values.append)
    mutations = captured.mutations()
    changed = [*mutations.names] if mutations is not None else []
    changed += [name for each in made for name in (*each.names, *each.kept)]
    if changed:
        print(
            f"{joined(changed)} changed on the worker, and not in the notebook: `%%remote` brings "
            "that.",
            file=sys.stderr,
        )
    return values[0] if values else None


def _run_alone(cell: Cell, namespace: Names, take: Show | None = None) -> Ran:
    with closing(asyncio.Runner()) as runner:
        ran = _run(cell, parsed(cell), namespace, runner, take=take)
    linecache.cache.pop(cell.filename, None)  # not after an error, which still shows its lines
    return ran


class Namespace:
    """Variables kept from cell to cell. An actor's class: one call of `run` at a time.

    One event loop serves all its cells, as in a kernel: the next cell can await what one has
    opened. The loop doesn't run in between.
    """

    def __init__(self) -> None:
        self._names: Names = {"__name__": "__main__"}
        self._captured: Names = {}  # those captured from outside, as they came
        self._runner = asyncio.Runner()
        self._surroundings: Surroundings | None = None  # as they were before its first cell
        self._settings = b""  # of the notebook, at the latest cell

    @property
    def variables(self) -> Names:
        return self._names

    def run(self, cell: Cell, packed: PackedValues | None = None, /, **names: Any) -> Any:
        """Run a cell as `run_cell` does, with ``names`` as defaults.

        Variables that its cells have assigned, or changed in place, stay, unless the name is in
        ``cell.given``.
        """
        is_new = self._surroundings is None
        if is_new or cell.settings != self._settings:
            if self._surroundings is None:
                used = [part for name, part in parts().items() if name != MODULES]
                self._surroundings = Surroundings([*used, Unkept()])
            before, sent = opened(self._settings), opened(cell.settings)
            # Only what the notebook has changed since: the rest may be set by the cells here.
            new = {
                name: {k: each[k] for k in differing(before.get(name, {}), each) if k in each}
                for name, each in sent.items()
            }
            say_what_failed(self._surroundings.take_on(new), sent, cell.filename)
        self._settings = cell.settings
        captured = Captured(cell.tracked, packed, names)
        for name, value in captured.values.items():
            if name in cell.given or name in self._captured or name not in self._names:
                self._names[name] = self._captured[name] = value
        if cell.seed is not None and (is_new or not cell.drawn):
            seed(cell.seed)
        tree = parsed(cell)
        own = _surely_assigned(tree)
        mutations: Mutations | None = None
        try:
            ran = _run(cell, tree, self._names, self._runner, stays=True)
            mutations = captured.mutations(ran.seconds)
        except BaseException as error:
            own = set()  # it may not have reached the assignments
            if isinstance(error, Exception):
                mutations = captured.mutations(failed=True)
            if is_new and isinstance(error, NameError):
                error_notes.add(
                    error,
                    "The namespace is new: this is its first cell. If there were others, its "
                    "process has ended since, and their variables with it.",
                )
            raise
        finally:
            if mutations is not None:
                own |= {*mutations.names}
            self._captured = self._unchanged(own)
        return _results(cell, replace(ran, mutations=mutations), self._names)

    def _unchanged(self, own: set[str]) -> dict[str, Any]:
        """Return captured values that are still as they came; ``own`` are names of the cell's."""
        return {
            name: value
            for name, value in self._captured.items()
            if name not in own and self._names.get(name, _NOTHING) is value
        }

    def hear(self, id: str, data: dict[str, Any]) -> None:
        """Run the callbacks of a widget, made by one of its cells, that a person has used.

        Their errors are shown in the same way as their prints.
        """
        from workbench.host import comms
        from workbench.host.shell import cell_shell

        with cell_shell(self._names, in_notebook=True, stays=True):
            try:
                comms.hear(id, data)
            except Exception:
                traceback.print_exc()


_NOTHING = object()


def _run(
    cell: Cell,
    tree: ast.Module,
    namespace: Names,
    runner: asyncio.Runner,
    stays: bool = False,
    take: Show | None = None,
) -> Ran:
    """Run the cell, and show its last value; or hand that to ``take``."""
    # Here, because IPython takes 70 ms, and a script's tasks don't need it.
    from workbench.host.shell import cell_shell

    lines = [*[""] * (cell.first_line - 1), *cell.source.splitlines()]
    linecache.cache[cell.filename] = (
        len(cell.source),
        None,
        [line + "\n" for line in lines],
        cell.filename,
    )
    with cell_shell(namespace, cell.in_notebook, stays) as show:
        plain, warnings.formatwarning = warnings.formatwarning, _warner(cell)
        last = None if cell.source.rstrip().endswith(";") else show
        measured = reset_peak_memory()
        clock, started = os.times(), time.perf_counter()
        try:
            execute(tree, cell.filename, namespace, runner, take or last, stays)
        except NameError as error:
            _note_stored(error)
            raise
        finally:
            warnings.formatwarning = plain
            seconds = time.perf_counter() - started
            if cell.timed:
                _print_times(clock, os.times(), seconds)
    return Ran(seconds, peak_memory() if measured else 0)


def _warner(cell: Cell) -> Callable[..., str]:
    """Return a `warnings.formatwarning` that names a cell as a person does."""
    plain = warnings.formatwarning

    def text(message: Any, category: Any, filename: str, *rest: Any, **options: Any) -> str:
        said = plain(message, category, filename, *rest, **options)
        if cell.label and filename == cell.filename:
            return said.replace(filename, cell.label, 1)
        return said

    return text


def _results(cell: Cell, ran: Ran, namespace: Names) -> Any:
    if not cell.outputs:
        return ran
    unset = tuple(name for name in cell.outputs if name not in namespace)
    outputs = (namespace[name] if name in namespace else _unset(name) for name in cell.outputs)
    return replace(ran, unset=unset), *outputs


def _unset(name: str) -> Failed:
    text = (
        f"The cell ended without giving {name!r} a value: the line that assigns it did not run, or "
        "the name was deleted again."
    )
    return Failed(NotDefinedError(text))


def _surely_assigned(tree: ast.Module) -> set[str]:
    """Return the names that the cell assigns in any case if it runs to its end."""
    names: set[str] = set()
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=targets):
                names.update(t.id for t in targets if isinstance(t, ast.Name))
            case ast.AugAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                names.add(name)
    return names


def _note_stored(error: NameError) -> None:
    """If the store has an object of the missing name, note on the error how to get it.

    The notebook sends along only objects whose names it sees the cell read.
    """
    engine, name = context.get(), error.name
    if engine is None or not name or hasattr(builtins, name) or engine.ask(Lookup(name)) is None:
        return
    error_notes.add(
        error,
        f"The store has an object {name!r}, but it didn't come with the cell, because no line of "
        f"the cell's code reads it. Add the line `{name}`, or run `%get {name}` in the notebook.",
    )


def _print_times(before: os.times_result, after: os.times_result, seconds: float) -> None:
    user, system = after.user - before.user, after.system - before.system
    print(
        f"CPU times: user {human_seconds(user)}, sys: {human_seconds(system)}, "
        f"total: {human_seconds(user + system)}\nWall time: {human_seconds(seconds)}"
    )

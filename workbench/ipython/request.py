"""What a `%%remote` asks for: its line and its cell, read and checked. Sends nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.errors import MagicError
from workbench.errors.remote_frames import cell_label
from workbench.host.cell import Cell
from workbench.ipython.cached_cells import cache_request
from workbench.ipython.cells import CellNames, analyse
from workbench.ipython.missing_names import missing
from workbench.ipython.notebook import Notebook
from workbench.options import LONGEST, CellOptions
from workbench.surroundings.seeding import LARGEST

BODY = 2  # line of the whole cell on which a cell magic's body begins

MOST_ITEMS = 100_000  # runs of one cell: each is a task with its own results


@dataclass(frozen=True, slots=True)
class Request:
    """One ``%%remote``, read and checked; nothing has been sent.

    The cell runs once for each of ``items``, under the variable ``item``; None: it runs
    once. ``outputs`` are the names that come back; ``asked``: True if a person named them.
    """

    cell: Cell
    names: CellNames
    outputs: tuple[str, ...]
    asked: bool
    items: Sequence[Any] | None
    item: str
    options: CellOptions
    actor: str


def read_request(notebook: Notebook, args: Any, line: str, cell: str) -> Request:
    """Return what a magic's line and its cell ask for.

    CellSyntaxError, MagicError or NotDefinedError if that is impossible.
    """
    whole = f"%%remote {line}".rstrip() + "\n" + cell
    number = notebook.running.number
    # Into the compiler's table, so that tracebacks know the cell's number and lines.
    filename = notebook.shell.compile.cache(whole, number, whole)
    names = analyse(cell, filename, BODY)
    items, item = _items(notebook, args)
    outputs = _names_in(args.out) if args.out else () if args.actor else names.assigned
    # A cell may change captured variables in place; so these can be outputs too.
    there = {*names.bound, *names.required, *names.optional, *_names_in(args.given)}
    unknown = [name for name in outputs if name not in there]
    if unknown and not args.actor:
        assigned = ", ".join(names.bound) or "nothing"
        raise MagicError(
            f"--out {' '.join(unknown)}: the cell assigns no such name. It assigns {assigned}."
        )
    if args.retries < 0:
        raise MagicError(f"--retries {args.retries}: it must be 0 or more.")
    if args.timeout is not None and not 0 < args.timeout <= LONGEST:
        limit = f"--timeout {args.timeout:g}"
        raise MagicError(f"{limit}: it must be above 0; leave it out for no limit.")
    if args.seed is not None and not 0 <= args.seed <= LARGEST:
        raise MagicError(f"--seed {args.seed}: it must be from 0 to {LARGEST}.")
    options = CellOptions(
        num_returns=1 + len(outputs),
        max_retries=args.retries,
        name=f"cell [{number}]",
        timeout=args.timeout or 0.0,
        job=args.name or f"cell {number}",
        binds=outputs,
    )
    sent = cell_of(notebook, cell, filename, BODY, names)
    sent = replace(
        sent,
        cached=cache_request(args.cache, args.reads, args.actor),
        outputs=outputs,
        given=_names_in(args.given),
        seed=args.seed,
        per_item=items is not None,
    )
    if args.actor:  # a name missing in the notebook may exist there
        names = replace(names, required=(), optional=(*names.required, *names.optional))
    return Request(sent, names, outputs, bool(args.out), items, item, options, args.actor or "")


def cell_of(
    notebook: Notebook, source: str, filename: str, first_line: int, names: CellNames
) -> Cell:
    """Return code as it is sent; what a person calls its file is in its ``label``."""
    return Cell(
        source,
        filename,
        first_line,
        (),
        code=names.code,
        timed=names.timed,
        label=cell_label(filename) or "",
        in_notebook=not notebook.router.is_terminal,
    )


def _items(notebook: Notebook, args: Any) -> tuple[Sequence[Any] | None, str]:
    """Return what the cell runs once for each of, and the variable for it."""
    if args.each is None and args.items is None:
        return None, ""
    if args.each is not None and args.items is not None:
        raise MagicError("-n and --map are two ways to say how often: give one of them.")
    if args.actor:
        raise MagicError("The cells of a namespace run one after the other: no -n, --map.")
    if args.each is not None:
        items: Sequence[Any] = range(args.each)
        item, what = "index", f"--each {args.each}"
    else:
        item, _, expression = args.items.rpartition("=")
        item = item or "item"
        what = f"--map {args.items}"
        if not item.isidentifier():
            raise MagicError(f"{what}: {item!r} can't be a variable.")
        if expression.isidentifier() and expression not in notebook.variables:
            names = notebook.own_names()
            raise missing([expression], "the notebook", names)
        try:
            items = list(notebook.shell.ev(expression))
        except TypeError as error:
            raise MagicError(f"{what}: {error}.") from None
    if not 1 <= len(items) <= MOST_ITEMS:
        raise MagicError(f"{what}: it can run for 1 to {MOST_ITEMS:,} items, not {len(items)}.")
    return items, item


def _names_in(words: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names in ``-o a b`` or ``-o a,b``, each once."""
    names = [name for word in words or () for name in re.split(r"[,\s]+", word) if name]
    for name in names:
        if not name.isidentifier():
            raise MagicError(f"{name!r} can't be a variable.")
    return tuple(dict.fromkeys(names))

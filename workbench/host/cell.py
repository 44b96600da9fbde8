"""Records of a `%%remote` cell: as it is sent, and what came of it. Runs nothing."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from workbench.host.captured import NOTHING_TRACKED, Tracked
from workbench.result_cache.records import CacheRequest, FromCache
from workbench.serialization.mutations import Mutations
from workbench.surroundings.surroundings import Made


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as it is sent."""

    source: str  # the body, below the magic's line
    filename: str  # the name the notebook's compiler gave the whole cell
    first_line: int  # the body's first line within the cell, counted from 1
    outputs: tuple[str, ...]  # names to return, one result each
    given: tuple[str, ...] = ()  # names that a person gave: in a `Namespace` they replace its own
    code: str = ""  # the body as Python, line for line, where IPython's syntax is in it; else ''
    timed: bool = False  # print the time it took, as ``%%time`` does
    label: str = ""  # what a person calls the file, like ``Cell In[7]``
    in_notebook: bool = False  # a front end shows its displays, not a terminal
    settings: bytes = b""  # of the notebook's process; see `surroundings.pickled`
    seed: int | None = None  # of the random generators; None: not seeded
    drawn: bool = False  # nobody asked for the seed: it is the notebook's next random number
    per_item: bool = False  # runs once per item; ``index`` says for which
    tracked: Tracked = NOTHING_TRACKED  # what to compare at its end
    cached: CacheRequest | None = None  # its result is kept on disk


@dataclass(frozen=True, slots=True)
class Ran:
    """Facts about one run of a cell.

    ``peak`` is the most memory in bytes that the worker's process had meanwhile; shared memory that
    it has touched counts. It is 0 where the system doesn't tell.
    """

    seconds: float  # wall time, without preparation and sending results
    peak: int
    unset: tuple[str, ...] = ()  # outputs that got no value
    mutations: Mutations | None = None  # what it changed in place
    settings: Made | None = None  # what it set in its process
    threads: frozenset[str] = frozenset()  # functions of the cell that go on in threads
    from_cache: FromCache | None = None  # if its result is kept on disk


def facts_of(cell: Cell) -> tuple[object, ...]:
    """Return all of a cell, but for its inputs, that its result depends on."""
    is_silent = cell.source.rstrip().endswith(";")
    tracked = replace(cell.tracked, slow=())
    seed = None if cell.drawn else cell.seed
    how = cell.outputs, cell.given, cell.timed, is_silent, cell.in_notebook, cell.per_item
    tree = ast.dump(ast.parse(cell.code or cell.source))
    return tree, how, seed, tracked


def parsed(cell: Cell) -> ast.Module:
    """Return the cell's tree, with line numbers that count from the cell's first line.

    The cell's text is never pasted into another text.
    """
    tree = ast.parse(cell.code or cell.source, cell.filename)
    ast.increment_lineno(tree, cell.first_line - 1)
    return tree

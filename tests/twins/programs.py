"""Random programs of cells: statements about a few worlds, each of which has its variables.

A cell may read what earlier cells made; one that fails fails alike in both twins.
"""

from __future__ import annotations

import ast
import builtins
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class World:
    """Cells that make its variables, and statements that use them; `N` is a small number."""

    begins: tuple[str, ...]
    statements: tuple[str, ...]


def _worlds() -> Iterator[tuple[str, World]]:
    text = Path(__file__).with_name("worlds.txt").read_text()
    for block in text.split("\n== ")[1:]:
        name, _, cells = block.strip().partition("\n\n")
        begins, _, statements = cells.partition("\n\n--\n\n")
        yield name, World((*begins.split("\n\n"),), (*statements.split("\n\n"),))


WORLDS = dict(_worlds())
"""What worlds.txt has, by name."""

IMPORTS = (
    "import collections, copy, dataclasses, enum, functools, os, random, string, sys, types\n"
    "import numpy as np"
)


@dataclass(frozen=True)
class Program:
    """Cells in their order, and which of them run under `%%remote --wait` in one of the twins."""

    seed: int
    cells: tuple[str, ...]
    remote: tuple[bool, ...]

    def smaller(self) -> Iterator[Program]:
        """The same with one cell less, or one line of a cell; or with one more run here."""
        for n in range(len(self.cells)):
            if any(self.remote[:n] + self.remote[n + 1 :]):
                cells, remote = [*self.cells], [*self.remote]
                del cells[n], remote[n]
                yield Program(self.seed, tuple(cells), tuple(remote))
        for n, remote in enumerate(self.remote):
            if remote and sum(self.remote) > 1:
                fewer = (*self.remote[:n], False, *self.remote[n + 1 :])
                yield Program(self.seed, self.cells, fewer)

    def __str__(self) -> str:
        pairs = zip(self.cells, self.remote, strict=True)
        return "\n\n".join("%%remote --wait\n" * remote + cell for cell, remote in pairs)


def _names(source: str, how: type[ast.expr_context]) -> set[str]:
    """Return the names that a cell reads, or those it gives a value."""
    names = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and (how is ast.Store) == isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif how is ast.Store and isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif how is ast.Store and isinstance(node, ast.FunctionDef | ast.ClassDef | ast.arg):
            names.add(node.arg if isinstance(node, ast.arg) else node.name)
    return names


def program(seed: int, worlds: tuple[str, ...] = tuple(WORLDS)) -> Program:
    """Return the program of that number: three to eight cells of one or two worlds."""
    chance = random.Random(seed)

    def filled(text: str) -> str:
        return re.sub(r"\bN\b", str(chance.randrange(1, 9)), text)

    chosen = [WORLDS[n] for n in chance.sample(worlds, min(len(worlds), chance.choice([1, 2])))]
    cells = [filled(chance.choice(world.begins)) for world in chosen]
    known = {*dir(builtins), *_names(IMPORTS, ast.Store)}.union(
        *(_names(c, ast.Store) for c in cells)
    )
    most = chance.randint(3, 8)
    while len(cells) < most:
        world = chance.choice(chosen)
        lines = chance.sample(world.statements, chance.choice([1, 1, 2]))
        missing = set().union(*(_names(line, ast.Load) for line in lines)) - known
        if not missing or chance.random() < 0.02:  # seldom an error, to see that it is the same
            cells.append("\n".join(map(filled, lines)))
            known.update(*(_names(line, ast.Store) for line in lines))
    remote = [chance.random() < 0.5 for _ in cells]
    remote[chance.randrange(len(cells))] = True
    if any("pd." in cell for cell in cells):
        cells[0] = f"import pandas as pd\n{cells[0]}"
    return Program(seed, tuple(cells), tuple(remote))

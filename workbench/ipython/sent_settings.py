"""Settings of the notebook's process that are sent with each remote cell, so that it has them."""

from __future__ import annotations

import sys
from dataclasses import replace

from xxhash import xxh3_128_hexdigest

from workbench.host.cell import Cell
from workbench.report.write_back import NOT_SENT, filled_in
from workbench.surroundings.interpreter import DIRECTORY, ENVIRON, PATH, working_directory
from workbench.surroundings.modules import MODULES, Unkept, objects
from workbench.surroundings.parts import parts
from workbench.surroundings.pickled import packed
from workbench.surroundings.seeding import GENERATORS, drawn
from workbench.surroundings.settings import GONE, Part, State, differing
from workbench.surroundings.surroundings import Surroundings


class SentSettings:
    """Finds the settings that workers may not have.

    They have the directory, path and environment variables of the process that started the session:
    of this one, as they were when this was made; or, if not ``shared``, of another. And they have
    a person's modules as these are after their import, or were when this was made.
    """

    def __init__(self, shared: bool = True) -> None:
        self._there = {name: _look(parts()[name]) for name in (DIRECTORY, PATH, ENVIRON)}
        if not shared:
            self._there |= {DIRECTORY: None, PATH: None}
        self._modules = Surroundings([Unkept()])
        self._told: set[str] = set()
        self._packed: tuple[bytes, dict[str, str]] = b"", {}
        self.facts: tuple[object, ...] = ()
        """All that was sent last, the same whoever has started the session."""
        self.draws_from = ""
        """Digest of the state from which the last cell draws random numbers; '': of a seed that a
        person gave."""

    def close(self) -> None:
        """Stop watching which modules are imported."""
        self._modules.close()

    def newly_set(self) -> list[str]:
        """Return what was set in modules, the first time only: tasks of functions don't have it."""
        new = set(self._modules.changes().get(MODULES, ())) - self._told
        self._told |= new
        return sorted(new)

    def on(self, cell: Cell, with_generators: bool = False) -> tuple[Cell, list[str]]:
        """Return the cell with the settings; and notes on what can't be sent.

        It draws random numbers from the notebook's generators, or it has some of its own, which are
        seeded from these: the same numbers each time if the notebook has seeded itself.
        """
        wants = with_generators and cell.seed is None
        generators = parts()[GENERATORS].read_values() if wants else None
        settings, lost = self.packed({GENERATORS: generators} if generators else {})
        cell = replace(cell, settings=settings)
        if cell.seed is None and not generators:
            cell = replace(cell, seed=drawn(), drawn=True)
        states = cell.seed if cell.drawn else generators
        self.draws_from = "" if states is None else xxh3_128_hexdigest(repr(states).encode())
        return cell, [filled_in(NOT_SENT, [name], why=why) for name, why in lost.items()]

    def packed(self, more: dict[str, State]) -> tuple[bytes, dict[str, str]]:
        """Return what to send, with ``more``; and why what can't be sent, by its name for people,
        the first time only."""
        found = dict(more)
        for part in parts().values():
            is_asked = part.travels and part.name not in (MODULES, GENERATORS)
            live = _look(part) if is_asked else None
            if live is None:
                continue
            usual = self._there[part.name] if part.name in self._there else part.usual()
            keys = differing(usual or {}, live)
            if keys:
                found[part.name] = {key: live.get(key, GONE) for key in keys}
        for name, changed in self._modules.changes().items():
            found[name] = {key: after for key, (_, after) in changed.items()}
        where = {name: found[name] for name in (DIRECTORY, PATH) if name in found}
        others = {name: found[name] for name in found if name not in (*where, GENERATORS)}
        self.facts = packed(others)[0], working_directory(), tuple(map(str, sys.path))
        before = self._packed[1]
        self._packed = data, lost = packed(found)
        return data, {word: why for word, why in lost.items() if before.get(word) != why}

    def of_modules(self) -> dict[int, str]:
        """Return ids of objects that workers' modules have, too, if these have what is `packed`."""
        return objects(but=self._packed[1])


def _look(part: Part) -> State | None:
    """Return the current values; in `sys.path` the directory by its name, not by ''."""
    live = part.read_values()
    if part.name == PATH and live is not None:
        there = working_directory()
        live = {PATH: [str(entry) or there for entry in live[PATH]]}
    return live

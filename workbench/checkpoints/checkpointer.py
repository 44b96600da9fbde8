"""Compares a notebook's variables after a cell with those before it, and has stored what changed.

Runs code of the variables' classes: only in the main thread. An error or Ctrl-C in between loses
nothing: variables that are in no table are new to the next comparison.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable
from types import ModuleType
from typing import Any

from workbench.checkpoints.groups import VariableGroup, look, look_at_most, overlap, reason
from workbench.checkpoints.opening import OpenedVariables
from workbench.checkpoints.records import Checkpoint, Lost
from workbench.checkpoints.storing import Storing
from workbench.engine.base import Engine
from workbench.expressions import describe
from workbench.serialization.object_state import travels_by_value

SOON = 0.005
"""Seconds of work at a cell's end for variables that the cell doesn't name; the rest is compared
when the notebook is idle."""

LARGE = 0.050
"""Seconds of work from which variables wait until the notebook is idle, though the cell names
them."""

PLAIN = 1000
"""Characters or bits of what is kept in the checkpoint itself."""

_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None)})


class Checkpointer:
    """The variables of one notebook, from cell to cell.

    Parameters
    ----------
    engine : Engine
        The session that stores them.
    namespace : dict
        The notebook's variables, with those that aren't kept.
    names : callable
        Returns the names of those that are kept.
    """

    def __init__(
        self, engine: Engine, namespace: dict[str, Any], names: Callable[[], Iterable[str]]
    ) -> None:
        self._engine = engine
        self._namespace = namespace
        self._names = names
        self._storing = Storing(engine)
        self.cell = 0
        self.plain: dict[str, Any] = {}
        self.modules: dict[str, str] = {}
        self.lost: dict[str, Lost] = {}
        self.changed: dict[str, None] = {}  # since the cell began
        self.deleted: tuple[str, ...] = ()
        self.full: dict[str, str] = {}  # variables that the store had no room for, since then: why
        self._groups: dict[str, VariableGroup] = {}  # by each of its variables
        self._owners: dict[int, VariableGroup] = {}  # by id of an object in it
        self._tried: dict[str, int] = {}  # ids of values that couldn't be stored
        self._made: dict[str, int] = {}  # the cells that bound these
        self._due: dict[str, None] = {}  # not compared since the cell's end

    @property
    def is_done(self) -> bool:
        """True if all variables were compared since the cell's end."""
        return not self._due

    def checkpoint(
        self, number: int, before: int | None, source: str, seconds: float
    ) -> Checkpoint:
        """Return the checkpoint of the last cell, as far as its variables were compared."""
        groups = {id(group): group.as_stored() for group in self._groups.values()}
        return Checkpoint(
            number,
            before,
            self.cell,
            source,
            time.time(),
            seconds,
            tuple(filter(None, groups.values())),
            dict(self.plain),
            dict(self.modules),
            dict(self.lost),
            tuple(self.changed),
            self.deleted,
            os.getcwd(),
            tuple(sys.path),
        )

    # -- a cell's end -----------------------------------------------------------------------------

    def ended(self, cell: int, named: Collection[str]) -> None:
        """Compare variables after a cell: at once those that it names or bound, and what takes
        little time. `sweep` compares the others."""
        self.cell, self.changed, self.full = cell, {}, {}
        there = self._namespace
        now = {name: there[name] for name in self._names() if name in there}
        known = (*self.plain, *self.modules, *self._groups, *self.lost)
        self.deleted = tuple(name for name in known if name not in now)
        for name in self.deleted:
            self._forget(name)
        new = {name for name, value in now.items() if self._is_new(name, value)}
        # What can't be stored is tried again once a cell names it: to say why takes long.
        self._due |= dict.fromkeys((*self._groups, *new, *(self.lost.keys() & {*named})))
        # A group whose code has another meaning under its name now would be opened with that.
        gone = new.union(self.deleted)
        at_once = new | {n for n, each in self._groups.items() if each.seen.uses & gone}
        at_once |= {name for name in self._due if not (name in self._groups or name in self.lost)}
        soon = {name for each in named for name in self._together(each)}
        left = SOON
        for name in sorted(self._due, key=lambda each: self._turn(each, at_once, soon)):
            seconds = self._seconds(name)
            if name not in at_once and seconds > (LARGE if name in soon else left):
                continue
            left -= 0 if name in at_once or name in soon else seconds
            if name in self._due:
                self._compare(name)

    @property
    def next_seconds(self) -> float:
        """About how long the next `sweep` takes, in seconds of work."""
        return min(map(self._seconds, self._due), default=0.0)

    def sweep(self, seconds: float = 0.0) -> None:
        """Compare variables that are left, the quickest first: one, and as many as take about so
        many seconds of work."""
        for name in sorted(self._due, key=self._seconds):
            if name in self._due:
                seconds -= self._seconds(name)
                self._compare(name)
            if seconds <= 0:
                break

    def finish(self) -> None:
        """Compare all variables that are left."""
        while self._due:
            self.sweep()

    def _turn(self, name: str, at_once: set[str], soon: set[str]) -> tuple[bool, bool, float]:
        is_code = travels_by_value(self._namespace.get(name))  # others refer to it
        return not is_code, name not in at_once and name not in soon, self._seconds(name)

    def _seconds(self, name: str) -> float:
        return self._groups[name].seen.seconds if name in self._groups else 0.0

    def _is_new(self, name: str, value: Any) -> bool:
        """True if the variable was bound anew to something that is stored; notes what isn't: plain
        values and modules."""
        is_module = type(value) is ModuleType
        if not (is_module or _is_plain(value)):
            group = self._groups.get(name)
            is_new = (group.ids[name] if group else self._tried.get(name)) != id(value)
            if is_new:
                self._made.pop(name, None)
            return is_new
        table: dict[str, Any] = self.modules if is_module else self.plain
        noted, missing = value.__name__ if is_module else value, object()
        before = table.get(name, missing)
        if type(before) is not type(noted) or repr(before) != repr(noted):
            self._forget(name)
            table[name] = noted
            self.changed[name] = None
        return False

    def _forget(self, name: str) -> None:
        """Drop a variable that means something else now, or nothing."""
        tables = self.plain, self.modules, self.lost, self._tried, self._made, self._due
        for table in tables:
            table.pop(name, None)
        if name in self._groups:
            self._due |= dict.fromkeys(self._dissolve(self._groups.pop(name)))

    # -- comparing --------------------------------------------------------------------------------

    def _compare(self, name: str) -> None:
        """Compare a variable, with those it belongs together with; store what changed."""
        queue = [self._together(name)]
        done: dict[int, VariableGroup] = {}
        while queue:
            members = queue.pop()
            before = {id(g): g for n in members if (g := self._groups.get(n)) is not None}
            apart = [left for each in before.values() for left in self._dissolve(each)]
            queue += [(left,) for left in apart if left not in members]
            group = self._look(members)
            if group is None:
                continue
            for each in before.values():
                if each.names == group.names:
                    group.stored, group.contents = each.stored, each.contents
            others = self._belonging(group)
            if others:
                joined = {*group.names}.union(*(self._dissolve(each) for each in others))
                queue.append(tuple(sorted(joined)))
                for each in others:
                    done.pop(id(each), None)
                continue
            self._enter(group)
            done[id(group)] = group
        self._store([*done.values()])

    def _together(self, name: str) -> tuple[str, ...]:
        """Return the variables to compare a variable with: those it was stored with, unless some
        are bound anew; all code is together."""
        group, there = self._groups.get(name), self._namespace
        if group is None and travels_by_value(there.get(name)):
            return tuple(sorted({*self._code().values(), name}))
        if group is None or any(id(there.get(n)) != group.ids[n] for n in group.names):
            return (name,)
        return group.names

    def _code(self) -> dict[int, str]:
        """Return the functions and classes, by id, that are stored under their names."""
        values = {name: self._namespace.get(name) for name in self._groups}
        return {id(value): name for name, value in values.items() if travels_by_value(value)}

    def _dissolve(self, group: VariableGroup) -> list[str]:
        """Drop a group; return its variables that are still there."""
        self._let_go_of_links(group)
        left = [name for name in group.names if self._groups.get(name) is group]
        for name in left:
            del self._groups[name]
        return left

    def _let_go_of_links(self, group: VariableGroup) -> None:
        for key in group.seen.links:
            if self._owners.get(key) is group:
                del self._owners[key]

    def _look(self, names: Iterable[str]) -> VariableGroup | None:
        """Pickle variables together, without those that can't be. None if none is left."""
        there = self._namespace
        values = {name: there[name] for name in names if name in there}
        for name in values:
            self._due.pop(name, None)
        is_code = any(map(travels_by_value, values.values()))
        code = {} if is_code else self._code()
        seen, failed = look_at_most(self._engine, values, there, code)
        for name, error in failed.items():
            self._lose(name, error)
            del values[name]
        if seen is None:
            return None
        for name in values:
            self.lost.pop(name, None)
            self._tried.pop(name, None)
        ids = {name: id(value) for name, value in values.items()}
        kinds = {name: describe(value) for name, value in values.items()}
        return VariableGroup(tuple(values), ids, seen, self.cell, is_code, kinds)

    def _lose(self, name: str, error: Exception) -> None:
        cell = self._made.get(name, self.cell)
        self._forget(name)
        self._made[name] = cell
        value = self._namespace[name]
        self.lost[name] = Lost(describe(value), reason(error), cell)
        self._tried[name] = id(value)

    def _belonging(self, group: VariableGroup) -> list[VariableGroup]:
        """Return other groups that share an object or memory with one."""
        owners = self._owners
        common = {id(owners[key]): owners[key] for key in group.seen.links & owners.keys()}
        found = {key: each for key, each in common.items() if self._has_in_common(each, group)}
        for each in self._groups.values():
            if id(each) not in found and overlap(each.seen.spans, group.seen.spans):
                found[id(each)] = each
        return [*found.values()]

    def _has_in_common(self, other: VariableGroup, group: VariableGroup) -> bool:
        """True if groups with an id in common share an object: if all that was pickled is alive at
        once, no id is another object's that is gone."""
        if other.seen.held is None:
            values = {name: self._namespace.get(name) for name in other.names}
            code = {} if other.is_code else self._code()
            try:
                now = look(self._engine, values, self._namespace, code)
            except Exception:  # what can't be pickled any more is compared with it
                return True
            self._let_go_of_links(other)
            other.seen = other.seen._replace(links=now.links)
            self._owners |= dict.fromkeys(now.links - group.seen.links, other)
            return not now.links.isdisjoint(group.seen.links)
        return not other.seen.links.isdisjoint(group.seen.links)

    def _enter(self, group: VariableGroup) -> None:
        self._owners |= dict.fromkeys(group.seen.links, group)
        for name in group.names:
            self.plain.pop(name, None)
            self.modules.pop(name, None)
            self._groups[name] = group

    def _store(self, groups: list[VariableGroup]) -> None:
        for group in self._storing.store(groups):
            self.changed |= dict.fromkeys(group.names)
        for group in groups:
            if group.full is not None:
                error, _ = group.full, self._dissolve(group)
                for name in group.names:
                    self._lose(name, error)
                    self.full[name] = str(error)

    # -- after they were opened -------------------------------------------------------------------

    def adopt(self, checkpoint: Checkpoint, found: OpenedVariables) -> None:
        """Take the variables for what a checkpoint has: some were just opened from it, the others
        are as they were compared."""
        self.cell, self.changed, self.deleted = checkpoint.cell, {}, ()
        self.plain, self.modules = dict(checkpoint.plain), dict(checkpoint.modules)
        before = {(g.stored.box, g.stored.place): g for g in self._groups.values() if g.stored}
        self._groups, self._owners, self._due = {}, {}, {}
        now, tried = self._namespace, self._tried
        self.lost = {n: e for n, e in self.lost.items() if n in now and tried.get(n) == id(now[n])}
        for stored in sorted(checkpoint.groups, key=lambda stored: not stored.is_code):
            if not found.failed.keys().isdisjoint(stored.names):
                continue  # the variables aren't what it has
            group = before.get((stored.box, stored.place))
            if group is None or not found.values.keys().isdisjoint(stored.names):
                group = self._look(stored.names)
                if group is None or group.names != stored.names:
                    continue
                self._storing.adopt(group, stored, found.sealed)
            self._enter(group)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind in (str, bytes):
        return len(value) <= PLAIN
    return kind in _PLAIN and (kind is not int or value.bit_length() <= PLAIN)

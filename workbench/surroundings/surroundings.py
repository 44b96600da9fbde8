"""Surroundings of code: all settings of its process, and what the code changes of them.

A cell has those of its notebook, and the notebook gets what the cell sets. What an *import* changes
is no change by the code, because a module is imported once: warning filters, loggers and options
that a library sets then. All but `Surroundings.changes` runs in the main thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from workbench.surroundings.import_watch import ImportWatch
from workbench.surroundings.modules import MODULES, Anew
from workbench.surroundings.parts import parts
from workbench.surroundings.pickled import opened, packed
from workbench.surroundings.seeding import GENERATORS
from workbench.surroundings.settings import (
    CONTAINERS,
    GONE,
    Changed,
    NotLoadedError,
    Part,
    State,
    copied,
    differing,
    is_equal,
    merged,
    put_entry,
)

Changes = dict[str, Changed]
"""What was changed of each part, by the part's name."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a cell set: in the form that travels, with what a person calls it; and the names of what
    means nothing in another process."""

    packed: bytes
    names: tuple[str, ...]
    kept: tuple[str, ...]


def without(made: Made, part: str) -> Made:
    """Return what a cell set, but for one part."""
    changes = {name: each for name, each in opened(made.packed).items() if name != part}
    return Made(packed(changes)[0], made.names, made.kept)


class Surroundings:
    """All settings as they were when this was made, but for what imports have changed since.

    ``used`` are the parts. ``imported`` is called after each import. A context: at its end, imports
    aren't watched any more.
    """

    def __init__(
        self, used: Iterable[Part] | None = None, imported: Callable[[], object] = int
    ) -> None:
        self._used = list(parts().values() if used is None else used)
        self._saved = {part: part.read_values() for part in self._used}
        self._waiting: dict[Part, State] = {}  # values sent for libraries not yet imported
        self._imported = imported
        self._imports = ImportWatch(self._learning)
        self._imports.install()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop watching imports: code that runs from now on keeps what it changes."""
        self._imports.uninstall()

    def restore(self, but: Collection[Any] = ()) -> None:
        """Put back all that was changed and can be put back (not a directory that is gone); not
        what has one of the keys in ``but``."""
        left = iter(self._used)
        while True:
            try:  # one `try` for all: one for each would cost more than comparing
                for part in left:
                    self._restore(part, but)
                return
            except Exception:
                continue

    def _restore(self, part: Part, but: Collection[Any]) -> None:
        if (saved := self._known(part)) is not None:
            part.restore(saved, but)

    def _known(self, part: Part) -> State | None:
        """Return what to restore. A thread may have imported the library, unseen by us."""
        if self._saved[part] is None:
            self._saved[part] = (part.first or part.read_values)()
        return self._saved[part]

    def changes(self) -> Changes:
        """Return what was changed, but for imports, and not put back."""
        changes: Changes = {}
        for part in self._used:
            with suppress(Exception):
                if (saved := self._known(part)) is None:
                    continue
                live, keys = part.differing(saved)
                if keys:
                    changes[part.name] = {
                        key: (saved.get(key, GONE), copied(live.get(key, GONE))) for key in keys
                    }
        return changes

    def made(self, objects: State) -> Made | None:
        """Return the changes in the form that travels; None if there are none. ``objects`` are what
        modules had before: not what was changed in them, but them."""
        changes = self.changes()
        now = (parts()[MODULES].find() or {}) if MODULES in changes else {}
        for key, (before, after) in changes.get(MODULES, {}).items():
            if type(after) in CONTAINERS and now.get(key) is not objects.get(key, now.get(key)):
                changes[MODULES][key] = before, Anew(after)
        if not changes:
            return None
        travel = {name: each for name, each in changes.items() if parts()[name].travels}
        kept = words({n: each for n, each in changes.items() if n not in travel})
        sent, lost = packed(travel)
        names = [word for word in words(travel) if word not in lost]
        return Made(sent, tuple(names), (*kept, *lost))

    def take_on(self, sent: Mapping[str, State]) -> dict[str, Exception]:
        """Set what a notebook has sent, also in libraries that are imported later. Return what
        can't be set here: the errors, by what a person calls the setting."""
        failed: dict[str, Exception] = {}
        for part in self._used:
            if part.name in sent:
                failed |= self._take(part, sent[part.name])
        return failed

    def _take(self, part: Part, wanted: State) -> dict[str, Exception]:
        failed: dict[str, Exception] = {}
        saved, live = self._known(part), part.find()
        if saved is None or live is None:
            self._waiting[part] = wanted
            return failed
        waiting: State = {}
        new = {k: v for k, v in wanted.items() if not is_equal(live.get(k, GONE), v)}
        for key, value in new.items():
            try:
                (part.take or part.put)(live, key, value)
            except NotLoadedError:
                waiting[key] = value
            except Exception as error:
                failed |= dict.fromkeys(part.words([key]), error)
        if waiting:
            self._waiting[part] = waiting
        now = (part.read_values() or {}) if new else {}
        for key in new:
            put_entry(saved, key, now.get(key, GONE))
        return failed

    @contextmanager
    def _learning(self) -> Iterator[None]:
        """Keep what changes meanwhile, as it isn't the code that changes it."""
        before = {part: part.read_values() for part in self._used}
        try:
            yield
        finally:
            self._learn_all(before)
            self._imported()

    def _learn_all(self, before: dict[Part, State | None]) -> None:
        for part, was in before.items():
            with suppress(Exception):
                self._learn(part, was, part.read_values())
            if part in self._waiting:
                self._take(part, self._waiting.pop(part))

    def _learn(self, part: Part, before: State | None, after: State | None) -> None:
        """Keep what changed between two looks."""
        saved = self._saved[part]
        if saved is None:
            saved = self._saved[part] = after if before is None else self._known(part)
        if before is None or after is None or saved is None:
            return
        for key in differing(before, after):
            was, now = before.get(key, GONE), after.get(key, GONE)
            mine = saved.get(key, GONE)
            put_entry(saved, key, copied(now) if is_equal(mine, was) else merged(mine, was, now))


@contextmanager
def taken_on(sent: Mapping[str, State], made: list[Made]) -> Iterator[dict[str, Exception]]:
    """Context of a cell that has a notebook's settings; gives what can't be set, as `take_on` does.
    What the cell sets is in ``made`` at the end.

    Modules then forget it: the next cell has it from its notebook, or not at all. What can't be
    sent stays, as it may be a cache. The rest is up to the process: see `process_state`.
    """
    used = [part for name, part in parts().items() if name != GENERATORS or name in sent]
    with Surroundings([parts()[MODULES]]) as before, Surroundings(used) as taken:
        failed = taken.take_on(sent)
        objects = parts()[MODULES].find() or {}
        try:
            yield failed
        finally:
            what = taken.made(objects)
            before.restore(but=() if what is None else what.kept)
            if what is not None:
                made.append(what)


def add(changes: Changes, only_unchanged: bool = False) -> list[str]:
    """Change this process's settings as another's, or this one's earlier, were changed; see
    `Part.add`. Return what a person calls those that are left: their modules aren't loaded here."""
    missing: list[str] = []
    for name, changed in changes.items():
        missing += parts()[name].words(parts()[name].add(changed, only_unchanged))
    return missing


def words(changes: Changes) -> list[str]:
    return [word for name, changed in changes.items() for word in parts()[name].words(changed)]


def set_variables(variables: Iterable[tuple[str, str]]) -> None:
    """Set environment variables, until what the task changed is put back."""
    os.environ.update(variables)
    time.tzset()

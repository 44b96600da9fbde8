"""Which exercises are done: kept in the session, so that it outlives the notebook's kernel.

One small object without a name, pinned, and of a class marked as Workbench's own: lists and counts
of objects leave it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from workbench.engine.base import Engine
from workbench.engine.queries import Matching
from workbench.errors import ObjectFreedError
from workbench.format import OWN
from workbench.ref import ObjectRef


@dataclass(frozen=True, slots=True)
class Progress:
    """The names of the exercises that are done."""

    __workbench_own__: ClassVar[bool] = True  # `expressions.describe` asks for that

    done: frozenset[str] = frozenset()


ATTEMPTS = 5
"""So often another notebook may put its own in place of what was found, before it is read."""


def _kept(engine: Engine) -> list[ObjectRef]:
    found = engine.ask(Matching(f"{OWN}{Progress.__qualname__}", "age", 100)).objects
    return [engine.borrow(record.id) for record in found if record.pinned]


def _read(engine: Engine) -> tuple[list[ObjectRef], frozenset[str]]:
    """What is kept, and the exercises in it. Nothing if others are quicker each time: what they
    keep stays."""
    for _ in range(ATTEMPTS):
        with suppress(ObjectFreedError):
            kept = _kept(engine)
            known = engine.get(kept, None, False)
            return kept, frozenset[str]().union(*(each.done for each in known))
    return [], frozenset()


def note(engine: Engine, names: Iterable[str]) -> frozenset[str]:
    """These are done too. Returns all that are, in whatever notebook. Where nothing can be pinned,
    it isn't kept."""
    before, known = _read(engine)
    now = known.union(names)
    if now != known and not engine.can.pin:
        ref, _ = engine.put(Progress(now))
        engine.pin(ref, True)
        with suppress(ObjectFreedError):
            engine.free(before)
    return now

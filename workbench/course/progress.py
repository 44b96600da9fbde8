"""Which exercises are done: kept in the session, so that it outlives the notebook's kernel.

One small object without a name, pinned, and of a type that `serialization.codec.describe` counts
among Workbench's own: lists and counts of objects leave it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.engines.base import Engine
from workbench.ref import ObjectRef
from workbench.report.format import OWN


@dataclass(frozen=True, slots=True)
class Progress:
    """The names of the exercises that are done."""

    done: frozenset[str] = frozenset()


def _kept(engine: Engine) -> list[ObjectRef]:
    found = engine.search(f"{OWN}{Progress.__qualname__}", "age", 100).objects
    return [engine.borrow(record.id) for record in found if record.pinned]


def done(engine: Engine) -> frozenset[str]:
    """The exercises that are done in this session, in whatever notebook."""
    return frozenset[str]().union(*(each.done for each in engine.get(_kept(engine), None, False)))


def note(engine: Engine, names: Iterable[str]) -> frozenset[str]:
    """These are done too. Returns all. Where nothing can be pinned, it isn't kept."""
    before = _kept(engine)
    known = done(engine)
    now = known.union(names)
    if now != known and not engine.can.pin:
        ref, _ = engine.put(Progress(now))
        engine.pin(ref, True)
        engine.free(before)
    return now

"""save: writes what a session has to a file, from outside of its notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench import api
from workbench.checkpoints.opening import opened
from workbench.checkpoints.records import Checkpoint, CheckpointTree
from workbench.cli import admin, show
from workbench.core.snapshot import KEPT_PREFIX
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup, Names
from workbench.ref import ObjectRef
from workbench.report.session_file import saved_text
from workbench.session_file.contents import LEVEL, named_objects, save


def run(session: str, path: str, compressed: bool) -> int:
    """Save the variables that its notebooks keep, as of their last cells, and named objects.

    Rebuilds them: this runs code of their classes. WorkbenchError if there is no such session, or
    the file can't be written.
    """
    with admin.AdminConnection(session):  # it has to run: `init` would start it
        pass
    engine = api.init(session=session, linger=0, log_to_driver=False)
    found_kept = [engine.ask(Lookup(n)) for n in engine.ask(Names(KEPT_PREFIX))]
    kept = [_last(engine, ref) for ref in found_kept if ref is not None]
    namespace: dict[str, Any] = {}
    lost: dict[str, str] = {}
    for checkpoint in kept:
        found = opened(engine, checkpoint.groups, checkpoint, namespace)
        lost |= {name: each.why for name, each in {**checkpoint.lost, **found.failed}.items()}
    values = {name: value for name, value in namespace.items() if name[:2] != "__"}
    values |= named_objects(engine, values)
    saved = save(Path(path), values, namespace, engine, LEVEL if compressed else 0)
    saved.lost.update(lost)
    show.line(saved_text(path, saved))
    return 0


def _last(engine: Engine, kept: ObjectRef) -> Checkpoint:
    """Return the last checkpoint of a notebook's present branch."""
    tree: CheckpointTree = engine.get([kept], None, False)[0]
    ref = tree.checkpoints[tree.branches[tree.branch]]
    checkpoint: Checkpoint = engine.get([ref], None, False)[0]
    return checkpoint

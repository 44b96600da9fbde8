"""What is to outlive this process, as far as this process goes: it goes on with that itself."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.engines.cluster.backend import Backend, Native
from workbench.engines.cluster.entries import PENDING, Entries


def outliving(
    backend: Backend, entries: Entries, ids: Sequence[int], natives: Sequence[Native]
) -> tuple[Native, ...]:
    """Natives of these objects that don't end with this process.

    What is known here lies there from now on, so that no second copy stays; what is pending stays
    what its task makes, whose errors are its own.
    """
    if not natives:
        return ()
    made = tuple(backend.outlive(natives))
    for id, native in zip(ids, made, strict=True):
        entry = entries.get(id)
        if entry is not None and entry.native is not None and entry.state != PENDING:
            actor = entry.native[0] if type(entry.native) is tuple else None
            of_actor = actor is not None and type(native) is not tuple
            entry.native = (actor, native) if of_actor else native
    return made

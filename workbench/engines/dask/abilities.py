"""What Dask can't do for a session, in words: what, why, and what to do instead."""

from __future__ import annotations

from workbench.engines.records import Abilities

CAN = Abilities(
    pin="Objects can't be pinned on Dask. Its workers decide themselves what they keep in memory. "
    "Give the object a name: then it lives as long as the session.",
    spill="Objects can't be moved to disk on demand on Dask. Its workers do that by themselves "
    "when their memory runs short. Free what is not needed.",
)

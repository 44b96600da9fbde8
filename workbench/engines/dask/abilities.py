"""What Dask can't do for a session, in words: what, why, and what to do instead."""

from __future__ import annotations

from workbench.engine.records import Abilities, Lack

CAN = Abilities(
    resident=Lack(
        "A pinned object lives on, but may move to disk.",
        "Dask's workers decide themselves what they move there.",
        "Give the workers memory enough for what you use.",
    ),
    spill=Lack(
        "An object can't be moved to disk by hand.",
        "Dask's workers do it when their memory runs short.",
        "Let go of what you don't need (`%free`).",
    ),
    edited=Lack(
        "Workers don't take up edited modules.",
        "They may be on other machines, without the file.",
        "Restart the session after editing one: `%workbench stop`, `%workbench start`.",
    ),
    max_calls=Lack(
        "`max_calls` is ignored.",
        "Worker processes are Dask's, and run calls of all functions.",
        "Free in the function itself what it holds (caches, a GPU's memory).",
    ),
    recursive=Lack(
        "A task can't be stopped without those that it has submitted.",
        "They end with it on a cluster.",
        "Stop it with them: leave out `recursive=False`.",
    ),
    huge_pages=Lack(
        "Huge pages can't be asked for.",
        "Values lie in the memory of Dask's workers.",
        "Use a session of this machine, or leave them out.",
    ),
    needs=Lack(
        "`num_cpus` and `memory` of tasks and actors are ignored.",
        "A task has one slot of a Dask worker, and an actor has none.",
        "Start Dask's workers with fewer threads: then fewer tasks run at a time on each.",
    ),
    elsewhere=Lack(
        "An actor ends with its Dask worker, whatever `max_restarts` says.",
        "It is made again by its worker, when its own process has died.",
        "Keep what must last in the store (`put`), or in a file.",
    ),
)
